# `penstock top`: what it draws, without a daemon, and with one on a terminal.
set(top_sources answer bar document recipe table watch/columns watch/paper watch/top_head watch/top_pages watch/top_table watch/top_view)
list(TRANSFORM top_sources PREPEND ${CMAKE_SOURCE_DIR}/client/cli/)
list(TRANSFORM top_sources APPEND .c)
add_executable(top_parts ${CMAKE_CURRENT_LIST_DIR}/top_parts.c ${top_sources})
target_link_libraries(top_parts PRIVATE penstock_client penstock_stream penstock_pixel penstock_order penstock_base PkgConfig::JANSSON cmocka m)
target_include_directories(top_parts PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon ${CMAKE_SOURCE_DIR}/include)
add_test(NAME unit.cli.top COMMAND top_parts)
set_tests_properties(unit.cli.top PROPERTIES TIMEOUT 300 LABELS unit SKIP_RETURN_CODE 77)

penstock_e2e(top top.py)
