# `penstock state`, `penstock plan`, and what replay and bench know of ranks. Python's standard library alone.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND TARGET penstock)
	set(state_plan_slow 1)
	if(PENSTOCK_SANITIZE)
		set(state_plan_slow 4)
	endif()
	add_test(NAME e2e.state_plan COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/state_plan.py)
	set_tests_properties(e2e.state_plan PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${state_plan_slow}")
endif()
