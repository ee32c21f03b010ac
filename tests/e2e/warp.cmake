# Rotations, shears, perspectives and flips against Pillow, and against torchvision where there is a Python that has it.
add_executable(warp_dump warp_dump.c)
target_link_libraries(warp_dump PRIVATE penstock_augment)
if(PENSTOCK_PYTHON3)
	add_test(NAME e2e.warp_pillow COMMAND ${PENSTOCK_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/warp_pillow.py
		$<TARGET_FILE:warp_dump>)
	set_tests_properties(e2e.warp_pillow PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
endif()
if(PENSTOCK_TORCH_PYTHON)
	add_test(NAME e2e.warp_torchvision COMMAND ${PENSTOCK_TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/warp_pillow.py
		$<TARGET_FILE:warp_dump> --torch)
	set_tests_properties(e2e.warp_torchvision PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
endif()
