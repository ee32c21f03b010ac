/* transforms_table: see transforms_table.h. Names, parameters and defaults are torchvision's
 * (transforms/transforms.py, autoaugment.py). step.h, pixel.h and draw.h define the allowed
 * values of parameters. */
#include "definition/transforms/transforms_table.h"

#include "base/util.h"

#define FIELD(member) .offset = offsetof(struct transforms_op, member)
#define READ(name, member, reader) name, YAML_KEY_NODE, FIELD(member), .read_as = (reader)

enum { RESIZE_LONGEST = 3 }; /* the place of max_size */
enum { RESIZE_MAX = PIXEL_RESIZE_MAX, FACTOR_MAX = 1000, DEGREES_MAX = 3600, SHEAR_MAX = 89 };

/* ---- parameters ---- */

#define SIZE(most)                                                                \
	{                                                                         \
		READ("size", size, transforms_read_size), .min = 1, .max = (most) \
	}
#define CHANCE                                                           \
	{                                                                \
		"p", YAML_KEY_DOUBLE, FIELD(step.p), .low = 0, .high = 1 \
	}
#define FILL                                                              \
	{                                                                 \
		READ("fill", step.fill, transforms_read_fill), .max = 255 \
	}
#define RESIZING                                                        \
	{"interpolation", YAML_KEY_ENUM, FIELD(step.interpolation),     \
		.names = weights_filter_names},                         \
	{                                                               \
		READ("antialias", antialias, transforms_read_antialias) \
	}
#define WARPING                                                                        \
	{                                                                              \
		READ("interpolation", step.interpolation, transforms_read_warp_filter) \
	}
#define BINS                                                                                    \
	{                                                                                       \
		"num_magnitude_bins", YAML_KEY_U32, FIELD(step.num_magnitude_bins), .min = 2,   \
										    .max = 1000 \
	}
#define DEGREES                                                                            \
	{                                                                                  \
		READ("degrees", step.degrees, transforms_read_angle), .low = -DEGREES_MAX, \
								      .high = DEGREES_MAX  \
	}
#define CENTER                                                                                    \
	{                                                                                         \
		READ("center", step.center, transforms_read_center), .low = -65536, .high = 65536 \
	}
#define FACTOR(name)                                                                         \
	{                                                                                    \
		READ(#name, step.name, transforms_read_factor), .low = 0, .high = FACTOR_MAX \
	}
#define WITHIN                                                     \
	{                                                          \
		READ("transforms", within, transforms_read_within) \
	}

/* In the order of the enums in step.h and pixel.h. */
static const char *const policies[] = {
	[STEP_POLICY_IMAGENET] = "imagenet",
	[STEP_POLICY_CIFAR10] = "cifar10",
	[STEP_POLICY_SVHN] = "svhn",
	NULL,
};

static const char *const padding_modes[] = {
	[PIXEL_PAD_CONSTANT] = "constant",
	[PIXEL_PAD_EDGE] = "edge",
	[PIXEL_PAD_REFLECT] = "reflect",
	[PIXEL_PAD_SYMMETRIC] = "symmetric",
	NULL,
};

static const struct yaml_key resized_crop_keys[] = {
	SIZE(TRANSFORMS_SIDE_MAX),
	{READ("scale", step.scale, transforms_read_range), .low = 0, .high = 1},
	{READ("ratio", step.ratio, transforms_read_range), .low = 0.01, .high = 100},
	RESIZING,
};
static const struct yaml_key resize_keys[] = {
	SIZE(RESIZE_MAX),
	RESIZING,
	{READ("max_size", step.max_size, transforms_read_longest), .min = 1, .max = RESIZE_MAX},
};
static const struct yaml_key center_crop_keys[] = {SIZE(TRANSFORMS_SIDE_MAX)};
static const struct yaml_key random_crop_keys[] = {
	SIZE(TRANSFORMS_SIDE_MAX),
	{READ("padding", padding, transforms_read_padding), .max = PIXEL_PADDING_MAX},
	{"pad_if_needed", YAML_KEY_BOOL, FIELD(pad_if_needed)},
	FILL,
	{"padding_mode", YAML_KEY_ENUM, FIELD(padding_mode), .names = padding_modes},
};
static const struct yaml_key pad_keys[] = {
	{READ("padding", padding, transforms_read_padding), .max = PIXEL_PADDING_MAX},
	FILL,
	{"padding_mode", YAML_KEY_ENUM, FIELD(padding_mode), .names = padding_modes},
};
static const struct yaml_key random_resize_keys[] = {
	{"min_size", YAML_KEY_U32, FIELD(step.min_size), .min = 1, .max = RESIZE_MAX},
	{"max_size", YAML_KEY_U32, FIELD(step.max_size), .min = 2, .max = RESIZE_MAX},
	RESIZING,
};
static const struct yaml_key scale_jitter_keys[] = {
	{READ("target_size", size, transforms_read_size), .min = 1, .max = RESIZE_MAX},
	{READ("scale_range", step.scale, transforms_read_range), .low = 0.01, .high = 100},
	RESIZING,
};
static const struct yaml_key shortest_size_keys[] = {
	{READ("min_size", step.min_size, transforms_read_sizes), .min = 1, .max = RESIZE_MAX},
	{READ("max_size", step.max_size, transforms_read_longest), .min = 1, .max = RESIZE_MAX},
	RESIZING,
};
static const struct yaml_key zoom_out_keys[] = {
	FILL,
	{READ("side_range", step.scale, transforms_read_range), .low = 1, .high = 100},
	CHANCE,
};
static const struct yaml_key keep_ratio_keys[] = {
	SIZE(RESIZE_MAX),
	{"longest", YAML_KEY_DOUBLE, FIELD(step.longest), .low = 0, .high = 1},
	{"interpolation", YAML_KEY_ENUM, FIELD(step.interpolation), .names = weights_filter_names},
	{"random_scale_prob", YAML_KEY_DOUBLE, FIELD(step.random_scale_prob), .low = 0, .high = 1},
	{READ("random_scale_range", step.random_scale_range, transforms_read_range), .low = 0.01,
		.high = 100},
	{"random_scale_area", YAML_KEY_BOOL, FIELD(step.random_scale_area)},
	{"random_aspect_prob", YAML_KEY_DOUBLE, FIELD(step.random_aspect_prob), .low = 0,
		.high = 1},
	{READ("random_aspect_range", step.random_aspect_range, transforms_read_range), .low = 0.01,
		.high = 100},
};
static const struct yaml_key crop_or_pad_keys[] = {
	SIZE(TRANSFORMS_SIDE_MAX),
	FILL,
	{"padding_mode", YAML_KEY_ENUM, FIELD(padding_mode), .names = padding_modes},
};
static const struct yaml_key chance_keys[] = {CHANCE};
static const struct yaml_key jitter_keys[] = {
	FACTOR(brightness),
	FACTOR(contrast),
	FACTOR(saturation),
	{READ("hue", step.hue, transforms_read_hue), .low = -0.5, .high = 0.5},
};
static const struct yaml_key grayscale_keys[] = {
	{READ("num_output_channels", num_output_channels, transforms_read_channels)},
};
static const struct yaml_key blur_keys[] = {
	{READ("kernel_size", step.kernel_size, transforms_read_kernel), .min = 1, .max = 255},
	{READ("sigma", step.sigma, transforms_read_sigma), .low = 0, .high = 100},
	{READ("radius", step.radius, transforms_read_radius), .low = 0, .high = 100},
};
static const struct yaml_key solarize_keys[] = {
	{"threshold", YAML_KEY_DOUBLE, FIELD(step.threshold), .low = 0, .high = 256},
	CHANCE,
};
static const struct yaml_key posterize_keys[] = {
	{"bits", YAML_KEY_U32, FIELD(step.bits), .min = 0, .max = 8},
	CHANCE,
};
static const struct yaml_key sharpness_keys[] = {
	{"sharpness_factor", YAML_KEY_DOUBLE, FIELD(step.sharpness_factor), .low = 0,
		.high = FACTOR_MAX},
	CHANCE,
};
static const struct yaml_key affine_keys[] = {
	DEGREES,
	{READ("translate", step.translate, transforms_read_pair), .low = 0, .high = 1},
	{READ("scale", step.scale, transforms_read_range), .low = 0.001, .high = 1000},
	{READ("shear", step.shear, transforms_read_shear), .low = -SHEAR_MAX, .high = SHEAR_MAX},
	WARPING,
	FILL,
	CENTER,
};
static const struct yaml_key rotation_keys[] = {
	DEGREES,
	WARPING,
	{"expand", YAML_KEY_BOOL, FIELD(step.expand)},
	CENTER,
	FILL,
};
static const struct yaml_key perspective_keys[] = {
	{"distortion_scale", YAML_KEY_DOUBLE, FIELD(step.distortion_scale), .low = 0, .high = 1},
	CHANCE,
	WARPING,
	FILL,
};
static const struct yaml_key rand_augment_keys[] = {
	{"num_ops", YAML_KEY_U32, FIELD(step.num_ops), .min = 1, .max = 16},
	{"magnitude", YAML_KEY_U32, FIELD(step.magnitude), .max = 999},
	BINS,
	WARPING,
	FILL,
};
static const struct yaml_key trivial_augment_keys[] = {BINS, WARPING, FILL};
static const struct yaml_key auto_augment_keys[] = {
	{"policy", YAML_KEY_ENUM, FIELD(step.policy), .names = policies},
	WARPING,
	FILL,
};
static const struct yaml_key aug_mix_keys[] = {
	{"severity", YAML_KEY_U32, FIELD(step.severity), .min = 1, .max = 10},
	{"mixture_width", YAML_KEY_U32, FIELD(step.mixture_width), .min = 1, .max = 10},
	{READ("chain_depth", step.chain_depth, transforms_read_depth), .min = 1, .max = 16},
	{"alpha", YAML_KEY_DOUBLE, FIELD(step.alpha), .low = 0.01, .high = 100},
	{"all_ops", YAML_KEY_BOOL, FIELD(step.all_ops)},
	WARPING,
	FILL,
};
static const struct yaml_key timm_keys[] = {
	{READ("config", step.timm, transforms_read_timm)},
	{READ("interpolation", step.interpolation, transforms_read_timm_filter)},
	FILL,
	{READ("translate_pct", step.timm.translate, transforms_read_translate), .low = 0,
		.high = 1},
};
static const struct yaml_key erasing_keys[] = {
	CHANCE,
	{READ("scale", step.scale, transforms_read_range), .low = 0, .high = 1},
	{READ("ratio", step.ratio, transforms_read_range), .low = 0.001, .high = 1000},
	{READ("value", step.value, transforms_read_value), .low = -1000, .high = 1000},
};
static const struct yaml_key apply_keys[] = {WITHIN, CHANCE};
static const struct yaml_key choice_keys[] = {
	WITHIN,
	{READ("p", step.chances, transforms_read_chances), .low = 0, .high = 1e6},
};
static const struct yaml_key order_keys[] = {WITHIN};

/* ---- operations ---- */

#define KEYS(table) table, UTIL_COUNT(table)
#define PIXELS "a number of pixels", "{size: 224}"
#define OPERATIONS "a list of operations", "{transforms: [ColorJitter: {brightness: 0.4}]}"
#define STEP(kind) [(kind)]
#define SCALED .scale = {1, 1}
#define NEAREST .interpolation = WEIGHTS_NEAREST

const struct transforms_rule transforms_rules[TRANSFORMS_KINDS] = {
	[TRANSFORMS_RANDOM_RESIZED_CROP] = {"RandomResizedCrop", KEYS(resized_crop_keys),
		TRANSFORMS_ANYWHERE, PIXELS,
		.defaults = {.antialias = true,
			.step = {.scale = {0.08, 1}, .ratio = {3.0 / 4.0, 4.0 / 3.0}}}},
	[TRANSFORMS_RESIZE] = {"Resize", KEYS(resize_keys), TRANSFORMS_ANYWHERE, PIXELS,
		.defaults = {.antialias = true}, .besides = RESIZE_LONGEST},
	[TRANSFORMS_CENTER_CROP] = {"CenterCrop", KEYS(center_crop_keys), TRANSFORMS_ANYWHERE,
		PIXELS, .defaults = {.antialias = false}},
	[TRANSFORMS_RANDOM_CROP] = {"RandomCrop", KEYS(random_crop_keys), TRANSFORMS_ANYWHERE,
		PIXELS, .defaults = {.antialias = false}},
	STEP(STEP_PAD) = {"Pad", KEYS(pad_keys), TRANSFORMS_ANYWHERE,
		"a number of pixels, [horizontal, vertical] or [left, top, right, bottom]",
		"{padding: 4}", .defaults.antialias = false},
	STEP(STEP_RANDOM_RESIZE) = {"RandomResize", KEYS(random_resize_keys), TRANSFORMS_ANYWHERE,
		"a number of pixels", "{min_size: 256, max_size: 481}", .defaults.antialias = true},
	STEP(STEP_SCALE_JITTER) = {"ScaleJitter", KEYS(scale_jitter_keys), TRANSFORMS_ANYWHERE,
		"two numbers of pixels", "{target_size: [224, 224]}",
		.defaults = {.antialias = true, .step = {.scale = {0.1, 2}}}},
	STEP(STEP_RANDOM_SHORTEST_SIZE) = {"RandomShortestSize", KEYS(shortest_size_keys),
		TRANSFORMS_ANYWHERE, "a number of pixels, or a list of them",
		"{min_size: [256, 288, 320]}", .defaults.antialias = true},
	STEP(STEP_RANDOM_ZOOM_OUT) = {"RandomZoomOut", KEYS(zoom_out_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.scale = {1, 4}, .p = 0.5}},
	STEP(STEP_RESIZE_KEEP_RATIO) = {"ResizeKeepRatio", KEYS(keep_ratio_keys),
		TRANSFORMS_ANYWHERE, PIXELS,
		.defaults.step = {.random_scale_range = {0.85, 1.05},
			.random_aspect_range = {0.9, 1.11}}},
	STEP(STEP_CENTER_CROP_OR_PAD) = {"CenterCropOrPad", KEYS(crop_or_pad_keys),
		TRANSFORMS_ANYWHERE, PIXELS, .defaults.antialias = false},
	STEP(STEP_RANDOM_CROP_OR_PAD) = {"RandomCropOrPad", KEYS(crop_or_pad_keys),
		TRANSFORMS_ANYWHERE, PIXELS, .defaults.antialias = false},
	STEP(STEP_RANDOM_HORIZONTAL_FLIP) = {"RandomHorizontalFlip", KEYS(chance_keys),
		TRANSFORMS_ANYWHERE, .defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_VERTICAL_FLIP) = {"RandomVerticalFlip", KEYS(chance_keys),
		TRANSFORMS_ANYWHERE, .defaults.step = {.p = 0.5}},
	STEP(STEP_COLOR_JITTER) = {"ColorJitter", KEYS(jitter_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.brightness = {1, 1}, .contrast = {1, 1}, .saturation = {1, 1}}},
	STEP(STEP_GRAYSCALE) = {"Grayscale", KEYS(grayscale_keys), TRANSFORMS_ANYWHERE,
		"3 (torchvision's 1 is of images of one channel)", "{num_output_channels: 3}",
		.defaults.num_output_channels = 3},
	STEP(STEP_RANDOM_GRAYSCALE) = {"RandomGrayscale", KEYS(chance_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.p = 0.1}},
	STEP(STEP_GAUSSIAN_BLUR) = {"GaussianBlur", KEYS(blur_keys), TRANSFORMS_ANYWHERE,
		"an odd number of pixels", "{kernel_size: 23}", .instead = 2,
		.defaults.step = {.sigma = {0.1, 2}}},
	STEP(STEP_RANDOM_SOLARIZE) = {"RandomSolarize", KEYS(solarize_keys), TRANSFORMS_ANYWHERE,
		"a number from 0 to 256", "{threshold: 128}", .defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_POSTERIZE) = {"RandomPosterize", KEYS(posterize_keys), TRANSFORMS_ANYWHERE,
		"a whole number from 0 to 8", "{bits: 4}", .defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_EQUALIZE) = {"RandomEqualize", KEYS(chance_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_AUTOCONTRAST) = {"RandomAutocontrast", KEYS(chance_keys),
		TRANSFORMS_ANYWHERE, .defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_INVERT) = {"RandomInvert", KEYS(chance_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_ADJUST_SHARPNESS) = {"RandomAdjustSharpness", KEYS(sharpness_keys),
		TRANSFORMS_ANYWHERE, "a factor", "{sharpness_factor: 2}",
		.defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_AFFINE) = {"RandomAffine", KEYS(affine_keys), TRANSFORMS_ANYWHERE,
		"a number or [least, most]", "{degrees: 15}", .defaults.step = {SCALED, NEAREST}},
	STEP(STEP_RANDOM_ROTATION) = {"RandomRotation", KEYS(rotation_keys), TRANSFORMS_ANYWHERE,
		"a number or [least, most]", "{degrees: 15}", .defaults.step = {NEAREST}},
	STEP(STEP_RANDOM_PERSPECTIVE) = {"RandomPerspective", KEYS(perspective_keys),
		TRANSFORMS_ANYWHERE, .defaults.step = {.distortion_scale = 0.5, .p = 0.5}},
	STEP(STEP_RAND_AUGMENT) = {"RandAugment", KEYS(rand_augment_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.num_ops = 2, .magnitude = 9, .num_magnitude_bins = 31, NEAREST}},
	STEP(STEP_TRIVIAL_AUGMENT_WIDE) = {"TrivialAugmentWide", KEYS(trivial_augment_keys),
		TRANSFORMS_ANYWHERE, .defaults.step = {.num_magnitude_bins = 31, NEAREST}},
	STEP(STEP_AUTO_AUGMENT) = {"AutoAugment", KEYS(auto_augment_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {NEAREST}},
	STEP(STEP_AUG_MIX) = {"AugMix", KEYS(aug_mix_keys), TRANSFORMS_ANYWHERE,
		.defaults.step = {.severity = 3,
			.mixture_width = 3,
			.chain_depth = -1,
			.alpha = 1,
			.all_ops = true}},
	STEP(STEP_THREE_AUGMENT) = {"ThreeAugment", NULL, 0, TRANSFORMS_ANYWHERE,
		.defaults.kind = 0},
	/* As timm's create_transform makes them. */
	STEP(STEP_TIMM_AUTO_AUGMENT) = {"TimmAutoAugment", KEYS(timm_keys), TRANSFORMS_ANYWHERE,
		"timm's string for a policy", "{config: rand-m9-mstd0.5-inc1}",
		.defaults.step = {.interpolation = WEIGHTS_RANDOM,
			.fill = {124, 116, 104},
			.timm.translate = -1}},
	STEP(STEP_RANDOM_ERASING) = {"RandomErasing", KEYS(erasing_keys), TRANSFORMS_LAST,
		.defaults.step = {.p = 0.5, .scale = {0.02, 0.33}, .ratio = {0.3, 3.3}}},
	STEP(STEP_RANDOM_APPLY) = {"RandomApply", KEYS(apply_keys), TRANSFORMS_ANYWHERE, OPERATIONS,
		.defaults.step = {.p = 0.5}},
	STEP(STEP_RANDOM_CHOICE) = {"RandomChoice", KEYS(choice_keys), TRANSFORMS_ANYWHERE,
		OPERATIONS, .defaults.chances = 0},
	STEP(STEP_RANDOM_ORDER) = {"RandomOrder", KEYS(order_keys), TRANSFORMS_ANYWHERE, OPERATIONS,
		.defaults.chances = 0},
};

const struct yaml_key *transforms_within(const struct transforms_rule *rule)
{
	bool holds = rule->key_count && rule->keys[0].read_as == transforms_read_within;
	return holds ? &rule->keys[0] : NULL;
}
