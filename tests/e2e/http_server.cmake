# Metrics and the page: two processes, since one part waits for the limit on slow requests.
add_test(NAME e2e.http.serve COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/http_server.py
	!test_a_thousand_* !test_a_request_that_* !test_who_does_not_*)
add_test(NAME e2e.http.slow COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/http_server.py
	test_a_thousand_* test_a_request_that_* test_who_does_not_*)
set_tests_properties(e2e.http.serve e2e.http.slow PROPERTIES TIMEOUT 300 LABELS e2e SKIP_RETURN_CODE 77
	ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")

# What is built on the metrics; without promtool the second is skipped.
add_test(NAME e2e.dashboards COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/dashboards.py !test_promtool_*)
add_test(NAME e2e.promtool COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/dashboards.py test_promtool_*)
set_tests_properties(e2e.dashboards e2e.promtool PROPERTIES TIMEOUT 60 LABELS e2e SKIP_RETURN_CODE 77)
