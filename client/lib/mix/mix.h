/* mix: MixUp, CutMix, erasing and soft labels on the CPU; penstock.h says what they are.
 *
 * A map of this folder:
 *   mix.[ch]       options, plans, labels
 *   mixplan.[ch]   what is done to each row: the draws, shared with libpenstock_cuda
 *   mix_apply.c    images: erasing, and mixing in place
 *   mix_c.c        blending two runs of values: the reference
 *   mix_avx2.c     the same, eight at a time
 *
 * Mixing works in place, although a row's partner is the row before it: rows are mixed from the
 * last to the first, a piece of all of them at a time, with that piece of the last row kept
 * aside for the first. So nothing is allocated, and what a row reads is in the cache since it
 * was written. */
#pragma once

#include "client/lib/mix/mixplan.h"
#include "penstock/penstock.h"

#include <stdbool.h>
#include <stddef.h>

/* own x blend + other x partner_blend, `count` values; the runs do not overlap. */
typedef void mix_blend(
	void *own, const void *other, size_t count, float blend, float partner_blend);

struct mix_kernels {
	mix_blend *blend[4]; /* by enum penstock_dtype; none for uint8 */
};

extern const struct mix_kernels mix_c, mix_avx2;

struct penstock_mix {
	struct mixplan plan;
	const struct mix_kernels *kernels;
	float erase_value[3];
	bool erase_random;
	uint32_t classes;
	float smoothing;
	struct penstock_mix_epoch epochs[]; /* of the plan */
};
