# What `penstock bench` measures, and of whom. Python's standard library alone.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND TARGET penstock)
	set(bench_slow 1)
	if(PENSTOCK_SANITIZE)
		set(bench_slow 4)
	endif()
	add_test(NAME e2e.bench COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/bench.py)
	set_tests_properties(e2e.bench PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${bench_slow}")
endif()
