/* name_order: the expectations are what Python's sorted() and timm's natural_key make of the names.
 * The order over random names is compared with Python's in tests/e2e/streams/folder_order.py. */
#include "base/name_order.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef int compare_fn(const char *a, const char *b);

/* Each name comes before all names after it. */
static void check(compare_fn *compare, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++) {
			int order = compare(names[i], names[k]);
			if ((order > 0) - (order < 0) != (i > k) - (i < k))
				fail_msg("\"%s\" and \"%s\": %d", names[i], names[k], order);
		}
}

static void test_code_points(void **state)
{
	static const char *const names[] = {
		"", "A", "Z", "a", "a ", "a-b", "a/b", "ab", "img-1.jpg", "img.jpg", "img.png",
		"tiger", "tiger cat", "tiger-x", "\xc3\xa9", /* U+00E9 */
		"\xe2\x82\xac", /* U+20AC, before the lone bytes of its beginning */
		"\xed\x9f\xbf", /* U+D7FF */
		"\x80", /* not UTF-8 from here on: U+DC80 */
		"\xe2\x82", /* U+DCE2 U+DC82 */
		/* Two literals, since A would be a digit of the number before it. */
		("\xe2\x82"
		 "A"),
		"\xed\xa0\x80", /* a surrogate is not a character: U+DCED U+DCA0 U+DC80 */
		"\xff", /* U+DCFF */
		"\xee\x80\x80", /* U+E000 */
		"\xf0\x9f\x90\x88", /* U+1F408 */
	};
	check(name_order, names, UTIL_COUNT(names));
}

static void test_natural(void **state)
{
	static const char *const names[] = {
		"",
		"0",
		"1",
		"01x",
		"2",
		"10",
		"99999999999999999999999999",
		"100000000000000000000000000",
		"A",
		"a",
		"a1",
		"a02",
		"A2b",
		"a10",
		"a 1", /* the texts are compared first: "a" and "a " */
		"ab",
		"B",
		"b",
		"i",
		"\xc4\xb0", /* a dotted capital I: "i" and a dot above */
		"n9z",
		"n\xd9\xa1\xd9\xa0", /* Arabic digits: 10 */
		"n11",
		"\xc2\xb2", /* a superscript is text */
		"\xc3\xa0",
		"\xc3\x84", /* capital A with a diaeresis: after the small a with a grave accent */
		"\xc3\xa5",
		"\xff",
		"\xf0\x9f\x90\x88",
	};
	check(name_order_natural, names, UTIL_COUNT(names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code_points),
		cmocka_unit_test(test_natural),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
