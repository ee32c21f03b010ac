# The command `penstock`, as a user types it. Python's standard library alone.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND TARGET penstock)
	set(cli_slow 1)
	if(PENSTOCK_SANITIZE)
		set(cli_slow 4)
	endif()
	add_test(NAME e2e.cli COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli.py)
	set_tests_properties(e2e.cli PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${cli_slow}")
endif()
