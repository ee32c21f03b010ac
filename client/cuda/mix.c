/* mix: see mix.h. Pure functions; any thread.
 *
 * Every draw is named by seed, epoch (its low 32 bits), position (its low 48), operation and step,
 * as proto/philox.h has it; `words` are those of a draw, two of them make a uniform number of 53
 * bits, one alone one of 32.
 *
 *   PHILOX_BATCH_FLIP    step 0        words 0 and 1: whether
 *   PHILOX_BATCH_ERASE   step 0        words 0 and 1: whether
 *                        step 1 .. 10  an attempt each: word 0 area, 1 logarithm of the ratio,
 *                                      2 row, 3 column
 *   PHILOX_BATCH_MIX     step 0        words 0 and 1: whether; 2 and 3: MixUp or CutMix
 *                        step 1        lambda, see mix_beta
 *                        step 2        CutMix: words 0 and 1 column, 2 and 3 row of the centre
 *
 * As with the daemon's crops (daemon/pixel/draw.h) nothing here asks libm for an exp, log or
 * cosine: elementary.h has those. Square roots and rint are rounded as IEEE 754 says. */
#include "client/cuda/mix.h"

#include "client/cuda/sentence.h"
#include "proto/elementary.h"
#include "proto/philox.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");
_Static_assert(sizeof(struct penstock_cuda_row) == 64, "the device's functions read it");

enum {
	MIX_ERASE_ATTEMPTS = 10, /* torchvision's */
	MIX_PREFETCH_MOST = 64,
};

static const double MIX_ALPHA_LEAST = 0.01, MIX_ALPHA_MOST = 100;

/* Beta(alpha, alpha) out of one draw and without rejection. sqrt(n (U^(-2/n) - 1)) cos(2 pi V) has
 * Student's t distribution with n degrees of freedom (Bailey, "Polar generation of random variates
 * with the t-distribution", Mathematics of Computation 62, 1994), and 1/2 + t / (2 sqrt(n + t^2))
 * then has Beta(n/2, n/2) (Devroye, "Random variate generation in one line of code", 1996). Written
 * with q = U^(1/alpha) and the square c of the cosine, so that neither the small end's precision is
 * lost nor anything overflows where alpha is small. Words 0 and 1: 1 - U; 2 and 3: V, folded into a
 * quarter of the circle and a sign. */
static double mix_beta(double alpha, struct philox r)
{
	double u = 1 - philox_unit(r.word[0], r.word[1]); /* above 0 */
	double v = 2 * philox_unit(r.word[2], r.word[3]);
	bool high = v >= 1;
	double cosine = elementary_cosine(high ? v - 1 : v), c = cosine * cosine;
	double q = elementary_exp(elementary_log(u) / alpha);
	double whole = q + (1 - q) * c; /* above 0, as c is */
	double low = 0.5 * (q / whole) / (1 + sqrt((1 - q) * c / whole));
	return high ? 1 - low : low;
}

/* What names the draws of one row or batch. */
struct mix_key {
	uint64_t seed, position;
	uint32_t epoch;
};

/* Cut to what a counter holds: what lies in the daemon's memory can be garbage, and must not end
 * the trainer. */
static struct mix_key mix_key(uint64_t seed, uint64_t epoch, uint64_t position)
{
	return (struct mix_key){.seed = seed,
		.position = position & (((uint64_t)1 << 48) - 1),
		.epoch = (uint32_t)epoch};
}

static struct philox mix_draw(
	const struct mix_key *key, enum philox_operation operation, uint32_t step)
{
	return philox_draw(key->seed, key->epoch, key->position, operation, step);
}

static bool mix_happens(struct philox r, double probability)
{
	return philox_unit(r.word[0], r.word[1]) < probability;
}

static double mix_between(uint32_t word, double from, double to)
{
	return from + philox_unit(word, 0) * (to - from);
}

struct mix_box {
	uint32_t x, y, w, h;
};

/* The rectangle of torchvision.transforms.v2.RandomErasing; false where nothing is erased: no
 * attempt fitted, or a side was rounded to nothing. */
static bool mix_erase_box(const struct penstock_cuda_options *options, const struct mix_key *key,
	uint32_t height, uint32_t width, struct mix_box *ret_box)
{
	double area = (double)height * (double)width;
	double ratio_from = elementary_log(options->erase_ratio[0]);
	double ratio_to = elementary_log(options->erase_ratio[1]);
	for (uint32_t attempt = 1; attempt <= MIX_ERASE_ATTEMPTS; attempt++) {
		struct philox r = mix_draw(key, PHILOX_BATCH_ERASE, attempt);
		double wanted = area * mix_between(r.word[0], options->erase_scale[0],
					       options->erase_scale[1]);
		double ratio = elementary_exp(mix_between(r.word[1], ratio_from, ratio_to));
		double h = rint(sqrt(wanted * ratio)), w = rint(sqrt(wanted / ratio));
		if (!(h < height && w < width)) /* also where it is infinite */
			continue;
		ret_box->h = (uint32_t)h;
		ret_box->w = (uint32_t)w;
		ret_box->y = (uint32_t)philox_below(r.word[2], 0, height - ret_box->h + 1);
		ret_box->x = (uint32_t)philox_below(r.word[3], 0, width - ret_box->w + 1);
		return ret_box->h && ret_box->w;
	}
	return false;
}

static void mix_row(const struct penstock_cuda_options *options, const struct mix_key *key,
	uint32_t height, uint32_t width, struct penstock_cuda_row *row)
{
	struct mix_box box;
	if (mix_happens(mix_draw(key, PHILOX_BATCH_FLIP, 0), options->flip))
		row->flags |= PENSTOCK_CUDA_ROW_FLIPPED;
	if (!mix_happens(mix_draw(key, PHILOX_BATCH_ERASE, 0), options->erase) ||
		!mix_erase_box(options, key, height, width, &box))
		return;
	row->flags |= PENSTOCK_CUDA_ROW_ERASED;
	row->erase_x = (uint16_t)box.x;
	row->erase_y = (uint16_t)box.y;
	row->erase_w = (uint16_t)box.w;
	row->erase_h = (uint16_t)box.h;
}

/* How a batch is mixed: `lambda` is the row's own part. */
struct mix_blend {
	double lambda;
	bool cut; /* CutMix, of `box` */
	struct mix_box box;
};

/* The box of torchvision.transforms.v2.CutMix around a uniform centre: sides of sqrt(1 - lambda) of
 * the image's, cut off at its edges. `lambda` becomes what is left of the area. */
static void mix_cut_box(struct mix_blend *blend, struct philox r, uint32_t height, uint32_t width)
{
	uint32_t centre_x = (uint32_t)philox_below(r.word[0], r.word[1], width);
	uint32_t centre_y = (uint32_t)philox_below(r.word[2], r.word[3], height);
	double half = 0.5 * sqrt(1 - blend->lambda);
	uint32_t half_w = (uint32_t)(half * width), half_h = (uint32_t)(half * height);
	uint32_t left = centre_x > half_w ? centre_x - half_w : 0;
	uint32_t top = centre_y > half_h ? centre_y - half_h : 0;
	uint32_t right = centre_x + half_w < width ? centre_x + half_w : width;
	uint32_t bottom = centre_y + half_h < height ? centre_y + half_h : height;
	blend->box = (struct mix_box){left, top, right - left, bottom - top};
	blend->lambda = 1 - (double)((uint64_t)(right - left) * (bottom - top)) /
				    ((double)width * (double)height);
}

static bool mix_chooses_cut(const struct penstock_cuda_options *options, struct philox r)
{
	if (options->mixup == 0 || options->cutmix == 0)
		return options->mixup == 0;
	return philox_unit(r.word[2], r.word[3]) < options->mix_switch;
}

/* Whether and how the batch is mixed whose first row `key` names. */
static bool mix_blend(const struct penstock_cuda_options *options, const struct mix_key *key,
	uint32_t height, uint32_t width, struct mix_blend *ret_blend)
{
	struct philox r = mix_draw(key, PHILOX_BATCH_MIX, 0);
	if ((options->mixup == 0 && options->cutmix == 0) || !mix_happens(r, options->mix))
		return false;
	struct mix_blend blend = {.cut = mix_chooses_cut(options, r)};
	blend.lambda = mix_beta(
		blend.cut ? options->cutmix : options->mixup, mix_draw(key, PHILOX_BATCH_MIX, 1));
	if (blend.cut)
		mix_cut_box(&blend, mix_draw(key, PHILOX_BATCH_MIX, 2), height, width);
	*ret_blend = blend;
	return !blend.cut || (blend.box.w && blend.box.h);
}

static void mix_row_blend(
	const struct mix_blend *blend, uint32_t partner, struct penstock_cuda_row *row)
{
	row->flags |= PENSTOCK_CUDA_ROW_MIXED;
	row->partner = partner;
	row->weight = (float)blend->lambda;
	row->partner_weight = (float)(1 - blend->lambda);
	if (blend->cut) {
		row->cut_x = (uint16_t)blend->box.x;
		row->cut_y = (uint16_t)blend->box.y;
		row->cut_w = (uint16_t)blend->box.w;
		row->cut_h = (uint16_t)blend->box.h;
	} else {
		row->blend = row->weight;
		row->partner_blend = row->partner_weight;
	}
}

void mix_plan(const struct penstock_cuda_options *options, uint64_t seed, uint64_t epoch,
	const struct penstock_sample *samples, uint32_t count, uint32_t height, uint32_t width,
	struct penstock_cuda_row *ret_rows)
{
	struct mix_blend blend;
	assert(height >= 1 && height <= UINT16_MAX && width >= 1 && width <= UINT16_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct penstock_cuda_row row = {.position = samples[i].position,
			.epoch = (uint32_t)epoch,
			.partner = i,
			.blend = 1,
			.weight = 1};
		struct mix_key key = mix_key(seed, epoch, row.position);
		mix_row(options, &key, height, width, &row);
		ret_rows[i] = row;
	}
	if (count < 2) /* mixed with itself it stays what it is */
		return;
	struct mix_key first = mix_key(seed, epoch, ret_rows[0].position);
	if (!mix_blend(options, &first, height, width, &blend))
		return;
	for (uint32_t i = 0; i < count; i++)
		mix_row_blend(&blend, (i ? i : count) - 1, &ret_rows[i]);
}

/* An option's value, and what it may be. */
struct mix_range {
	const char *name;
	double value, least, most;
	const char *expected;
};

static int mix_check_ranges(const struct mix_range *range, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		/* Written so that a NaN is refused. */
		if (!(range[i].value >= range[i].least && range[i].value <= range[i].most))
			return sentence_set(-EINVAL, "options.%s is %.10g: expected %s",
				range[i].name, range[i].value, range[i].expected);
	}
	return 0;
}
#define MIX_CHECK_RANGES(table) mix_check_ranges(table, sizeof(table) / sizeof(table)[0])

static int mix_check_device(const struct penstock_cuda_options *options)
{
	if (options->device < -1)
		return sentence_set(-EINVAL,
			"options.device is %d: expected a device's number from 0 on, or "
			"-1 for LOCAL_RANK's",
			options->device);
	const struct mix_range ranges[] = {
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
	return MIX_CHECK_RANGES(ranges);
}

static int mix_check_colours(const struct penstock_cuda_options *options)
{
	static const char finite[] = "a finite number";
	static const char positive[] = "a number above 0";
	const struct mix_range ranges[] = {
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
	return MIX_CHECK_RANGES(ranges);
}

static int mix_check_augmentation(const struct penstock_cuda_options *options)
{
	static const char probability[] = "a probability, 0 to 1";
	static const char share[] = "a share of the image's area, 0 to 1";
	static const char ratio[] = "a ratio above 0";
	const struct mix_range ranges[] = {
		{"flip", options->flip, 0, 1, probability},
		{"erase", options->erase, 0, 1, probability},
		{"mix", options->mix, 0, 1, probability},
		{"mix_switch", options->mix_switch, 0, 1, probability},
		{"erase_scale[0]", options->erase_scale[0], 0, 1, share},
		{"erase_scale[1]", options->erase_scale[1], 0, 1, share},
		{"erase_ratio[0]", options->erase_ratio[0], DBL_MIN, DBL_MAX, ratio},
		{"erase_ratio[1]", options->erase_ratio[1], DBL_MIN, DBL_MAX, ratio},
		{"erase_random", options->erase_random, 0, 1, "0, or 1 for noise"},
	};
	int r = MIX_CHECK_RANGES(ranges);
	if (r < 0)
		return r;
	if (options->erase_scale[0] > options->erase_scale[1])
		return sentence_set(-EINVAL,
			"options.erase_scale is %.9g to %.9g: expected the smaller first",
			options->erase_scale[0], options->erase_scale[1]);
	if (options->erase_ratio[0] > options->erase_ratio[1])
		return sentence_set(-EINVAL,
			"options.erase_ratio is %.9g to %.9g: expected the smaller first",
			options->erase_ratio[0], options->erase_ratio[1]);
	return 0;
}

static int mix_check_alpha(const char *name, double alpha)
{
	if (alpha == 0)
		return 0;
	const struct mix_range range = {name, alpha, MIX_ALPHA_LEAST, MIX_ALPHA_MOST,
		"0 for off, or the alpha of a Beta distribution, 0.01 to 100"};
	return mix_check_ranges(&range, 1);
}

int mix_check(const struct penstock_cuda_options *options)
{
	int r = mix_check_device(options);
	if (r == 0)
		r = mix_check_colours(options);
	if (r == 0)
		r = mix_check_augmentation(options);
	if (r == 0)
		r = mix_check_alpha("mixup", options->mixup);
	if (r == 0)
		r = mix_check_alpha("cutmix", options->cutmix);
	return r;
}
