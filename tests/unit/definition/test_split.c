/* split: what TensorFlow Datasets means by the same words; whatever else is written is refused with
 * its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "definition/split.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct split parsed(const char *text)
{
	struct split split;
	struct fault fault = {{0}};
	if (split_parse(text, &split, &fault))
		fail_msg("%s: %s", text, fault.text);
	return split;
}

static void places(const char *text, uint64_t samples, uint64_t from, uint64_t to)
{
	struct split split = parsed(text);
	struct fault fault = {{0}};
	uint64_t first = 0, count = 0;
	if (split_places(&split, text, samples, &first, &count, &fault))
		fail_msg("%s of %llu: %s", text, (unsigned long long)samples, fault.text);
	if (first != from || first + count != to)
		fail_msg("%s of %llu: %llu to %llu, not %llu to %llu", text,
			(unsigned long long)samples, (unsigned long long)first,
			(unsigned long long)(first + count), (unsigned long long)from,
			(unsigned long long)to);
}

static void means_what_tensorflow_means(void **state)
{
	(void)state;
	places("train[:90%]", 1000, 0, 900);
	places("train[90%:]", 1000, 900, 1000);
	places("[25%:75%]", 1000, 250, 750);
	places("[:10]", 1000, 0, 10);
	places("[10:]", 1000, 10, 1000);
	places("[-10:]", 1000, 990, 1000);
	places("[:-10]", 1000, 0, 990);
	places("[-20%:-10%]", 1000, 800, 900);
	places("[10:90%]", 1000, 10, 900);
	places("[:]", 1000, 0, 1000);
	places("[:1000]", 1000, 0, 1000);
	places("[-1000:]", 1000, 0, 1000);
	places("[:1_000]", 2000, 0, 1000);
	/* To the closest; what Python's round makes of a half: the even one. */
	places("[:33%]", 10, 0, 3);
	places("[:66%]", 10, 0, 7);
	places("[:50%]", 5, 0, 2);
	places("[50%:]", 5, 2, 5);
	places("[:50%]", 7, 0, 4);
	places("[:25%]", 10, 0, 2);
	places("[:75%]", 10, 0, 8);
	places("[-50%:]", 5, 3, 5);
	places("[:99%]", 1281167, 0, 1268355);
	places("[:0.1%]", 1281167, 0, 1281);
	places("[:33.333333%]", 3000000, 0, 1000000);
	places("[1%:]", (uint64_t)1 << 48, 2814749767107, (uint64_t)1 << 48);
}

/* Cut anywhere, two parts are all of it. */
static void parts_meet(void **state)
{
	(void)state;
	for (unsigned percent = 1; percent < 100; percent++)
		for (uint64_t samples = 100; samples < 140; samples++) {
			char low[16], high[16];
			uint64_t from, count, next, rest;
			(void)snprintf(low, sizeof low, "[:%u%%]", percent);
			(void)snprintf(high, sizeof high, "[%u%%:]", percent);
			struct split first = parsed(low), second = parsed(high);
			assert_int_equal(
				split_places(&first, low, samples, &from, &count, NULL), 0);
			assert_int_equal(
				split_places(&second, high, samples, &next, &rest, NULL), 0);
			assert_int_equal(from, 0);
			assert_int_equal(next, count);
			assert_int_equal(next + rest, samples);
		}
}

static void knows_all_of_it(void **state)
{
	(void)state;
	static const char *const whole[] = {
		"train", "[:]", "train[:]", "[0:]", "[:100%]", "[0%:100%]"};
	static const char *const parts[] = {"[:99%]", "[1:]", "train[:5]", "[-5:]"};
	for (size_t i = 0; i < UTIL_COUNT(whole); i++)
		assert_false(parsed(whole[i]).part);
	for (size_t i = 0; i < UTIL_COUNT(parts); i++)
		assert_true(parsed(parts[i]).part);
	assert_string_equal(parsed("my-val_2[:3]").name, "my-val_2");
	assert_string_equal(parsed("[:3]").name, "");
	struct split a = parsed("x[:3]"), b = parsed("y[0:3]"), c = parsed("[:3%]"),
		     d = parsed("[3:]");
	assert_int_equal(split_hash(&a), split_hash(&b));
	assert_true(split_hash(&a) != split_hash(&c) && split_hash(&a) != split_hash(&d));
}

static void refuses_in_sentences(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"", "at character 1 of \"\": expected something"},
		{"[", "at character 2 of \"[\": expected a number of samples or percent"},
		{"[3", "a colon"},
		{"[3]", "a colon"},
		{"[:3", "a closing bracket"},
		{"[:3]x", "at character 5"},
		{"[:-]", "a number of samples"},
		{"[+3:]", "a number of samples"},
		{"[:_3]", "a number of samples"},
		{"[ :3]", "a number of samples"},
		{"[:3 %]", "a closing bracket"},
		{"[:3.]", "digits after the point"},
		{"[:3.5]", "a percent sign"},
		{"[:1.1234567%]", "at most six digits"},
		{"[:100.1%]", "at most 100 percent"},
		{"[:101%]", "at most 100 percent"},
		{"[:-101%]", "at most 100 percent"},
		{"[:99999999999999999999999999]", "not larger than 2^48"},
		{"a/b", "the name of a folder"},
		{"..[:3]", "the name of a folder"},
		{"a*", "the name of a folder"},
		{"train+test", "the name of a folder"},
		{"train[:4shard]", "a closing bracket"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct split split;
		struct fault fault = {{0}};
		assert_int_equal(split_parse(cases[i].text, &split, &fault), -EINVAL);
		if (!strstr(fault.text, cases[i].words) || !strstr(fault.text, "train[:90%]"))
			fail_msg("%s: expected \"%s\" in \"%s\"", cases[i].text, cases[i].words,
				fault.text);
	}
	char name[400] = {0};
	struct split split;
	struct fault fault = {{0}};
	memset(name, 'n', sizeof name - 1);
	assert_int_equal(split_parse(name, &split, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "a short name"));
}

/* Every cut and every changed byte: read, or refused in words. */
static void survives_other_texts(void **state)
{
	static const char good[] = "train[-12.5%:1_000]";
	(void)state;
	for (size_t at = 0; at < sizeof good - 1; at++)
		for (unsigned byte = 0; byte < 256; byte++) {
			char text[sizeof good];
			struct split split;
			struct fault fault = {{0}};
			memcpy(text, good, sizeof good);
			text[at] = (char)byte;
			int result = split_parse(text, &split, &fault);
			assert_true(result == 0 || (result == -EINVAL && fault.text[0]));
		}
}

static void refuses_empty_parts(void **state)
{
	static const struct {
		const char *text, *words;
		uint64_t samples;
	} cases[] = {
		{"[:11]", "lies beyond the dataset, which has 10", 10},
		{"[-11:]", "lies beyond", 10},
		{"[10:]", "has no samples: of the dataset's 10 it goes from 10 to 10", 10},
		{"[5:5]", "has no samples", 10},
		{"[6:5]", "has no samples", 10},
		{"[:0]", "has no samples", 10},
		{"[:1%]", "has no samples", 10},
		{"[:-100%]", "has no samples", 10},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct split split = parsed(cases[i].text);
		struct fault fault = {{0}};
		uint64_t from, count;
		assert_int_equal(split_places(&split, cases[i].text, cases[i].samples, &from,
					 &count, &fault),
			-EINVAL);
		if (!strstr(fault.text, cases[i].words) || !strstr(fault.text, cases[i].text))
			fail_msg("%s: expected \"%s\" in \"%s\"", cases[i].text, cases[i].words,
				fault.text);
	}
}

static void finds_a_name_in_its_source(void **state)
{
	char root[] = "/tmp/penstock-unit-XXXXXX", path[400], found[400], want[400];
	static const char *const folders[] = {"a[1]", "a[1]/train", "a[1]/val"};
	static const char *const files[] = {"a[1]/val/0.tar", "a[1]/test-0.tar", "a[1]/.dev-0.tar"};
	struct fault fault = {{0}};
	(void)state;
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < UTIL_COUNT(folders); i++) {
		(void)snprintf(path, sizeof path, "%s/%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (size_t i = 0; i < UTIL_COUNT(files); i++) {
		(void)snprintf(path, sizeof path, "%s/%s", root, files[i]);
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	static const struct {
		const char *split, *found;
	} cases[] = {{"[:3]", "a[1]"}, {"train[:3]", "a[1]/train"}, {"val", "a[[]1]/val/*.tar"},
		{"test", "a[[]1]/test-*.tar"}};
	(void)snprintf(path, sizeof path, "%s/a[1]", root);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct split split = parsed(cases[i].split);
		(void)snprintf(want, sizeof want, "%s/%s", root, cases[i].found);
		if (split_source(&split, path, found, sizeof found, &fault))
			fail_msg("%s: %s", cases[i].split, fault.text);
		assert_string_equal(found, want);
	}
	struct split dev = parsed("dev"), val = parsed("val");
	assert_int_equal(split_source(&dev, path, found, sizeof found, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "\"dev\" is not in"));
	assert_int_equal(split_source(&val, path, found, 12, &fault), -ENAMETOOLONG);
	(void)snprintf(path, sizeof path, "%s/a[1]/test-0.tar", root);
	assert_int_equal(split_source(&val, path, found, sizeof found, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "leave the name out"));
	for (size_t i = 0; i < UTIL_COUNT(files); i++) {
		(void)snprintf(path, sizeof path, "%s/%s", root, files[i]);
		(void)unlink(path);
	}
	for (size_t i = UTIL_COUNT(folders); i-- > 0;) {
		(void)snprintf(path, sizeof path, "%s/%s", root, folders[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(root), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(means_what_tensorflow_means),
		cmocka_unit_test(parts_meet),
		cmocka_unit_test(knows_all_of_it),
		cmocka_unit_test(refuses_in_sentences),
		cmocka_unit_test(survives_other_texts),
		cmocka_unit_test(refuses_empty_parts),
		cmocka_unit_test(finds_a_name_in_its_source),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
