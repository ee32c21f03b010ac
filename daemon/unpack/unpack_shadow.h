/* unpack_shadow: which of two shadows to begin anew. Shadows unpack what a whole stream unpacks to
 * from some place on (unpack_zstd_walk.h, unpack_deflate_walk.h). Pure. */
#pragma once

#include "base/util.h"

#include <stdbool.h>
#include <stdint.h>

enum { UNPACK_SHADOWS = 2 };

/* In unpacked bytes. */
struct unpack_shadow {
	bool live; /* it has not failed */
	uint64_t begin;
	uint64_t good; /* from here on it was right */
};

/* Which shadow begins anew between two blocks, after `now` bytes; a caller's sample begins at `at`.
 * One that has failed does, but not both at once. So does the older one if it is as old as `old`
 * and the other as half of that. Its number; or UNPACK_SHADOWS: none. */
static inline unsigned unpack_shadow_renew(
	const struct unpack_shadow shadow[UNPACK_SHADOWS], uint64_t now, uint64_t at, uint64_t old)
{
	const bool first = shadow[0].live && (!shadow[1].live || shadow[1].begin < shadow[0].begin);
	/* `one` has failed or is the older one. */
	const struct unpack_shadow *one = &shadow[first], *other = &shadow[!first];
	const uint64_t age = other->live ? now - other->begin : old;
	/* The other may have begun, or been wrong, in the middle of the caller's sample. */
	const bool needed = other->live && other->good > at;
	const bool renew =
		one->live ? !needed && now - one->begin >= old && age >= old / 2 : age > 0;
	return renew ? (unsigned)first : UNPACK_SHADOWS;
}

/* The shadow that was right from `at` on and has begun last; or UNPACK_SHADOWS. */
static inline unsigned unpack_shadow_choose(
	const struct unpack_shadow shadow[UNPACK_SHADOWS], uint64_t at)
{
	unsigned best = UNPACK_SHADOWS;
	for (unsigned i = 0; i < UNPACK_SHADOWS; i++)
		if (shadow[i].live && shadow[i].good <= at && shadow[i].begin <= at &&
			(best == UNPACK_SHADOWS || shadow[i].begin > shadow[best].begin))
			best = i;
	return best;
}
