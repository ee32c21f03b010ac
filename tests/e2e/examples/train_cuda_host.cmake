# The operations of train_cuda on the host, the comparison with a device's, and, where the toolkit is
# installed, the program train_cuda_self_test, which compares a GPU's.
if(TARGET train_cuda_host OR NOT TARGET train_cuda_parts)
	return()
endif()
add_library(train_cuda_host STATIC ${CMAKE_CURRENT_LIST_DIR}/train_cuda_host.c ${CMAKE_CURRENT_LIST_DIR}/train_cuda_self_test.c)
target_include_directories(train_cuda_host PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_SOURCE_DIR})
target_link_libraries(train_cuda_host PUBLIC train_cuda_parts m)
if(TARGET train_cuda_device)
	add_executable(train_cuda_self_test ${CMAKE_CURRENT_LIST_DIR}/train_cuda_self_test_main.c)
	set_target_properties(train_cuda_self_test PROPERTIES LINKER_LANGUAGE C)
	target_link_libraries(train_cuda_self_test PRIVATE train_cuda_host train_cuda_device)
endif()
