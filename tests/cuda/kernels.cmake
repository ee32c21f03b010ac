# The device's functions, compiled as C++ for the CPU and compared with the reference. Needs neither
# nvcc nor a GPU. tests/gpu/kernels.c uses the same reference and cases.
add_library(cuda_reference STATIC reference.c cases.c ${CMAKE_SOURCE_DIR}/client/cuda/kernels.c)
target_include_directories(cuda_reference PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}
	${CMAKE_SOURCE_DIR}/include)
target_link_libraries(cuda_reference PUBLIC penstock_proto m)

include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
	message(STATUS "CUDA: no C++ compiler: the test of the kernels is skipped")
	return()
endif()
enable_language(CXX)

# Without features that need the C++ run-time library, so that C programs can link it.
add_library(cuda_emulate STATIC emulate.cpp)
set_target_properties(cuda_emulate PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON LINKER_LANGUAGE C)
set_source_files_properties(emulate.cpp PROPERTIES OBJECT_DEPENDS ${CMAKE_SOURCE_DIR}/client/cuda/kernels.cu)
target_compile_options(cuda_emulate PRIVATE -O2 -fno-exceptions -fno-rtti -Wno-unknown-pragmas)
target_include_directories(cuda_emulate PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(cuda_emulate PUBLIC m)

add_executable(cuda_kernels test_kernels.c)
set_target_properties(cuda_kernels PROPERTIES LINKER_LANGUAGE C)
target_include_directories(cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR}/daemon)
target_link_libraries(cuda_kernels PRIVATE cuda_emulate cuda_reference cmocka)
add_test(NAME cuda.kernels COMMAND cuda_kernels)
set_tests_properties(cuda.kernels PROPERTIES TIMEOUT 600 LABELS "cuda;kernels")
