# Labels out of manifests and of paths into JSON: classes, multi-hot rows, numbers.
add_test(NAME e2e.labels COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/labels.py)
set_tests_properties(e2e.labels PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
