/* fault: sentences are written, prefixed and cut, never overrun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"

#include <string.h>

static void sets_and_returns_the_code(void **state)
{
	struct fault fault;
	(void)state;
	assert_int_equal(fault_set(&fault, -22, "%s: expected %d", "a", 3), -22);
	assert_string_equal(fault.text, "a: expected 3");
	assert_int_equal(fault_set(NULL, -5, "nobody %s", "listens"), -5);
	assert_int_equal(fault_prefix(NULL, -5, "nobody"), -5);
}

static void prefixes_what_is_there(void **state)
{
	struct fault fault;
	(void)state;
	(void)fault_set(&fault, -1, "no such file");
	assert_int_equal(fault_prefix(&fault, -2, "line %d", 7), -2);
	assert_string_equal(fault.text, "line 7: no such file");
	(void)fault_prefix(&fault, -2, "%s", "x.yaml");
	assert_string_equal(fault.text, "x.yaml: line 7: no such file");
}

/* A caller may make the new sentence from the old one. */
static void takes_its_own_text_as_an_argument(void **state)
{
	struct fault fault;
	(void)state;
	(void)fault_set(&fault, -1, "inner");
	(void)fault_set(&fault, -1, "outer (%s), %s", fault.text, fault.text);
	assert_string_equal(fault.text, "outer (inner), inner");
	(void)fault_prefix(&fault, -1, "[%s]", fault.text);
	assert_string_equal(fault.text, "[outer (inner), inner]: outer (inner), inner");
}

static void cuts_what_is_too_long(void **state)
{
	struct {
		struct fault fault;
		char guard[8];
	} box;
	char text[2 * FAULT_TEXT];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	memset(box.guard, '#', sizeof box.guard);
	(void)fault_set(&box.fault, -1, "%s", text);
	assert_int_equal(strlen(box.fault.text), FAULT_TEXT - 1);
	(void)fault_prefix(&box.fault, -1, "head");
	assert_int_equal(strlen(box.fault.text), FAULT_TEXT - 1);
	assert_memory_equal(box.fault.text, "head: xxx", 9);
	/* The end, which names the problem, stays. */
	(void)fault_set(&box.fault, -1, "begins %s is too long: shorten it", text);
	assert_int_equal(strlen(box.fault.text), FAULT_TEXT - 1);
	assert_memory_equal(box.fault.text, "begins xxx", 10);
	assert_non_null(strstr(box.fault.text, "x ... x"));
	assert_non_null(strstr(box.fault.text, "x is too long: shorten it"));
	(void)fault_prefix(&box.fault, -1, "%s", text);
	assert_int_equal(strlen(box.fault.text), FAULT_TEXT - 1);
	assert_memory_equal(box.guard, "########", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_and_returns_the_code),
		cmocka_unit_test(prefixes_what_is_there),
		cmocka_unit_test(takes_its_own_text_as_an_argument),
		cmocka_unit_test(cuts_what_is_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
