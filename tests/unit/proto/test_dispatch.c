/* dispatch: which table a name forces: the table of that name, its substitute, or a refusal. */
#include "proto/dispatch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A feature that no processor has. */
#define NEVER (1u << 31)

/* The tests tell tables apart by their addresses only. */
static const char tables[DISPATCH_NAMES];

static struct dispatch all_tables(void)
{
	struct dispatch all = {0};
	for (int i = 0; i < DISPATCH_NAMES; i++)
		all.of[i].table = &tables[i];
	return all;
}

static int force(const struct dispatch *dispatch, const char *name, const void **ret)
{
	assert_int_equal(setenv("PENSTOCK_KERNELS", name, 1), 0);
	int result = dispatch_forced(dispatch, ret);
	if (result) {
		const void *untouched = tables;
		char sentence[DISPATCH_REFUSAL];
		assert_int_equal(dispatch_widest(dispatch, &untouched), result);
		assert_ptr_equal(untouched, tables);
		dispatch_refusal(result, sentence);
		assert_non_null(strstr(sentence, name));
		assert_non_null(strstr(sentence, "unset"));
	}
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	return result;
}

static void test_names(void **state)
{
	(void)state;
	static const char *const names[DISPATCH_NAMES] = {
		"c", "avx2", "avx512", "avx512-vnni", "neon"};
	struct dispatch all = all_tables();
	for (unsigned i = 0; i < DISPATCH_NAMES; i++) {
		const void *table = NULL;
		assert_int_equal(force(&all, names[i], &table), 0);
		assert_ptr_equal(table, &tables[i]);
		assert_ptr_equal(dispatch_at(&all, i), &tables[i]);
	}
	assert_null(dispatch_at(&all, DISPATCH_NAMES));
}

static void test_nothing_forced(void **state)
{
	(void)state;
	struct dispatch all = all_tables();
	const void *table = tables;
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(dispatch_forced(&all, &table), 0);
	assert_null(table);
	assert_int_equal(force(&all, "", &table), 0);
	assert_null(table);
}

static void test_widest(void **state)
{
	(void)state;
	struct dispatch all = all_tables();
	const void *table = NULL;
	all.of[DISPATCH_NEON].table = NULL;
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(dispatch_widest(&all, &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_VNNI]);
	all.of[DISPATCH_VNNI].needs = NEVER;
	assert_int_equal(dispatch_widest(&all, &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_AVX512]);
	all.of[DISPATCH_AVX512].needs = all.of[DISPATCH_AVX2].needs = NEVER;
	assert_int_equal(dispatch_widest(&all, &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_C]);
	assert_int_equal(setenv("PENSTOCK_KERNELS", "c", 1), 0);
	all = all_tables();
	assert_int_equal(dispatch_widest(&all, &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_C]);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
}

static void test_wrong_names(void **state)
{
	(void)state;
	static const char *const names[] = {"C", "avx", "avx512-", "sve", "c "};
	struct dispatch all = all_tables();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const void *table = tables;
		assert_int_equal(force(&all, names[i], &table), -EINVAL);
		assert_ptr_equal(table, tables);
	}
}

static void test_not_here(void **state)
{
	(void)state;
	struct dispatch all = all_tables();
	const void *table = tables;
	all.of[DISPATCH_AVX2].needs = NEVER;
	assert_int_equal(force(&all, "avx2", &table), -ENOTSUP);
	assert_ptr_equal(dispatch_at(&all, 1), &tables[DISPATCH_AVX512]);
	all.of[DISPATCH_AVX2] = (struct dispatch_table){0};
	assert_int_equal(force(&all, "avx2", &table), -ENOTSUP);
	assert_ptr_equal(table, tables);
}

/* Another table stands in for a missing one, but never for one that the processor cannot run. */
static void test_instead(void **state)
{
	(void)state;
	struct dispatch some = all_tables();
	const void *table = NULL;
	some.of[DISPATCH_VNNI].needs = NEVER;
	assert_int_equal(force(&some, "avx512-vnni", &table), -ENOTSUP);
	some.of[DISPATCH_VNNI].table = some.of[DISPATCH_NEON].table = NULL;
	assert_int_equal(force(&some, "avx512-vnni", &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_AVX512]);
	some.of[DISPATCH_AVX512].needs = NEVER;
	assert_int_equal(force(&some, "avx512-vnni", &table), -ENOTSUP);
#ifdef __aarch64__
	assert_int_equal(force(&some, "neon", &table), 0);
	assert_ptr_equal(table, &tables[DISPATCH_C]);
#else
	assert_int_equal(force(&some, "neon", &table), -ENOTSUP);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_nothing_forced),
		cmocka_unit_test(test_widest),
		cmocka_unit_test(test_wrong_names),
		cmocka_unit_test(test_not_here),
		cmocka_unit_test(test_instead),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
