/* hash_name: the same within a process, and another in the next one. */
#include "base/hash_name.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_same(void **state)
{
	(void)state;
	assert_true(hash_name("n01440764", 9) == hash_name("n01440764/x", 9));
	assert_true(hash_name("n01440764", 9) != hash_name("n01440765", 9));
	assert_true(hash_name("", 0) != hash_mix(HASH_SEED));
}

/* This program again, which prints the hash of a name. */
static void test_secret(void **state)
{
	char path[4096], line[32], own[32];
	(void)snprintf(path, sizeof path, "%s print", (const char *)*state);
	(void)snprintf(own, sizeof own, "%llx\n", (unsigned long long)hash_name("a", 1));
	FILE *other = popen(path, "re");
	assert_non_null(other);
	assert_non_null(fgets(line, sizeof line, other));
	assert_int_equal(pclose(other), 0);
	assert_string_not_equal(line, own);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "print"))
		return printf("%llx\n", (unsigned long long)hash_name("a", 1)) < 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test_prestate(test_secret, argv[0]),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
