/* spec_differ: what tells the streams of one dataset apart. */
#include "definition/spec_differ.h"

#include "proto/utf8.h"
#include "spec_wants.h"

enum { ROOM = 400 };

/* The definitions are those of one dataset; `says` is what tells the first from the second. */
static void differ(const char *one, const char *two, const char *says)
{
	struct stream_spec a = must_parse(one), b = must_parse(two);
	char text[ROOM];
	uint64_t keys = spec_differ(&a, &b);
	assert_true(keys == spec_differ(&b, &a));
	assert_string_equal(spec_differ_text(&a, keys, text, sizeof text), says);
}

static void test_what_differs(void **state)
{
	static const char plain[] = "{source: /d}";
	differ(plain, plain, "");
	differ("{source: /d, seed: 3}", plain, "seed 3");
	differ(plain, "{source: /d, seed: 3}", "seed 0");
	differ("{source: /d, train: false}", plain, "eval");
	differ(plain, "{source: /d, train: false}", "train");
	differ("{source: /d, train: false, image_size: 96, batch_size: 8}", plain,
		"eval, 96 px, batch 8");
	differ("{source: /d, image_size: {0: 64, 3: 96}}", plain, "64 to 96 px");
	differ("{source: /d, image_size: [256, 128]}", plain, "256 x 128 px");
	differ("{source: /d, split: \"train[:90%]\"}", plain, "split train[:90%]");
	differ(plain, "{source: /d, split: \"train[:90%]\"}", "no split");
	differ("{source: /d, indices: /lists/some.npy}", plain, "indices some.npy");
	differ("{source: /d, weights: balanced}", plain, "weights balanced");
	differ("{source: /d, shuffle: false, train: false}",
		"{source: /d, shuffle: true, train: false}", "in order");
	differ("{source: /d, dtype: float32, views: 2}", plain, "views 2, dtype float32");
	differ("{source: /d, dtype: float32, mean: [0.5, 0.5, 0.5]}",
		"{source: /d, dtype: float32}", "mean [0.5,0.5,0.5]");
	differ("{source: /d, labels: none}", plain, "labels \"none\"");
	differ("{source: /d, max_broken: 0.5, drop_last: false}", plain,
		"no drop_last, max_broken 0.5");
	differ("{source: /d, transforms: [RandomResizedCrop: {size: 96}, RandAugment]}", plain,
		"96 px, RandomResizedCrop 96, RandAugment");
	differ(plain, "{source: /d, transforms: [RandomResizedCrop: {size: 96}]}",
		"224 px, default transforms");
}

/* Where one trains and the other evaluates, only what this does not imply is written. */
static void test_what_training_implies(void **state)
{
	differ("{source: /d, train: false, shuffle: true}", "{source: /d}", "eval");
	differ("{source: /d, train: false, drop_last: true, on_broken: fail}", "{source: /d}",
		"eval, on_broken fail");
	differ("{source: /d, train: false, transforms: [Resize: {size: 80}, CenterCrop: {size: "
	       "64}]}",
		"{source: /d}", "eval, 64 px, Resize 80, CenterCrop 64");
}

/* What is not a part of the batches does not count. */
static void test_what_does_not_count(void **state)
{
	differ("{source: /d, epochs: 3, group: g, wait_for: 2, laggard: detach}", "{source: /d}",
		"");
	differ("{source: /d, share: split, group: g, rank: 1, world_size: 2}",
		"{source: /d, share: split, group: g, rank: 0, world_size: 2}", "");
	differ("{source: /d}", "{source: /other}", "");
}

/* However little room there is, the text ends in it, between two characters. */
static void test_little_room(void **state)
{
	struct stream_spec a = must_parse("{source: /d, salt: \"größe\", seed: 4, train: false}"),
			   b = must_parse("{source: /d}");
	char text[64];
	for (size_t room = 2; room < sizeof text; room++) {
		memset(text, 'x', sizeof text);
		(void)spec_differ_text(&a, spec_differ(&a, &b), text, room);
		assert_true(strlen(text) < room);
		assert_int_equal(text[room], 'x');
		assert_true(utf8_is_valid(text));
	}
	assert_string_equal(text, "eval, seed 4, salt größe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_differs),
		cmocka_unit_test(test_what_training_implies),
		cmocka_unit_test(test_what_does_not_count),
		cmocka_unit_test(test_little_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
