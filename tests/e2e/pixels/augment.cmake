# Operations on images against Pillow; skipped, with a message, without Pillow 13.0.0.
add_executable(augment_dump ${CMAKE_CURRENT_LIST_DIR}/augment_dump.c)
target_link_libraries(augment_dump PRIVATE penstock_augment)
target_include_directories(augment_dump PRIVATE ${CMAKE_SOURCE_DIR}/tests)
penstock_e2e(augment_pillow augment_pillow.py $<TARGET_FILE:augment_dump> ${PENSTOCK_PHOTOGRAPHS}
	TIMEOUT 600 PROMISE pixels.augment 3600)
