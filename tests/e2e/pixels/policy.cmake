# RandAugment, TrivialAugmentWide, AutoAugment and AugMix against torchvision, if a Python has it.
# unit/augment/policies.txt holds the contents of torchvision's tables; unit tests compare
# step_policy.c with it on every machine.
add_executable(policy_dump ${CMAKE_CURRENT_LIST_DIR}/policy_dump.c)
target_link_libraries(policy_dump PRIVATE penstock_augment)
set(PENSTOCK_TORCH_PYTHON "" CACHE FILEPATH "A Python with torch and torchvision, to compare with")
set(policy_python ${Python3_EXECUTABLE})
if(PENSTOCK_TORCH_PYTHON)
	set(policy_python ${PENSTOCK_TORCH_PYTHON})
endif()
penstock_e2e(policy_torchvision policy_torchvision.py $<TARGET_FILE:policy_dump> ${PENSTOCK_PHOTOGRAPHS}
	TIMEOUT 600 PYTHON ${policy_python})

# timm's policies against timm, if that Python has it. unit/augment/timm.txt holds timm's numbers.
add_executable(timm_dump ${CMAKE_CURRENT_LIST_DIR}/timm_dump.c)
target_link_libraries(timm_dump PRIVATE penstock_augment penstock_definition)
penstock_e2e(timm_policies timm_policies.py $<TARGET_FILE:timm_dump> ${PENSTOCK_PHOTOGRAPHS}
	TIMEOUT 600 PYTHON ${policy_python})
