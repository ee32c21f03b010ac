/* nearest: distances, and which names are suggested for a word. */
#include "base/nearest.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_distance(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b;
		unsigned distance;
	} cases[] = {
		{"", "", 0},
		{"", "abc", 3},
		{"seed", "seed", 0},
		{"sed", "seed", 1},
		{"color", "colour", 1},
		{"kitten", "sitting", 3},
		{"bacth", "batch", 1},
		{"bench", "ench", 1},
		{"ab", "ba", 1},
		{"ca", "abc", 3}, /* no letter is edited twice: 2 would need that */
		{"abcdef", "badcfe", 3},
		{"RANDOMRESIZEDCROP", "RandomResizedCrop", 0},
		{"AB", "ba", 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(nearest_distance(cases[i].a, cases[i].b), cases[i].distance);
		assert_int_equal(nearest_distance(cases[i].b, cases[i].a), cases[i].distance);
	}
}

static void test_long_words(void **state)
{
	(void)state;
	char longest[65], longer[66];
	memset(longest, 'a', sizeof longest);
	memset(longer, 'a', sizeof longer);
	longest[63] = longer[64] = 0;
	assert_int_equal(nearest_distance(longest, "aaa"), 60);
	assert_int_equal(nearest_distance(longest, longest), 0);
	assert_int_equal(nearest_distance(longer, longer), UINT_MAX);
	assert_int_equal(nearest_distance("", longer), UINT_MAX);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const names[] = {"seed", "size", "batch_size", "epoch", NULL};
	static const char *const none[] = {NULL};
	assert_string_equal(nearest_of("sed", names), "seed");
	/* Of two that are as near, the one that has the same letters around. */
	static const char *const near[] = {"std", "seed", "sea", NULL};
	assert_string_equal(nearest_of("sed", near), "seed");
	assert_string_equal(nearest_of("sd", near), "std");
	assert_string_equal(nearest_of("batchsiez", names), "batch_size");
	assert_string_equal(nearest_of("epohc", names), "epoch");
	assert_string_equal(nearest_of("size", names), "size");
	/* A word in which two of four letters differ is another word. */
	assert_null(nearest_of("seal", names));
	assert_null(nearest_of("workers", names));
	assert_null(nearest_of("seed", none));
	/* Case does not count; a name of one letter may differ in it. */
	static const char *const others[] = {"solarize", "posterize", "p", NULL};
	assert_string_equal(nearest_of("solarise", others), "solarize");
	assert_string_equal(nearest_of("Posterize", others), "posterize");
	assert_string_equal(nearest_of("POSTERISE", others), "posterize");
	assert_string_equal(nearest_of("q", others), "p");
	assert_null(nearest_of("blur", others));
}

/* Of several equally near names, the first one tried. */
static void test_first_wins(void **state)
{
	(void)state;
	struct nearest nearest = nearest_to("cat");
	assert_null(nearest_found(&nearest));
	nearest_try(&nearest, "bat");
	nearest_try(&nearest, "hat");
	assert_string_equal(nearest_found(&nearest), "bat");
	nearest_try(&nearest, "cat");
	assert_string_equal(nearest_found(&nearest), "cat");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_first_wins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
