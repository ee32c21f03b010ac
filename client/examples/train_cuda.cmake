# A trainer on the GPU, with cuDNN and cuBLAS. It needs nvcc (cmake/PenstockCuda.cmake) and both
# libraries, which are searched for beside nvcc, in the system's folders, and in Python's packages
# (PyTorch installs them). PENSTOCK_CUDNN_INCLUDE, PENSTOCK_CUDNN_LIBRARY, PENSTOCK_CUBLAS_INCLUDE,
# PENSTOCK_CUBLAS_LIBRARY and PENSTOCK_CUDART_LIBRARY override the search.
#
#   train_cuda_parts   everything that needs no GPU: the network, its schedule, checkpoints, options
#   train_cuda_device  the operations on the GPU, if the toolkit is installed
#   train_cuda         the program, if the toolkit is installed
set(here ${CMAKE_CURRENT_LIST_DIR}/train_cuda)
add_library(train_cuda_parts STATIC EXCLUDE_FROM_ALL ${here}/checkpoint.c ${here}/fail.c ${here}/net.c ${here}/options.c ${here}/schedule.c)
target_include_directories(train_cuda_parts PUBLIC ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(train_cuda_parts PUBLIC m)

if(NOT TARGET penstock_cuda OR PENSTOCK_SANITIZE)
	return()
endif()

# Python's packages: nvidia/cudnn/lib, nvidia/cu13/lib, ...; their libraries only have names with a
# version.
set(PENSTOCK_CUDA_PACKAGES "" CACHE STRING "Further folders to search for cuDNN and cuBLAS; empty: those of Python's packages")
set(train_cuda_packages ${PENSTOCK_CUDA_PACKAGES})
if(NOT train_cuda_packages)
	find_package(Python3 COMPONENTS Interpreter QUIET)
	if(Python3_Interpreter_FOUND)
		execute_process(COMMAND ${Python3_EXECUTABLE} -c "import nvidia; print(';'.join(nvidia.__path__))"
			OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
		foreach(package ${packages})
			file(GLOB found LIST_DIRECTORIES true ${package}/*)
			list(APPEND train_cuda_packages ${found})
		endforeach()
	endif()
endif()
get_filename_component(toolkit ${PENSTOCK_NVCC} REALPATH)
get_filename_component(toolkit ${toolkit} DIRECTORY)
set(places HINTS ${PENSTOCK_CUDA_INCLUDE}/.. ${toolkit}/.. ${train_cuda_packages}
	PATH_SUFFIXES include lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
find_path(PENSTOCK_CUDNN_INCLUDE cudnn.h ${places})
find_path(PENSTOCK_CUBLAS_INCLUDE cublas_v2.h ${places})
find_library(PENSTOCK_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 ${places})
find_library(PENSTOCK_CUBLAS_LIBRARY NAMES cublas libcublas.so.13 libcublas.so.12 libcublas.so.11 ${places})
# The static library runs on every machine that has the driver.
find_library(PENSTOCK_CUDART_LIBRARY NAMES libcudart_static.a cudart libcudart.so.13 libcudart.so.12 libcudart.so.11.0 ${places})
foreach(part CUDNN_INCLUDE CUBLAS_INCLUDE CUDNN_LIBRARY CUBLAS_LIBRARY CUDART_LIBRARY)
	if(NOT PENSTOCK_${part})
		message(STATUS "CUDA: the example train_cuda is skipped: PENSTOCK_${part} was not found. It needs cuDNN 9 and cuBLAS with their "
			"headers: install them, or set -DPENSTOCK_${part}=... (see docs/guides/train-cuda.md)")
		return()
	endif()
endforeach()
# Releases before 8 lack this header.
set(major "")
if(EXISTS ${PENSTOCK_CUDNN_INCLUDE}/cudnn_version.h)
	file(STRINGS ${PENSTOCK_CUDNN_INCLUDE}/cudnn_version.h major REGEX "^#define CUDNN_MAJOR ")
endif()
if(NOT major MATCHES " 9")
	message(STATUS "CUDA: the example train_cuda is skipped: it needs cuDNN 9, but ${PENSTOCK_CUDNN_INCLUDE}/cudnn.h is of another version")
	return()
endif()

# The toolkit's own headers come first, unless those of cuBLAS come from a package, are newer and
# need their neighbors.
include(PenstockHeaders)
penstock_headers(train_cuda_include
	"#include <cublas_v2.h>\n#include <cuda_runtime_api.h>\n#include <cudnn.h>\nint train_cuda_headers(void);\nint train_cuda_headers(void) { return 0; }\n"
	${PENSTOCK_CUDA_INCLUDE} ${PENSTOCK_CUBLAS_INCLUDE} ${PENSTOCK_CUDNN_INCLUDE})
if(NOT train_cuda_include)
	message(STATUS "CUDA: the example train_cuda is skipped: cublas_v2.h (${PENSTOCK_CUBLAS_INCLUDE}), cuda_runtime_api.h (${PENSTOCK_CUDA_INCLUDE}) "
		"and cudnn.h (${PENSTOCK_CUDNN_INCLUDE}) do not compile together. Are they from one release of CUDA?")
	return()
endif()

set(object ${CMAKE_CURRENT_BINARY_DIR}/train_cuda_kernels.o)
add_custom_command(OUTPUT ${object}
	COMMAND ${PENSTOCK_NVCC} -std=c++17 -O3 ${PENSTOCK_NVCC_WARNINGS} -Xcompiler -fPIC,-fno-threadsafe-statics ${PENSTOCK_CUDA_GENCODE}
		--threads 0 -c -o ${object} ${here}/kernels.cu
	DEPENDS ${here}/kernels.cu ${here}/kernels.h ${here}/ops.h
	VERBATIM COMMENT "Compiling train_cuda's kernels")
add_library(train_cuda_device STATIC ${here}/ops_cuda.c ${object})
target_include_directories(train_cuda_device SYSTEM PRIVATE ${train_cuda_include})
target_link_libraries(train_cuda_device PUBLIC train_cuda_parts ${PENSTOCK_CUDNN_LIBRARY} ${PENSTOCK_CUBLAS_LIBRARY}
	${PENSTOCK_CUDART_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} rt m)
add_executable(train_cuda ${here}/train.c)
target_link_libraries(train_cuda PRIVATE train_cuda_device penstock_cuda penstock_client)
# kernels.cu needs nothing of C++'s library (hence -fno-threadsafe-statics, because nvcc's
# registration code has statics), so the linker's language stays C.
set_target_properties(train_cuda_device train_cuda PROPERTIES LINKER_LANGUAGE C)
message(STATUS "CUDA: the example train_cuda is built, with ${PENSTOCK_CUDNN_LIBRARY}")
