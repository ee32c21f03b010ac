# Synthetic indexes for the memory test.
add_executable(make_index ${CMAKE_CURRENT_LIST_DIR}/make_index.c)
target_link_libraries(make_index PRIVATE penstock_fetch)
