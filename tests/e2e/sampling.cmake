# Which samples a stream gives out: weights, epoch_length, repeats, split, sources.
add_test(NAME e2e.sampling COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/sampling.py)
set_tests_properties(e2e.sampling PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
