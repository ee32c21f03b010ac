/* processor_features agrees with the runtime libraries of gcc and clang. */
#include "proto/processor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef __x86_64__

#define ASSERT_LIKE(feature, name) \
	assert_int_equal(processor_has(feature), __builtin_cpu_supports(name) != 0)

static void as_the_compiler_says(void **state)
{
	(void)state;
	ASSERT_LIKE(PROCESSOR_AVX2, "avx2");
	ASSERT_LIKE(PROCESSOR_FMA, "fma");
	ASSERT_LIKE(PROCESSOR_BMI2, "bmi2");
	ASSERT_LIKE(PROCESSOR_AVX512F, "avx512f");
	ASSERT_LIKE(PROCESSOR_AVX512BW, "avx512bw");
	ASSERT_LIKE(PROCESSOR_AVX512VL, "avx512vl");
	ASSERT_LIKE(PROCESSOR_AVX512DQ, "avx512dq");
	ASSERT_LIKE(PROCESSOR_AVX512VNNI, "avx512vnni");
	ASSERT_LIKE(PROCESSOR_AVX512VBMI, "avx512vbmi");
	ASSERT_LIKE(PROCESSOR_AVX512VBMI2, "avx512vbmi2");
}

/* The words of the kernel's list, which omits features whose registers it does not save. */
static void as_the_kernel_says(void **state)
{
	(void)state;
	char line[8192];
	FILE *file = fopen("/proc/cpuinfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof line, file) && strncmp(line, "flags", 5) != 0)
		continue;
	(void)fclose(file);
	assert_int_equal(strncmp(line, "flags", 5), 0);
	assert_int_equal(processor_has(PROCESSOR_AVX2), strstr(line, " avx2 ") != NULL);
	assert_int_equal(processor_has(PROCESSOR_F16C), strstr(line, " f16c ") != NULL);
	assert_int_equal(processor_has(PROCESSOR_AVX512F), strstr(line, " avx512f ") != NULL);
	assert_int_equal(processor_has(PROCESSOR_AVX512VBMI), strstr(line, " avx512vbmi ") != NULL);
}

static void all_of_them(void **state)
{
	(void)state;
	assert_true(processor_has(0));
	assert_false(processor_has(processor_features() | 1u << 31));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_compiler_says),
		cmocka_unit_test(as_the_kernel_says), cmocka_unit_test(all_of_them)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void none_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(processor_features(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(none_elsewhere)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
