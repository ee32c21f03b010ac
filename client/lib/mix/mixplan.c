/* mixplan: see mixplan.h.
 *
 * Every draw is named by seed, epoch (its low 32 bits), position (its low 48), operation and step,
 * as in proto/philox.h. A draw has four words; two of them make a uniform number of 53 bits. A
 * row's steps begin at its view << 12, as the daemon's do (daemon/pixel/draw.h).
 *
 *   PHILOX_BATCH_FLIP    step 0        words 0 and 1: whether
 *   PHILOX_BATCH_ERASE   step 0 .. 10  see proto/erase.h
 *   PHILOX_BATCH_MIX     step 0        words 0 and 1: whether; 2 and 3: MixUp or CutMix
 *                        step 1        lambda, see variate_beta
 *                        step 2        CutMix: words 0 and 1 column, 2 and 3 row of the center
 *
 * As in the daemon's crops, exp, log and cosine come from elementary.h, not from libm. Square roots
 * are rounded as IEEE 754 says. */
#include "client/lib/mix/mixplan.h"

#include "proto/erase.h"
#include "proto/philox.h"
#include "proto/variate.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");
_Static_assert(sizeof(struct penstock_mix_row) == 64, "the device's functions read it");

enum { MIXPLAN_VIEW_SHIFT = 12, MIXPLAN_SENTENCE = 256 };

static const double MIXPLAN_ALPHA_LEAST = 0.01, MIXPLAN_ALPHA_MOST = 100;

/* The key of the draws of one row or batch, cut to what a counter holds: the daemon's memory may
 * contain garbage, which must not end the trainer. */
static struct erase_key mixplan_key(
	const struct mixplan_batch *batch, uint64_t position, uint32_t view)
{
	return (struct erase_key){.seed = batch->seed,
		.position = position & (((uint64_t)1 << 48) - 1),
		.epoch = (uint32_t)batch->epoch,
		.operation = PHILOX_BATCH_ERASE,
		.step = view << MIXPLAN_VIEW_SHIFT};
}

static struct philox mixplan_draw(
	const struct erase_key *key, enum philox_operation operation, uint32_t step)
{
	return philox_draw(key->seed, key->epoch, key->position, operation, key->step + step);
}

static bool mixplan_happens(struct philox r, double probability)
{
	return philox_unit(r.word[0], r.word[1]) < probability;
}

static void mixplan_row(const struct mixplan *plan, const struct mixplan_batch *batch,
	const struct erase_key *key, struct penstock_mix_row *row)
{
	struct erase_box box;
	if (mixplan_happens(mixplan_draw(key, PHILOX_BATCH_FLIP, 0), plan->flip))
		row->flags |= PENSTOCK_ROW_FLIPPED;
	if (!erase_happens(key, plan->erase) ||
		!erase_box(key, plan->erase_scale, plan->erase_ratio, batch->width, batch->height,
			&box))
		return;
	row->flags |= PENSTOCK_ROW_ERASED;
	row->erase_x = (uint16_t)box.x;
	row->erase_y = (uint16_t)box.y;
	row->erase_w = (uint16_t)box.w;
	row->erase_h = (uint16_t)box.h;
}

/* How a batch is mixed: `lambda` is the row's own part. */
struct mixplan_blend {
	double lambda;
	bool cut; /* CutMix, of `box` */
	struct erase_box box;
};

/* The box of torchvision.transforms.v2.CutMix around a uniform center: its sides are sqrt(1 -
 * lambda) of the image's, cut off at its edges. `lambda` becomes what is left of the area. */
static void mixplan_cut(
	struct mixplan_blend *blend, struct philox r, uint32_t height, uint32_t width)
{
	uint32_t center_x = (uint32_t)philox_below(r.word[0], r.word[1], width);
	uint32_t center_y = (uint32_t)philox_below(r.word[2], r.word[3], height);
	double half = 0.5 * sqrt(1 - blend->lambda);
	uint32_t half_w = (uint32_t)(half * width), half_h = (uint32_t)(half * height);
	uint32_t left = center_x > half_w ? center_x - half_w : 0;
	uint32_t top = center_y > half_h ? center_y - half_h : 0;
	uint32_t right = center_x + half_w < width ? center_x + half_w : width;
	uint32_t bottom = center_y + half_h < height ? center_y + half_h : height;
	blend->box = (struct erase_box){left, top, right - left, bottom - top};
	blend->lambda = 1 - (double)((uint64_t)(right - left) * (bottom - top)) /
				    ((double)width * (double)height);
}

const struct penstock_mix_epoch *mixplan_epoch(const struct mixplan *plan, uint64_t epoch)
{
	size_t low = 0, high = plan->epoch_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (plan->epochs[middle].epoch <= epoch)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &plan->epochs[low - 1] : NULL;
}

/* The plan with the values of one epoch. */
static struct mixplan mixplan_at(const struct mixplan *plan, uint64_t epoch)
{
	struct mixplan now = *plan;
	const struct penstock_mix_epoch *entry = mixplan_epoch(plan, epoch);
	if (entry) {
		now.mixup = entry->mixup;
		now.cutmix = entry->cutmix;
		now.mix = entry->mix;
		now.mix_switch = entry->mix_switch;
	}
	return now;
}

static bool mixplan_chooses_cut(const struct mixplan *plan, struct philox r)
{
	if (plan->mixup == 0 || plan->cutmix == 0)
		return plan->mixup == 0;
	return philox_unit(r.word[2], r.word[3]) < plan->mix_switch;
}

/* Whether and how the batch is mixed whose first row is at `position`. */
static bool mixplan_blends(const struct mixplan *plan, const struct mixplan_batch *batch,
	uint64_t position, struct mixplan_blend *ret_blend)
{
	struct erase_key key = mixplan_key(batch, position, 0);
	struct philox r = mixplan_draw(&key, PHILOX_BATCH_MIX, 0);
	if ((plan->mixup == 0 && plan->cutmix == 0) || !mixplan_happens(r, plan->mix))
		return false;
	struct mixplan_blend blend = {.cut = mixplan_chooses_cut(plan, r)};
	blend.lambda = variate_beta(
		blend.cut ? plan->cutmix : plan->mixup, mixplan_draw(&key, PHILOX_BATCH_MIX, 1));
	if (blend.cut)
		mixplan_cut(&blend, mixplan_draw(&key, PHILOX_BATCH_MIX, 2), batch->height,
			batch->width);
	*ret_blend = blend;
	return !blend.cut || (blend.box.w && blend.box.h);
}

static void mixplan_mix(
	const struct mixplan_blend *blend, uint32_t partner, struct penstock_mix_row *row)
{
	row->flags |= PENSTOCK_ROW_MIXED;
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

void mixplan_rows(const struct mixplan *plan, const struct mixplan_batch *batch,
	struct penstock_mix_row *ret_rows)
{
	struct mixplan_blend blend;
	uint32_t rows = batch->rows, views = batch->views;
	const struct mixplan now = mixplan_at(plan, batch->epoch);
	assert(batch->height >= 1 && batch->height <= UINT16_MAX);
	assert(batch->width >= 1 && batch->width <= UINT16_MAX);
	for (uint32_t i = 0; i < rows; i++) {
		struct penstock_mix_row row = {.position = batch->samples[i].position,
			.epoch = (uint32_t)batch->epoch,
			.partner = i,
			.blend = 1,
			.weight = 1,
			.view = i % views};
		struct erase_key key = mixplan_key(batch, row.position, row.view);
		mixplan_row(plan, batch, &key, &row);
		ret_rows[i] = row;
	}
	if (rows <= views) /* a sample that is mixed with itself stays the same */
		return;
	if (!mixplan_blends(&now, batch, ret_rows[0].position, &blend))
		return;
	for (uint32_t i = 0; i < rows; i++)
		mixplan_mix(&blend, (i >= views ? i : rows + i) - views, &ret_rows[i]);
}

/* ---- options ---- */

__attribute__((format(printf, 1, 2))) static int mixplan_refuse(const char *format, ...)
{
	char sentence[MIXPLAN_SENTENCE];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	penstock_error_set(sentence);
	return -EINVAL;
}

int mixplan_check_ranges(const struct mixplan_range *range, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		/* Written so that a NaN is refused. */
		if (!(range[i].value >= range[i].least && range[i].value <= range[i].most))
			return mixplan_refuse("options.%s is %.10g: expected %s", range[i].name,
				range[i].value, range[i].expected);
	}
	return 0;
}

static int mixplan_check_alpha(const char *name, double alpha)
{
	if (alpha == 0)
		return 0;
	const struct mixplan_range range = {name, alpha, MIXPLAN_ALPHA_LEAST, MIXPLAN_ALPHA_MOST,
		"0 for off, or the alpha of a Beta distribution, 0.01 to 100"};
	return mixplan_check_ranges(&range, 1);
}

static int mixplan_check_order(const char *name, const double pair[2])
{
	if (pair[0] <= pair[1])
		return 0;
	return mixplan_refuse(
		"options.%s is %.9g to %.9g: expected the smaller first", name, pair[0], pair[1]);
}

static int mixplan_check_epoch(const struct penstock_mix_epoch *epoch, size_t number)
{
	static const char probability[] = "a probability, 0 to 1";
	static const char alpha[] = "0 for off, or the alpha of a Beta distribution, 0.01 to 100";
	const struct {
		const char *name;
		double value, least, most;
		const char *expected;
	} fields[] = {
		{"mixup", epoch->mixup, MIXPLAN_ALPHA_LEAST, MIXPLAN_ALPHA_MOST, alpha},
		{"cutmix", epoch->cutmix, MIXPLAN_ALPHA_LEAST, MIXPLAN_ALPHA_MOST, alpha},
		{"mix", epoch->mix, 0, 1, probability},
		{"mix_switch", epoch->mix_switch, 0, 1, probability},
		{"smoothing", (double)epoch->smoothing, 0, 1, "a share, 0 to 1"},
		{"reserved", epoch->reserved, 0, 0, "0"},
	};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		double value = fields[i].value;
		/* Written so that a NaN is refused. */
		if (!(value >= fields[i].least && value <= fields[i].most) &&
			!(value == 0 && fields[i].expected == alpha))
			return mixplan_refuse("options.epochs[%zu].%s is %.10g: expected %s",
				number, fields[i].name, value, fields[i].expected);
	}
	return 0;
}

static int mixplan_check_epochs(const struct mixplan *plan)
{
	int r = 0;
	if (plan->epoch_count > MIXPLAN_EPOCHS_MOST)
		return mixplan_refuse("options.epoch_count is %zu: expected at most %d",
			plan->epoch_count, (int)MIXPLAN_EPOCHS_MOST);
	if (plan->epoch_count && !plan->epochs)
		return mixplan_refuse("options.epoch_count is %zu and options.epochs is NULL: "
				      "expected that many entries",
			plan->epoch_count);
	for (size_t i = 0; i < plan->epoch_count && r == 0; i++) {
		if (i && plan->epochs[i].epoch <= plan->epochs[i - 1].epoch)
			return mixplan_refuse("options.epochs[%zu].epoch is %llu, after %llu: "
					      "expected ascending epochs",
				i, (unsigned long long)plan->epochs[i].epoch,
				(unsigned long long)plan->epochs[i - 1].epoch);
		r = mixplan_check_epoch(&plan->epochs[i], i);
	}
	return r;
}

int mixplan_check(const struct mixplan *plan)
{
	static const char probability[] = "a probability, 0 to 1";
	static const char share[] = "a share of the image's area, 0 to 1";
	static const char ratio[] = "a ratio above 0";
	const struct mixplan_range ranges[] = {
		{"flip", plan->flip, 0, 1, probability},
		{"erase", plan->erase, 0, 1, probability},
		{"mix", plan->mix, 0, 1, probability},
		{"mix_switch", plan->mix_switch, 0, 1, probability},
		{"erase_scale[0]", plan->erase_scale[0], 0, 1, share},
		{"erase_scale[1]", plan->erase_scale[1], 0, 1, share},
		{"erase_ratio[0]", plan->erase_ratio[0], DBL_MIN, DBL_MAX, ratio},
		{"erase_ratio[1]", plan->erase_ratio[1], DBL_MIN, DBL_MAX, ratio},
	};
	int r = MIXPLAN_CHECK_RANGES(ranges);
	if (r == 0)
		r = mixplan_check_order("erase_scale", plan->erase_scale);
	if (r == 0)
		r = mixplan_check_order("erase_ratio", plan->erase_ratio);
	if (r == 0)
		r = mixplan_check_alpha("mixup", plan->mixup);
	if (r == 0)
		r = mixplan_check_alpha("cutmix", plan->cutmix);
	if (r == 0)
		r = mixplan_check_epochs(plan);
	return r;
}
