# libpenstock against a daemon that lies, in one thread: the test replaces waiting and connecting.
add_library(fuzz_client_parts STATIC liar/liar.c)
target_link_libraries(fuzz_client_parts PUBLIC penstock_client_parts penstock_base)
target_include_directories(fuzz_client_parts PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/daemon)
foreach(name conn_connect conn_connect_within wait_deadline wait_left_ms wait_poll wait_pause)
	target_link_options(fuzz_client_parts INTERFACE LINKER:--wrap=${name})
endforeach()
penstock_fuzz(client LINK fuzz_client_parts ROUNDS 20000 NIGHTLY 1000000)
