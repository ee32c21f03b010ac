# The pixel stage against Pillow; skipped with a word where Pillow 13.0.0 is missing.
add_executable(pixel_dump pixel_dump.c)
target_link_libraries(pixel_dump PRIVATE penstock_pixel)
find_program(PENSTOCK_PYTHON3 python3)
if(PENSTOCK_PYTHON3)
	add_test(NAME e2e.pixel_pillow COMMAND ${PENSTOCK_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/pixel_pillow.py
		$<TARGET_FILE:pixel_dump> ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
	set_tests_properties(e2e.pixel_pillow PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
	penstock_promise(pixels.resample 3600 ${PENSTOCK_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/pixel_pillow.py
		$<TARGET_FILE:pixel_dump> ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
endif()
