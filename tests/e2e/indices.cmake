# Streams over a subset of a dataset.
add_test(NAME e2e.indices COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/indices.py)
set_tests_properties(e2e.indices PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
