/* phrase: definitions of streams, lists of operations and states, built at random from
 * meaningful parts and sometimes from meaningless ones. For fuzz_spec, fuzz_state and
 * fuzz_config. */
#pragma once

#include "fuzz/random.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct phrase {
	char *text;
	size_t size, room;
	struct random *random;
};

static inline void phrase_put(struct phrase *phrase, const char *text)
{
	size_t more = UTIL_MIN(strlen(text), phrase->room - phrase->size);
	memcpy(phrase->text + phrase->size, text, more);
	phrase->size += more;
}

#define phrase_one(phrase, words) \
	phrase_put(phrase, (words)[draw((phrase)->random, UTIL_COUNT(words))])

static inline void phrase_operations(struct phrase *phrase, unsigned depth);

/* One parameter of any operation. */
static inline void phrase_parameter(struct phrase *phrase)
{
	static const char *const names[] = {"p", "size", "scale", "ratio", "interpolation", "fill",
		"antialias", "brightness", "contrast", "saturation", "hue", "kernel_size", "sigma",
		"degrees", "translate", "shear", "center", "padding", "padding_mode",
		"pad_if_needed", "threshold", "bits", "sharpness_factor", "distortion_scale",
		"num_ops", "magnitude", "num_magnitude_bins", "policy", "severity", "mixture_width",
		"chain_depth", "alpha", "all_ops", "value", "expand", "num_output_channels"};
	static const char *const values[] = {"0", "1", "3", "0.5", "224", "[0.1, 1]", "[1, 2]",
		"[1, 2, 3, 4]", "[3, 5]", "bilinear", "nearest", "[9, 8, 7]", "true", "false",
		"[0.5, 2]", "-1", "0.1", "[-10, 10]", "reflect", "edge", "imagenet", "cifar10",
		"random", "1e300", "1e-9", "255", "[]", "x", "5", "[0, 0]", "0.30000000000000004",
		"1e-1"};
	phrase_one(phrase, names);
	phrase_put(phrase, ": ");
	phrase_one(phrase, values);
}

static inline void phrase_operation(struct phrase *phrase, unsigned depth)
{
	static const char *const whole[] = {"RandomHorizontalFlip", "RandomVerticalFlip: {p: 0.25}",
		"ColorJitter: {brightness: 0.4, contrast: [0.2, 3], saturation: 0.1, hue: 0.5}",
		"Grayscale: {num_output_channels: 3}", "RandomGrayscale: {p: 0.2}",
		"GaussianBlur: {kernel_size: 23, sigma: [0.1, 2]}",
		"GaussianBlur: {kernel_size: 3}", "GaussianBlur: {radius: [0.1, 2]}",
		"RandomSolarize: {threshold: 128, p: 0.2}", "RandomPosterize: {bits: 4}",
		"RandomEqualize", "RandomAutocontrast", "RandomInvert",
		"RandomAdjustSharpness: {sharpness_factor: 2}",
		"RandomAffine: {degrees: 15, translate: [0.1, 0.2], scale: [0.5, 2], shear: 3}",
		"RandomRotation: {degrees: [-30, 15], center: [3, 4], fill: [1, 2, 3]}",
		"RandomPerspective: {distortion_scale: 0.25}", "Resize: {size: 40, max_size: 90}",
		"Resize: {size: [64, 64]}", "Pad: {padding: [1, 2], padding_mode: reflect}",
		"RandomRotation: {degrees: 30, expand: true}", "CenterCropOrPad: {size: 64}",
		"RandomResize: {min_size: 8, max_size: 20}", "RandomShortestSize: {min_size: 9}",
		"ScaleJitter: {target_size: [9, 8]}", "RandomZoomOut: {p: 0.2}",
		"ResizeKeepRatio: {size: 64, longest: 1}", "RandomCropOrPad: {size: 64, fill: 3}",
		"RandAugment: {num_ops: 2, magnitude: 9}", "TrivialAugmentWide",
		"AutoAugment: {policy: svhn}", "TimmAutoAugment: {config: rand-m9-mstd0.5-inc1}",
		"TimmAutoAugment: {config: augmix-m5-w2-b1}", "AugMix: {severity: 2}",
		"ThreeAugment", "RandomErasing: {p: 0.25, value: random}"};
	static const char *const names[] = {"ColorJitter", "RandomAffine", "RandomRotation",
		"GaussianBlur", "RandAugment", "AugMix", "RandomErasing", "RandomPerspective",
		"AutoAugment", "RandomSolarize", "RandomPosterize", "Normalize",
		"RandomResizedCrop"};
	static const char *const holders[] = {
		"RandomApply: {p: 0.8, transforms: ", "RandomChoice: {transforms: ",
		"RandomOrder: {transforms: ", "RandomChoice: {p: [1, 2], transforms: "};
	if (depth < 5 && one_in(phrase->random, 6)) {
		phrase_one(phrase, holders);
		phrase_operations(phrase, depth + 1);
		phrase_put(phrase, "}");
	} else if (!one_in(phrase->random, 4)) {
		phrase_one(phrase, whole);
	} else {
		phrase_one(phrase, names);
		phrase_put(phrase, ": {");
		for (uint32_t i = draw(phrase->random, 3); i; i--) {
			phrase_parameter(phrase);
			phrase_put(phrase, i > 1 ? ", " : "");
		}
		phrase_put(phrase, "}");
	}
}

static inline void phrase_operations(struct phrase *phrase, unsigned depth)
{
	phrase_put(phrase, "[");
	for (uint32_t i = 1 + draw(phrase->random, one_in(phrase->random, 30) ? 40 : 4); i; i--) {
		phrase_operation(phrase, depth);
		phrase_put(phrase, i > 1 ? ", " : "");
	}
	phrase_put(phrase, "]");
}

/* A list that begins with an operation that sets the size. */
static inline void phrase_transforms(struct phrase *phrase)
{
	static const char *const sizings[] = {"RandomResizedCrop: {size: 176}, ",
		"RandomResizedCrop: {size: [64, 64], scale: [0.1, 1], ratio: [0.5, 2]}, ",
		"Resize: {size: 232}, CenterCrop: {size: 224}, ", "Resize: {size: [32, 32]}, ",
		"Resize: {size: 40, interpolation: lanczos}, RandomCrop: {size: 32, padding: 4}, ",
		"RandomCrop: {size: 8, padding: [1, 2], padding_mode: reflect}, ",
		"CenterCrop: {size: 4096}, ", ""};
	phrase_put(phrase, "[");
	phrase_one(phrase, sizings);
	uint32_t count = draw(phrase->random, 4);
	for (uint32_t i = 0; i < count; i++) {
		phrase_operation(phrase, 0);
		phrase_put(phrase, ", ");
	}
	phrase_put(phrase, "]");
}

/* A list of groups of views. */
static inline void phrase_views(struct phrase *phrase)
{
	static const char *const keys[] = {"count: 2", "count: 8", "image_size: 96",
		"image_size: [64, 32]", "interpolation: bicubic", "name: a", "name: local",
		"count: 17", "image_size: {0: 8, 1: 9}", "name: \"\"", "x: 1"};
	phrase_put(phrase, "[");
	for (uint32_t groups = draw(phrase->random, 5); groups; groups--) {
		phrase_put(phrase, "{");
		if (one_in(phrase->random, 2)) {
			phrase_put(phrase, "transforms: ");
			phrase_transforms(phrase);
			phrase_put(phrase, ", ");
		}
		for (uint32_t i = draw(phrase->random, 3); i; i--) {
			phrase_one(phrase, keys);
			phrase_put(phrase, ", ");
		}
		phrase_put(phrase, "}, ");
	}
	phrase_put(phrase, "]");
}

static inline void phrase_state(struct phrase *phrase)
{
	static const char *const names[] = {
		"version", "fingerprint", "order", "transform", "seed", "epoch", "position"};
	static const char *const numbers[] = {"0", "1", "7", "4294967295", "281474976710656",
		"18446744073709551615", "18446744073709551616", "-1", "0.5", "\"1\"", "null"};
	char text[64];
	phrase_put(phrase, "{");
	for (unsigned i = 0; i < UTIL_COUNT(names); i++) {
		if (one_in(phrase->random, 60))
			continue;
		(void)snprintf(text, sizeof text, "%s\"%s\": ", i ? ", " : "", names[i]);
		phrase_put(phrase, text);
		if (i >= 1 && i <= 3 && !one_in(phrase->random, 50)) {
			(void)snprintf(
				text, sizeof text, "\"%016" PRIx64 "\"", random_64(phrase->random));
			phrase_put(phrase, text);
		} else if (i == 0 && !one_in(phrase->random, 30)) {
			phrase_put(phrase, "1");
		} else if (!one_in(phrase->random, 8)) {
			(void)snprintf(text, sizeof text, "%u", draw(phrase->random, 100000));
			phrase_put(phrase, text);
		} else {
			phrase_one(phrase, numbers);
		}
	}
	if (one_in(phrase->random, 4)) {
		static const char *const cuts[] = {"[[0, 4]]", "[[0, 4], [8, 6]]", "[]", "[[0]]",
			"[[0, 0]]", "[[1, 2], [1, 2]]", "[[-1, 2]]", "4",
			"[[18446744073709551615, 18446744073709551615]]",
			"[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1]]"};
		phrase_put(phrase, ", \"cuts\": ");
		phrase_one(phrase, cuts);
	}
	phrase_put(phrase, "}");
}

static inline void phrase_key(struct phrase *phrase)
{
	static const char *const keys[] = {"batch_size: 256", "image_size: 32",
		"image_size: {0: 128, 16: 192, 18: 224}", "views: 2", "dtype: float16",
		"dtype: bfloat16", "dtype: float32", "layout: NCHW", "mean: [0.5, 0.25, 0]",
		"std: [1, 0.5, 2]", "train: false", "train: true", "shuffle: no", "drop_last: yes",
		"seed: 18446744073709551615", "seed: 7", "epochs: 90", "prefetch: 64",
		"labels: json", "labels: {json: a.0.b, type: float}", "labels: none",
		"labels: {manifest: /m.csv, type: multi_hot, classes: /c.txt}",
		"fields: [txt, json]", "fields: [{name: npy, max: 64, long: cut, missing: empty}]",
		"fields: txt", "labels: {classes: /c.txt}", "on_broken: fail", "on_broken: mark",
		"max_broken: 0.5", "max_broken: 0.1", "decode: fast", "interpolation: lanczos",
		"group: job 7", "share: split", "rank: 7", "world_size: 8", "wait_for: 2",
		"laggard: detach", "laggard_timeout_s: 5", "pin_memory: true", "reconnect: true",
		"indices: /i.npy", "sources: [{source: a, weight: 0.25}, {source: b, weight: 3}]",
		"sources: [{source: a, weight: 1e12}]", "split: 0..90%", "split: 1000..",
		"weights: balanced", "weights: /w.npy", "epoch_length: 1000", "repeats: 3",
		"sampling: {classes: 16, per_class: 4}", "sampling: {classes: 2}", "sampling: {}",
		"sampling: {classes: 0, per_class: 65537}", "sampling: balanced",
		"buckets: [[256, 192], 224, [192, 256]]", "buckets: [[64, 32], [32, 64]]",
		"buckets: []", "buckets: [[32, 24], [64, 48]]", "buckets: [224, 0]", "buckets: 224",
		"buckets: [[4096, 1], [1, 4096]]", "buckets: [[1, 2, 3]]",
		"fields: [{name: txt, max: 16777217}]", "fields: [{max: 3}]", "fields: [txt, txt]",
		"fields: [a/b]", "fields: [{name: txt, long: no}]", "fields: []", "salt: a",
		"labels: {manifest: /m.csv, only: true}",
		"labels: {manifest: /m.csv, type: classes}", "stream: train", "source: ~/\xc3\xa4",
		"x: 1", "batch_size: 0", "image_size: 4097", "group: \"a\\tb\"",
		"source: \"\\u0001\"", "sources: []", "image_size: {1: 3}"};
	phrase_one(phrase, keys);
}

static inline void phrase_definition(struct phrase *phrase, bool client)
{
	static const char *const sources[] = {"source: x", "source: \"/d/t-{000..146}.tar\"",
		"source: x", "sources: [{source: a}, {source: b, weight: 0.5}]", "stream: train",
		"source: 7"};
	phrase_put(phrase, "{");
	phrase_one(phrase, sources);
	for (uint32_t i = draw(phrase->random, 6); i; i--) {
		phrase_put(phrase, ", ");
		phrase_key(phrase);
	}
	if (one_in(phrase->random, 3)) {
		phrase_put(phrase, ", transforms: ");
		phrase_transforms(phrase);
	}
	if (one_in(phrase->random, 4)) {
		phrase_put(phrase, ", views: ");
		phrase_views(phrase);
	}
	if (client && one_in(phrase->random, 5)) {
		phrase_put(phrase, ", state: ");
		phrase_state(phrase);
	}
	phrase_put(phrase, "}");
}
