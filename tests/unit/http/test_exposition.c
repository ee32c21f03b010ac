/* exposition: converts OpenMetrics to the older Prometheus text, and detects which of them a
 * client asks for. */
#include "http/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"

#include <stdlib.h>

static void families_are_named_as_their_samples(void **state)
{
	static const char open[] =
		"# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes How many # of them.\n"
		"a_bytes_total{x=\"# TYPE no counter\"} 1\n"
		"# TYPE b gauge\n# HELP b A counter of nothing.\nb 2\n"
		"# TYPE c info\n# HELP c Which.\nc_info{version=\"1\"} 1\n"
		"# TYPE d stateset\n# HELP d State.\nd{d=\"on\"} 1\n"
		"# TYPE e histogram\n# HELP e Times.\ne_bucket{le=\"+Inf\"} 0\ne_count 0\ne_sum "
		"0.0\n"
		"# EOF\n";
	static const char old[] =
		"# TYPE a_bytes_total counter\n# HELP a_bytes_total How many # of them.\n"
		"a_bytes_total{x=\"# TYPE no counter\"} 1\n"
		"# TYPE b gauge\n# HELP b A counter of nothing.\nb 2\n"
		"# TYPE c_info gauge\n# HELP c_info Which.\nc_info{version=\"1\"} 1\n"
		"# TYPE d gauge\n# HELP d State.\nd{d=\"on\"} 1\n"
		"# TYPE e histogram\n# HELP e Times.\ne_bucket{le=\"+Inf\"} 0\ne_count 0\ne_sum "
		"0.0\n";
	(void)state;
	cleanup(free_ptr) char *text = exposition_prometheus(open);
	assert_string_equal(text, old);
	cleanup(free_ptr) char *none = exposition_prometheus("");
	assert_string_equal(none, "");
	cleanup(free_ptr) char *cut = exposition_prometheus("# TYPE x\n# HELP \n# \n#\nx 1");
	assert_string_equal(cut, "x 1");
}

static void what_is_accepted_decides(void **state)
{
	static const char *const open[] = {"application/openmetrics-text",
		"application/openmetrics-text;version=1.0.0,application/"
		"openmetrics-text;version=0.0."
		"1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		"text/plain, Application/OpenMetrics-Text ; version=1.0.0; q=0.001"};
	static const char *const old[] = {NULL, "", "*/*", "text/plain;version=0.0.4",
		"application/openmetrics-textual", "text/html,application/xml;q=0.9",
		"application/openmetrics-text;q=0", "application/openmetrics-text; q=0.000, */*",
		";;;,,,", "application/"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(open); i++)
		assert_true(exposition_wants_openmetrics(open[i]));
	for (size_t i = 0; i < UTIL_COUNT(old); i++)
		assert_false(exposition_wants_openmetrics(old[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(families_are_named_as_their_samples),
		cmocka_unit_test(what_is_accepted_decides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
