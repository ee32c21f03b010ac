# Private daemons of jobs, by whole processes: Python's standard library alone.
find_package(Python3 COMPONENTS Interpreter)
set(jobs_slow 1)
if(PENSTOCK_SANITIZE)
	set(jobs_slow 4)
endif()
add_test(NAME e2e.jobs COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/jobs.py)
set_tests_properties(e2e.jobs PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${jobs_slow}")
