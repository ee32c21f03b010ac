# Rotations, shears, perspectives and flips against Pillow, and against torchvision if a Python has
# it.
add_executable(warp_dump ${CMAKE_CURRENT_LIST_DIR}/warp_dump.c)
target_link_libraries(warp_dump PRIVATE penstock_augment)
penstock_e2e(warp_pillow warp_pillow.py $<TARGET_FILE:warp_dump> TIMEOUT 600)
if(PENSTOCK_TORCH_PYTHON)
	penstock_e2e(warp_torchvision warp_pillow.py $<TARGET_FILE:warp_dump> --torch TIMEOUT 600 PYTHON ${PENSTOCK_TORCH_PYTHON})
endif()
