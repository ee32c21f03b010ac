# Only client/cuda/mix.c: it needs neither the toolkit nor the fake driver. It is compared with
# torchvision if -DPENSTOCK_TORCH_PYTHON=... names a Python that has it.
add_library(cuda_mix_alone STATIC ${CMAKE_SOURCE_DIR}/client/cuda/mix.c ${CMAKE_SOURCE_DIR}/client/cuda/sentence.c)
target_include_directories(cuda_mix_alone PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/daemon)
target_link_libraries(cuda_mix_alone PUBLIC penstock_client_parts penstock_proto m)

add_executable(cuda_mix test_mix.c)
target_link_libraries(cuda_mix PRIVATE cuda_mix_alone cmocka)
add_test(NAME client.cuda.mix COMMAND cuda_mix)
set_tests_properties(client.cuda.mix PROPERTIES TIMEOUT 300 LABELS client)

add_executable(cuda_mix_rows mix_rows.c)
target_link_libraries(cuda_mix_rows PRIVATE cuda_mix_alone)
set(PENSTOCK_TORCH_PYTHON "" CACHE FILEPATH "A Python with torch and torchvision, to compare with")
set(python ${PENSTOCK_TORCH_PYTHON})
if(NOT python)
	find_program(PENSTOCK_PYTHON3 python3)
	set(python ${PENSTOCK_PYTHON3})
endif()
if(python)
	add_test(NAME client.cuda.torchvision_mix COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/torchvision_mix.py
		$<TARGET_FILE:cuda_mix_rows>)
	set_tests_properties(client.cuda.torchvision_mix PROPERTIES TIMEOUT 600 LABELS client SKIP_RETURN_CODE 77)
endif()
