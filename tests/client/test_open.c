/* The result of the application's options: the text of OPEN, absolute paths, refusals before
 * anything is sent. */
#include "client/fake.h"
#include "client/lib/error.h"
#include "client/lib/open.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int write_request(const struct penstock_options *options, struct jsontext *json)
{
	struct jsontext definition = {0};
	int result = open_write(options, &definition);
	if (result == 0)
		result = open_request(definition.text.bytes, options->state, false, json);
	jsontext_free(&definition);
	return result;
}

static void expect_text(const struct penstock_options *options, const char *wanted)
{
	struct jsontext json = {0};
	assert_int_equal(write_request(options, &json), 0);
	assert_string_equal(json.text.bytes, wanted);
	jsontext_free(&json);
}

static void expect_refusal(const struct penstock_options *options, int code, const char *sentence)
{
	struct jsontext json = {0};
	assert_int_equal(write_request(options, &json), code);
	assert_non_null(strstr(penstock_error(), sentence));
	jsontext_free(&json);
}

static void test_defaults(void **state)
{
	(void)state;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data/train";
	expect_text(&options, "{\"source\":\"/data/train\",\"train\":true}");
	options.train = 0;
	expect_text(&options, "{\"source\":\"/data/train\",\"train\":false}");
}

static void test_everything(void **state)
{
	(void)state;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/a \"b\"/{00..11}.tar";
	options.batch_size = 256;
	options.image_size = 128;
	options.shuffle = 0;
	options.drop_last = 1;
	options.seed = UINT64_MAX;
	options.epochs = 3;
	options.prefetch = 8;
	options.labels = "cls";
	options.on_broken = "fail";
	options.max_broken = 0.005;
	options.max_image_pixels = 1000000;
	options.max_file_bytes = 4294967295;
	options.group = "job 1";
	options.wait_for = 2;
	options.state = " {\"version\":1,\"epoch\":2,\"position\":64}\n";
	options.share = "split";
	options.rank = 0;
	options.world_size = 4;
	options.laggard = "detach";
	options.laggard_timeout_s = 30;
	options.reconnect_ms = 5000; /* the library's own options */
	options.pin_memory = 1;
	expect_text(&options,
		"{\"source\":\"/a "
		"\\\"b\\\"/{00..11}.tar\",\"batch_size\":256,\"image_size\":128,"
		"\"train\":true,\"shuffle\":false,\"drop_last\":true,"
		"\"seed\":18446744073709551615,\"epochs\":3,\"prefetch\":8,"
		"\"labels\":\"cls\",\"on_broken\":\"fail\",\"max_broken\":0.005000000,"
		"\"max_image_pixels\":1000000,\"max_file_bytes\":4294967295,"
		"\"group\":\"job 1\",\"share\":\"split\",\"wait_for\":2,"
		"\"laggard\":\"detach\",\"laggard_timeout_s\":30,\"pin_memory\":true,"
		"\"rank\":0,\"world_size\":4,"
		"\"state\":{\"version\":1,\"epoch\":2,\"position\":64}}");
}

/* The library writes values unchanged, but never a text that could be more than one value or end
 * the request. */
static void test_transforms(void **state)
{
	(void)state;
	static const char *const good[] = {
		"[]",
		"[{\"RandomResizedCrop\": {\"size\": [1, 2], \"scale\": [0.08, 1e-3]}}]",
		"[\"a\", \"] } , \\\" \\\\\", true, null, -1.5E+7]",
		"[[[[]]], {}]",
		"[\n\t{\"a\":\r\n1}]",
		"[\"\xc3\xa4 #'&*!\"]",
	};
	static const char *const bad[] = {"", " ", "{}", "1", "null", "[", "]", "[]]", "[[]", "[}",
		"[{]}", "[] []", "[],\"seed\":1", "[]}", "[1]1", "[\"a]", "[\"a\\\"]", "[\"a\\",
		"[\"a\nb\"]", "['a']", "[a # b]\n]", "[&a 1]", "[*a]", "[!a 1]", "[|]", "[\xff]",
		"[\"\xff\"]", "[\x01]", "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]"};
	char wanted[256];
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/x";
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		char spaced[128];
		(void)snprintf(spaced, sizeof spaced, " \n%s\t\r\n ", good[i]);
		(void)snprintf(wanted, sizeof wanted,
			"{\"source\":\"/x\",\"train\":true,\"transforms\":%s}", good[i]);
		options.transforms = good[i];
		expect_text(&options, wanted);
		options.transforms = spaced;
		expect_text(&options, wanted);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		options.transforms = bad[i];
		expect_refusal(&options, -EINVAL, "options.transforms is not a list");
	}
}

static void test_samples_and_pixels(void **state)
{
	(void)state;
	static const float mean[3] = {0, 0.5f, 0.25f}, std[3] = {1, 0.125f, 2};
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/x";
	options.image_sizes = " {\"0\": 128, \"16\": 192}\n";
	options.split = "train[:90%]";
	options.weights = "/w.npy";
	options.epoch_length = 5000000000;
	options.repeats = 3;
	options.sampling = "{\"classes\": 16, \"per_class\": 4}";
	options.views = 2;
	options.dtype = "float16";
	options.layout = "NCHW";
	options.mean = mean;
	options.std = std;
	expect_text(&options,
		"{\"source\":\"/x\",\"image_size\":{\"0\": 128, \"16\": 192},"
		"\"split\":\"train[:90%]\",\"weights\":\"/w.npy\","
		"\"epoch_length\":5000000000,\"repeats\":3,\"sampling\":{\"classes\": 16, "
		"\"per_class\": 4},\"views\":2,"
		"\"dtype\":\"float16\",\"layout\":\"NCHW\","
		"\"mean\":[0,0.5,0.25],\"std\":[1,0.125,2],\"train\":true}");
}

static void test_a_rectangle(void **state)
{
	(void)state;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/x";
	options.image_sizes = " [256, 128]";
	expect_text(&options, "{\"source\":\"/x\",\"image_size\":[256, 128],\"train\":true}");
}

/* A text that is not one mapping, or one list, is refused: nothing that could end the request is
 * written. */
static void test_values_that_are_none(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "[1]]", "{]", "{} {}", "{},\"seed\":1", "{\"a\"", "x",
		"[\"a]", "{\"\xff\": 1}", "{'a': 1}"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct penstock_options options;
		penstock_options_init(&options);
		options.source = "/x";
		options.image_sizes = bad[i];
		expect_refusal(&options, -EINVAL,
			bad[i][0] == '[' ? "options.image_sizes is not a list: expected"
					 : "options.image_sizes is not a mapping: expected");
		options.image_sizes = NULL;
		options.source = NULL;
		options.sources = bad[i];
		expect_refusal(&options, -EINVAL, "options.sources is not a list: expected");
	}
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/x";
	options.labels = " {\"manifest\": 1";
	expect_refusal(&options, -EINVAL, "options.labels is not a mapping: expected a word, or");
	options.labels = NULL;
	options.weights = "";
	expect_refusal(&options, -EINVAL, "options.weights is empty: expected \"balanced\"");
}

static void test_either_of_two(void **state)
{
	(void)state;
	struct penstock_options options, mine;
	penstock_options_init(&options);
	options.sources = "[{\"source\": \"/a\"}]";
	assert_int_equal(open_take_options(&options, &mine), 0);
	options.source = "/x";
	assert_int_equal(open_take_options(&options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "options.source and options.sources"));
	options.sources = NULL;
	options.image_sizes = "{\"0\": 128}";
	assert_int_equal(open_take_options(&options, &mine), 0);
	options.image_size = 128;
	assert_int_equal(open_take_options(&options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "options.image_size and options.image_sizes"));
}

static void test_stream_name(void **state)
{
	(void)state;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "stream:imagenet";
	expect_text(&options, "{\"stream\":\"imagenet\"}");
	options.group = "g";
	expect_text(&options, "{\"stream\":\"imagenet\",\"group\":\"g\"}");
	options.source = "stream:";
	expect_refusal(&options, -EINVAL, "without a name");
}

/* Keys that the configuration defines are refused by the names that the application knows. */
static void test_stream_defined_elsewhere(void **state)
{
	(void)state;
	static const float third[3] = {0.5f, 0.5f, 0.5f};
	struct penstock_options options;
	char says[160];
#define REFUSED(field, value, unset)                                                \
	do {                                                                        \
		penstock_options_init(&options);                                    \
		options.source = "stream:mix";                                      \
		options.field = (value);                                            \
		(void)snprintf(says, sizeof says,                                   \
			"options.%s belongs to the named stream: leave it %s, and " \
			"change it in the daemon's configuration, which defines "   \
			"stream:mix",                                               \
			#field, unset);                                             \
		expect_refusal(&options, -EINVAL, says);                            \
	} while (0)
	REFUSED(batch_size, 16, "0");
	REFUSED(image_size, 64, "0");
	REFUSED(train, 0, "1");
	REFUSED(shuffle, 0, "-1");
	REFUSED(drop_last, 1, "-1");
	REFUSED(seed, 1, "0");
	REFUSED(prefetch, 2, "0");
	REFUSED(max_broken, 0.5, "0");
	REFUSED(on_broken, "mark", "NULL");
	REFUSED(decode, "fast", "NULL");
	REFUSED(interpolation, "box", "NULL");
	REFUSED(labels, "none", "NULL");
	REFUSED(transforms, "[]", "NULL");
	REFUSED(indices, "/i.npy", "NULL");
	REFUSED(weights, "balanced", "NULL");
	REFUSED(epoch_length, 8, "0");
	REFUSED(repeats, 2, "0");
	REFUSED(sampling, "{}", "NULL");
	REFUSED(buckets, "[[2, 1]]", "NULL");
	REFUSED(split, "[:10%]", "NULL");
	REFUSED(views, 2, "0");
	REFUSED(dtype, "float32", "NULL");
	REFUSED(layout, "NCHW", "NULL");
	REFUSED(mean, third, "NULL");
	REFUSED(std, third, "NULL");
	REFUSED(image_sizes, "{\"0\": 64}", "NULL");
#undef REFUSED
}

static void test_not_utf8(void **state)
{
	(void)state;
	static const char *const bad[] = {"/x\xff", "/\xc3", "/\xed\xa0\x80", "rel\xe4tive"};
	struct penstock_options options;
	penstock_options_init(&options);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		options.source = bad[i];
		expect_refusal(&options, -EINVAL, "is not UTF-8");
	}
	options.source = "/x\xc3\xa4\xf0\x9f\x90\x88";
	expect_text(&options, "{\"source\":\"/x\xc3\xa4\xf0\x9f\x90\x88\",\"train\":true}");
}

/* Paths within values; in /tmp. */
static void run_relative_values(void)
{
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "x";
	options.sampling = "16x4";
	expect_refusal(
		&options, -EINVAL, "options.sampling is not a mapping: expected a JSON object");
	options.sampling = NULL;
	options.buckets = "{\"256\": 192}";
	expect_refusal(&options, -EINVAL,
		"options.buckets is not a list: expected a JSON array of arrays [height, width]");
	options.buckets = "[[256, 192]] [1]";
	expect_refusal(&options, -EINVAL, "options.buckets");
	options.buckets = "[[256, 192], [192, 256]]";
	options.weights = NULL;
	expect_text(&options,
		"{\"source\":\"/tmp/x\",\"buckets\":[[256, 192], [192, 256]],\"train\":true}");
	options.buckets = NULL;
	options.weights = "./w.npy";
	options.labels =
		"{\"manifest\": \".//m \\\"1\\\".csv\", \"type\": \"float\", \"classes\" : \"c\"}";
	expect_text(&options,
		"{\"source\":\"/tmp/x\",\"weights\":\"/tmp/w.npy\",\"train\":true,\"labels\":"
		"{\"manifest\": \"/tmp/m \\\"1\\\".csv\", \"type\": \"float\", \"classes\" : "
		"\"/tmp/c\"}}");
	options.weights = "balanced";
	options.labels = "{\"json\": \"manifest.classes\", \"x\": [\"manifest\", \"a\"]}";
	expect_text(&options,
		"{\"source\":\"/tmp/x\",\"weights\":\"balanced\",\"train\":true,\"labels\":"
		"{\"json\": \"manifest.classes\", \"x\": [\"manifest\", \"a\"]}}");
	options.source = options.weights = options.labels = NULL;
	options.sources =
		"[{\"source\": \"a-{0..9}.tar\", \"weight\": 3},\n{\"weight\": 1, \"source\": "
		"\"\\/b\"}, {\"source\": \".\"}]";
	expect_text(&options, "{\"sources\":[{\"source\": \"/tmp/a-{0..9}.tar\", \"weight\": "
			      "3},\n{\"weight\": 1, "
			      "\"source\": \"\\/b\"}, {\"source\": \"/tmp\"}],\"train\":true}");
}

FAKE_TEST(relative)
{
	static const char *const cases[][2] = {
		{"train-{0..9}.tar", "/tmp/train-{0..9}.tar"},
		{"./a/*.tar", "/tmp/a/*.tar"},
		{".//a", "/tmp/a"},
		{"././a", "/tmp/a"},
		{"../b", "/tmp/../b"},
		{".hidden", "/tmp/.hidden"},
		{".", "/tmp"},
		{"./", "/tmp"},
	};
	struct penstock_options options;
	char wanted[128];
	penstock_options_init(&options);
	FAKE_WANT(chdir("/tmp") == 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		options.source = cases[i][0];
		(void)snprintf(
			wanted, sizeof wanted, "{\"source\":\"%s\",\"train\":true}", cases[i][1]);
		expect_text(&options, wanted);
	}
	run_relative_values();
	FAKE_WANT(chdir("/") == 0);
	options.source = "data";
	expect_text(&options, "{\"source\":\"/data\",\"train\":true}");
	/* A working folder that was removed. */
	char gone[] = "/tmp/penstock-gone-XXXXXX";
	FAKE_WANT(mkdtemp(gone) && chdir(gone) == 0 && rmdir(gone) == 0);
	expect_refusal(&options, -ENOENT, "working folder");
	options.source = "/data";
	options.labels = "{\"manifest\": \"a.csv\"}";
	expect_refusal(&options, -ENOENT, "paths of options.labels");
	options.labels =
		"{\"manifest\":\"/a.csv\"}"; /* absolute: the working folder is not needed */
	expect_text(&options,
		"{\"source\":\"/data\",\"train\":true,\"labels\":{\"manifest\":\"/a.csv\"}}");
}

static void test_state(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "{", "}", "null", "[]", "{}}", "{{}",
		"{\"a\":1},\"source\":{\"b\":2}", "{}, \"source\": \"/etc\"", "\"state\""};
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data";
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		options.state = bad[i];
		expect_refusal(&options, -EINVAL, "options.state");
	}
	options.state = "{}"; /* the daemon's to refuse */
	expect_text(&options, "{\"source\":\"/data\",\"train\":true,\"state\":{}}");
}

static void test_request(void **state)
{
	(void)state;
	struct jsontext json = {0};
	assert_int_equal(open_request("{\"source\":\"/a\"}", NULL, false, &json), 0);
	assert_string_equal(json.text.bytes, "{\"source\":\"/a\"}");
	jsontext_free(&json);
	assert_int_equal(open_request("{\"source\":\"/a\"}", "{\"epoch\":1}", true, &json), 0);
	assert_string_equal(
		json.text.bytes, "{\"source\":\"/a\",\"state\":{\"epoch\":1},\"reconnect\":true}");
	jsontext_free(&json);
}

static void test_options(void **state)
{
	(void)state;
	struct penstock_options mine;
	struct {
		struct penstock_options options;
		uint64_t later; /* a field of a later release */
	} newer = {0};
	assert_int_equal(open_take_options(NULL, &mine), -EINVAL);
	assert_int_equal(
		open_take_options(&newer.options, &mine), -EINVAL); /* all zero: not prepared */
	assert_non_null(strstr(penstock_error(), "penstock_options_init"));
	penstock_options_init(&newer.options);
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "options.source"));
	newer.options.source = "";
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);
	newer.options.source = "/data";
	assert_int_equal(open_take_options(&newer.options, &mine), 0);
	assert_string_equal(mine.source, "/data");
	newer.options.timeout_ms = -1;
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);
	newer.options.timeout_ms = PENSTOCK_FOREVER;
	assert_int_equal(open_take_options(&newer.options, &mine), 0);
	newer.options.reconnect_ms = -1;
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "options.reconnect_ms is -1"));
	newer.options.reconnect_ms = PENSTOCK_FOREVER;
	assert_int_equal(open_take_options(&newer.options, &mine), 0);

	/* Compiled with a later release: accepted if the options that this release does not know
	 * are unset. */
	newer.options.size = sizeof newer;
	assert_int_equal(open_take_options(&newer.options, &mine), 0);
	newer.later = 1;
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "does not know"));
	newer.options.size = SIZE_MAX;
	assert_int_equal(open_take_options(&newer.options, &mine), -EINVAL);

	/* Compiled with an earlier release: the rest has defaults. */
	newer.options.size = offsetof(struct penstock_options, private_daemon);
	newer.options.private_daemon = 0;
	assert_int_equal(open_take_options(&newer.options, &mine), 0);
	assert_int_equal(mine.private_daemon, 1);
}

/* Memory is writable for a client that asks for it and is the only reader. */
static void test_writable(void **state)
{
	(void)state;
	static const struct {
		const char *source, *group;
		uint32_t world_size;
		int32_t pin_memory;
		bool writable;
	} cases[] = {
		{"/data", NULL, 0, 0, false},
		{"/data", NULL, 0, 1, true},
		{"/data", "g", 0, 1, false},
		{"/data", "g", 2, 1, true},
		{"stream:train", NULL, 0, 1, false},
		{"stream:train", NULL, 2, 1, true},
		{"stream:train", NULL, 2, 0, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct penstock_options options;
		penstock_options_init(&options);
		options.source = cases[i].source;
		options.group = cases[i].group;
		options.world_size = cases[i].world_size;
		options.pin_memory = cases[i].pin_memory;
		assert_int_equal(open_is_writable(&options), cases[i].writable);
	}
}

/* Options of the release before groups: later ones are unset, whatever the memory after them
 * holds. */
static void test_options_before_groups(void **state)
{
	(void)state;
	struct penstock_options options, mine;
	memset(&options, 0xaa, sizeof options);
	penstock_options_init_size(&options, offsetof(struct penstock_options, share));
	options.source = "/data";
	options.interpolation = "box";
	assert_int_equal(options.world_size, 0xaaaaaaaa);
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_string_equal(mine.interpolation, "box");
	assert_null(mine.share);
	assert_null(mine.laggard);
	assert_int_equal(mine.rank, 0);
	assert_int_equal(mine.world_size, 0);
	assert_int_equal(mine.laggard_timeout_s, 0);
	assert_int_equal(mine.reconnect_ms, 0);
	expect_text(&mine, "{\"source\":\"/data\",\"train\":true,\"interpolation\":\"box\"}");
}

/* An application that was compiled with a shorter struct: nothing after it may be written. */
static void test_init_of_earlier_structs(void **state)
{
	(void)state;
	enum { FIRST = offsetof(struct penstock_options, decode) };
	struct penstock_options options, expected;
	memset(&options, 0xaa, sizeof options);
	memset(&expected, 0xaa, sizeof expected);
	(penstock_options_init)(&options);
	assert_int_equal(options.size, FIRST);
	assert_int_equal(options.shuffle, -1);
	assert_memory_equal(
		(char *)&options + FIRST, (char *)&expected + FIRST, sizeof options - FIRST);
	penstock_options_init(&options);
	assert_int_equal(options.size, sizeof options);
	assert_null(options.interpolation);
	/* Compiled with a later release: what this one does not know is unset. */
	enum { LATER = sizeof options / sizeof(uint64_t) + 2 };
	uint64_t later[LATER];
	memset(later, 0xaa, sizeof later);
	penstock_options_init_size((struct penstock_options *)(void *)later, sizeof later);
	assert_int_equal(later[0], sizeof later);
	assert_int_equal(later[LATER - 1], 0);
	assert_int_equal(later[LATER - 2], 0);
}

static void test_error(void **state)
{
	(void)state;
	char longer[3000];
	assert_int_equal(error_set(-5, "%s", "first"), -5);
	assert_string_equal(penstock_error(), "first");
	assert_int_equal(
		error_set(-5, "second, after %s", penstock_error()), -5); /* out of itself */
	assert_string_equal(penstock_error(), "second, after first");
	assert_int_equal(error_take(-7, "a\tb\nc\x1b[0m\x7f", 10), -7);
	assert_string_equal(penstock_error(), "a b c [0m ");
	memset(longer, 'x', sizeof longer);
	(void)error_take(-7, longer, sizeof longer);
	assert_int_equal(strlen(penstock_error()), ERROR_TEXT - 1);
	longer[sizeof longer - 1] = '\0';
	(void)error_set(-7, "%s", longer);
	assert_int_equal(strlen(penstock_error()), ERROR_TEXT - 1);
	assert_string_equal(penstock_version(), PENSTOCK_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_transforms),
		cmocka_unit_test(test_samples_and_pixels),
		cmocka_unit_test(test_a_rectangle),
		cmocka_unit_test(test_values_that_are_none),
		cmocka_unit_test(test_either_of_two),
		cmocka_unit_test(test_stream_name),
		cmocka_unit_test(test_stream_defined_elsewhere),
		cmocka_unit_test(test_not_utf8),
		cmocka_unit_test(test_relative),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_writable),
		cmocka_unit_test(test_options_before_groups),
		cmocka_unit_test(test_init_of_earlier_structs),
		cmocka_unit_test(test_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
