/* transforms: every operation's parameters and defaults, what a list comes to, that it is printed
 * as it is read, and that every number counts. What is refused: test_transforms_refused.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "spec_wants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A list by itself. */
static struct transforms must_read(const char *list)
{
	struct transforms transforms;
	struct fault fault = {""};
	if (transforms_parse(list, strlen(list), "list", &transforms, &fault) < 0)
		fail_msg("%s: %s", list, fault.text);
	return transforms;
}

static char *printed(const struct transforms *transforms)
{
	struct jsontext json = {0};
	transforms_json(&json, NULL, transforms);
	assert_false(json.text.failed);
	return json.text.bytes;
}

#define HEAD "[CenterCrop: {size: 64}, "
#define PRINTED_HEAD "[{\"CenterCrop\":{\"size\":64}},"

/* Defaults are torchvision's, and what is written in its many ways is printed in one. */
static void reads_every_operation(void **state)
{
	static const struct {
		const char *item, *printed;
	} cases[] = {
		{"ColorJitter", "{\"ColorJitter\":{\"brightness\":[1,1],\"contrast\":[1,1],"
				"\"saturation\":[1,1],\"hue\":[0,0]}}"},
		{"ColorJitter: {brightness: 0.5, contrast: 1.5, saturation: [0.5, 3], hue: 0.25}",
			"{\"ColorJitter\":{\"brightness\":[0.5,1.5],\"contrast\":[0,2.5],"
			"\"saturation\":[0.5,3],\"hue\":[-0.25,0.25]}}"},
		{"ColorJitter: {brightness: 0, contrast: [0, 1000], hue: [-0.5, 0.5]}",
			"{\"ColorJitter\":{\"brightness\":[1,1],\"contrast\":[0,1000],"
			"\"saturation\":[1,1],\"hue\":[-0.5,0.5]}}"},
		{"Grayscale: {num_output_channels: 3}",
			"{\"Grayscale\":{\"num_output_channels\":3}}"},
		{"RandomGrayscale", "{\"RandomGrayscale\":{\"p\":0.1}}"},
		{"RandomGrayscale: {p: 1}", "{\"RandomGrayscale\":{\"p\":1}}"},
		{"GaussianBlur: {kernel_size: 23}",
			"{\"GaussianBlur\":{\"kernel_size\":[23,23],\"sigma\":[0.1,2]}}"},
		{"GaussianBlur: {kernel_size: [3, 5], sigma: 1.5}",
			"{\"GaussianBlur\":{\"kernel_size\":[3,5],\"sigma\":[1.5,1.5]}}"},
		{"GaussianBlur: {kernel_size: 127, sigma: [0.001, 100]}",
			"{\"GaussianBlur\":{\"kernel_size\":[127,127],\"sigma\":[0.001,100]}}"},
		{"GaussianBlur: {radius: 2}", "{\"GaussianBlur\":{\"radius\":[2,2]}}"},
		{"GaussianBlur: {radius: [0.1, 2.0]}", "{\"GaussianBlur\":{\"radius\":[0.1,2]}}"},
		{"TimmAutoAugment: {config: rand-m9-mstd0.5-inc1}",
			"{\"TimmAutoAugment\":{\"config\":\"rand-m9-mstd0.5-inc1\","
			"\"interpolation\":\"random\",\"fill\":[124,116,104]}}"},
		{"TimmAutoAugment: {config: rand-n3-tweights-p0.25-mmax30-mstd101, "
		 "interpolation: bicubic, fill: 128, translate_pct: 0.3}",
			"{\"TimmAutoAugment\":{\"config\":\"rand-m10-n3-p0.25-mstd101-mmax30-"
			"tweights\","
			"\"interpolation\":\"bicubic\",\"fill\":128,\"translate_pct\":0.3}}"},
		{"TimmAutoAugment: {config: augmix-w4-d2-m5-a0.5-b1-mstd150}",
			"{\"TimmAutoAugment\":{\"config\":\"augmix-m5-mstd150-w4-d2-a0.5-b1\","
			"\"interpolation\":\"random\",\"fill\":[124,116,104]}}"},
		{"TimmAutoAugment: {config: augmix-mstd101-d0}",
			"{\"TimmAutoAugment\":{\"config\":\"augmix-m3-mstd101\","
			"\"interpolation\":\"random\",\"fill\":[124,116,104]}}"},
		{"TimmAutoAugment: {config: originalr-mstd0.5, interpolation: nearest}",
			"{\"TimmAutoAugment\":{\"config\":\"originalr-mstd0.5\","
			"\"interpolation\":\"nearest\",\"fill\":[124,116,104]}}"},
		{"TimmAutoAugment: {config: 3a, fill: 0}",
			"{\"TimmAutoAugment\":{\"config\":\"3a\","
			"\"interpolation\":\"random\",\"fill\":0}}"},
		{"GaussianBlur: {radius: [0, 100]}", "{\"GaussianBlur\":{\"radius\":[0,100]}}"},
		{"RandomSolarize: {threshold: 128}",
			"{\"RandomSolarize\":{\"threshold\":128,\"p\":0.5}}"},
		{"RandomSolarize: {threshold: 0.5, p: 0}",
			"{\"RandomSolarize\":{\"threshold\":0.5,\"p\":0}}"},
		{"RandomPosterize: {bits: 0}", "{\"RandomPosterize\":{\"bits\":0,\"p\":0.5}}"},
		{"RandomPosterize: {bits: 8, p: 1}", "{\"RandomPosterize\":{\"bits\":8,\"p\":1}}"},
		{"RandomEqualize", "{\"RandomEqualize\":{\"p\":0.5}}"},
		{"RandomAutocontrast", "{\"RandomAutocontrast\":{\"p\":0.5}}"},
		{"RandomInvert: {p: 0.25}", "{\"RandomInvert\":{\"p\":0.25}}"},
		{"RandomAdjustSharpness: {sharpness_factor: 2}",
			"{\"RandomAdjustSharpness\":{\"sharpness_factor\":2,\"p\":0.5}}"},
		{"RandomAffine: {degrees: 15}",
			"{\"RandomAffine\":{\"degrees\":[-15,15],\"translate\":[0,0],\"scale\":[1,"
			"1],\"shear\":[0,0,0,0],\"interpolation\":\"nearest\",\"fill\":0}}"},
		{"RandomAffine: {degrees: [-30, 90], translate: [0.1, 1], scale: [0.5, 2], shear: "
		 "10, interpolation: bicubic, fill: [1, 2, 255], center: [0.5, -3]}",
			"{\"RandomAffine\":{\"degrees\":[-30,90],\"translate\":[0.1,1],\"scale\":["
			"0.5,2],\"shear\":[-10,10,0,0],\"interpolation\":\"bicubic\",\"fill\":[1,2,"
			"255],\"center\":[0.5,-3]}}"},
		{"RandomAffine: {degrees: 0, shear: [-1, 2], center: [0, 0]}",
			"{\"RandomAffine\":{\"degrees\":[0,0],\"translate\":[0,0],\"scale\":[1,1],"
			"\"shear\":[-1,2,0,0],\"interpolation\":\"nearest\",\"fill\":0,\"center\":"
			"[0,0]}}"},
		{"RandomAffine: {degrees: 0, shear: [-1, 2, -89, 89], fill: 9}",
			"{\"RandomAffine\":{\"degrees\":[0,0],\"translate\":[0,0],\"scale\":[1,1],"
			"\"shear\":[-1,2,-89,89],\"interpolation\":\"nearest\",\"fill\":9}}"},
		{"RandomRotation: {degrees: 3600}",
			"{\"RandomRotation\":{\"degrees\":[-3600,3600],\"interpolation\":"
			"\"nearest\",\"expand\":false,\"fill\":0}}"},
		{"RandomRotation: {degrees: [17, 17], interpolation: bilinear, expand: false, "
		 "center: [1, 2], fill: 3}",
			"{\"RandomRotation\":{\"degrees\":[17,17],\"interpolation\":\"bilinear\","
			"\"expand\":false,\"center\":[1,2],\"fill\":3}}"},
		{"RandomPerspective", "{\"RandomPerspective\":{\"distortion_scale\":0.5,\"p\":0.5,"
				      "\"interpolation\":\"bilinear\",\"fill\":0}}"},
		{"RandomPerspective: {distortion_scale: 1, p: 1, interpolation: nearest, fill: 4}",
			"{\"RandomPerspective\":{\"distortion_scale\":1,\"p\":1,\"interpolation\":"
			"\"nearest\",\"fill\":4}}"},
		{"RandAugment", "{\"RandAugment\":{\"num_ops\":2,\"magnitude\":9,"
				"\"num_magnitude_bins\":31,\"interpolation\":\"nearest\","
				"\"fill\":0}}"},
		{"RandAugment: {num_ops: 16, magnitude: 999, num_magnitude_bins: 1000, "
		 "interpolation: bilinear, fill: 128}",
			"{\"RandAugment\":{\"num_ops\":16,\"magnitude\":999,\"num_magnitude_bins\":"
			"1000,\"interpolation\":\"bilinear\",\"fill\":128}}"},
		{"TrivialAugmentWide",
			"{\"TrivialAugmentWide\":{\"num_magnitude_bins\":31,\"interpolation\":"
			"\"nearest\",\"fill\":0}}"},
		{"TrivialAugmentWide: {num_magnitude_bins: 2, interpolation: bicubic, fill: 1}",
			"{\"TrivialAugmentWide\":{\"num_magnitude_bins\":2,\"interpolation\":"
			"\"bicubic\",\"fill\":1}}"},
		{"AutoAugment", "{\"AutoAugment\":{\"policy\":\"imagenet\",\"interpolation\":"
				"\"nearest\",\"fill\":0}}"},
		{"AutoAugment: {policy: svhn, interpolation: bilinear, fill: [9, 9, 9]}",
			"{\"AutoAugment\":{\"policy\":\"svhn\",\"interpolation\":\"bilinear\","
			"\"fill\":9}}"},
		{"AutoAugment: {policy: cifar10}",
			"{\"AutoAugment\":{\"policy\":\"cifar10\",\"interpolation\":\"nearest\","
			"\"fill\":0}}"},
		{"AugMix", "{\"AugMix\":{\"severity\":3,\"mixture_width\":3,\"chain_depth\":-1,"
			   "\"alpha\":1,\"all_ops\":true,\"interpolation\":\"bilinear\",\"fill\":"
			   "0}}"},
		{"AugMix: {severity: 10, mixture_width: 2, chain_depth: 4, alpha: 0.5, all_ops: "
		 "false, interpolation: nearest, fill: 2}",
			"{\"AugMix\":{\"severity\":10,\"mixture_width\":2,\"chain_depth\":4,"
			"\"alpha\":0.5,\"all_ops\":false,\"interpolation\":\"nearest\",\"fill\":2}"
			"}"},
		{"ThreeAugment", "{\"ThreeAugment\":{}}"},
		{"RandomErasing", "{\"RandomErasing\":{\"p\":0.5,\"scale\":[0.02,0.33],\"ratio\":["
				  "0.3,3.3],\"value\":0}}"},
		{"RandomErasing: {p: 0.1, scale: [0, 1], ratio: [0.001, 1000], value: [-1, 0.5, "
		 "2]}",
			"{\"RandomErasing\":{\"p\":0.1,\"scale\":[0,1],\"ratio\":[0.001,1000],"
			"\"value\":[-1,0.5,2]}}"},
		{"RandomErasing: {value: random}",
			"{\"RandomErasing\":{\"p\":0.5,\"scale\":[0.02,0.33],\"ratio\":[0.3,3.3],"
			"\"value\":\"random\"}}"},
		{"RandomApply: {transforms: [RandomInvert, ThreeAugment], p: 0.8}",
			"{\"RandomApply\":{\"transforms\":[{\"RandomInvert\":{\"p\":0.5}},{"
			"\"ThreeAugment\":{}}],\"p\":0.8}}"},
		{"RandomChoice: {transforms: [RandomInvert, RandomOrder: {transforms: "
		 "[RandomEqualize, RandomApply: {transforms: [ThreeAugment]}]}]}",
			"{\"RandomChoice\":{\"transforms\":[{\"RandomInvert\":{\"p\":0.5}},{"
			"\"RandomOrder\":{\"transforms\":[{\"RandomEqualize\":{\"p\":0.5}},{"
			"\"RandomApply\":{\"transforms\":[{\"ThreeAugment\":{}}],\"p\":0.5}}]}}]}"
			"}"},
		{"RandomChoice: {transforms: [RandomInvert, ThreeAugment], p: [1, 3]}",
			"{\"RandomChoice\":{\"transforms\":[{\"RandomInvert\":{\"p\":0.5}},{"
			"\"ThreeAugment\":{}}],\"p\":[1,3]}}"},
		{"RandomApply: {transforms: [RandomApply: {transforms: [RandomApply: {transforms: "
		 "[RandomApply: {transforms: [RandomPosterize: {bits: 3, p: 1}], p: 1}], p: 1}], "
		 "p: "
		 "1}], p: 1}",
			"{\"RandomApply\":{\"transforms\":[{\"RandomApply\":{\"transforms\":[{"
			"\"RandomApply\":{\"transforms\":[{\"RandomApply\":{\"transforms\":[{"
			"\"RandomPosterize\":{\"bits\":3,\"p\":1}}],\"p\":1}}],\"p\":1}}],\"p\":"
			"1}}],\"p\":1}}"},
		{"ColorJitter, RandomHorizontalFlip: {p: 0.3}",
			"{\"ColorJitter\":{\"brightness\":[1,1],\"contrast\":[1,1],\"saturation\":["
			"1,1],\"hue\":[0,0]}},{\"RandomHorizontalFlip\":{\"p\":0.3}}"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char list[1024], wanted[1024];
		(void)snprintf(list, sizeof list, HEAD "%s]", cases[i].item);
		(void)snprintf(wanted, sizeof wanted, PRINTED_HEAD "%s]", cases[i].printed);
		struct transforms read = must_read(list);
		cleanup(free_ptr) char *json = printed(&read);
		assert_string_equal(json, wanted);
		struct transforms again = must_read(json);
		cleanup(free_ptr) char *twice = printed(&again);
		assert_string_equal(json, twice);
		assert_int_equal(transforms_hash(1, &read), transforms_hash(1, &again));
	}
}

/* The first of the steps. */
static struct step step_of(const char *item)
{
	char list[512];
	struct step_recipe steps;
	(void)snprintf(list, sizeof list, HEAD "%s]", item);
	struct transforms read = must_read(list);
	transforms_steps(&read, &steps);
	assert_true(steps.count > 0);
	return steps.step[0];
}

static void steps_have_the_parameters(void **state)
{
	(void)state;
	struct step step = step_of("ColorJitter: {brightness: 0.4, hue: 0.1}");
	assert_int_equal(step.kind, STEP_COLOR_JITTER);
	assert_true(step.brightness[0] == 1 - 0.4 && step.brightness[1] == 1 + 0.4);
	assert_true(step.contrast[0] == 1 && step.contrast[1] == 1);
	assert_true(step.hue[0] == -0.1 && step.hue[1] == 0.1);
	step = step_of("RandomAffine: {degrees: 7, translate: [0.25, 0.5], shear: [1, 2]}");
	assert_int_equal(step.kind, STEP_RANDOM_AFFINE);
	assert_true(step.degrees[0] == -7 && step.degrees[1] == 7);
	assert_true(step.translate[0] == 0.25 && step.translate[1] == 0.5);
	assert_true(step.scale[0] == 1 && step.scale[1] == 1);
	assert_true(step.shear[0] == 1 && step.shear[1] == 2);
	assert_true(step.shear[2] == 0 && step.shear[3] == 0);
	assert_false(step.has_center);
	assert_int_equal(step.interpolation, WEIGHTS_NEAREST);
	step = step_of("RandomRotation: {degrees: 1, center: [3, 4], fill: [5, 6, 7]}");
	assert_true(step.has_center && step.center[0] == 3 && step.center[1] == 4);
	assert_true(step.fill[0] == 5 && step.fill[1] == 6 && step.fill[2] == 7);
	step = step_of("AugMix");
	assert_int_equal(step.chain_depth, -1);
	assert_true(step.all_ops && step.alpha == 1);
	step = step_of("RandomErasing: {value: random}");
	assert_true(step.value_random);
	step = step_of("GaussianBlur: {kernel_size: [5, 9]}");
	assert_int_equal(step.kernel_size[0], 5);
	assert_int_equal(step.kernel_size[1], 9);
	step = step_of("AutoAugment: {policy: cifar10}");
	assert_int_equal(step.policy, STEP_POLICY_CIFAR10);
	/* However they are written, chances add up to 1. */
	step = step_of("RandomChoice: {transforms: [RandomInvert, RandomEqualize], p: [3, 1]}");
	assert_true(step.chances[0] == 0.75 && step.chances[1] == 0.25);
	step = step_of("RandomChoice: {transforms: [RandomInvert, RandomEqualize]}");
	assert_true(step.chances[0] == 0.5 && step.chances[1] == 0.5);
}

/* Flips right behind the sizing are pixel_recipe's; all others are steps, and know how many of
 * their kind stand before them. */
static void what_costs_nothing_stays_in_the_head(void **state)
{
	static const struct {
		const char *behind;
		double flip, flip_vertical;
		uint32_t steps, same;
	} cases[] = {
		{"RandomHorizontalFlip", 0.5, 0, 0, 0},
		{"RandomVerticalFlip, RandomHorizontalFlip: {p: 0.1}", 0.1, 0.5, 0, 0},
		{"RandomHorizontalFlip, RandomHorizontalFlip: {p: 0.1}", 0.5, 0, 1, 1},
		{"RandomHorizontalFlip, RandomVerticalFlip, RandomHorizontalFlip", 0.5, 0.5, 1, 1},
		{"RandomInvert, RandomHorizontalFlip", 0, 0, 2, 0},
		{"RandomHorizontalFlip, RandomApply: {transforms: [RandomVerticalFlip]}", 0.5, 0, 2,
			0},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char list[256];
		struct step_recipe steps;
		(void)snprintf(list, sizeof list, HEAD "%s]", cases[i].behind);
		struct transforms read = must_read(list);
		struct pixel_recipe pixels = transforms_pixels(&read);
		transforms_steps(&read, &steps);
		assert_int_equal(pixels.kind, PIXEL_CROP);
		assert_true(pixel_size_equal(pixels.size, pixel_square(64)));
		assert_true(pixels.flip == cases[i].flip);
		assert_true(pixels.flip_vertical == cases[i].flip_vertical);
		assert_int_equal(steps.count, cases[i].steps);
		if (steps.count)
			assert_int_equal(steps.step[steps.count - 1].same, cases[i].same);
	}
	struct transforms none = {.count = 0};
	struct step_recipe steps = {.count = 7};
	transforms_steps(&none, &steps);
	assert_int_equal(steps.count, 0);
	assert_int_equal(transforms_hash(4711, &none), 4711);
}

static void steps_hold_others(void **state)
{
	struct step_recipe steps;
	struct transforms read = must_read(
		HEAD "RandomApply: {transforms: [ColorJitter, RandomChoice: {transforms: "
		     "[RandomInvert, RandomOrder: {transforms: [RandomInvert]}]}, ThreeAugment]}, "
		     "RandomInvert]");
	static const struct {
		enum step_kind kind;
		uint32_t inside, same;
	} wanted[] = {
		{STEP_RANDOM_APPLY, 6, 0},
		{STEP_COLOR_JITTER, 0, 0},
		{STEP_RANDOM_CHOICE, 3, 0},
		{STEP_RANDOM_INVERT, 0, 0},
		{STEP_RANDOM_ORDER, 1, 0},
		{STEP_RANDOM_INVERT, 0, 1},
		{STEP_THREE_AUGMENT, 0, 0},
		{STEP_RANDOM_INVERT, 0, 2},
	};
	(void)state;
	transforms_steps(&read, &steps);
	assert_int_equal(steps.count, UTIL_COUNT(wanted));
	for (size_t i = 0; i < UTIL_COUNT(wanted); i++) {
		assert_int_equal(steps.step[i].kind, wanted[i].kind);
		assert_int_equal(steps.step[i].inside, wanted[i].inside);
		assert_int_equal(steps.step[i].same, wanted[i].same);
	}
	assert_true(steps.step[2].chances[1] == 0.5);
}

static void random_crops_have_their_padding(void **state)
{
	(void)state;
	struct transforms read = must_read("[RandomCrop: {size: 32, padding: 4}]");
	struct pixel_recipe pixels = transforms_pixels(&read);
	assert_int_equal(pixels.kind, PIXEL_CROP);
	assert_true(pixels.random_window);
	assert_true(pixel_size_equal(pixels.size, pixel_square(32)));
	assert_int_equal(pixels.padding.left, 4);
	assert_int_equal(pixels.padding.bottom, 4);
	assert_int_equal(pixels.padding.mode, PIXEL_PAD_CONSTANT);
	assert_false(pixels.padding.if_needed);
	read = must_read("[Resize: {size: 40}, RandomCrop: {size: 32, padding: [1, 2, 3, 4], "
			 "pad_if_needed: true, fill: [7, 8, 9], padding_mode: symmetric}]");
	pixels = transforms_pixels(&read);
	assert_int_equal(pixels.kind, PIXEL_RESIZE);
	assert_int_equal(pixels.resize.height, 40);
	assert_int_equal(pixels.padding.left, 1);
	assert_int_equal(pixels.padding.top, 2);
	assert_int_equal(pixels.padding.right, 3);
	assert_int_equal(pixels.padding.bottom, 4);
	assert_int_equal(pixels.padding.fill[2], 9);
	assert_int_equal(pixels.padding.mode, PIXEL_PAD_SYMMETRIC);
	assert_true(pixels.padding.if_needed);
	read = must_read("[RandomCrop: {size: 32, padding: [5, 6]}]");
	pixels = transforms_pixels(&read);
	assert_int_equal(pixels.padding.right, 5);
	assert_int_equal(pixels.padding.bottom, 6);
	read = must_read("[Resize: {size: 30}, RandomCrop: {size: 32, padding: [1]}]");
	assert_int_equal(transforms_pixels(&read).padding.top, 1);
	read = must_read("[Resize: {size: 30}, CenterCrop: {size: 32}]");
	assert_false(transforms_pixels(&read).random_window);
}

/* What a list comes to: the hash that states know it by, its size and how it is told to people. */
static void transforms_mean_what_they_say(void **state)
{
	static const struct {
		const char *list;
		uint32_t size;
		const char *text;
	} cases[] = {
		{"[RandomResizedCrop: {size: 224}, RandomHorizontalFlip: {p: 0.5}]", 224,
			"RandomResizedCrop 224, RandomHorizontalFlip"},
		{"[RandomResizedCrop: {size: [176, 176], scale: [0.35, 1.0], ratio: [1, 1], "
		 "interpolation: bicubic, antialias: true}]",
			176, "RandomResizedCrop 176 scale 0.35 to 1 ratio 1 bicubic"},
		{"[Resize: {size: 232}, CenterCrop: {size: 224}, RandomVerticalFlip, "
		 "RandomHorizontalFlip: {p: 1}]",
			224,
			"Resize 232, CenterCrop 224, RandomVerticalFlip, RandomHorizontalFlip 1"},
		{"[Resize: {size: [8192, 8192], interpolation: box}, CenterCrop: {size: 4096}]",
			4096, "Resize 8192 x 8192 box, CenterCrop 4096"},
		{"[Resize: {size: [1, 1]}, RandomHorizontalFlip: ]", 1,
			"Resize 1 x 1, RandomHorizontalFlip"},
		{"[RandomCrop: {size: 32, padding: 4}, ColorJitter: {brightness: 0.25, hue: "
		 "[0.1, 0.1]}, RandomApply: {transforms: [GaussianBlur: {kernel_size: [3, 5]}, "
		 "AugMix: {all_ops: false}], p: 0.8}, RandAugment: {interpolation: bilinear}]",
			32,
			"RandomCrop 32 padding 4 x 4 x 4 x 4, ColorJitter brightness 0.75 to 1.25 "
			"hue 0.1, RandomApply 0.8 (GaussianBlur kernel_size 3 x 5, AugMix all_ops "
			"false), RandAugment bilinear"},
		{"[CenterCrop: {size: 9}, RandomRotation: {degrees: 5, fill: 7}, RandomAffine: "
		 "{degrees: 0, fill: [1, 2, 3]}, RandomErasing: {value: 3}]",
			9,
			"CenterCrop 9, RandomRotation degrees -5 to 5 fill 7, RandomAffine fill 1 "
			"x "
			"2 x 3, RandomErasing value 3"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char text[512], told[320];
		const char *what = NULL;
		(void)snprintf(text, sizeof text, "{source: x, transforms: %s}", cases[i].list);
		struct stream_spec spec = must_parse(text);
		assert_true(pixel_size_equal(spec.image_size, pixel_square(cases[i].size)));
		transforms_text(&spec.transforms, told, sizeof told);
		assert_string_equal(told, cases[i].text);
		char *json = spec_json(&spec);
		assert_non_null(json);
		struct stream_spec again = must_parse(json);
		assert_true(spec_same(&spec, &again, &what));
		char *twice = spec_json(&again);
		assert_string_equal(json, twice);
		free(twice);
		assert_int_equal(spec_transform_hash(&spec), spec_transform_hash(&again));
		free(json);
		/* A room that is too small cuts. */
		transforms_text(&spec.transforms, told, 8);
		assert_int_equal(strlen(told), 7);
	}
}

/* What `train` implies, written out: states fit, and the two may share a group. The numbers are
 * those of states that were written before there were lists. */
static void transforms_of_old_states_fit(void **state)
{
	static const struct {
		const char *plain, *list;
		uint64_t hash;
	} cases[] = {
		{"{source: x}",
			"{source: x, transforms: [RandomResizedCrop: {size: 224}, "
			"RandomHorizontalFlip]}",
			UINT64_C(0xc437b258000bcb63)},
		{"{source: x, train: false}",
			"{source: x, train: false, transforms: [Resize: {size: 256}, CenterCrop: "
			"{size: 224}]}",
			UINT64_C(0xb55e391d08944381)},
		{"{source: x, image_size: 176, interpolation: bicubic}",
			"{source: x, image_size: 176, transforms: [RandomResizedCrop: {size: 176, "
			"interpolation: bicubic}, RandomHorizontalFlip: {p: 0.5}]}",
			0},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct stream_spec plain = must_parse(cases[i].plain),
				   list = must_parse(cases[i].list);
		const char *what = NULL;
		assert_true(spec_same(&plain, &list, &what));
		assert_int_equal(spec_transform_hash(&plain), spec_transform_hash(&list));
		if (cases[i].hash)
			assert_int_equal(spec_transform_hash(&plain), cases[i].hash);
	}
}

/* What states hold must not change from release to release. */
static void states_know_their_steps(void **state)
{
	(void)state;
	struct stream_spec spec = must_parse(
		"{source: x, transforms: [RandomResizedCrop: {size: 176}, RandomHorizontalFlip, "
		"RandomApply: {transforms: [ColorJitter: {brightness: 0.4, hue: 0.1}], p: 0.8}, "
		"RandomChoice: {transforms: [RandAugment, AugMix], p: [1, 3]}, RandomAffine: "
		"{degrees: 10, center: [1, 2]}, RandomErasing]}");
	assert_int_equal(spec_transform_hash(&spec), UINT64_C(0x1287e5f5abc11199));
	spec = must_parse("{source: x, transforms: [RandomCrop: {size: 32, padding: 4, "
			  "padding_mode: reflect}]}");
	assert_int_equal(spec_transform_hash(&spec), UINT64_C(0xa8506e3560ad610a));
}

/* Every number of a list is in the hash, and keeps others from the group. */
static void transforms_differ(void **state)
{
	static const char *const lists[] = {
		"[RandomResizedCrop: {size: 224}]",
		"[RandomResizedCrop: {size: 224}, RandomHorizontalFlip]",
		"[RandomResizedCrop: {size: 224}, RandomHorizontalFlip: {p: 0.4}]",
		"[RandomResizedCrop: {size: 224}, RandomVerticalFlip]",
		"[RandomResizedCrop: {size: 224, scale: [0.1, 1]}]",
		"[RandomResizedCrop: {size: 224, scale: [0.08, 0.1]}]",
		"[RandomResizedCrop: {size: 224, ratio: [0.1, 1.3333333333333333]}]",
		"[RandomResizedCrop: {size: 224, ratio: [0.75, 1]}]",
		"[Resize: {size: 256}, CenterCrop: {size: 224}]",
		"[Resize: {size: 232}, CenterCrop: {size: 224}]",
		"[Resize: {size: [256, 256]}, CenterCrop: {size: 224}]",
		"[Resize: {size: [224, 224]}]",
		HEAD "ColorJitter]",
		HEAD "ColorJitter: {brightness: 0.5}]",
		HEAD "ColorJitter: {brightness: [0.5, 1]}]",
		HEAD "ColorJitter: {contrast: 0.5}]",
		HEAD "ColorJitter: {saturation: 0.5}]",
		HEAD "ColorJitter: {hue: 0.5}]",
		HEAD "Grayscale: {num_output_channels: 3}]",
		HEAD "RandomGrayscale]",
		HEAD "RandomGrayscale: {p: 0.5}]",
		HEAD "GaussianBlur: {kernel_size: 3}]",
		HEAD "GaussianBlur: {kernel_size: [3, 5]}]",
		HEAD "GaussianBlur: {kernel_size: [5, 3]}]",
		HEAD "GaussianBlur: {kernel_size: 3, sigma: 0.1}]",
		HEAD "GaussianBlur: {kernel_size: 3, sigma: 2}]",
		HEAD "GaussianBlur: {radius: 2}]",
		HEAD "GaussianBlur: {radius: [0.1, 2]}]",
		HEAD "TimmAutoAugment: {config: rand}]",
		HEAD "TimmAutoAugment: {config: rand-m9}]",
		HEAD "TimmAutoAugment: {config: rand-n3}]",
		HEAD "TimmAutoAugment: {config: rand-p0.6}]",
		HEAD "TimmAutoAugment: {config: rand-mstd0.5}]",
		HEAD "TimmAutoAugment: {config: rand-mstd101}]",
		HEAD "TimmAutoAugment: {config: rand-mmax9}]",
		HEAD "TimmAutoAugment: {config: rand-inc1}]",
		HEAD "TimmAutoAugment: {config: rand-t3a}]",
		HEAD "TimmAutoAugment: {config: augmix}]",
		HEAD "TimmAutoAugment: {config: augmix-d1}]",
		HEAD "TimmAutoAugment: {config: augmix-b1}]",
		HEAD "TimmAutoAugment: {config: v0}]",
		HEAD "TimmAutoAugment: {config: v0r}]",
		HEAD "TimmAutoAugment: {config: rand, interpolation: bicubic}]",
		HEAD "TimmAutoAugment: {config: rand, fill: 9}]",
		HEAD "TimmAutoAugment: {config: rand, translate_pct: 0.45}]",
		HEAD "RandomSolarize: {threshold: 128}]",
		HEAD "RandomSolarize: {threshold: 127}]",
		HEAD "RandomSolarize: {threshold: 128, p: 1}]",
		HEAD "RandomPosterize: {bits: 4}]",
		HEAD "RandomPosterize: {bits: 3}]",
		HEAD "RandomPosterize: {bits: 4, p: 1}]",
		HEAD "RandomEqualize]",
		HEAD "RandomEqualize: {p: 1}]",
		HEAD "RandomAutocontrast]",
		HEAD "RandomInvert]",
		HEAD "RandomAdjustSharpness: {sharpness_factor: 2}]",
		HEAD "RandomAdjustSharpness: {sharpness_factor: 3}]",
		HEAD "RandomAdjustSharpness: {sharpness_factor: 2, p: 1}]",
		HEAD "RandomAffine: {degrees: 1}]",
		HEAD "RandomAffine: {degrees: [-1, 2]}]",
		HEAD "RandomAffine: {degrees: 1, translate: [0.1, 0]}]",
		HEAD "RandomAffine: {degrees: 1, translate: [0, 0.1]}]",
		HEAD "RandomAffine: {degrees: 1, scale: [1, 2]}]",
		HEAD "RandomAffine: {degrees: 1, scale: [0.5, 1]}]",
		HEAD "RandomAffine: {degrees: 1, shear: 1}]",
		HEAD "RandomAffine: {degrees: 1, shear: [-1, 1, 0, 1]}]",
		HEAD "RandomAffine: {degrees: 1, interpolation: bilinear}]",
		HEAD "RandomAffine: {degrees: 1, fill: 1}]",
		HEAD "RandomAffine: {degrees: 1, fill: [0, 0, 1]}]",
		HEAD "RandomAffine: {degrees: 1, center: [0, 0]}]",
		HEAD "RandomAffine: {degrees: 1, center: [0, 1]}]",
		HEAD "RandomRotation: {degrees: 1}]",
		HEAD "RandomRotation: {degrees: 2}]",
		HEAD "RandomRotation: {degrees: 1, interpolation: bicubic}]",
		HEAD "RandomRotation: {degrees: 1, center: [1, 0]}]",
		HEAD "RandomRotation: {degrees: 1, fill: 1}]",
		HEAD "RandomPerspective]",
		HEAD "RandomPerspective: {distortion_scale: 0.6}]",
		HEAD "RandomPerspective: {p: 0.6}]",
		HEAD "RandomPerspective: {interpolation: nearest}]",
		HEAD "RandomPerspective: {fill: 1}]",
		HEAD "RandAugment]",
		HEAD "RandAugment: {num_ops: 3}]",
		HEAD "RandAugment: {magnitude: 8}]",
		HEAD "RandAugment: {num_magnitude_bins: 30}]",
		HEAD "RandAugment: {interpolation: bilinear}]",
		HEAD "RandAugment: {fill: 1}]",
		HEAD "TrivialAugmentWide]",
		HEAD "TrivialAugmentWide: {num_magnitude_bins: 30}]",
		HEAD "TrivialAugmentWide: {interpolation: bilinear}]",
		HEAD "TrivialAugmentWide: {fill: 1}]",
		HEAD "AutoAugment]",
		HEAD "AutoAugment: {policy: cifar10}]",
		HEAD "AutoAugment: {policy: svhn}]",
		HEAD "AutoAugment: {interpolation: bilinear}]",
		HEAD "AutoAugment: {fill: 1}]",
		HEAD "AugMix]",
		HEAD "AugMix: {severity: 4}]",
		HEAD "AugMix: {mixture_width: 4}]",
		HEAD "AugMix: {chain_depth: 1}]",
		HEAD "AugMix: {alpha: 2}]",
		HEAD "AugMix: {all_ops: false}]",
		HEAD "AugMix: {interpolation: nearest}]",
		HEAD "AugMix: {fill: 1}]",
		HEAD "ThreeAugment]",
		HEAD "RandomErasing]",
		HEAD "RandomErasing: {p: 1}]",
		HEAD "RandomErasing: {scale: [0.02, 0.3]}]",
		HEAD "RandomErasing: {scale: [0.01, 0.33]}]",
		HEAD "RandomErasing: {ratio: [0.3, 3]}]",
		HEAD "RandomErasing: {ratio: [0.4, 3.3]}]",
		HEAD "RandomErasing: {value: 1}]",
		HEAD "RandomErasing: {value: [0, 0, 1]}]",
		HEAD "RandomApply: {transforms: [RandomInvert]}]",
		HEAD "RandomApply: {transforms: [RandomInvert], p: 1}]",
		HEAD "RandomApply: {transforms: [RandomInvert: {p: 1}]}]",
		HEAD "RandomApply: {transforms: [RandomInvert, RandomEqualize]}]",
		HEAD "RandomApply: {transforms: [RandomInvert]}, RandomEqualize]",
		HEAD "RandomApply: {transforms: [RandomEqualize, RandomInvert]}]",
		HEAD "RandomChoice: {transforms: [RandomInvert, RandomEqualize]}]",
		HEAD "RandomChoice: {transforms: [RandomInvert, RandomEqualize], p: [1, 2]}]",
		HEAD "RandomChoice: {transforms: [RandomInvert, RandomEqualize], p: [2, 1]}]",
		HEAD "RandomOrder: {transforms: [RandomInvert, RandomEqualize]}]",
		HEAD "RandomInvert, RandomEqualize]",
		HEAD "RandomEqualize, RandomInvert]",
		HEAD "RandomInvert, RandomHorizontalFlip]",
		HEAD "RandomHorizontalFlip, RandomInvert]",
		HEAD "RandomVerticalFlip, RandomInvert]",
		HEAD "RandomInvert, RandomVerticalFlip]",
		HEAD "RandomHorizontalFlip, RandomHorizontalFlip]",
		"[CenterCrop: {size: 64}]",
		"[RandomCrop: {size: 64}]",
		"[RandomCrop: {size: 64, padding: 1}]",
		"[RandomCrop: {size: 64, padding: [0, 0, 0, 1]}]",
		"[RandomCrop: {size: 64, padding: [0, 0, 1, 0]}]",
		"[RandomCrop: {size: 64, padding: [0, 1, 0, 0]}]",
		"[RandomCrop: {size: 64, padding: [1, 0, 0, 0]}]",
		"[RandomCrop: {size: 64, pad_if_needed: true}]",
		"[RandomCrop: {size: 64, fill: 1}]",
		"[RandomCrop: {size: 64, fill: [0, 0, 1]}]",
		"[RandomCrop: {size: 64, fill: [0, 1, 0]}]",
		"[RandomCrop: {size: 64, padding_mode: edge}]",
		"[RandomCrop: {size: 64, padding_mode: reflect}]",
		"[RandomCrop: {size: 64, padding_mode: symmetric}]",
		"[Resize: {size: 64}, RandomCrop: {size: 64}]",
		"[Resize: {size: 64}, CenterCrop: {size: 64}]",
	};
	(void)state;
	struct stream_spec *specs = calloc(UTIL_COUNT(lists), sizeof *specs);
	assert_non_null(specs);
	for (size_t i = 0; i < UTIL_COUNT(lists); i++) {
		char text[512];
		(void)snprintf(text, sizeof text, "{source: x, transforms: %s}", lists[i]);
		specs[i] = must_parse(text);
		specs[i].image_size = pixel_square(0); /* compared by itself, and before */
		for (size_t k = 0; k < i; k++) {
			const char *what = NULL;
			if (spec_transform_hash(&specs[i]) == spec_transform_hash(&specs[k]))
				fail_msg("%s and %s", lists[i], lists[k]);
			assert_false(spec_same(&specs[i], &specs[k], &what));
			assert_string_equal(what, "transforms");
		}
	}
	free(specs);
	/* Not in how it is written. */
	struct transforms one = must_read(HEAD "RandomChoice: {transforms: [RandomInvert, "
					       "RandomEqualize], p: [0.5, 0.5]}, RandomRotation: "
					       "{degrees: 1, fill: [1, 1, 1]}]"),
			  other = must_read(HEAD "RandomChoice: {transforms: [RandomInvert, "
						 "RandomEqualize]}, RandomRotation: {degrees: [-1, "
						 "1], fill: 1}]");
	assert_int_equal(transforms_hash(1, &one), transforms_hash(1, &other));
}

/* As many as there can be, and one more. */
static void bounds_how_many(void **state)
{
	char list[8192], sentence[512];
	struct transforms ret;
	struct fault fault;
	size_t at = (size_t)snprintf(list, sizeof list, "[CenterCrop: {size: 3}");
	(void)state;
	for (int i = 0; i < STEP_SAME_MAX; i++)
		at += (size_t)snprintf(
			list + at, sizeof list - at, ", RandomInvert, RandomEqualize");
	(void)snprintf(list + at, sizeof list - at, "]");
	struct transforms full = must_read(list);
	assert_int_equal(full.count, STEP_MAX + 1);
	(void)snprintf(list + at, sizeof list - at, ", ThreeAugment]");
	assert_int_equal(transforms_parse(list, strlen(list), "list", &ret, &fault), -EINVAL);
	(void)snprintf(sentence, sizeof sentence,
		"list:1:%zu: transforms: expected at most 32 operations after the one that sizes "
		"images, those within others included",
		at + 3);
	assert_string_equal(fault.text, sentence);
	at = (size_t)snprintf(list, sizeof list, "[CenterCrop: {size: 3}");
	for (int i = 0; i < STEP_SAME_MAX; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, ", RandomInvert");
	(void)snprintf(list + at, sizeof list - at, ", RandomInvert]");
	assert_int_equal(transforms_parse(list, strlen(list), "list", &ret, &fault), -EINVAL);
	(void)snprintf(sentence, sizeof sentence,
		"list:1:%zu: transforms: expected at most 16 times RandomInvert", at + 3);
	assert_string_equal(fault.text, sentence);
	at = (size_t)snprintf(list, sizeof list,
		HEAD "RandomChoice: {transforms: [Grayscale: "
		     "{num_output_channels: 3}");
	for (int i = 0; i < STEP_SAME_MAX; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, ", RandomInvert");
	(void)snprintf(list + at, sizeof list - at, "]}]");
	assert_int_equal(transforms_parse(list, strlen(list), "list", &ret, &fault), -EINVAL);
	assert_string_equal(fault.text, "list:1:53: RandomChoice: transforms: expected at most 16 "
					"to choose from; got 17");
	static const char much[] = HEAD "RandAugment: {num_ops: 16}, RandAugment: {num_ops: 16}, "
					"RandAugment: {num_ops: 16}, RandAugment: {num_ops: 16}, "
					"RandomInvert]";
	assert_int_equal(transforms_parse(much, strlen(much), "list", &ret, &fault), -EINVAL);
	assert_string_equal(fault.text,
		"list:1:1: transforms: expected a list that comes to at most 64 changes of one "
		"image; it may come to 65 (RandAugment counts for num_ops, AugMix for "
		"mixture_width times chain_depth)");
}

/* Lists of which every operation is a step, and their sizes; read again from what is written. */
static void any_order(void **state)
{
	static const struct {
		const char *list;
		struct pixel_size size;
		bool whole;
	} cases[] = {
		{"[RandomHorizontalFlip, CenterCrop: {size: [8, 9]}]", {8, 9}, true},
		{"[CenterCrop: {size: [8, 9]}, RandomHorizontalFlip]", {8, 9}, false},
		{"[Resize: {size: 9}, RandomCrop: {size: 9}]", {9, 9}, false},
		{"[Resize: {size: 9, max_size: 20}, RandomCrop: {size: 9, pad_if_needed: true}]",
			{9, 9}, true},
		{"[Resize: {max_size: 20}, RandomCropOrPad: {size: 9, fill: 3}]", {9, 9}, true},
		{"[CenterCrop: {size: [8, 9]}, Pad: {padding: [1, 2, 3, 4]}]", {14, 13}, true},
		{"[CenterCrop: {size: [8, 16]}, Resize: {size: 4}]", {4, 8}, true},
		{"[CenterCrop: {size: [8, 16]}, Resize: {size: 4, max_size: 6}]", {3, 6}, true},
		{"[CenterCrop: {size: 8}, ResizeKeepRatio: {size: [6, 4], longest: 1}]", {4, 4},
			true},
		{"[RandomResize: {min_size: 8, max_size: 20, interpolation: box}, ScaleJitter: "
		 "{target_size: [9, 8]}, RandomZoomOut: {side_range: [1, 2], p: 0.25}, "
		 "RandomShortestSize: {min_size: [5, 6], max_size: 30}, ResizeKeepRatio: {size: "
		 "[5, 6], random_scale_prob: 0.5, random_scale_area: true}, CenterCropOrPad: "
		 "{size: [7, 6], padding_mode: edge}]",
			{7, 6}, true},
		{"[RandomChoice: {transforms: [CenterCrop: {size: 8}, Resize: {size: [8, 8]}]}]",
			{8, 8}, true},
		{"[RandomApply: {transforms: [RandomRotation: {degrees: 9, expand: true}]}, "
		 "RandomResizedCrop: {size: 8}]",
			{8, 8}, true},
		{"[RandomOrder: {transforms: [CenterCrop: {size: 8}, Resize: {size: [8, 8]}]}]",
			{8, 8}, true},
		{"[CenterCrop: {size: 8}, RandomApply: {transforms: [CenterCrop: {size: 8}]}]",
			{8, 8}, true},
		{"[RandomApply: {transforms: [CenterCrop: {size: 8}], p: 1}]", {8, 8}, true},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct transforms read, again;
		struct fault fault = {""};
		struct jsontext json = {0};
		if (transforms_parse(cases[i].list, strlen(cases[i].list), "list", &read, &fault))
			fail_msg("%s: %s", cases[i].list, fault.text);
		const struct pixel_recipe recipe = transforms_pixels(&read);
		assert_int_equal(transforms_whole(&read), cases[i].whole);
		assert_int_equal(recipe.kind == PIXEL_WHOLE, cases[i].whole);
		assert_true(pixel_size_equal(recipe.size, cases[i].size));
		jsontext_object(&json, NULL);
		transforms_json(&json, "transforms", &read);
		jsontext_end(&json);
		const char *list = strchr(json.text.bytes, '[');
		assert_int_equal(
			transforms_parse(list, strlen(list) - 1, "list", &again, &fault), 0);
		assert_int_equal(transforms_hash(1, &read), transforms_hash(1, &again));
		jsontext_free(&json);
	}
}

/* The longest list that there is fits where its text is kept. */
static void its_text_fits(void **state)
{
	static const char affine[] =
		", RandomAffine: {degrees: [-3333.3333333333335, 3333.3333333333335], translate: "
		"[0.12345678901234567, 0.12345678901234567], scale: [100.12345678901234, "
		"100.12345678901235], shear: [-77.777777777777771, -77.777777777777771, "
		"-77.777777777777771, -77.777777777777771], interpolation: bilinear, fill: [222, "
		"222, 223], center: [-55555.555555555555, -55555.555555555555]}";
	static const char choice[] =
		", RandomChoice: {transforms: [RandomEqualize: {p: 0.12345678901234567}], p: "
		"[123456.78901234567]}";
	static char list[65536];
	size_t at = (size_t)snprintf(list, sizeof list,
		"[Resize: {size: [4096, 4096], interpolation: bilinear, antialias: true}, "
		"RandomCrop: {size: [4096, 4096], padding: [4096, 4096, 4096, 4096], "
		"pad_if_needed: false, fill: [222, 222, 223], padding_mode: symmetric}, "
		"RandomVerticalFlip: {p: 0.12345678901234567}, RandomHorizontalFlip: {p: "
		"0.12345678901234567}");
	(void)state;
	for (int i = 0; i < STEP_SAME_MAX; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s", affine);
	for (int i = 0; i < STEP_SAME_MAX / 2; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s", choice);
	(void)snprintf(list + at, sizeof list - at, "]");
	struct transforms read = must_read(list);
	assert_int_equal(read.count, TRANSFORMS_MAX);
	cleanup(free_ptr) char *json = printed(&read);
	struct transforms again = must_read(json);
	assert_int_equal(transforms_hash(1, &read), transforms_hash(1, &again));
	assert_in_range(strlen(json), TRANSFORMS_JSON_MAX / 4, TRANSFORMS_JSON_MAX - 1);
}

static void erasing_is_in_units_of_the_row(void **state)
{
	static const struct {
		const char *dtype, *value;
		bool byte;
	} cases[] = {
		{"float16", "random", false},
		{"float32", "[-0.5, 1000, 0.25]", false},
		{"bfloat16", "255", true},
		{"uint8", "255", true},
		{"uint8", "[0, 128, 3]", true},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char text[256];
		(void)snprintf(text, sizeof text,
			"{source: x, dtype: %s, transforms: [CenterCrop: {size: 3}, RandomErasing: "
			"{value: %s}]}",
			cases[i].dtype, cases[i].value);
		struct stream_spec spec = must_parse(text);
		assert_int_equal(!transforms_byte_fault(&spec.transforms), cases[i].byte);
	}
	struct transforms plain = must_read("[CenterCrop: {size: 3}, RandomInvert]"),
			  none = {.count = 0};
	assert_null(transforms_byte_fault(&plain));
	assert_null(transforms_byte_fault(&none));
}

static void steps_bound_the_sizes_of_epochs(void **state)
{
	(void)state;
	struct stream_spec spec = must_parse(
		"{source: x, image_size: {0: 12, 3: 32}, transforms: "
		"[RandomResizedCrop: {size: 32}, GaussianBlur: {kernel_size: [3, 23]}]}");
	assert_int_equal(transforms_least_size(&spec.transforms).height, 12);
	assert_int_equal(transforms_least_size(&spec.transforms).width, 2);
	must_refuse("{source: x, image_size: {0: 11, 3: 32}, transforms: [RandomResizedCrop: "
		    "{size: 32}, RandomApply: {transforms: [GaussianBlur: {kernel_size: 23}]}]}",
		"open request:1:25: image_size: expected at least 12 in all epochs, which "
		"GaussianBlur's kernel_size needs; got 11");
	must_refuse("{source: x, image_size: {0: 16, 3: 32}, transforms: [Resize: {size: [32, "
		    "32]}, RandomCrop: {size: 32}]}",
		"open request:1:25: image_size: the sizes of epochs can replace the size of "
		"RandomResizedCrop or of Resize: {size: [H, W]}, but not of a crop, which would "
		"then "
		"show another part of the image; write one size, or another list");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transforms_mean_what_they_say),
		cmocka_unit_test(transforms_of_old_states_fit),
		cmocka_unit_test(states_know_their_steps),
		cmocka_unit_test(transforms_differ),
		cmocka_unit_test(reads_every_operation),
		cmocka_unit_test(steps_have_the_parameters),
		cmocka_unit_test(what_costs_nothing_stays_in_the_head),
		cmocka_unit_test(steps_hold_others),
		cmocka_unit_test(random_crops_have_their_padding),
		cmocka_unit_test(bounds_how_many),
		cmocka_unit_test(its_text_fits),
		cmocka_unit_test(any_order),
		cmocka_unit_test(erasing_is_in_units_of_the_row),
		cmocka_unit_test(steps_bound_the_sizes_of_epochs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
