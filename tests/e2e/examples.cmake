# The example programs, as a user would run them.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
	set(examples_slow 1)
	if(PENSTOCK_SANITIZE)
		set(examples_slow 4)
	endif()
	add_test(NAME e2e.examples COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/examples.py)
	set_tests_properties(e2e.examples PROPERTIES TIMEOUT 600 LABELS e2e
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${examples_slow}")
endif()
