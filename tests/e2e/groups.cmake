# Groups of trainers, a test for each part of groups.py.
foreach(part split state all return streams memory)
	set(patterns test_${part}_*)
	if(part STREQUAL state)
		list(APPEND patterns test_refused_* test_restart_*)
	elseif(part STREQUAL streams)
		list(APPEND patterns test_limit*)
	endif()
	add_test(NAME e2e.groups.${part} COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/groups.py ${patterns})
	set_tests_properties(e2e.groups.${part} PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
endforeach()
