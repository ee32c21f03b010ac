/* apply: carries out ops (op.h) one after the other. For augment.c and the families of ops only.
 *
 * Every op makes one image from another, of the same size unless op_size says otherwise. Pixels are
 * RGB, uint8, rows without gaps, and an op reads and writes nothing beyond 3 x width x height
 * bytes. An op that looks at each pixel by itself (color.c) may get the same memory twice, and then
 * works in place. All others get two memories that do not overlap. apply_ops goes back and forth
 * between two buffers, and the last op writes to where the result is wanted.
 *
 * To add a kind of op, add it to op.h and op_text, and its family to apply_families (apply.c).
 * Parameters were checked when the recipe was read; the code here asserts them at most. Nothing
 * allocates: what a family needs besides the two images it takes from the scratch, whose size for
 * the largest image it reports to augment.c. */
#pragma once

#include "augment/op.h"

struct augment_kernels;
struct apply;

/* Carries out one op; one that mixes chains: with the ops that belong to it. */
typedef void apply_one(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

struct apply {
	const struct augment_kernels *kernels;
	uint8_t *image[2]; /* the image, and where the next op writes */
	void *scratch; /* for one op while it runs; aligned to 64 */
	apply_one *mix; /* ops that mix chains: it calls apply_ops for them */
	struct pixel_sink *sink; /* OP_RESIZE: it resamples; NULL where no recipe has one */
	/* For those that mix, NULL where the recipe has none: the current chain, and the mix. */
	uint8_t *chain[2];
	float *sums;
};

/* What apply_ops needs for these ops and an image of this size, if `to` is given: bytes of both
 * buffers (an image is in the first), of the scratch and of one chain of AugMix (0: none). */
struct apply_room {
	uint64_t buffer[2], scratch, chain;
};
struct apply_room apply_room(const struct op *ops, uint32_t count, struct pixel_size size);

/* Carries out `count` ops on `from`. The result is written to `to` or, if that is NULL, to one of
 * `buffers`; with no ops and no `to` it is `from` itself. Returns where it is. `from` does not
 * change, unless it is one of `buffers`. */
const uint8_t *apply_ops(const struct apply *apply, const struct op *ops, uint32_t count,
	const struct op_image *from, uint8_t *const buffers[2], uint8_t *to);
