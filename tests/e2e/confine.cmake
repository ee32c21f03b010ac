# A whole daemon that is bound (daemon/confine).
set(confine_slow 1)
if(PENSTOCK_SANITIZE OR PENSTOCK_COVERAGE)
	set(confine_slow 5)
endif()
find_package(Python3 3.9 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
	add_test(NAME e2e.confine COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/confine.py)
	set_tests_properties(e2e.confine PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${confine_slow}")
endif()
