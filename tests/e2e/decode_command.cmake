# `penstock decode` as a user types it. Pixels are compared with Pillow's where it is 13.0.0 (decode.cmake has found the
# interpreter).
if(decode_python AND TARGET penstock)
	set(decode_command_slow 1)
	if(PENSTOCK_SANITIZE)
		set(decode_command_slow 4)
	endif()
	add_test(NAME e2e.decode_command COMMAND ${decode_python} ${CMAKE_CURRENT_LIST_DIR}/decode_command.py)
	set_tests_properties(e2e.decode_command PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${decode_command_slow}")
endif()
