/* Which table a name forces: one of that name, what stands in for it, or a sentence. */
#include "base/variant.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Tables are told apart by their addresses alone. */
static const char tables[VARIANTS];
static const char *refused;

static bool runs(const void *table)
{
	return table != refused;
}

static int force(const struct variants *variants, const char *name, const void **ret)
{
	static struct fault fault;
	fault = (struct fault){0};
	assert_int_equal(setenv("PENSTOCK_KERNELS", name, 1), 0);
	int result = variant_forced(variants, ret, &fault);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	if (result) {
		assert_null(*ret);
		assert_non_null(strstr(fault.text, name));
		assert_non_null(strstr(fault.text, "unset"));
	}
	return result;
}

static struct variants all_tables(void)
{
	struct variants all = {.runs = runs};
	for (int i = 0; i < VARIANTS; i++)
		all.table[i] = &tables[i];
	return all;
}

static void test_names(void **state)
{
	(void)state;
	static const char *const names[VARIANTS] = {"c", "avx2", "avx512", "avx512-vnni", "neon"};
	struct variants all = all_tables();
	for (unsigned i = 0; i < VARIANTS; i++) {
		const void *table = NULL;
		assert_int_equal(force(&all, names[i], &table), 0);
		assert_ptr_equal(table, &tables[i]);
		assert_ptr_equal(variant_at(&all, i), &tables[i]);
	}
	assert_null(variant_at(&all, VARIANTS));
}

static void test_nothing_forced(void **state)
{
	(void)state;
	struct variants all = all_tables();
	struct fault fault;
	const void *table = tables;
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(variant_forced(&all, &table, &fault), 0);
	assert_null(table);
	assert_int_equal(force(&all, "", &table), 0);
	assert_null(table);
}

static void test_wrong_names(void **state)
{
	(void)state;
	static const char *const names[] = {"C", "avx", "avx512-", "sve", "c "};
	struct variants all = all_tables();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const void *table = tables;
		assert_int_equal(force(&all, names[i], &table), -EINVAL);
	}
}

static void test_not_here(void **state)
{
	(void)state;
	struct variants all = all_tables();
	const void *table = tables;
	refused = &tables[VARIANT_AVX2];
	assert_int_equal(force(&all, "avx2", &table), -ENOTSUP);
	assert_ptr_equal(variant_at(&all, 1), &tables[VARIANT_AVX512]);
	refused = NULL;
	all.table[VARIANT_AVX2] = NULL;
	assert_int_equal(force(&all, "avx2", &table), -ENOTSUP);
}

/* Another table stands in for a missing one, but never for one that the processor cannot run. */
static void test_instead(void **state)
{
	(void)state;
	struct variants some = all_tables();
	const void *table = NULL;
	refused = &tables[VARIANT_VNNI];
	assert_int_equal(force(&some, "avx512-vnni", &table), -ENOTSUP);
	some.table[VARIANT_VNNI] = some.table[VARIANT_NEON] = NULL;
	assert_int_equal(force(&some, "avx512-vnni", &table), 0);
	assert_ptr_equal(table, &tables[VARIANT_AVX512]);
	refused = &tables[VARIANT_AVX512];
	assert_int_equal(force(&some, "avx512-vnni", &table), -ENOTSUP);
	refused = NULL;
#ifdef __aarch64__
	assert_int_equal(force(&some, "neon", &table), 0);
	assert_ptr_equal(table, &tables[VARIANT_C]);
#else
	assert_int_equal(force(&some, "neon", &table), -ENOTSUP);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_nothing_forced),
		cmocka_unit_test(test_wrong_names),
		cmocka_unit_test(test_not_here),
		cmocka_unit_test(test_instead),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
