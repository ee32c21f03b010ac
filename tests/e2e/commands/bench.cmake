# What `penstock bench` measures, and of which processes.
if(TARGET penstock)
	penstock_e2e(bench bench.py)
endif()

# The search for how many accelerators can be fed, on made-up machines.
add_executable(cli_accelerate_parts ${CMAKE_CURRENT_LIST_DIR}/cli_accelerate_parts.c ${CMAKE_SOURCE_DIR}/client/cli/bench/accelerate.c
	${CMAKE_SOURCE_DIR}/client/cli/table.c)
target_link_libraries(cli_accelerate_parts PRIVATE penstock_base cmocka)
target_include_directories(cli_accelerate_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon ${CMAKE_SOURCE_DIR}/include)
add_test(NAME unit.cli.accelerate COMMAND cli_accelerate_parts)
set_tests_properties(unit.cli.accelerate PROPERTIES TIMEOUT 60 LABELS unit)
