# RandAugment, TrivialAugmentWide, AutoAugment and AugMix against torchvision, where there is a Python that has it. What its
# tables say is in unit/augment/policies.txt, too, which unit tests hold step_policy.c against everywhere.
add_executable(policy_dump policy_dump.c)
target_link_libraries(policy_dump PRIVATE penstock_augment)
set(PENSTOCK_TORCH_PYTHON "" CACHE FILEPATH "A Python with torch and torchvision, to compare with")
set(policy_python ${PENSTOCK_TORCH_PYTHON})
if(NOT policy_python)
	find_program(PENSTOCK_PYTHON3 python3)
	set(policy_python ${PENSTOCK_PYTHON3})
endif()
if(policy_python)
	add_test(NAME e2e.policy_torchvision COMMAND ${policy_python} ${CMAKE_CURRENT_LIST_DIR}/policy_torchvision.py
		$<TARGET_FILE:policy_dump> ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
	set_tests_properties(e2e.policy_torchvision PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
endif()
