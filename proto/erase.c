/* erase: see erase.h. */
#include "proto/erase.h"

#include "proto/elementary.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

enum {
	ERASE_ATTEMPTS = 10,
	ERASE_NOISE_VIEW = 24, /* bits of the operation that lie below the view */
};

static struct philox erase_draw(const struct erase_key *key, uint32_t number)
{
	return philox_draw(
		key->seed, key->epoch, key->position, key->operation, key->step + number);
}

static double erase_between(uint32_t word, double from, double to)
{
	return from + philox_unit(word, 0) * (to - from);
}

bool erase_happens(const struct erase_key *key, double probability)
{
	struct philox r = erase_draw(key, 0);
	return philox_unit(r.word[0], r.word[1]) < probability;
}

bool erase_box(const struct erase_key *key, const double scale[2], const double ratio[2],
	uint32_t width, uint32_t height, struct erase_box *ret)
{
	double area = (double)height * (double)width;
	double narrow = elementary_log(ratio[0]), wide = elementary_log(ratio[1]);
	for (uint32_t attempt = 1; attempt <= ERASE_ATTEMPTS; attempt++) {
		struct philox r = erase_draw(key, attempt);
		double wanted = area * erase_between(r.word[0], scale[0], scale[1]);
		double shape = elementary_exp(erase_between(r.word[1], narrow, wide));
		double h = elementary_round(sqrt(wanted * shape));
		double w = elementary_round(sqrt(wanted / shape));
		if (!(h < height && w < width)) /* also where it is infinite */
			continue;
		ret->h = (uint32_t)h;
		ret->w = (uint32_t)w;
		ret->y = (uint32_t)philox_below(r.word[2], 0, height - ret->h + 1);
		ret->x = (uint32_t)philox_below(r.word[3], 0, width - ret->w + 1);
		return ret->h && ret->w;
	}
	return false;
}

static double erase_radius(uint32_t word)
{
	/* Exact in double, and so rounded once: a device's fmaf, without libm's. */
	float u = (float)((double)(float)word * 0x1p-32 + 0x1p-33);
	return sqrt(-2 * elementary_log((double)u));
}

/* cos(pi w / 2^31), 0 <= w <= 2^32. */
static double erase_cosine(double w)
{
	double turned = w * 0x1p-30; /* quarters of a circle */
	uint32_t quarter = (uint32_t)turned;
	double rest = turned - quarter;
	if (quarter & 1)
		rest = 1 - rest;
	double cosine = rest < 1 ? elementary_cosine(rest) : 0;
	return quarter % 4 == 1 || quarter % 4 == 2 ? -cosine : cosine;
}

static double erase_sine(double w)
{
	return erase_cosine(fabs(w - 0x1p30));
}

void erase_noise(const struct erase_noise *noise, uint32_t pixel, float ret_values[3])
{
	const uint32_t key[2] = {(uint32_t)noise->seed, (uint32_t)(noise->seed >> 32)};
	const uint32_t counter[4] = {
		(uint32_t)noise->position,
		(uint32_t)(noise->position >> 32 & 0xffff) | (pixel & 0xffff) << 16,
		noise->epoch,
		(uint32_t)PHILOX_BATCH_NOISE | pixel >> 16 << 8 | noise->view << ERASE_NOISE_VIEW,
	};
	struct philox p = philox_4x32(counter, key);
	double first = erase_radius(p.word[0]), angle = (double)(float)p.word[1];
	ret_values[0] = (float)(first * erase_cosine(angle));
	ret_values[1] = (float)(first * erase_sine(angle));
	ret_values[2] = (float)(erase_radius(p.word[2]) * erase_cosine((double)(float)p.word[3]));
}
