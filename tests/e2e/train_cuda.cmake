# The GPU trainer of client/examples, without a GPU: its network on the host's twin of the GPU.
add_executable(train_cuda_test ${CMAKE_CURRENT_LIST_DIR}/train_cuda.c)
target_link_libraries(train_cuda_test PRIVATE train_cuda_parts cmocka m)
target_include_directories(train_cuda_test PRIVATE ${CMAKE_SOURCE_DIR})
add_test(NAME unit.train_cuda COMMAND train_cuda_test)
set_tests_properties(unit.train_cuda PROPERTIES TIMEOUT 300 LABELS unit)
