# The rate at which each serial thread would be full: ceiling.py runs these programs.
add_executable(ceiling ceiling.c)
target_link_libraries(ceiling PRIVATE penstock_fetch penstock_order)
add_test(NAME bench.ceiling COMMAND ceiling ${PENSTOCK_PHOTOGRAPHS} 2 buffered 2000)
set_tests_properties(bench.ceiling PROPERTIES TIMEOUT 120 LABELS bench SKIP_RETURN_CODE 77)

# A daemon that decodes nothing, and that notes how long its mutexes are held: the linker puts these
# functions in the place of the daemon's.
add_executable(ceiling_daemon ${CMAKE_SOURCE_DIR}/daemon/main.c ceiling_daemon.c locks.c)
target_link_libraries(ceiling_daemon PRIVATE penstock_serve penstock_config penstock_remote)
target_include_directories(ceiling_daemon PRIVATE ${CMAKE_SOURCE_DIR}/tests)
foreach(function pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_timedwait row_make_many
		fetch_lanes_for)
	target_link_options(ceiling_daemon PRIVATE -Wl,--wrap=${function})
endforeach()
add_test(NAME bench.ceiling_daemon COMMAND penstock bench ${PENSTOCK_PHOTOGRAPHS} --seconds 0.5 --image-size 32 --threads 2)
set_tests_properties(bench.ceiling_daemon PROPERTIES TIMEOUT 60 LABELS bench
	ENVIRONMENT "PENSTOCKD=$<TARGET_FILE:ceiling_daemon>;CEILING_LANES=2;CEILING_LOCKS=1;CEILING_BOARD=${CMAKE_CURRENT_BINARY_DIR}/board")
