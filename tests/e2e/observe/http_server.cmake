# Metrics and the page: two processes, because one part waits for the time limit on slow requests.
penstock_e2e(http.serve http_server.py !test_a_thousand_* !test_a_request_that_* !test_who_does_not_* TIMEOUT 300)
penstock_e2e(http.slow http_server.py test_a_thousand_* test_a_request_that_* test_who_does_not_* TIMEOUT 300)

# The dashboard and the alerts that use the metrics. Without promtool the second test is skipped.
penstock_e2e(dashboards dashboards.py !test_promtool_* TIMEOUT 60)
penstock_e2e(promtool dashboards.py test_promtool_* TIMEOUT 60)
