/* mix: see mix.h. client/lib/mix/mixplan.c draws; the device receives each row in the same
 * bytes. Thread: any. */
#include "client/cuda/mix.h"

#include "client/cuda/sentence.h"
#include "client/lib/mix/mixplan.h"

#include <errno.h>
#include <float.h>
#include <stddef.h>

enum { MIX_PREFETCH_MOST = 64 };

#define MIX_SAME(field)                                                  \
	_Static_assert(offsetof(struct penstock_cuda_row, field) ==      \
			       offsetof(struct penstock_mix_row, field), \
		"a row of either library is one of the other's")
MIX_SAME(position);
MIX_SAME(flags);
MIX_SAME(erase_x);
MIX_SAME(cut_x);
MIX_SAME(partner);
MIX_SAME(blend);
MIX_SAME(partner_weight);
_Static_assert(sizeof(struct penstock_cuda_row) == sizeof(struct penstock_mix_row), "as above");
_Static_assert((int)PENSTOCK_CUDA_ROW_FLIPPED == (int)PENSTOCK_ROW_FLIPPED &&
		       (int)PENSTOCK_CUDA_ROW_ERASED == (int)PENSTOCK_ROW_ERASED &&
		       (int)PENSTOCK_CUDA_ROW_MIXED == (int)PENSTOCK_ROW_MIXED,
	"as above");

static struct mixplan mix_settings(const struct penstock_cuda_options *options)
{
	return (struct mixplan){
		.flip = options->flip,
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

void mix_plan(const struct penstock_cuda_options *options, uint64_t seed, uint64_t epoch,
	const struct penstock_sample *samples, uint32_t count, uint32_t height, uint32_t width,
	struct penstock_cuda_row *ret_rows)
{
	struct mixplan plan = mix_settings(options);
	const struct mixplan_batch batch = {.seed = seed,
		.epoch = epoch,
		.samples = samples,
		.rows = count,
		.views = 1,
		.height = height,
		.width = width};
	mixplan_rows(&plan, &batch, (struct penstock_mix_row *)ret_rows);
}

static int mix_check_device(const struct penstock_cuda_options *options)
{
	if (options->device < -1)
		return sentence_set(-EINVAL,
			"options.device is %d: expected a device's number from 0 on, or "
			"-1 for LOCAL_RANK's",
			options->device);
	const struct mixplan_range ranges[] = {
		{"prefetch", options->prefetch, 1, MIX_PREFETCH_MOST, "1 to 64 batches"},
		{"memory", options->memory, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_RING,
			"PENSTOCK_CUDA_AUTO, _REGISTERED or _RING (0 to 2)"},
		{"dtype", options->dtype, PENSTOCK_CUDA_FLOAT32, PENSTOCK_CUDA_BFLOAT16,
			"PENSTOCK_CUDA_FLOAT32, _FLOAT16 or _BFLOAT16 (0 to 2)"},
		{"layout", options->layout, PENSTOCK_CUDA_NHWC, PENSTOCK_CUDA_NCHW,
			"PENSTOCK_CUDA_NHWC or _NCHW (0 or 1)"},
	};
	if (!options->allocate != !options->release)
		return sentence_set(-EINVAL,
			"options.%s is set and options.%s is not: expected both, or "
			"neither for the driver's own memory",
			options->allocate ? "allocate" : "release",
			options->allocate ? "release" : "allocate");
	return MIXPLAN_CHECK_RANGES(ranges);
}

static int mix_check_colours(const struct penstock_cuda_options *options)
{
	static const char finite[] = "a finite number";
	static const char positive[] = "a number above 0";
	const struct mixplan_range ranges[] = {
		{"mean[0]", options->mean[0], -FLT_MAX, FLT_MAX, finite},
		{"mean[1]", options->mean[1], -FLT_MAX, FLT_MAX, finite},
		{"mean[2]", options->mean[2], -FLT_MAX, FLT_MAX, finite},
		{"std[0]", options->std[0], FLT_MIN, FLT_MAX, positive},
		{"std[1]", options->std[1], FLT_MIN, FLT_MAX, positive},
		{"std[2]", options->std[2], FLT_MIN, FLT_MAX, positive},
		{"erase_value[0]", options->erase_value[0], -FLT_MAX, FLT_MAX, finite},
		{"erase_value[1]", options->erase_value[1], -FLT_MAX, FLT_MAX, finite},
		{"erase_value[2]", options->erase_value[2], -FLT_MAX, FLT_MAX, finite},
	};
	return MIXPLAN_CHECK_RANGES(ranges);
}

int mix_check(const struct penstock_cuda_options *options)
{
	struct mixplan plan = mix_settings(options);
	const struct mixplan_range random = {
		"erase_random", options->erase_random, 0, 1, "0, or 1 for noise"};
	int r = mix_check_device(options);
	if (r == 0)
		r = mix_check_colours(options);
	if (r == 0)
		r = mixplan_check_ranges(&random, 1);
	if (r == 0)
		r = mixplan_check(&plan);
	return r;
}
