# What `penstock bench` compares: sweeps, plots, the yardstick, other loaders, the report. Uses
# Python's standard library; Pillow and Chromium if they are installed.
add_executable(cli_sweep_parts ${CMAKE_CURRENT_LIST_DIR}/cli_sweep_parts.c ${CMAKE_SOURCE_DIR}/client/cli/draw/canvas.c
	${CMAKE_SOURCE_DIR}/client/cli/draw/drawing.c ${CMAKE_SOURCE_DIR}/client/cli/bench/sweep/grid.c
	${CMAKE_SOURCE_DIR}/client/cli/draw/markup.c ${CMAKE_SOURCE_DIR}/client/cli/output.c ${CMAKE_SOURCE_DIR}/client/cli/draw/picture.c
	${CMAKE_SOURCE_DIR}/client/cli/draw/plot.c ${CMAKE_SOURCE_DIR}/client/cli/bench/sweep/spread.c ${CMAKE_SOURCE_DIR}/client/cli/table.c)
target_link_libraries(cli_sweep_parts PRIVATE penstock_font penstock_base PkgConfig::PNG cmocka m)
target_include_directories(cli_sweep_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon)
add_test(NAME unit.cli.sweep_parts COMMAND cli_sweep_parts)
set_tests_properties(unit.cli.sweep_parts PROPERTIES TIMEOUT 60 LABELS unit)

if(TARGET penstock)
	penstock_e2e(sweep sweep.py TIMEOUT 600)
endif()
