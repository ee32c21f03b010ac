# The flight recorder: a real daemon, its file, how everybody ends.
add_executable(ring_dump ${CMAKE_CURRENT_LIST_DIR}/ring_dump.c)
target_link_libraries(ring_dump PRIVATE penstock_record penstock_proto)
add_test(NAME e2e.recorder COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/recorder.py)
set_tests_properties(e2e.recorder PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
