/* augment: what is done to an image once it has its size.
 *
 *   step.[ch]      the random operations of a list and their draws -> ops, one file per family:
 *     step_policy.c, step_auto.c, step_augmix.c   RandAugment and its kin
 *     step_warp.c, step_draw.c   what shear and rotation come to; what all of them share
 *   op.[ch]        ops with every parameter known
 *     colour.c filter.c warp.c erase.c augmix.c   what they do, in C: the truth
 *     kernels*     the inner loops behind a table, per instruction set
 *   augment.c      this door: an image through the ops of a plan, into a row
 *
 * Exact: torchvision's bytes on PIL images with Pillow 13 (op.h). A stream without such steps never
 * comes here: its pixels go from the resampling straight into the row. */
#pragma once

#include "augment/op.h"
#include "augment/step.h"
#include "base/fault.h"

#include <stdint.h>

/* Scratch for one image at a time, of one thread. */
struct augmenter;

/* Bytes of one, for images of up to side x side and this recipe: for the ledger. */
uint64_t augmenter_bytes(const struct step_recipe *recipe, uint32_t side);
/* 0, -ENOMEM, or as kernels of pixel/ where PENSTOCK_KERNELS names what is not there. */
int augmenter_new(const struct step_recipe *recipe, uint32_t side, struct augmenter **ret,
	struct fault *fault);
void augmenter_free(struct augmenter *augmenter);

/* Where the image is to be put: rows of 3 x side bytes for an image that wide, without gaps. */
uint8_t *augmenter_image(struct augmenter *augmenter);

/* Carries out the plan on what was put there (width x height, up to the side), all but OP_ERASE,
 * and writes the result to `out` (height x width x 3). Nothing is allocated. */
void augmenter_run(struct augmenter *augmenter, const struct step_plan *plan, uint32_t width,
	uint32_t height, uint8_t *out);
