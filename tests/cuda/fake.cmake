# The FAKE driver, a libcuda.so.1 that only tests load, by LD_LIBRARY_PATH from a folder of its own;
# and the tests that use it: of the driver itself, and of libpenstock_cuda's logic on the host.
if(NOT PENSTOCK_NVCC OR NOT TARGET client_fake OR NOT TARGET cuda_emulate)
	return()
endif()

# Sanitizers only for C++: C programs that load this do not contain their run-time library.
target_compile_options(cuda_emulate PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)

# The fake driver; and one that lacks a function, as drivers older than that function do.
add_library(cuda_fake_objects OBJECT fake_driver.c fake_kernel.c fake_memory.c fake_stream.c)
target_include_directories(cuda_fake_objects SYSTEM PUBLIC ${PENSTOCK_CUDA_INCLUDE})
target_link_libraries(cuda_fake_objects PUBLIC cuda_emulate)
set(lacking ${CMAKE_CURRENT_BINARY_DIR}/lacking.map)
file(WRITE ${lacking} "{ local: cuEventElapsedTime; };\n")
foreach(kind driver lacking)
	add_library(cuda_fake_${kind} SHARED $<TARGET_OBJECTS:cuda_fake_objects>)
	set_target_properties(cuda_fake_${kind} PROPERTIES OUTPUT_NAME cuda SOVERSION 1 LINKER_LANGUAGE C
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${kind})
	target_link_libraries(cuda_fake_${kind} PRIVATE cuda_emulate cuda_reference Threads::Threads)
	target_link_options(cuda_fake_${kind} PRIVATE LINKER:--exclude-libs,ALL)
endforeach()
target_link_options(cuda_fake_lacking PRIVATE LINKER:--version-script=${lacking})

add_library(cuda_gpu STATIC gpu.c)
target_include_directories(cuda_gpu SYSTEM PUBLIC ${PENSTOCK_CUDA_INCLUDE})
target_link_libraries(cuda_gpu PUBLIC client_fake ${CMAKE_DL_LIBS})

# cuda_fake_test(NAME LINK...): adds client.cuda.NAME from test_NAME.c, with the fake driver where
# the library looks for the driver.
function(cuda_fake_test name)
	add_executable(cuda_${name} test_${name}.c)
	target_link_libraries(cuda_${name} PRIVATE cuda_gpu ${ARGN} cmocka)
	add_dependencies(cuda_${name} cuda_fake_driver cuda_fake_lacking)
	add_test(NAME client.cuda.${name} COMMAND cuda_${name})
	set_tests_properties(client.cuda.${name} PROPERTIES TIMEOUT 300 LABELS client SKIP_RETURN_CODE 77
		ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/driver)
endfunction()

cuda_fake_test(fake cuda_reference)

if(TARGET penstock_cuda_parts)
	add_library(cuda_loop STATIC loop.c)
	target_link_libraries(cuda_loop PUBLIC cuda_gpu penstock_cuda_parts penstock_client_parts cuda_reference)
	foreach(name batches ends failures order)
		cuda_fake_test(${name} cuda_loop)
	endforeach()
	target_compile_definitions(cuda_failures PRIVATE FAKE_LACKING="${CMAKE_CURRENT_BINARY_DIR}/lacking")
	if(TARGET penstockd AND TARGET make_dataset)
		cuda_fake_test(daemon cuda_loop)
		target_compile_definitions(cuda_daemon PRIVATE REAL_PENSTOCKD="$<TARGET_FILE:penstockd>"
			MAKE_DATASET="$<TARGET_FILE:make_dataset>")
		add_dependencies(cuda_daemon penstockd make_dataset)
	endif()
endif()
