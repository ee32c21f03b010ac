/* mix: see mix.h. Thread: any. */
#include "client/lib/mix/mix.h"

#include "client/lib/convert.h"
#include "client/lib/error.h"
#include "proto/erase.h"
#include "proto/philox.h"
#include "proto/processor.h"

#include <errno.h>
#include <float.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MIX_CLASSES_MOST = 1 << 24 }; /* what a float can count */

void penstock_mix_options_init_size(struct penstock_mix_options *options, size_t size)
{
	const struct penstock_mix_options defaults = {.size = size,
		.mix = 1,
		.mix_switch = 0.5,
		.erase_scale = {ERASE_SCALE_MIN, ERASE_SCALE_MAX},
		.erase_ratio = {ERASE_RATIO_MIN, ERASE_RATIO_MAX}};
	size_t known = size < sizeof defaults ? size : sizeof defaults;
	memcpy(options, &defaults, known);
	memset((unsigned char *)options + known, 0, size - known);
}

static int mix_check_rest(const struct penstock_mix_options *options)
{
	static const char finite[] = "a finite number";
	const struct mixplan_range ranges[] = {
		{"erase_value[0]", options->erase_value[0], -FLT_MAX, FLT_MAX, finite},
		{"erase_value[1]", options->erase_value[1], -FLT_MAX, FLT_MAX, finite},
		{"erase_value[2]", options->erase_value[2], -FLT_MAX, FLT_MAX, finite},
		{"erase_random", options->erase_random, 0, 1, "0, or 1 for noise"},
		{"classes", options->classes, 0, MIX_CLASSES_MOST,
			"0 for no soft labels, or 1 to 16777216"},
		{"smoothing", options->smoothing, 0, 1, "a share, 0 to 1"},
	};
	return MIXPLAN_CHECK_RANGES(ranges);
}

/* The kernels of the instructions that images are converted with, if there are such. */
static int mix_choose(const struct mix_kernels **ret)
{
	const struct convert_kernels *converting;
	int result = convert_choose(&converting);
	if (result < 0)
		return convert_refuse(result);
	*ret = &mix_c;
#ifdef __x86_64__
	if (converting != &convert_c && processor_has(PROCESSOR_AVX2 | PROCESSOR_F16C))
		*ret = &mix_avx2;
#endif
	return 0;
}

static struct mixplan mix_settings(const struct penstock_mix_options *options)
{
	return (struct mixplan){
		.erase = options->erase,
		.erase_scale = {options->erase_scale[0], options->erase_scale[1]},
		.erase_ratio = {options->erase_ratio[0], options->erase_ratio[1]},
		.mixup = options->mixup,
		.cutmix = options->cutmix,
		.mix = options->mix,
		.mix_switch = options->mix_switch,
		.epochs = options->epochs,
		.epoch_count = options->epoch_count,
	};
}

/* Fields that a later release added must be unset, as in open.c. The first release had no
 * epochs. */
static int mix_read_options(
	const struct penstock_mix_options *options, struct penstock_mix_options *ret_options)
{
	if (!options || options->size < offsetof(struct penstock_mix_options, epochs) ||
		options->size > 16 * sizeof *options)
		return error_set(-EINVAL,
			"the options were not prepared: call penstock_mix_options_init first");
	for (size_t i = sizeof *options; i < options->size; i++) {
		if (((const unsigned char *)options)[i])
			return error_set(-EINVAL,
				"the application sets an option of mixing that libpenstock %s does "
				"not know: install the release that it was built with",
				PENSTOCK_VERSION);
	}
	penstock_mix_options_init(ret_options);
	size_t size = options->size < sizeof *options ? options->size : sizeof *options;
	memcpy(ret_options, options, size);
	return 0;
}

int penstock_mix_new(const struct penstock_mix_options *options, struct penstock_mix **ret_mix)
{
	struct penstock_mix_options mine;
	const struct mix_kernels *kernels = &mix_c;
	int result = mix_read_options(options, &mine);
	if (result < 0)
		return result;
	struct mixplan plan = mix_settings(&mine);
	result = mixplan_check(&plan);
	if (result == 0)
		result = mix_check_rest(&mine);
	if (result == 0)
		result = mix_choose(&kernels);
	if (result < 0)
		return result;
	size_t bytes = plan.epoch_count * sizeof *plan.epochs;
	struct penstock_mix *mix = malloc(sizeof *mix + bytes);
	if (!mix)
		return error_set(-ENOMEM, "no memory for mixing");
	*mix = (struct penstock_mix){.plan = plan,
		.kernels = kernels,
		.erase_random = mine.erase_random,
		.classes = mine.classes,
		.smoothing = mine.smoothing};
	memcpy(mix->erase_value, mine.erase_value, sizeof mix->erase_value);
	if (bytes)
		memcpy(mix->epochs, plan.epochs, bytes);
	mix->plan.epochs = mix->epochs;
	*ret_mix = mix;
	return 0;
}

void penstock_mix_free(struct penstock_mix *mix)
{
	free(mix);
}

void penstock_mix_plan(const struct penstock_mix *mix, const struct penstock_stream_info *info,
	const struct penstock_batch *batch, struct penstock_mix_row *ret_rows)
{
	const uint64_t seed = philox_salted(info->seed, info->salt);
	const struct mixplan_batch planned = {.seed = seed,
		.epoch = batch->epoch,
		.samples = batch->samples,
		.rows = batch->count * info->views,
		.views = info->views,
		.height = batch->height,
		.width = batch->width};
	mixplan_rows(&mix->plan, &planned, ret_rows);
	for (uint32_t i = 0; i < planned.rows; i++) {
		ret_rows[i].seed[0] = (uint32_t)seed;
		ret_rows[i].seed[1] = (uint32_t)(seed >> 32);
	}
}

/* ---- labels ---- */

/* Labels are read at the partners' rows, which a part of the planned rows may not contain. */
static int mix_check_rows(const struct penstock_mix_row *rows, uint32_t count, uint32_t views)
{
	if (!views || count % views)
		return error_set(-EINVAL, "%u rows of %u views each: expected a multiple of them",
			count, views);
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].partner >= count)
			return error_set(-EINVAL,
				"rows[%u] is mixed with row %u, and there are %u rows: expected "
				"all "
				"rows of one penstock_mix_plan",
				i, rows[i].partner, count);
	}
	return 0;
}

/* With nothing but zeros as targets, the loss would always be 0. */
static int mix_refuse_unlabelled(uint32_t samples)
{
	return error_set(-EINVAL,
		"none of %u samples has a label, and mixup, cutmix and label smoothing need "
		"labels: "
		"give the dataset class folders, .cls or .json members, or a manifest "
		"(penstock.yaml(5), LABELS), or leave all three out",
		samples);
}

static int mix_check_labels(const struct penstock_mix *mix, const int64_t *labels, uint32_t samples)
{
	bool labelled = samples == 0;
	if (!mix->classes)
		return error_set(-EINVAL, "options.classes is not set: expected the number of "
					  "classes of soft labels");
	for (uint32_t i = 0; i < samples; i++) {
		labelled |= labels[i] >= 0;
		if (labels[i] >= (int64_t)mix->classes)
			return error_set(-EINVAL,
				"labels[%u] is %lld, and options.classes is %u (num_classes in "
				"Python): expected a label below that",
				i, (long long)labels[i], mix->classes);
	}
	return labelled ? 0 : mix_refuse_unlabelled(samples);
}

/* A label's shares, multiplied by its weight: of its own class, and of every other class. */
struct mix_share {
	int64_t label; /* below 0: none */
	float hit, even;
};

static struct mix_share mix_share(
	const struct penstock_mix *mix, float smoothing, int64_t label, float weight)
{
	float even = smoothing / (float)mix->classes;
	float hit = 1 - smoothing + even;
	if (label < 0)
		return (struct mix_share){.label = -1};
	return (struct mix_share){label, weight * hit, weight * even};
}

/* The label smoothing of the batch that the rows were planned for. */
static float mix_smoothing(
	const struct penstock_mix *mix, const struct penstock_mix_row *rows, uint32_t count)
{
	const struct penstock_mix_epoch *entry =
		count ? mixplan_epoch(&mix->plan, rows[0].epoch) : NULL;
	return entry ? entry->smoothing : mix->smoothing;
}

static void mix_put_target(
	const struct mix_share *own, const struct mix_share *other, uint32_t classes, float *out)
{
	float even = own->even + other->even;
	for (uint32_t k = 0; k < classes; k++)
		out[k] = even;
	if (own->label >= 0)
		out[own->label] =
			own->hit + (own->label == other->label ? other->hit : other->even);
	if (other->label >= 0 && other->label != own->label)
		out[other->label] = own->even + other->hit;
}

int penstock_mix_targets(const struct penstock_mix *mix, const struct penstock_mix_row *rows,
	uint32_t count, uint32_t views, const int64_t *labels, float *targets)
{
	int result = mix_check_rows(rows, count, views);
	if (result == 0)
		result = mix_check_labels(mix, labels, count / views);
	if (result < 0)
		return result;
	float smoothing = mix_smoothing(mix, rows, count);
	for (uint32_t i = 0; i < count / views; i++) {
		const struct penstock_mix_row *row = &rows[i * views];
		struct mix_share own = mix_share(mix, smoothing, labels[i], row->weight);
		struct mix_share other = {.label = -1};
		if (row->flags & PENSTOCK_ROW_MIXED)
			other = mix_share(
				mix, smoothing, labels[row->partner / views], row->partner_weight);
		mix_put_target(&own, &other, mix->classes, targets + (size_t)i * mix->classes);
	}
	return 0;
}

int penstock_mix_values(const struct penstock_mix *mix, const struct penstock_mix_row *rows,
	uint32_t count, uint32_t views, const float *values, uint32_t width, float *targets)
{
	(void)mix;
	int result = mix_check_rows(rows, count, views);
	if (result < 0)
		return result;
	for (uint32_t i = 0; i < count / views; i++) {
		const struct penstock_mix_row *row = &rows[i * views];
		const float *own = values + (size_t)i * width;
		const float *other = values + (size_t)(row->partner / views) * width;
		float *out = targets + (size_t)i * width;
		memcpy(out, own, width * sizeof *out);
		if (row->flags & PENSTOCK_ROW_MIXED)
			mix_c.blend[PENSTOCK_FLOAT32](
				out, other, width, row->weight, row->partner_weight);
	}
	return 0;
}
