/* Old names of options and keys: each maps to a current name, and using both on one command line
 * is detected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/renamed.h"

static void each_old_name_leads_to_a_name_of_today(void **state)
{
	const struct renamed *const tables[] = {renamed_options, renamed_keys};
	(void)state;
	for (int i = 0; i < 2; i++)
		for (const struct renamed *one = tables[i]; one->old; one++) {
			assert_string_equal(renamed_name(tables[i], one->old), one->name);
			assert_null(renamed_name(tables[i], one->name));
		}
	assert_null(renamed_name(renamed_options, "seed"));
}

static void the_sentence_names_both(void **state)
{
	struct fault said;
	(void)state;
	assert_string_equal(
		renamed_say("--", "a", "b", &said), "--a is the old name of --b; use the new name");
}

static void a_new_name_beside_an_old_one_is_seen(void **state)
{
	char *argv[] = {"x", "--old", "--newer", "--new=3", "--", "--other", NULL};
	(void)state;
	assert_true(renamed_beside(6, argv, "new"));
	assert_true(renamed_beside(6, argv, "newer"));
	assert_false(renamed_beside(6, argv, "ne"));
	assert_false(renamed_beside(6, argv, "other"));
	assert_false(renamed_beside(1, argv, "old"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_old_name_leads_to_a_name_of_today),
		cmocka_unit_test(the_sentence_names_both),
		cmocka_unit_test(a_new_name_beside_an_old_one_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
