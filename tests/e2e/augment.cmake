# Ops on images against Pillow; skipped with a word where Pillow 13.0.0 is missing.
add_executable(augment_dump augment_dump.c)
target_link_libraries(augment_dump PRIVATE penstock_augment)
target_include_directories(augment_dump PRIVATE ${CMAKE_SOURCE_DIR}/tests)
find_program(PENSTOCK_PYTHON3 python3)
if(PENSTOCK_PYTHON3)
	add_test(NAME e2e.augment_pillow COMMAND ${PENSTOCK_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/augment_pillow.py
		$<TARGET_FILE:augment_dump> ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
	set_tests_properties(e2e.augment_pillow PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
	penstock_promise(pixels.augment 3600 ${PENSTOCK_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/augment_pillow.py
		$<TARGET_FILE:augment_dump> ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
endif()
