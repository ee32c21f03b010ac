# The cost of hostile files. The same files test the limits in tests/unit/decode/jpeg/test_work.c.
add_executable(hostile_bench hostile_bench.c)
target_link_libraries(hostile_bench PRIVATE penstock_decode)
target_include_directories(hostile_bench PRIVATE ${CMAKE_SOURCE_DIR}/tests)
