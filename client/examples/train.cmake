# A program that paints a dataset with libjpeg, and a small trainer that reads batches through
# libpenstock.
add_executable(make_dataset make_dataset.c)
target_link_libraries(make_dataset PRIVATE PkgConfig::JPEG Threads::Threads m)

add_executable(train_cpu train_cpu.c net.c)
target_link_libraries(train_cpu PRIVATE penstock_client m)
# Results need not be equal on different machines, so the trainer may use all instructions of this
# one.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native PENSTOCK_HAVE_MARCH_NATIVE)
set(train_cpu_options -ffast-math -ffp-contract=fast $<$<BOOL:${PENSTOCK_HAVE_MARCH_NATIVE}>:-march=native>)
target_compile_options(train_cpu PRIVATE ${train_cpu_options})

# The same in C++. read_batches.cmake, which is included before, has looked for a compiler.
if(CMAKE_CXX_COMPILER)
	add_executable(train_cpu_cpp train_cpu.cpp net.c)
	set_target_properties(train_cpu_cpp PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
	target_link_libraries(train_cpu_cpp PRIVATE penstock_client m)
	target_compile_options(train_cpu_cpp PRIVATE ${train_cpu_options})
endif()
