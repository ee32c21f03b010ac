# The page in a headless Chromium, which is no dependency: skipped where there is none (CONTRIBUTING.md).
foreach(part made_up real)
	set(patterns !test_real_*)
	if(part STREQUAL real)
		set(patterns test_real_*)
	endif()
	add_test(NAME e2e.page.${part} COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/page.py ${patterns})
	set_tests_properties(e2e.page.${part} PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
endforeach()
