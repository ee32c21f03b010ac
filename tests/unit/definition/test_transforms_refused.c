/* transforms: what is wrong with lists that are refused, and where; test_transforms.c has those
 * that are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "spec_wants.h"

#include <stdio.h>
#include <string.h>

#define HEAD "[CenterCrop: {size: 64}, "

#define LISTED "; penstock.yaml(5), TRANSFORMS, lists them"

static void refuses_transforms(void **state)
{
	static const struct {
		const char *list, *sentence;
	} cases[] = {
		{"x", "2:13: transforms: expected a list of operations, such as "
		      "[RandomResizedCrop: {size: 224}, RandomHorizontalFlip]"},
		{"[]", "2:13: transforms: expected a list of operations, such as "
		       "[RandomResizedCrop: {size: 224}, RandomHorizontalFlip]"},
		{"{RandomHorizontalFlip: {p: 1}}",
			"2:13: transforms: expected a list of operations, such as "
			"[RandomResizedCrop: {size: 224}, RandomHorizontalFlip]"},
		{"[FiveCrop]", "2:14: transforms: there is no operation \"FiveCrop\"" LISTED},
		{"[CenterCrop: {size: 3}, Normalize: {mean: [0.5, 0.5, 0.5]}]",
			"2:37: transforms: Normalize is not one of the daemon's operations: leave "
			"it "
			"out; trainers convert and normalize, or the stream does with dtype: "
			"float32, mean and std"},
		{"[CenterCrop: {size: 3}, MixUp: {alpha: 0.2}]",
			"2:37: transforms: MixUp is not one of the daemon's operations: leave it "
			"out; "
			"whole batches are mixed by trainers: mixup and cutmix of the Python "
			"loader, penstock_mix in C"},
		{"[[FiveCrop]: 3]", "2:14: transforms: there is no operation \"\"" LISTED},
		{"[CenterCrop: {size: 3}, ColourJitter]",
			"2:37: transforms: there is no operation \"ColourJitter\"; did you mean "
			"\"ColorJitter\"?"},
		{"[randomresizedcrop]", "2:14: transforms: there is no operation "
					"\"randomresizedcrop\"; did you mean "
					"\"RandomResizedCrop\"?"},
		{"[CenterCrop: {size: 3}, colorjitter: {hue: 3}]",
			"2:37: transforms: there is no operation \"colorjitter\"; did you mean "
			"\"ColorJitter\"?"},
		{"[[3]]", "2:14: transforms: expected one operation, such as RandomHorizontalFlip "
			  "or CenterCrop: {size: 224}"},
		{"[{a: 1, b: 2}]", "2:14: transforms: expected one operation, such as "
				   "RandomHorizontalFlip or CenterCrop: {size: 224}"},
		{"[RandomResizedCrop]", "2:14: RandomResizedCrop: size is missing; expected a "
					"number of pixels, as in RandomResizedCrop: {size: 224}"},
		{"[RandomResizedCrop: 224]", "2:33: RandomResizedCrop: expected its parameters by "
					     "name, as in RandomResizedCrop: {size: 224}"},
		{"[Resize: [9, 9]]", "2:22: Resize: expected its parameters by name, as in Resize: "
				     "{size: 224}; got a list"},
		{"[RandomResizedCrop: {size: 0}]", "2:40: RandomResizedCrop: size: expected a "
						   "whole number from 1 to 4096, got \"0\""},
		{"[RandomResizedCrop: {size: 4097}]", "2:40: RandomResizedCrop: size: expected a "
						      "whole number from 1 to 4096, got \"4097\""},
		{"[RandomResizedCrop: {size: [2, 0]}]",
			"2:44: RandomResizedCrop: size: expected a whole number from 1 to 4096, "
			"got \"0\""},
		{"[RandomResizedCrop: {size: [2]}]",
			"2:40: RandomResizedCrop: size: expected a whole number from 1 to 4096, or "
			"a list of two, [height, width]; got a list of 1"},
		{"[RandomResizedCrop: {size: [2, -3]}]",
			"2:44: RandomResizedCrop: size: expected a whole number from 1 to 4096, "
			"got \"-3\""},
		{"[RandomResizedCrop: {size: 3, scale: 0.5}]",
			"2:50: RandomResizedCrop: scale: expected a list of two numbers from 0 to "
			"1, [least, most]"},
		{"[RandomResizedCrop: {size: 3, scale: [0.5]}]",
			"2:50: RandomResizedCrop: scale: expected a list of two numbers from 0 to "
			"1, [least, most]"},
		{"[RandomResizedCrop: {size: 3, scale: [0.5, 2]}]",
			"2:56: RandomResizedCrop: scale: expected a number from 0 to 1, got \"2\""},
		{"[RandomResizedCrop: {size: 3, scale: [0.5, 0.3]}]",
			"2:50: RandomResizedCrop: scale: expected [least, most], the most above 0 "
			"and not below the least; got [0.5, 0.3]"},
		{"[RandomResizedCrop: {size: 3, scale: [0, 0]}]",
			"2:50: RandomResizedCrop: scale: expected [least, most], the most above 0 "
			"and not below the least; got [0, 0]"},
		{"[RandomResizedCrop: {size: 3, ratio: [0, 1]}]",
			"2:51: RandomResizedCrop: ratio: expected a number from 0.01 to 100, got "
			"\"0\""},
		{"[RandomResizedCrop: {size: 3, ratio: [0.5, wide]}]",
			"2:56: RandomResizedCrop: ratio: expected a number from 0.01 to 100, got "
			"\"wide\""},
		{"[RandomResizedCrop: {size: 3, p: 3}]",
			"2:43: RandomResizedCrop: unknown key \"p\"; expected one of size, scale, "
			"ratio, interpolation, antialias"},
		{"[RandomResizedCrop: {size: 3, interpolation: cubic}]",
			"2:58: RandomResizedCrop: interpolation: expected bilinear, bicubic, box, "
			"hamming, lanczos, nearest or random, got \"cubic\""},
		{"[RandomResizedCrop: {size: 3, antialias: false}]",
			"2:54: RandomResizedCrop: antialias: expected true: images are always "
			"resized with antialiasing, as torchvision does with PIL images "
			"(interpolation: nearest has none)"},
		{"[RandomResizedCrop: {size: 3, size: 3}]",
			"2:43: RandomResizedCrop: size appears twice, first in line 2, column 34; "
			"keep one of them"},
		{"[RandomResizedCrop: {size: 3}, RandomHorizontalFlip: {p: 1.5}]",
			"2:70: RandomHorizontalFlip: p: expected a number from 0 to 1, got "
			"\"1.5\""},
		{"[ColorJitter]", "2:13: transforms: no operation gives all images one size; "
				  "expected RandomResizedCrop, CenterCrop, RandomCrop or Resize: "
				  "{size: [HEIGHT, WIDTH]} in the list"},
		{"[RandomHorizontalFlip, Pad: {padding: 4}]",
			"2:13: transforms: no operation gives all images one size; expected "
			"RandomResizedCrop, CenterCrop, RandomCrop or Resize: {size: [HEIGHT, "
			"WIDTH]} in the list"},
		{"[RandomErasing]", "2:13: transforms: no operation gives all images one size; "
				    "expected RandomResizedCrop, CenterCrop, RandomCrop or Resize: "
				    "{size: [HEIGHT, WIDTH]} in the list"},
		{"[CenterCrop: {size: 30}, RandomRotation: {degrees: 3, expand: true}]",
			"2:38: transforms: RandomRotation: images would differ in size, since it "
			"leaves their size open; expected CenterCrop, CenterCropOrPad or Resize: "
			"{size: [HEIGHT, WIDTH]} after it"},
		{"[CenterCrop: {size: 30}, RandomRotation: {degrees: [90, 90], expand: true}]",
			"2:38: transforms: RandomRotation: images would differ in size, since it "
			"counts as leaving their size open, even with a single value to draw; "
			"expected CenterCrop, CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} "
			"after it"},
		{"[CenterCrop: {size: [8, 9]}, RandomResize: {min_size: 3, max_size: 4}]",
			"2:42: transforms: RandomResize: images would differ in size, since it "
			"counts as "
			"leaving their size open, even with a single value to draw; expected "
			"CenterCrop, CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[CenterCrop: {size: 9}, ScaleJitter: {target_size: [9, 9], scale_range: [1, 1]}]",
			"2:37: transforms: ScaleJitter: images would differ in size, since it "
			"counts as "
			"leaving their size open, even with a single value to draw; expected "
			"CenterCrop, CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[CenterCrop: {size: 9}, RandomZoomOut: {side_range: [2, 2]}]",
			"2:37: transforms: RandomZoomOut: images would differ in size, since it "
			"counts as "
			"leaving their size open, even with a single value to draw; expected "
			"CenterCrop, CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[Pad: {padding: 2}, RandomResize: {min_size: 3, max_size: 9}]",
			"2:33: transforms: RandomResize: images would differ in size, since it "
			"leaves their size open; expected CenterCrop, CenterCropOrPad or Resize: "
			"{size: [HEIGHT, WIDTH]} after it"},
		{"[ScaleJitter: {target_size: [9, 9]}]",
			"2:14: transforms: ScaleJitter: images would differ in size, since it "
			"leaves their size open; expected CenterCrop, CenterCropOrPad or Resize: "
			"{size: [HEIGHT, WIDTH]} after it"},
		{"[Resize: {size: 9, max_size: 12}, RandomInvert]",
			"2:14: transforms: Resize: images would differ in size, since it leaves "
			"their size open; expected CenterCrop, CenterCropOrPad or Resize: {size: "
			"[HEIGHT, WIDTH]} after it"},
		{"[CenterCrop: {size: 9}, RandomZoomOut]",
			"2:37: transforms: RandomZoomOut: images would differ in size, since it "
			"leaves their size open; expected CenterCrop, CenterCropOrPad or Resize: "
			"{size: [HEIGHT, WIDTH]} after it"},
		{"[ResizeKeepRatio: {size: 9, longest: 1}]",
			"2:14: transforms: ResizeKeepRatio: images would differ in size, since it "
			"leaves their size open; expected CenterCrop, CenterCropOrPad or Resize: "
			"{size: [HEIGHT, WIDTH]} after it"},
		{"[RandomShortestSize: {min_size: 9}]",
			"2:14: transforms: RandomShortestSize: images would differ in size, since "
			"it leaves their size open; expected CenterCrop, CenterCropOrPad or "
			"Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[CenterCrop: {size: 9}, RandomApply: {transforms: [CenterCrop: {size: 8}]}]",
			"2:37: transforms: RandomApply: images would differ in size, since images "
			"have another size with its operations than without; expected CenterCrop, "
			"CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[RandomChoice: {transforms: [CenterCrop: {size: 9}, CenterCrop: {size: 8}]}]",
			"2:14: transforms: RandomChoice: images would differ in size, since its "
			"operations make images of different sizes; expected CenterCrop, "
			"CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[RandomChoice: {transforms: [CenterCrop: {size: 9}, Resize: {size: 9}]}]",
			"2:65: transforms: Resize: size: 9 is that of the shorter side, so images "
			"would differ in size; expected CenterCrop after it, or size: [9, 9]"},
		{"[RandomOrder: {transforms: [CenterCrop: {size: 9}, CenterCrop: {size: 8}]}]",
			"2:14: transforms: RandomOrder: images would differ in size, since its "
			"operations make images of different sizes; expected CenterCrop, "
			"CenterCropOrPad or Resize: {size: [HEIGHT, WIDTH]} after it"},
		{"[RandomOrder: {transforms: [CenterCrop: {size: 9}, RandomInvert, RandomInvert, "
		 "RandomInvert, RandomInvert, RandomInvert, RandomInvert]}]",
			"2:14: transforms: RandomOrder: expected at most 6 operations where one of "
			"them changes the size of images"},
		{"[CenterCrop: {size: 4000}, Pad: {padding: 100}]",
			"2:13: transforms: expected operations that make images of at most 4096 x "
			"4096, or CenterCrop after them; these make 4200 x 4200 (height x width)"},
		{"[CenterCrop: {size: 9}, Pad: {padding: 1}, RandomCrop: {size: 14, padding: 1}]",
			"2:56: transforms: RandomCrop: size: expected at most 13 x 13 (height x "
			"width), which the operations before it and padding make, or "
			"pad_if_needed: true; got 14 x 14"},
		{"[Pad, CenterCrop: {size: 9}]",
			"2:14: Pad: padding is missing; expected a number of pixels, [horizontal, "
			"vertical] or [left, top, right, bottom], as in Pad: {padding: 4}"},
		{"[Pad: {padding: -1}, CenterCrop: {size: 9}]",
			"2:29: Pad: padding: expected a whole number from 0 to 4096, got \"-1\""},
		{"[Pad: {padding: [1, 2, 3]}, CenterCrop: {size: 9}]",
			"2:29: Pad: padding: expected a whole number, [horizontal, vertical] or "
			"[left, top, right, bottom]; got a list of 3"},
		{"[Resize: {size: 9, max_size: 9}, CenterCrop: {size: 9}]",
			"2:42: Resize: max_size: expected a whole number above size, which is 9; "
			"got 9"},
		{"[Resize: {size: [9, 9], max_size: 12}]",
			"2:47: Resize: max_size: expected it beside one number, the size of the "
			"shorter side, or without size; size is [height, width]"},
		{"[Resize: {max_size: 0}, CenterCrop: {size: 9}]",
			"2:33: Resize: max_size: expected a whole number from 1 to 8192, got "
			"\"0\""},
		{"[Resize: {interpolation: box}, CenterCrop: {size: 9}]",
			"2:14: Resize: size is missing; expected a number of pixels, as in Resize: "
			"{size: 224}"},
		{"[RandomResize: {min_size: 9}, CenterCrop: {size: 9}]",
			"2:28: RandomResize: max_size is missing; expected a number of pixels, as "
			"in RandomResize: {min_size: 256, max_size: 481}"},
		{"[RandomResize: {min_size: 9, max_size: 9}, CenterCrop: {size: 9}]",
			"2:52: RandomResize: max_size: expected a whole number above min_size, "
			"which is 9; got 9"},
		{"[RandomShortestSize: {min_size: []}, CenterCrop: {size: 9}]",
			"2:45: RandomShortestSize: min_size: expected a whole number, or a list of "
			"at most 16; got a list of 0"},
		{"[RandomZoomOut: {side_range: [0.5, 2]}, CenterCrop: {size: 9}]",
			"2:43: RandomZoomOut: side_range: expected a number from 1 to 100, got "
			"\"0.5\""},
		{"[ResizeKeepRatio: {size: 9, longest: 2}, CenterCrop: {size: 9}]",
			"2:50: ResizeKeepRatio: longest: expected a number from 0 to 1, got \"2\""},
		{"[ScaleJitter: {target_size: [9]}, CenterCrop: {size: 9}]",
			"2:41: ScaleJitter: target_size: expected a whole number from 1 to 8192, "
			"or a list of two, [height, width]; got a list of 1"},
		{"[CenterCrop: {size: 3}, RandomErasing, RandomInvert]",
			"2:52: transforms: RandomInvert cannot follow RandomErasing: that comes "
			"last, and only once"},
		{"[CenterCrop: {size: 3}, RandomErasing, RandomErasing]",
			"2:52: transforms: RandomErasing cannot follow RandomErasing: that comes "
			"last, and only once"},
		{"[CenterCrop: {size: 3}, RandomApply: {transforms: [RandomErasing]}]",
			"2:64: RandomApply: RandomErasing cannot be within RandomApply: it comes "
			"last, and only once"},
		{"[Resize: {size: 8193}]",
			"2:29: Resize: size: expected a whole number from 1 to 8192, got \"8193\""},
		{"[Resize: {size: 3}]",
			"2:14: transforms: Resize: size: 3 is that of the shorter side, so images "
			"would differ in size; expected CenterCrop after it, or size: [3, 3]"},
		{"[Resize: {size: [4097, 4097]}]", "2:14: transforms: Resize: size: expected at "
						   "most 4096, or CenterCrop after it; got 4097"},
		{"[Resize: {size: 3}, RandomCrop: {size: 6, padding: [2, 1]}]",
			"2:33: transforms: RandomCrop: size: expected at most 5 x 7 (height x "
			"width), which Resize and padding make, or pad_if_needed: true; got 6 x "
			"6"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char text[1024], sentence[1024];
		(void)snprintf(text, sizeof text, "{source: x,\ntransforms: %s}", cases[i].list);
		(void)snprintf(sentence, sizeof sentence, "open request:%s", cases[i].sentence);
		must_refuse(text, sentence);
	}
	must_refuse("{source: x, image_size: 4, transforms: [RandomResizedCrop: {size: 3}]}",
		"open request:1:25: image_size: expected 3, the size that transforms makes, or "
		"nothing; got 4");
	must_refuse("{source: x, interpolation: box, transforms: [RandomResizedCrop: {size: 3}]}",
		"open request:1:13: interpolation cannot be written beside transforms: it is a "
		"parameter of its operations");
	must_refuse("{stream: x, transforms: [RandomResizedCrop: {size: 3}]}",
		"open request:1:13: transforms cannot be written beside stream: the configuration "
		"defines \"x\"; beside it only these keys are allowed: epochs, "
		"group, share, rank, world_size, wait_for, laggard, laggard_timeout_s, state, "
		"pin_memory and reconnect");
}

/* Of one operation behind a crop; places count from its name. */
static void refuses_parameters(void **state)
{
	static const struct {
		const char *item;
		int column;
		const char *sentence;
	} cases[] = {
		{"ColorJitter: {brightness: -1}", 27,
			"ColorJitter: brightness: expected a number from 0 to 999, or [least, "
			"most] within 0 and 1000; got \"-1\""},
		{"ColorJitter: {contrast: much}", 25,
			"ColorJitter: contrast: expected a number from 0 to 999, or [least, most] "
			"within 0 and 1000; got \"much\""},
		{"ColorJitter: {saturation: {a: 1}}", 27,
			"ColorJitter: saturation: expected a number from 0 to 999, or [least, "
			"most] within 0 and 1000; got a mapping"},
		{"ColorJitter: {brightness: [1]}", 27,
			"ColorJitter: brightness: expected a list of two numbers from 0 to 1000, "
			"[least, most]; got a list of 1"},
		{"ColorJitter: {brightness: [-1, 1]}", 28,
			"ColorJitter: brightness: expected a number from 0 to 1000, got \"-1\""},
		{"ColorJitter: {brightness: [2, 1]}", 27,
			"ColorJitter: brightness: expected [least, most], the most not below the "
			"least; got [2, 1]"},
		{"ColorJitter: {hue: 0.6}", 20,
			"ColorJitter: hue: expected a number from 0 to 0.5, or [least, most] "
			"within -0.5 and 0.5; got \"0.6\""},
		{"ColorJitter: {hue: [-0.6, 0]}", 21,
			"ColorJitter: hue: expected a number from -0.5 to 0.5, got \"-0.6\""},
		{"ColorJitter: {brigthness: 1}", 15,
			"ColorJitter: unknown key \"brigthness\"; did you mean \"brightness\"?"},
		{"ColorJitter: {p: 1}", 15,
			"ColorJitter: unknown key \"p\"; expected one of brightness, contrast, "
			"saturation, hue"},
		{"ColorJitter: 0.4", 14,
			"ColorJitter: expected its parameters by name, as in ColorJitter: "
			"{brightness: 0.4}"},
		{"RandomInvert: [1]", 15,
			"RandomInvert: expected its parameters by name, as in RandomInvert: {p: "
			"...}; got a list"},
		{"RandomApply: [RandomInvert]", 14,
			"RandomApply: expected its parameters by name, as in RandomApply: "
			"{transforms: [ColorJitter: {brightness: 0.4}]}; got a list"},
		{"ThreeAugment: 3", 15,
			"ThreeAugment: it has no parameters; expected ThreeAugment alone"},
		{"Grayscale", 1,
			"Grayscale: num_output_channels is missing; expected 3 (torchvision's 1 is "
			"of images of one channel), as in Grayscale: {num_output_channels: 3}"},
		{"Grayscale: {num_output_channels: 1}", 34,
			"Grayscale: num_output_channels: expected 3, since images of a batch have "
			"three channels, which are the same then; got 1"},
		{"Grayscale: {num_output_channels: 4}", 34,
			"Grayscale: num_output_channels: expected a whole number from 1 to 3, got "
			"\"4\""},
		{"RandomGrayscale: {p: -0.1}", 22,
			"RandomGrayscale: p: expected a number from 0 to 1, got \"-0.1\""},
		{"GaussianBlur", 1,
			"GaussianBlur: kernel_size is missing; expected an odd number of pixels, "
			"as in GaussianBlur: {kernel_size: 23}"},
		{"TimmAutoAugment", 1,
			"TimmAutoAugment: config is missing; expected timm's string for a policy, "
			"as in TimmAutoAugment: {config: rand-m9-mstd0.5-inc1}"},
		{"TimmAutoAugment: rand-m9", 18,
			"TimmAutoAugment: expected its parameters by name, as in TimmAutoAugment: "
			"{config: rand-m9}"},
		{"TimmAutoAugment: {config: [rand]}", 27,
			"TimmAutoAugment: config: expected timm's string for a policy, such as "
			"rand-m9-mstd0.5-inc1"},
		{"TimmAutoAugment: {config: randm9}", 27,
			"TimmAutoAugment: config: at character 1 expected rand, augmix, v0, v0r, "
			"original, originalr or 3a, as in rand-m9-mstd0.5-inc1; got \"randm9\""},
		{"TimmAutoAugment: {config: \"\"}", 27,
			"TimmAutoAugment: config: at character 1 expected rand, augmix, v0, v0r, "
			"original, originalr or 3a, as in rand-m9-mstd0.5-inc1; got \"\""},
		{"TimmAutoAugment: {config: rand-m9-q3}", 27,
			"TimmAutoAugment: config: at character 9 expected one of m, n, p, mstd, "
			"mmax, inc or t (its number behind it, as in mstd0.5); got \"q3\""},
		{"TimmAutoAugment: {config: rand-m9-}", 27,
			"TimmAutoAugment: config: at character 9 expected one of m, n, p, mstd, "
			"mmax, inc or t (its number behind it, as in mstd0.5); got \"\""},
		{"TimmAutoAugment: {config: rand-w0}", 27,
			"TimmAutoAugment: config: at character 6 expected one of m, n, p, mstd, "
			"mmax, inc or t (its number behind it, as in mstd0.5); got \"w0\""},
		{"TimmAutoAugment: {config: augmix-n3}", 27,
			"TimmAutoAugment: config: at character 8 expected one of m, mstd, w, d, a "
			"or b (its number behind it, as in mstd0.5); got \"n3\""},
		{"TimmAutoAugment: {config: v0-m9}", 27,
			"TimmAutoAugment: config: at character 4 expected mstd (its number behind "
			"it, as in mstd0.5); got \"m9\""},
		{"TimmAutoAugment: {config: rand-m9-inc}", 27,
			"TimmAutoAugment: config: at character 12 expected a whole number from 0 "
			"to 1 behind inc (0 or 1); got \"inc\""},
		{"TimmAutoAugment: {config: rand-m9.5}", 27,
			"TimmAutoAugment: config: at character 7 expected a whole number from 0 to "
			"1000 behind m (the magnitude); got \"m9.5\""},
		{"TimmAutoAugment: {config: rand-n17}", 27,
			"TimmAutoAugment: config: at character 7 expected a whole number from 1 to "
			"16 behind n (the number of operations); got \"n17\""},
		{"TimmAutoAugment: {config: rand-p1.5}", 27,
			"TimmAutoAugment: config: at character 7 expected a number from 0 to 1 "
			"behind p (a probability); got \"p1.5\""},
		{"TimmAutoAugment: {config: rand-mstd1e3}", 27,
			"TimmAutoAugment: config: at character 10 expected a number from 0 to 1000 "
			"behind mstd (the standard deviation of magnitudes); got \"mstd1e3\""},
		{"TimmAutoAugment: {config: rand-m9-m8}", 27,
			"TimmAutoAugment: config: at character 9 expected m only once; got \"m8\""},
		{"TimmAutoAugment: {config: rand-t4}", 27,
			"TimmAutoAugment: config: at character 7 expected weights, 3a or 3aw "
			"behind t, as in tweights; got \"t4\""},
		{"TimmAutoAugment: {config: rand-n15-t3aw}", 27,
			"TimmAutoAugment: config: n: expected at most 14, since t3aw draws no "
			"operation twice; got 15"},
		{"TimmAutoAugment: {config: v0, interpolation: lanczos}", 46,
			"TimmAutoAugment: interpolation: expected nearest, bilinear, bicubic or "
			"random, got \"lanczos\""},
		{"TimmAutoAugment: {config: v0, translate_pct: 2}", 46,
			"TimmAutoAugment: translate_pct: expected a number from 0 to 1, got \"2\""},
		{"GaussianBlur: {sigma: 2}", 1,
			"GaussianBlur: kernel_size is missing; expected an odd number of pixels, "
			"as in GaussianBlur: {kernel_size: 23}"},
		{"GaussianBlur: {kernel_size: 3, radius: 2}", 15,
			"GaussianBlur: radius: expected it without kernel_size and sigma, or those "
			"without it"},
		{"GaussianBlur: {radius: 2, sigma: 1}", 15,
			"GaussianBlur: radius: expected it without kernel_size and sigma, or those "
			"without it"},
		{"GaussianBlur: {radius: -1}", 24,
			"GaussianBlur: radius: expected a number from 0 to 100, or [least, most]; "
			"got \"-1\""},
		{"GaussianBlur: {radius: 101}", 24,
			"GaussianBlur: radius: expected a number from 0 to 100, or [least, most]; "
			"got \"101\""},
		{"GaussianBlur: {radius: [2, 1]}", 24,
			"GaussianBlur: radius: expected [least, most], the most not below the "
			"least; got [2, 1]"},
		{"GaussianBlur: {radius: [1]}", 24,
			"GaussianBlur: radius: expected a list of two numbers from 0 to 100, "
			"[least, most]; got a list of 1"},
		{"GaussianBlur: {kernel_size: 4}", 29,
			"GaussianBlur: kernel_size: expected odd numbers, since there is a pixel "
			"in the middle; got [4, 4]"},
		{"GaussianBlur: {kernel_size: [3, 4]}", 29,
			"GaussianBlur: kernel_size: expected odd numbers, since there is a pixel "
			"in the middle; got [3, 4]"},
		{"GaussianBlur: {kernel_size: 257}", 29,
			"GaussianBlur: kernel_size: expected a whole number from 1 to 255, got "
			"\"257\""},
		{"GaussianBlur: {kernel_size: 129}", 29,
			"GaussianBlur: kernel_size: expected less than twice the width of the "
			"images, which is 64, since it reaches over their edges; got 129"},
		{"GaussianBlur: {kernel_size: [1, 3, 5]}", 29,
			"GaussianBlur: kernel_size: expected an odd number, or [width, height]; "
			"got a list of 3"},
		{"GaussianBlur: {kernel_size: 3, sigma: 0}", 39,
			"GaussianBlur: sigma: expected numbers above 0, up to 100; got 0"},
		{"GaussianBlur: {kernel_size: 3, sigma: [0, 1]}", 39,
			"GaussianBlur: sigma: expected numbers above 0, up to 100; got 0"},
		{"GaussianBlur: {kernel_size: 3, sigma: [2, 1]}", 39,
			"GaussianBlur: sigma: expected [least, most], the most not below the "
			"least; got [2, 1]"},
		{"GaussianBlur: {kernel_size: 3, sigma: wide}", 39,
			"GaussianBlur: sigma: expected a number from 0 to 100, or [least, most]; "
			"got \"wide\""},
		{"RandomSolarize", 1,
			"RandomSolarize: threshold is missing; expected a number from 0 to 256, as "
			"in RandomSolarize: {threshold: 128}"},
		{"RandomSolarize: {threshold: 257}", 29,
			"RandomSolarize: threshold: expected a number from 0 to 256, got \"257\""},
		{"RandomPosterize: {p: 1}", 1,
			"RandomPosterize: bits is missing; expected a whole number from 0 to 8, as "
			"in RandomPosterize: {bits: 4}"},
		{"RandomPosterize: {bits: 9}", 25,
			"RandomPosterize: bits: expected a whole number from 0 to 8, got \"9\""},
		{"RandomPosterize: {bits: 4.5}", 25,
			"RandomPosterize: bits: expected a whole number from 0 to 8, got \"4.5\""},
		{"RandomEqualize: {p: true}", 21,
			"RandomEqualize: p: expected a number from 0 to 1, got \"true\""},
		{"RandomAutocontrast: {cutoff: 1}", 22,
			"RandomAutocontrast: unknown key \"cutoff\"; expected one of p"},
		{"RandomInvert: {p: 2}", 19,
			"RandomInvert: p: expected a number from 0 to 1, got \"2\""},
		{"RandomAdjustSharpness", 1,
			"RandomAdjustSharpness: sharpness_factor is missing; expected a factor, as "
			"in RandomAdjustSharpness: {sharpness_factor: 2}"},
		{"RandomAdjustSharpness: {sharpness_factor: -1}", 43,
			"RandomAdjustSharpness: sharpness_factor: expected a number from 0 to "
			"1000, got \"-1\""},
		{"RandomAffine: {shear: 3}", 1,
			"RandomAffine: degrees is missing; expected a number or [least, most], as "
			"in RandomAffine: {degrees: 15}"},
		{"RandomAffine: {degrees: -3}", 25,
			"RandomAffine: degrees: expected a number from 0 to 3600, or [least, most] "
			"within -3600 and 3600; got \"-3\""},
		{"RandomAffine: {degrees: [3, -3]}", 25,
			"RandomAffine: degrees: expected [least, most], the most not below the "
			"least; got [3, -3]"},
		{"RandomAffine: {degrees: 0, translate: 0.1}", 39,
			"RandomAffine: translate: expected a list of two numbers from 0 to 1, "
			"[horizontal, vertical]"},
		{"RandomAffine: {degrees: 0, translate: [0.1, 1.5]}", 45,
			"RandomAffine: translate: expected a number from 0 to 1, got \"1.5\""},
		{"RandomAffine: {degrees: 0, scale: [0, 1]}", 36,
			"RandomAffine: scale: expected a number from 0.001 to 1000, got \"0\""},
		{"RandomAffine: {degrees: 0, scale: 2}", 35,
			"RandomAffine: scale: expected a list of two numbers from 0.001 to 1000, "
			"[least, most]"},
		{"RandomAffine: {degrees: 0, shear: 90}", 35,
			"RandomAffine: shear: expected a number from 0 to 89, or [least, most] "
			"within -89 and 89; got \"90\""},
		{"RandomAffine: {degrees: 0, shear: [1, 2, 3]}", 35,
			"RandomAffine: shear: expected a list of two numbers from -89 to 89, "
			"[least, most], or four, [x least, x most, y least, y most]; got a list of "
			"3"},
		{"RandomAffine: {degrees: 0, shear: [1, 2, 4, 3]}", 35,
			"RandomAffine: shear: expected [x least, x most, y least, y most]; got [1, "
			"2, 4, 3]"},
		{"RandomAffine: {degrees: 0, interpolation: lanczos}", 43,
			"RandomAffine: interpolation: expected nearest, bilinear or bicubic, got "
			"\"lanczos\""},
		{"RandomAffine: {degrees: 0, fill: 256}", 34,
			"RandomAffine: fill: expected a whole number from 0 to 255, got \"256\""},
		{"RandomAffine: {degrees: 0, fill: 0.5}", 34,
			"RandomAffine: fill: expected a whole number from 0 to 255, got \"0.5\""},
		{"RandomAffine: {degrees: 0, fill: [1, 2]}", 34,
			"RandomAffine: fill: expected one number, or three: R, G, B; got a list of "
			"2"},
		{"RandomAffine: {degrees: 0, center: 3}", 36,
			"RandomAffine: center: expected a list of two numbers from -65536 to "
			"65536, [horizontal, vertical]"},
		{"RandomRotation", 1,
			"RandomRotation: degrees is missing; expected a number or [least, most], "
			"as in RandomRotation: {degrees: 15}"},
		{"RandomRotation: {degrees: 3, expand: 3}", 38,
			"RandomRotation: expand: expected true or false, got \"3\""},
		{"RandomRotation: {degrees: [3, 3, 3]}", 27,
			"RandomRotation: degrees: expected a list of two numbers from -3600 to "
			"3600, [least, most]; got a list of 3"},
		{"RandomPerspective: {distortion_scale: 1.5}", 39,
			"RandomPerspective: distortion_scale: expected a number from 0 to 1, got "
			"\"1.5\""},
		{"RandAugment: {num_ops: 17}", 24,
			"RandAugment: num_ops: expected a whole number from 1 to 16, got \"17\""},
		{"RandAugment: {magnitude: 31}", 26,
			"RandAugment: magnitude: expected a whole number below num_magnitude_bins, "
			"which is 31; got 31"},
		{"RandAugment: {num_magnitude_bins: 9}", 14,
			"RandAugment: magnitude: expected a whole number below num_magnitude_bins, "
			"which is 9; got 9"},
		{"RandAugment: {num_magnitude_bins: 1}", 35,
			"RandAugment: num_magnitude_bins: expected a whole number from 2 to 1000, "
			"got \"1\""},
		{"RandAugment: {interpolation: box}", 30,
			"RandAugment: interpolation: expected nearest, bilinear or bicubic, got "
			"\"box\""},
		{"TrivialAugmentWide: {num_ops: 1}", 22,
			"TrivialAugmentWide: unknown key \"num_ops\"; expected one of "
			"num_magnitude_bins, interpolation, fill"},
		{"AutoAugment: {policy: coco}", 23,
			"AutoAugment: policy: expected imagenet, cifar10 or svhn, got \"coco\""},
		{"AugMix: {severity: 0}", 20,
			"AugMix: severity: expected a whole number from 1 to 10, got \"0\""},
		{"AugMix: {mixture_width: 11}", 25,
			"AugMix: mixture_width: expected a whole number from 1 to 10, got \"11\""},
		{"AugMix: {chain_depth: 0}", 23,
			"AugMix: chain_depth: expected -1 or a whole number from 1 to 16, got "
			"\"0\""},
		{"AugMix: {alpha: 0}", 17,
			"AugMix: alpha: expected a number from 0.01 to 100, got \"0\""},
		{"AugMix: {all_ops: 1}", 19, "AugMix: all_ops: expected true or false, got \"1\""},
		{"ThreeAugment: {p: 1}", 16, "ThreeAugment: unknown key \"p\"; expected none"},
		{"RandomErasing: {scale: [0.5, 1.5]}", 30,
			"RandomErasing: scale: expected a number from 0 to 1, got \"1.5\""},
		{"RandomErasing: {ratio: [3, 1]}", 24,
			"RandomErasing: ratio: expected [least, most], the most above 0 and not "
			"below the least; got [3, 1]"},
		{"RandomErasing: {value: [1, 2]}", 24,
			"RandomErasing: value: expected one number, or three: R, G, B; got a list "
			"of 2"},
		{"RandomErasing: {value: noise}", 24,
			"RandomErasing: value: expected a number from -1000 to 1000, or three: R, "
			"G, B, or \"random\"; got \"noise\""},
		{"RandomErasing: {inplace: true}", 17,
			"RandomErasing: unknown key \"inplace\"; expected one of p, scale, ratio, "
			"value"},
		{"RandomErasing: {value: random}", 1,
			"RandomErasing: value: \"random\" is normally distributed around 0, which "
			"needs dtype: float32, float16 or bfloat16; with uint8 expected one number "
			"from 0 to 255, or three"},
		{"RandomErasing: {value: 0.5}", 1,
			"RandomErasing: value: expected whole numbers from 0 to 255, since rows "
			"are uint8; with dtype: float32 and the like it is in units of normalized "
			"values"},
		{"RandomErasing: {value: [0, 256, 0]}", 1,
			"RandomErasing: value: expected whole numbers from 0 to 255, since rows "
			"are uint8; with dtype: float32 and the like it is in units of normalized "
			"values"},
		{"RandomApply", 1,
			"RandomApply: transforms is missing; expected a list of operations, as in "
			"RandomApply: {transforms: [ColorJitter: {brightness: 0.4}]}"},
		{"RandomApply: {transforms: []}", 27,
			"RandomApply: transforms: expected a list of operations, such as "
			"[ColorJitter: {brightness: 0.4}, RandomGrayscale]"},
		{"RandomApply: {transforms: RandomInvert}", 27,
			"RandomApply: transforms: expected a list of operations, such as "
			"[ColorJitter: {brightness: 0.4}, RandomGrayscale]"},
		{"RandomApply: {transforms: [RandomInverse]}", 28,
			"RandomApply: there is no operation \"RandomInverse\"; did you mean "
			"\"RandomInvert\"?"},
		{"RandomApply: {transforms: [RandomInvert: {p: 3}]}", 46,
			"RandomInvert: p: expected a number from 0 to 1, got \"3\""},
		{"RandomApply: {transforms: [RandomInvert], p: 3}", 46,
			"RandomApply: p: expected a number from 0 to 1, got \"3\""},
		{"RandomChoice: {transforms: [RandomInvert], p: 0.5}", 47,
			"RandomChoice: p: expected a list of one number for each of the "
			"transforms, how likely it is, at most 16"},
		{"RandomChoice: {transforms: [RandomInvert], p: [1, 1]}", 47,
			"RandomChoice: p: expected as many numbers as there are transforms, which "
			"is 1; got 2"},
		{"RandomChoice: {transforms: [RandomInvert], p: [0]}", 47,
			"RandomChoice: p: expected at least one number above 0"},
		{"RandomChoice: {transforms: [RandomInvert], p: [-1]}", 48,
			"RandomChoice: p: expected a number from 0 to 1e+06, got \"-1\""},
		{"RandomOrder: {transforms: [RandomInvert], p: 1}", 43,
			"RandomOrder: unknown key \"p\"; expected one of transforms"},
		{"RandomApply: {transforms: [RandomApply: {transforms: [RandomApply: {transforms: "
		 "[RandomApply: {transforms: [RandomApply: {transforms: [RandomInvert]}]}]}]}]}",
			135,
			"RandomApply: expected at most 4 lists of operations inside one another"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char text[1024], sentence[1024];
		(void)snprintf(
			text, sizeof text, "{source: x,\ntransforms: " HEAD "%s]}", cases[i].item);
		(void)snprintf(sentence, sizeof sentence, "open request:2:%d: %s",
			(int)strlen("transforms: " HEAD) + cases[i].column, cases[i].sentence);
		must_refuse(text, sentence);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_transforms),
		cmocka_unit_test(refuses_parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
