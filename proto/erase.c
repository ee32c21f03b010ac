/* erase: see erase.h. */
#include "proto/erase.h"

#include "proto/elementary.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

enum { ERASE_ATTEMPTS = 10 };

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
		double h = rint(sqrt(wanted * shape)), w = rint(sqrt(wanted / shape));
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
