# The pixel stage against Pillow; skipped, with a message, without Pillow 13.0.0.
add_executable(pixel_dump ${CMAKE_CURRENT_LIST_DIR}/pixel_dump.c)
target_link_libraries(pixel_dump PRIVATE penstock_pixel)
penstock_e2e(pixel_pillow pixel_pillow.py $<TARGET_FILE:pixel_dump> ${PENSTOCK_PHOTOGRAPHS}
	TIMEOUT 600 PROMISE pixels.resample 3600)
