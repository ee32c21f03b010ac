/* step_warp: turns rotations, shears, translations and perspectives into ops with the matrices that
 * torchvision computes for PIL images.
 *
 * torchvision computes the matrix in CPython (torchvision/transforms/functional.py:
 * _get_inverse_affine_matrix; PIL/Image.py: Image.rotate), with the sines of libm. This code
 * does the same arithmetic with the sines of proto/angle.h, which are correctly rounded and
 * equal everywhere. Each function returns true and the op, or false if the image does not
 * change. Pure; any thread. */
#pragma once

#include "augment/op.h"

#include <stdbool.h>
#include <stdint.h>

/* What all functions need. */
struct step_warp {
	uint32_t width, height; /* size of the image */
	enum weights_filter interpolation; /* NEAREST, BILINEAR, BICUBIC */
	uint8_t fill[3];
};

/* torchvision's F.affine. Degrees; `translate` in whole pixels; `scale` greater than 0; `shear`
 * along x, y; `center` NULL: the center of the image. */
struct step_affine {
	double angle;
	int32_t translate[2];
	double scale;
	double shear[2];
	const double *center;
};
bool step_warp_affine(
	const struct step_warp *warp, const struct step_affine *affine, struct op *ret);

/* F.rotate(angle, expand=False, center): degrees, counterclockwise. OP_AFFINE, or
 * OP_ROTATE_QUARTERS where Pillow takes its shortcut. */
bool step_warp_rotate(
	const struct step_warp *warp, double angle, const double *center, struct op *ret);

/* The same with expand=True: the size of the result follows from the angle. */
bool step_warp_rotate_all(const struct step_warp *warp, double angle, const double *center,
	struct op *ret, struct pixel_size *ret_size);

/* F.perspective from the image's corners to `corners`: x, y of top left, top right, bottom
 * right, bottom left, each inside the image, as RandomPerspective.get_params draws them. If they
 * are so degenerate that no such map exists (torchvision's solver then returns anything or
 * fails), the image does not change. */
bool step_warp_perspective(
	const struct step_warp *warp, const int32_t corners[4][2], struct op *ret);

/* torchvision/transforms/autoaugment.py, _apply_op: the op that RandAugment, TrivialAugmentWide,
 * AutoAugment and AugMix make from a signed magnitude. Rotate is step_warp_rotate. */
bool step_warp_shear_x(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_shear_y(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_translate_x(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_translate_y(const struct step_warp *warp, double magnitude, struct op *ret);
