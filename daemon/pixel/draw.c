/* draw: see draw.h. Pure functions. */
#include "pixel/draw.h"

#include "base/util.h"
#include "proto/elementary.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Wider intermediates would round twice and give other crops. */
_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

enum { DRAW_ATTEMPTS = 10 };

/* log(4/3), correctly rounded; log(3/4) is its negative. A double cannot hold 4/3 itself. */
static const double DRAW_LOG_RATIO = 0x1.269621134db92p-2;

uint64_t draw_round(double x)
{
	uint64_t whole = (uint64_t)x;
	double rest = x - (double)whole; /* exact */
	if (rest > 0.5 || (rest == 0.5 && (whole & 1)))
		whole++;
	return whole;
}

struct philox draw_words(const struct pixel_key *key, enum philox_operation operation,
	uint32_t same, uint32_t number)
{
	assert(key->view < 16 && same < 16 && number < 256);
	return philox_draw(key->seed, key->epoch, key->position, operation,
		key->view << 12 | same << 8 | number);
}

static double draw_uniform(uint32_t word, double from, double to)
{
	return from + philox_unit(word, 0) * (to - from);
}

static double draw_log(double ratio)
{
	if (ratio == DRAW_RATIO_MAX)
		return DRAW_LOG_RATIO;
	return ratio == DRAW_RATIO_MIN ? -DRAW_LOG_RATIO : elementary_log(ratio);
}

/* If no attempt fits: the largest center crop with an allowed ratio; at least one pixel, which
 * torchvision does not ensure. */
static struct draw_box draw_central(const double allowed[2], uint32_t src_w, uint32_t src_h)
{
	double ratio = (double)src_w / (double)src_h;
	uint64_t w = src_w, h = src_h;
	if (ratio < allowed[0])
		h = UTIL_MAX(draw_round((double)src_w / allowed[0]), (uint64_t)1);
	else if (ratio > allowed[1])
		w = UTIL_MAX(draw_round((double)src_h * allowed[1]), (uint64_t)1);
	return (struct draw_box){.x = (uint32_t)(src_w - w) / 2,
		.y = (uint32_t)(src_h - h) / 2,
		.w = (uint32_t)w,
		.h = (uint32_t)h};
}

struct draw_box draw_resized_crop(const struct pixel_key *key, uint32_t same, const double scale[2],
	const double ratio[2], uint32_t src_w, uint32_t src_h)
{
	assert(src_w >= 1 && src_h >= 1 && src_w <= 65535 && src_h <= 65535);
	double area = (double)src_w * (double)src_h;
	double narrow = draw_log(ratio[0]), wide = draw_log(ratio[1]);
	for (uint32_t attempt = 0; attempt < DRAW_ATTEMPTS; attempt++) {
		struct philox r = draw_words(key, PHILOX_RESIZED_CROP, same, attempt);
		double target = area * draw_uniform(r.word[0], scale[0], scale[1]);
		double shape = elementary_exp(draw_uniform(r.word[1], narrow, wide));
		uint64_t w = draw_round(sqrt(target * shape)), h = draw_round(sqrt(target / shape));
		if (w < 1 || w > src_w || h < 1 || h > src_h)
			continue;
		return (struct draw_box){
			.x = (uint32_t)philox_below(r.word[3], 0, src_w - w + 1),
			.y = (uint32_t)philox_below(r.word[2], 0, src_h - h + 1),
			.w = (uint32_t)w,
			.h = (uint32_t)h,
		};
	}
	return draw_central(ratio, src_w, src_h);
}

bool draw_flip(const struct pixel_key *key, enum philox_operation operation, double p)
{
	if (p <= 0)
		return false;
	struct philox r = draw_words(key, operation, 0, 0);
	return philox_unit(r.word[0], r.word[1]) < p;
}
