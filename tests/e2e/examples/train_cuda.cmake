# The GPU trainer of client/examples, without a GPU.
#
#   unit.train_cuda             its network on the host's implementation: gradients, step, schedule,
#                               self-test
#   unit.train_cuda_libraries   its calls of cuDNN, cuBLAS and the CUDA runtime, with made-up
#                               libraries; needs their headers
#   e2e.train_cuda              its kernels, and the whole program on an emulated GPU with a real
#                               daemon
include(${CMAKE_CURRENT_LIST_DIR}/train_cuda_host.cmake)
add_executable(train_cuda_test ${CMAKE_CURRENT_LIST_DIR}/train_cuda.c)
target_link_libraries(train_cuda_test PRIVATE train_cuda_host cmocka m)
target_include_directories(train_cuda_test PRIVATE ${CMAKE_SOURCE_DIR})
add_test(NAME unit.train_cuda COMMAND train_cuda_test)
set_tests_properties(unit.train_cuda PROPERTIES TIMEOUT 300 LABELS unit)

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER OR NOT penstock_python)
	message(STATUS "C++ or Python: none found: the test of train_cuda's kernels is skipped")
	return()
endif()
enable_language(CXX)

# Without features that need the C++ run-time library.
add_library(train_cuda_emulated STATIC ${CMAKE_CURRENT_LIST_DIR}/train_cuda_emulate.cpp ${CMAKE_CURRENT_LIST_DIR}/train_cuda_emulated.c)
set_target_properties(train_cuda_emulated PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON LINKER_LANGUAGE C)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/train_cuda_emulate.cpp PROPERTIES
	OBJECT_DEPENDS ${CMAKE_SOURCE_DIR}/client/examples/train_cuda/kernels.cu)
target_compile_options(train_cuda_emulated PRIVATE
	$<$<COMPILE_LANGUAGE:CXX>:-O2> $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
	$<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
target_include_directories(train_cuda_emulated PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}
	${CMAKE_SOURCE_DIR}/include)
target_link_libraries(train_cuda_emulated PUBLIC train_cuda_host Threads::Threads m)

add_executable(train_cuda_twin ${CMAKE_CURRENT_LIST_DIR}/train_cuda_twin.c ${CMAKE_SOURCE_DIR}/client/examples/train_cuda/train.c)
set_target_properties(train_cuda_twin PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(train_cuda_twin PRIVATE train_cuda_emulated penstock_client)
add_executable(train_cuda_self_test_twin ${CMAKE_CURRENT_LIST_DIR}/train_cuda_twin.c ${CMAKE_CURRENT_LIST_DIR}/train_cuda_self_test_main.c)
set_target_properties(train_cuda_self_test_twin PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(train_cuda_self_test_twin PRIVATE train_cuda_emulated penstock_client)
penstock_e2e(train_cuda train_cuda.py TIMEOUT 600)

if(TARGET train_cuda)
	add_executable(train_cuda_libraries ${CMAKE_CURRENT_LIST_DIR}/train_cuda_libraries.c
		${CMAKE_SOURCE_DIR}/client/examples/train_cuda/ops_cuda.c)
	set_target_properties(train_cuda_libraries PROPERTIES LINKER_LANGUAGE C)
	target_include_directories(train_cuda_libraries SYSTEM PRIVATE $<TARGET_PROPERTY:train_cuda_device,INCLUDE_DIRECTORIES>)
	target_link_libraries(train_cuda_libraries PRIVATE train_cuda_emulated)
	add_test(NAME unit.train_cuda_libraries COMMAND train_cuda_libraries)
	set_tests_properties(unit.train_cuda_libraries PROPERTIES TIMEOUT 120 LABELS unit)
endif()
