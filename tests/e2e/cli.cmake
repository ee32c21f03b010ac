# The command `penstock`, as a user types it. Python's standard library alone.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND TARGET penstock)
	set(cli_slow 1)
	if(PENSTOCK_SANITIZE)
		set(cli_slow 4)
	endif()
	# What bench does is mostly waiting, so that it is a test of its own.
	add_test(NAME e2e.cli.bench COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli.py test_bench_*)
	add_test(NAME e2e.cli.rest COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli.py !test_bench_*)
	set_tests_properties(e2e.cli.bench e2e.cli.rest PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${cli_slow}")
endif()

# Its parts that need neither daemon nor dataset.
add_executable(cli_parts ${CMAKE_CURRENT_LIST_DIR}/cli_parts.c ${CMAKE_SOURCE_DIR}/client/cli/font.c
	${CMAKE_SOURCE_DIR}/client/cli/histogram.c ${CMAKE_SOURCE_DIR}/client/cli/options.c ${CMAKE_SOURCE_DIR}/client/cli/output.c
	${CMAKE_SOURCE_DIR}/client/cli/picture.c ${CMAKE_SOURCE_DIR}/client/cli/process.c ${CMAKE_SOURCE_DIR}/client/cli/series.c
	${CMAKE_SOURCE_DIR}/client/cli/table.c)
target_link_libraries(cli_parts PRIVATE penstock_base PkgConfig::PNG cmocka m)
target_include_directories(cli_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon)
add_test(NAME unit.cli.parts COMMAND cli_parts)
set_tests_properties(unit.cli.parts PROPERTIES TIMEOUT 60 LABELS unit)
