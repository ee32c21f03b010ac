# The rate at which each serial thread of fetch would be full: ceiling.py runs this. Locks are
# measured by the linker: every call of these functions is the program's own.
add_executable(ceiling ceiling.c)
target_link_libraries(ceiling PRIVATE penstock_fetch penstock_order)
target_link_options(ceiling PRIVATE -Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_unlock
	-Wl,--wrap=pthread_cond_wait)
add_test(NAME bench.ceiling COMMAND ceiling ${PENSTOCK_PHOTOGRAPHS} 2 buffered 2000)
set_tests_properties(bench.ceiling PROPERTIES TIMEOUT 120 LABELS bench SKIP_RETURN_CODE 77)
