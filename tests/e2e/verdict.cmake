# The verdict in a matrix of made bottlenecks: Python's standard library alone, and a disk that is made slow. The library is no part of
# what is tested, so no sanitizer needs to be in it: it would have to be the first that is loaded.
add_library(penstock_throttle MODULE ${CMAKE_CURRENT_LIST_DIR}/throttle.c)
target_compile_options(penstock_throttle PRIVATE -fno-sanitize=all)
target_link_options(penstock_throttle PRIVATE -fno-sanitize=all)
foreach(part idle busy)
	add_test(NAME e2e.verdict.${part} COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/verdict.py test_${part}_*)
	set_tests_properties(e2e.verdict.${part} PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow};PENSTOCK_THROTTLE=$<TARGET_FILE:penstock_throttle>")
endforeach()
# They measure how busy processors are: nobody else's test may be.
set_tests_properties(e2e.verdict.busy PROPERTIES RUN_SERIAL TRUE)
