# How far `decode: fast` is from exact: docs/reference/decode-fast.md has the table. The test checks
# that rows that are not shrunk are equal.
add_executable(decode_fast decode_fast.c)
target_link_libraries(decode_fast PRIVATE penstock_stream penstock_decode penstock_pixel penstock_base m)
add_test(NAME bench.decode_fast COMMAND decode_fast ${PENSTOCK_PHOTOGRAPHS} 1)
set_tests_properties(bench.decode_fast PROPERTIES TIMEOUT 600 LABELS bench SKIP_RETURN_CODE 77)
