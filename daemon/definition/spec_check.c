/* spec_check: see spec_check.h. */
#include "definition/spec_check.h"

#include "base/util.h"
#include "definition/spec_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define SPEC_SCHEME "stream:"

static int spec_refuse(struct spec_wrong *ret, int key, enum spec_place place, const char *format,
	...) __attribute__((format(printf, 4, 5)));

static int spec_refuse(
	struct spec_wrong *ret, int key, enum spec_place place, const char *format, ...)
{
	va_list args;
	ret->key = key;
	ret->place = place;
	va_start(args, format);
	(void)vsnprintf(ret->text, sizeof ret->text, format, args);
	va_end(args);
	return -EINVAL;
}

/* Takes `source: stream:NAME`, which users write on a command line, as `stream: NAME`. */
static int spec_unfold(struct stream_spec *spec, struct spec_wrong *ret)
{
	const char *name = spec->source + strlen(SPEC_SCHEME);
	if (strncmp(spec->source, SPEC_SCHEME, strlen(SPEC_SCHEME)) != 0)
		return 0;
	if (spec_given(spec, SPEC_KEY_stream) || !name[0] || strlen(name) >= sizeof spec->name)
		return spec_refuse(ret, SPEC_KEY_source, SPEC_AT_VALUE,
			"source: expected stream:NAME with a name from the daemon's configuration, "
			"and no key stream: beside it");
	memcpy(spec->name, name, strlen(name) + 1);
	spec->source[0] = 0;
	spec->given ^= (uint64_t)1 << SPEC_KEY_stream | (uint64_t)1 << SPEC_KEY_source;
	return 0;
}

/* The configuration defines a named stream; a client says only how it reads the stream. */
static int spec_check_named(const struct stream_spec *spec, struct spec_wrong *ret)
{
	for (int key = 0; spec_given(spec, SPEC_KEY_stream) && key < SPEC_KEYS; key++)
		if (spec_given(spec, (enum spec_key)key) && spec_who[key].writer == SPEC_DEFINITION)
			return spec_refuse(ret, key, SPEC_AT_KEY,
				"%s cannot be written beside stream: the configuration defines "
				"\"%s\"; beside it only these keys are allowed: epochs, group, "
				"share, rank, world_size, wait_for, laggard, laggard_timeout_s, "
				"state, pin_memory and reconnect",
				spec_keys[key].name, spec->name);
	return 0;
}

static int spec_check_source(const struct stream_spec *spec, struct spec_wrong *ret)
{
	if (spec_given(spec, SPEC_KEY_stream) || spec_given(spec, SPEC_KEY_source) ||
		spec_given(spec, SPEC_KEY_sources))
		return 0;
	return spec_refuse(ret, SPEC_KEYS, SPEC_AT_KEY,
		"source is missing; expected a folder, a tar, a glob or a brace range of tars");
}

/* The keys that exclude each other, and why. */
static int spec_check_apart(const struct stream_spec *spec, struct spec_wrong *ret)
{
	static const struct {
		enum spec_key key, beside;
		const char *why;
	} apart[] = {
		{SPEC_KEY_sources, SPEC_KEY_source, "it replaces it"},
		{SPEC_KEY_sources, SPEC_KEY_indices, "a list numbers the samples of one dataset"},
		{SPEC_KEY_sources, SPEC_KEY_weights, "sources have weights of their own"},
		{SPEC_KEY_split, SPEC_KEY_indices, "each of them chooses the samples"},
		{SPEC_KEY_buckets, SPEC_KEY_image_size, "the buckets say the sizes"},
		{SPEC_KEY_buckets, SPEC_KEY_sources, "the mix of several sources has no buckets"},
		{SPEC_KEY_buckets, SPEC_KEY_weights,
			"samples that are drawn by weights leave open how many each bucket has"},
		{SPEC_KEY_buckets, SPEC_KEY_epoch_length,
			"an epoch has all samples of each bucket"},
		{SPEC_KEY_buckets, SPEC_KEY_sampling,
			"a batch of given classes has samples of any shape"},
		{SPEC_KEY_sampling, SPEC_KEY_sources,
			"several sources are mixed by their weights, not by classes"},
		{SPEC_KEY_sampling, SPEC_KEY_weights, "each of them draws the samples"},
	};
	for (size_t i = 0; i < UTIL_COUNT(apart); i++)
		if (spec_given(spec, apart[i].key) && spec_given(spec, apart[i].beside))
			return spec_refuse(ret, (int)apart[i].key, SPEC_AT_KEY,
				"%s cannot be written beside %s: %s; leave one of them out",
				spec_keys[apart[i].key].name, spec_keys[apart[i].beside].name,
				apart[i].why);
	return 0;
}

static int spec_check_classes(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const bool folders = spec->labels.from == DATASET_LABELS_AUTO ||
			     spec->labels.from == DATASET_LABELS_FOLDER;
	if (spec->class_order == CLASS_ORDER_BYTEWISE || folders)
		return 0;
	return spec_refuse(ret, SPEC_KEY_class_order, SPEC_AT_VALUE,
		"class_order: expected nothing: it numbers class folders, and labels says that "
		"the labels come from elsewhere");
}

/* A column's labels are those of `labels: auto`. */
static int spec_check_columns(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const enum spec_key key =
		spec->columns.label[0] ? SPEC_KEY_label_column : SPEC_KEY_label_offset;
	if ((!spec->columns.label[0] && !spec->columns.label_offset) ||
		spec->labels.from == DATASET_LABELS_AUTO)
		return 0;
	return spec_refuse(ret, (int)key, SPEC_AT_VALUE,
		"%s: expected nothing: it is about the labels of a column, and labels says that "
		"there are none or that they come from elsewhere",
		spec_keys[key].name);
}

/* Whether an operation of the list makes the size and could also make another size. */
static bool spec_scales(const struct pixel_recipe *recipe)
{
	return recipe->kind == PIXEL_RESIZED_CROP ||
	       (recipe->kind == PIXEL_RESIZE && recipe->both && !recipe->random_window &&
		       pixel_size_equal(recipe->resize, recipe->size));
}

/* Each bucket needs a size that the list's operation can make, large enough for its steps. */
static int spec_check_buckets(
	const struct stream_spec *spec, const struct pixel_recipe *recipe, struct spec_wrong *ret)
{
	const struct pixel_size least = transforms_least_size(&spec->transforms);
	char least_text[SHAPE_SIZE_TEXT], got[SHAPE_SIZE_TEXT];
	if (!spec_scales(recipe))
		return spec_refuse(ret, SPEC_KEY_buckets, SPEC_AT_KEY,
			"buckets: the size of a bucket can replace the size of RandomResizedCrop "
			"or of Resize: {size: [H, W]} where the list begins with it, but not of a "
			"crop, which would then show another part of the image; take another "
			"list, or leave buckets out");
	for (uint32_t i = 0; i < spec->buckets.count; i++)
		if (spec->buckets.size[i].height < least.height ||
			spec->buckets.size[i].width < least.width)
			return spec_refuse(ret, SPEC_KEY_buckets, SPEC_AT_VALUE,
				"buckets: expected at least %s for each, which GaussianBlur's "
				"kernel_size needs; got %s",
				shape_size_text(least, least_text),
				shape_size_text(spec->buckets.size[i], got));
	return 0;
}

static bool spec_draws(const struct stream_spec *spec)
{
	return spec->sampling.weights[0] || spec->sampling.sources.count ||
	       spec->sampling.per_class.classes;
}

/* A window is cut out of the order of the dataset. */
static int spec_check_blocks(const struct stream_spec *spec, struct spec_wrong *ret)
{
	static const struct {
		enum spec_key key;
		const char *why;
	} apart[] = {
		{SPEC_KEY_weights, "samples that are drawn by weights come from anywhere"},
		{SPEC_KEY_sampling, "the classes of a batch come from anywhere"},
		{SPEC_KEY_buckets, "the samples of a bucket come from anywhere"},
	};
	const bool blocks = spec_given(spec, SPEC_KEY_shuffle) && spec->shuffle == SHUFFLE_BLOCKS;
	for (size_t i = 0; blocks && i < UTIL_COUNT(apart); i++)
		if (spec_given(spec, apart[i].key))
			return spec_refuse(ret, SPEC_KEY_shuffle, SPEC_AT_VALUE,
				"shuffle: expected true, or nothing, beside %s: %s, not from a "
				"window of blocks",
				spec_keys[apart[i].key].name, apart[i].why);
	if (blocks || !spec_given(spec, SPEC_KEY_window))
		return 0;
	return spec_refuse(ret, SPEC_KEY_window, SPEC_AT_KEY,
		"window needs shuffle: blocks: it is the number of blocks that such a shuffle has "
		"open");
}

/* Samples that are drawn or mixed have no order of their own. Without shuffling, `repeats` would
 * deliver the same samples in every epoch, and never the others. */
static int spec_check_shuffle(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const bool drawn = spec_draws(spec);
	const bool off =
		spec_given(spec, SPEC_KEY_shuffle) ? !spec->shuffle : !spec->train && !drawn;
	if (off && drawn)
		return spec_refuse(ret, SPEC_KEY_shuffle, SPEC_AT_VALUE,
			"shuffle: expected true, or nothing: %s",
			spec->sampling.weights[0]
				? "samples that are drawn by weights have no order"
			: spec->sampling.per_class.classes
				? "sampling draws the classes of a batch"
				: "the samples of several sources are mixed");
	if (off && spec->sampling.repeats > 1)
		return spec_refuse(ret, SPEC_KEY_repeats, SPEC_AT_VALUE,
			"repeats: expected 1 where samples are not shuffled: the first ones would "
			"come in every epoch, and the others never");
	return 0;
}

/* Every batch has whole blocks of P classes with K samples of each, also that of a rank. */
static int spec_check_per_class(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const struct sampling *sampling = &spec->sampling;
	const struct sampling_per_class *each = &sampling->per_class;
	const uint64_t block = sampling_block(sampling);
	if (!each->classes)
		return 0;
	if (sampling->repeats > 1)
		return spec_refuse(ret, SPEC_KEY_sampling, SPEC_AT_KEY,
			"sampling cannot be written beside repeats: each class has per_class "
			"samples in a batch; leave one of them out");
	if (spec->batch_size % block)
		return spec_refuse(ret, SPEC_KEY_sampling, SPEC_AT_VALUE,
			"sampling: expected a batch_size that is a multiple of classes x "
			"per_class = %" PRIu32 " x %" PRIu32 " = %" PRIu64 ", got %" PRIu32,
			each->classes, each->each, block, spec->batch_size);
	if (sampling->epoch_length % block)
		return spec_refuse(ret, SPEC_KEY_epoch_length, SPEC_AT_VALUE,
			"epoch_length: expected a multiple of classes x per_class = %" PRIu64
			", because sampling delivers whole classes; got %" PRIu64,
			block, sampling->epoch_length);
	if (spec_given(spec, SPEC_KEY_drop_last) && !spec->drop_last)
		return spec_refuse(ret, SPEC_KEY_drop_last, SPEC_AT_VALUE,
			"drop_last: expected true, or nothing: a short last batch would not have "
			"the classes that sampling asks for");
	return 0;
}

static int spec_check_split(const struct stream_spec *spec, struct spec_wrong *ret)
{
	struct split split;
	struct fault why = {{0}};
	if (!spec->sampling.split[0] || !split_parse(spec->sampling.split, &split, &why))
		return 0;
	return spec_refuse(ret, SPEC_KEY_split, SPEC_AT_VALUE, "split: %s", why.text);
}

/* Neither rank nor world_size has a meaning without the other. The configuration has neither, so
 * it may have `share: split` without them. */
static int spec_check_rank(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const bool rank = spec_given(spec, SPEC_KEY_rank),
		   world = spec_given(spec, SPEC_KEY_world_size);
	const enum spec_key key = rank ? SPEC_KEY_rank : SPEC_KEY_world_size;
	if (rank != world)
		return spec_refuse(ret, (int)key, SPEC_AT_VALUE,
			"%s: expected both rank and world_size beside share: split",
			spec_keys[key].name);
	if (rank && spec->rank >= spec->world_size)
		return spec_refuse(ret, SPEC_KEY_rank, SPEC_AT_VALUE,
			"rank: expected a number below world_size, which is %" PRIu32
			", got %" PRIu32,
			spec->world_size, spec->rank);
	return 0;
}

static int spec_check_reconnect(const struct stream_spec *spec, struct spec_wrong *ret)
{
	if (!spec->reconnect || spec->state.given)
		return 0;
	return spec_refuse(ret, SPEC_KEY_reconnect, SPEC_AT_KEY,
		"reconnect needs the state that the trainer resumes from");
}

static int spec_check_shape(const struct stream_spec *spec, struct spec_wrong *ret)
{
	static const enum spec_key floats[] = {SPEC_KEY_mean, SPEC_KEY_std};
	for (size_t i = 0; i < UTIL_COUNT(floats); i++)
		if (spec_given(spec, floats[i]) && spec->shape.dtype == SHAPE_UINT8)
			return spec_refuse(ret, (int)floats[i], SPEC_AT_KEY,
				"%s needs dtype: float32, float16 or bfloat16: uint8 is not "
				"normalized",
				spec_keys[floats[i]].name);
	return 0;
}

static int spec_check_size(
	const struct stream_spec *spec, const struct pixel_recipe *recipe, struct spec_wrong *ret)
{
	const bool several = spec->shape.sizes.count;
	char makes[SHAPE_SIZE_TEXT], got[SHAPE_SIZE_TEXT];
	if (spec_given(spec, SPEC_KEY_image_size) &&
		!pixel_size_equal(spec->image_size, recipe->size))
		return spec_refuse(ret, SPEC_KEY_image_size, SPEC_AT_VALUE,
			"image_size: expected %s, the size that transforms makes, %sor nothing; "
			"got %s",
			shape_size_text(recipe->size, makes),
			several ? "as the largest of all epochs, " : "",
			shape_size_text(spec->image_size, got));
	if (several && recipe->kind == PIXEL_WHOLE)
		return spec_refuse(ret, SPEC_KEY_image_size, SPEC_AT_VALUE,
			"image_size: the sizes of epochs can replace the size of "
			"RandomResizedCrop or of Resize: {size: [H, W]} only where the list begins "
			"with it and no later operation changes the size; write one size, or "
			"another list");
	if (several && !spec_scales(recipe))
		return spec_refuse(ret, SPEC_KEY_image_size, SPEC_AT_VALUE,
			"image_size: the sizes of epochs can replace the size of "
			"RandomResizedCrop or of Resize: {size: [H, W]}, but not of a crop, which "
			"would then show another part of the image; write one size, or another "
			"list");
	return 0;
}

/* Checks that every epoch's size is large enough for the steps. */
static int spec_check_sides(const struct stream_spec *spec, struct spec_wrong *ret)
{
	const struct pixel_size least = transforms_least_size(&spec->transforms);
	char least_text[SHAPE_SIZE_TEXT], got[SHAPE_SIZE_TEXT];
	for (uint32_t i = 0; i < spec->shape.sizes.count; i++) {
		const struct pixel_size size = spec->shape.sizes.at[i].size;
		if (size.height < least.height || size.width < least.width)
			return spec_refuse(ret, SPEC_KEY_image_size, SPEC_AT_VALUE,
				"image_size: expected at least %s in all epochs, which "
				"GaussianBlur's kernel_size needs; got %s",
				shape_size_text(least, least_text), shape_size_text(size, got));
	}
	return 0;
}

/* The list decides the size and the filter. image_size may repeat the list's size, or give sizes
 * of epochs that replace it. */
static int spec_check_transforms(struct stream_spec *spec, struct spec_wrong *ret)
{
	if (!spec_given(spec, SPEC_KEY_transforms))
		return 0;
	const struct pixel_recipe recipe = transforms_pixels(&spec->transforms);
	const char *why = transforms_byte_fault(&spec->transforms);
	if (spec_given(spec, SPEC_KEY_interpolation))
		return spec_refuse(ret, SPEC_KEY_interpolation, SPEC_AT_KEY,
			"interpolation cannot be written beside transforms: it is a parameter of "
			"its operations");
	int result = spec->buckets.count ? spec_check_buckets(spec, &recipe, ret)
					 : spec_check_size(spec, &recipe, ret);
	if (result < 0)
		return result;
	if (!spec->buckets.count)
		spec->image_size = recipe.size;
	spec->interpolation = recipe.filter;
	/* RandomErasing is always the last operation of a list. */
	if (why && spec->shape.dtype == SHAPE_UINT8)
		return spec_refuse(ret, SPEC_KEY_transforms, SPEC_AT_LAST_ITEM, "%s", why);
	return spec_check_sides(spec, ret);
}

/* A key that says nothing, since every group of views has its own value. */
static int spec_check_unused(const struct stream_spec *spec, struct spec_wrong *ret)
{
	bool listed = true, sized = true;
	for (uint32_t i = 0; i < spec->views.groups; i++) {
		const struct views_group *group = &spec->views.group[i];
		listed &= views_has_list(group);
		sized &= group->size.height > 0;
	}
	const enum spec_key key =
		listed && spec_given(spec, SPEC_KEY_transforms)      ? SPEC_KEY_transforms
		: listed && spec_given(spec, SPEC_KEY_interpolation) ? SPEC_KEY_interpolation
		: sized && spec_given(spec, SPEC_KEY_image_size)     ? SPEC_KEY_image_size
								     : SPEC_KEYS;
	if (key == SPEC_KEYS)
		return 0;
	return spec_refuse(ret, (int)key, SPEC_AT_KEY,
		"%s has no effect beside views, where every group has its own; leave it out",
		spec_keys[key].name);
}

/* Every group gets its own list, size and filter. What they replace is then not given any more. */
static int spec_check_views(struct stream_spec *spec, struct spec_wrong *ret)
{
	const uint64_t replaced = (uint64_t)1 << SPEC_KEY_transforms |
				  (uint64_t)1 << SPEC_KEY_image_size |
				  (uint64_t)1 << SPEC_KEY_interpolation;
	const struct views_defaults defaults = {
		.transforms = spec->transforms.count ? &spec->transforms : NULL,
		.size = spec->image_size,
		.interpolation = spec->interpolation,
	};
	spec->shape.views = spec->views.count;
	if (!spec->views.groups)
		return 0;
	if (spec->buckets.count)
		return spec_refuse(ret, SPEC_KEY_buckets, SPEC_AT_KEY,
			"buckets cannot be written beside groups of views, which have sizes of "
			"their own: leave one of them out");
	if (spec->shape.sizes.count)
		return spec_refuse(ret, SPEC_KEY_image_size, SPEC_AT_VALUE,
			"image_size: expected one size for all epochs beside groups of views, "
			"whose sizes cannot change");
	int result = spec_check_unused(spec, ret);
	if (result < 0)
		return result;
	if (views_settle(&spec->views, &defaults, ret->text, sizeof ret->text) < 0) {
		ret->key = SPEC_KEY_views;
		ret->place = SPEC_AT_VALUE;
		return -EINVAL;
	}
	for (uint32_t i = 0; i < spec->views.groups && spec->shape.dtype == SHAPE_UINT8; i++) {
		struct transforms list;
		views_transforms(&spec->views, &spec->views.group[i], &list);
		const char *why = transforms_byte_fault(&list);
		char called[VIEWS_CALLED];
		if (why)
			return spec_refuse(ret, SPEC_KEY_views, SPEC_AT_VALUE, "%s: %s",
				views_called(i, spec->views.group[i].name, called), why);
	}
	spec->transforms.count = 0;
	spec->interpolation = WEIGHTS_BILINEAR;
	spec->image_size = views_largest(&spec->views);
	spec->given &= ~replaced;
	return 0;
}

/* Sets the values that `train` implies for keys that were not written. With several sources,
 * `source` becomes a text that lists them. */
static void spec_imply(struct stream_spec *spec)
{
	if (spec->sampling.sources.count)
		sampling_say_sources(&spec->sampling.sources, spec->source, sizeof spec->source);
	if (!spec_given(spec, SPEC_KEY_shuffle))
		spec->shuffle = spec->train || spec_draws(spec) ? SHUFFLE_FULL : SHUFFLE_NONE;
	if (!spec_given(spec, SPEC_KEY_drop_last))
		spec->drop_last = spec->train || spec->sampling.per_class.classes;
	if (!spec_given(spec, SPEC_KEY_on_broken))
		spec->on_broken = spec->train ? SPEC_BROKEN_SUBSTITUTE : SPEC_BROKEN_MARK;
}

int spec_settle(struct stream_spec *spec, struct spec_wrong *ret)
{
	static int (*const checks[])(const struct stream_spec *, struct spec_wrong *) = {
		spec_check_source, spec_check_named, spec_check_apart, spec_check_classes,
		spec_check_columns, spec_check_blocks, spec_check_shuffle, spec_check_per_class,
		spec_check_split, spec_check_rank, spec_check_reconnect, spec_check_shape};
	int result = spec_unfold(spec, ret);
	if (spec_given(spec, SPEC_KEY_image_size))
		spec->image_size = shape_settle_sizes(&spec->shape.sizes);
	if (spec->buckets.count)
		spec->image_size = bucket_keys_largest(&spec->buckets);
	for (size_t i = 0; !result && i < UTIL_COUNT(checks); i++)
		result = checks[i](spec, ret);
	if (!result)
		result = spec_check_transforms(spec, ret);
	if (!result)
		result = spec_check_views(spec, ret);
	if (!result)
		spec_imply(spec);
	return result;
}
