# The command `penstock`, as a user runs it.
if(TARGET penstock)
	# bench mostly waits, so it is a separate test.
	penstock_e2e(cli.bench cli.py test_bench_*)
	penstock_e2e(cli.rest cli.py !test_bench_*)
endif()

# The parts of the command that need neither daemon nor dataset.
add_executable(cli_parts ${CMAKE_CURRENT_LIST_DIR}/cli_parts.c ${CMAKE_SOURCE_DIR}/client/cli/draw/canvas.c
	${CMAKE_SOURCE_DIR}/client/cli/options.c ${CMAKE_SOURCE_DIR}/client/cli/output.c
	${CMAKE_SOURCE_DIR}/client/cli/draw/picture.c ${CMAKE_SOURCE_DIR}/client/cli/process.c ${CMAKE_SOURCE_DIR}/client/cli/bench/series.c
	${CMAKE_SOURCE_DIR}/client/cli/table.c)
target_link_libraries(cli_parts PRIVATE penstock_font penstock_definition penstock_base PkgConfig::PNG cmocka m)
target_include_directories(cli_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon)
add_test(NAME unit.cli.parts COMMAND cli_parts)
set_tests_properties(unit.cli.parts PROPERTIES TIMEOUT 60 LABELS unit)
