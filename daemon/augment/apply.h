/* apply: how ops (op.h) are carried out; between augment.c and the families of ops only.
 *
 * Every op goes from one image into another of the same size; pixels are RGB, uint8, rows without
 * gaps, and not a byte behind 3 x width x height is read or written. What looks at a pixel by
 * itself (colour.c) may be given the same memory twice, and then works in place; all others are
 * given two places that do not overlap. apply_ops goes back and forth between two buffers and has
 * the last op write where the result is wanted.
 *
 * Who adds a kind of op adds it to op.h and op_text, and its family to apply_families (augment.c).
 * Parameters were checked when the recipe was read; here they are asserted at most. Nothing is
 * allocated: what a family needs besides its two images it takes from the scratch, whose size it
 * tells augment.c for the largest image. */
#pragma once

#include "augment/op.h"

struct augment_kernels;

struct apply {
	const struct augment_kernels *kernels;
	uint8_t *image[2]; /* the image, and where the next op writes it */
	void *scratch; /* of one op while it runs; aligned to 64 */
	/* AugMix alone, NULL where the recipe has none: the chain under way, and the mix. */
	uint8_t *chain[2];
	float *sums;
};

/* Carries out `count` ops, none of them OP_AUGMIX, OP_CHAIN or OP_ERASE, on `from`. The result is
 * written to `to`, or, if that is NULL, to one of `buffers`; with no ops at all and no `to` it is
 * `from` itself. Returns where it lies. `from` is kept, unless it is one of `buffers`. */
const uint8_t *apply_ops(const struct apply *apply, const struct op *ops, uint32_t count,
	const struct op_image *from, uint8_t *const buffers[2], uint8_t *to);
