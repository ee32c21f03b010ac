/* augment: the random operations on an image after its crop or resize.
 *
 * A map of this folder:
 *   augment.[ch]      this file: an image through the ops of a plan, into a row
 *   step.[ch]         the random operations of a list and their draws, which become ops
 *   step_policy.[ch]  RandAugment and similar policies: what they share
 *   step_auto.c       AutoAugment, RandAugment, TrivialAugmentWide
 *   step_augmix.c     AugMix
 *   step_timm.[ch]    timm's policies by their strings
 *   step_warp.[ch]    rotations, shears, translations and perspectives as matrices
 *   step_size.[ch]    resizes, crops and padding: sizes and places
 *   step_draw.[ch]    how random words become chances and amounts
 *   op.[ch]           operations with every parameter known
 *   apply.[ch]        carries out ops one after the other, by family:
 *   color.[ch]        ops on each pixel by itself
 *   filter.[ch]       ops on a pixel and its neighbors
 *   size.[ch]         windows of padded images, and resizes
 *   warp.[ch]         flips and geometric transforms
 *   augmix.[ch]       the mixes of AugMix and of timm's
 *   erase.[ch]        RandomErasing, on the finished row
 *   kernels/          the inner loops, once per instruction set
 *
 * Exact: the bytes equal torchvision's on PIL images with Pillow 13 (op.h). A stream without such
 * steps does not use this folder: its pixels go from the resampling straight into the row. */
#pragma once

#include "augment/op.h"
#include "augment/step.h"
#include "base/fault.h"

#include <stdint.h>

/* Scratch for one image at a time, of one thread. */
struct augmenter;

/* The memory of one augmenter, for images of up to side x side and this recipe: for the ledger. */
uint64_t augmenter_bytes(const struct step_recipe *recipe, uint32_t side);
/* 0; -ENOMEM; or as the kernels of pixel/ if PENSTOCK_KERNELS names an absent variant. */
int augmenter_new(const struct step_recipe *recipe, uint32_t side, struct augmenter **ret,
	struct fault *fault);
void augmenter_free(struct augmenter *augmenter);

/* Where the caller puts the image: rows of 3 x width bytes without gaps. */
uint8_t *augmenter_image(struct augmenter *augmenter);

/* Ops that change sizes, on images of any size, in memory that the caller has. */
struct augment_room {
	uint64_t bytes; /* of all: the caller provides it, aligned to 64 */
	uint64_t part[6];
};

/* What the ops of the plan from number `from` on need, for an image of this size. */
void augment_room(const struct step_plan *plan, uint32_t from, struct pixel_size size,
	struct augment_room *ret);

/* Carries them out, except OP_ERASE. The image is at the beginning of `memory`, the result goes to
 * `out`. `kernels`: of augment_kernels_choose. */
struct augment_kernels;
void augment_run(const struct augment_kernels *kernels, struct pixel_sink *sink,
	const struct step_plan *plan, uint32_t from, struct pixel_size size,
	const struct augment_room *room, uint8_t *memory, uint8_t *out);

/* Carries out the plan, except OP_ERASE, on the image that was put there (width x height, each
 * up to the side), and writes the result to `out` (height x width x 3). Allocates nothing. */
void augmenter_run(struct augmenter *augmenter, const struct step_plan *plan, uint32_t width,
	uint32_t height, uint8_t *out);
