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

# The search for how many accelerators can be fed, over made-up machines.
add_executable(cli_accelerate_parts ${CMAKE_CURRENT_LIST_DIR}/cli_accelerate_parts.c ${CMAKE_SOURCE_DIR}/client/cli/accelerate.c
	${CMAKE_SOURCE_DIR}/client/cli/table.c)
target_link_libraries(cli_accelerate_parts PRIVATE penstock_base cmocka)
target_include_directories(cli_accelerate_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon ${CMAKE_SOURCE_DIR}/include)
add_test(NAME unit.cli.accelerate COMMAND cli_accelerate_parts)
set_tests_properties(unit.cli.accelerate PROPERTIES TIMEOUT 60 LABELS unit)
