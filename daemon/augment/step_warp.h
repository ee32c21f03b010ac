/* step_warp: what rotations, shears, translations and perspectives come to: ops with the matrices
 * that torchvision computes for PIL images.
 *
 * In torchvision the matrix is CPython's arithmetic (torchvision/transforms/functional.py:
 * _get_inverse_affine_matrix; PIL/Image.py: Image.rotate), with libm's sines; here it is the same
 * arithmetic with proto/elementary.h's, which are rounded correctly and equal everywhere. Each
 * function gives true and the op, or false where the image stays as it is. Pure; any thread. */
#pragma once

#include "augment/op.h"

#include <stdbool.h>
#include <stdint.h>

/* What all of them need. */
struct step_warp {
	uint32_t width, height; /* of the image */
	enum weights_filter interpolation; /* NEAREST, BILINEAR, BICUBIC */
	uint8_t fill[3];
};

/* torchvision's F.affine. Degrees; `translate` in whole pixels; `scale` above 0; `shear` along x,
 * y; `center` NULL: the image's. */
struct step_affine {
	double angle;
	int32_t translate[2];
	double scale;
	double shear[2];
	const double *center;
};
bool step_warp_affine(
	const struct step_warp *warp, const struct step_affine *affine, struct op *ret);

/* F.rotate(angle, expand=False, center): degrees, counter-clockwise. OP_AFFINE, or
 * OP_ROTATE_QUARTERS where Pillow takes its short cut. */
bool step_warp_rotate(
	const struct step_warp *warp, double angle, const double *center, struct op *ret);

/* F.perspective from the image's corners to `corners`: x, y of top left, top right, bottom right,
 * bottom left, each within the image, as RandomPerspective.get_params draws them. Where they are so
 * degenerate that there is no such map (torchvision's solver then gives anything or fails), the
 * image stays. */
bool step_warp_perspective(
	const struct step_warp *warp, const int32_t corners[4][2], struct op *ret);

/* torchvision/transforms/autoaugment.py, _apply_op: what RandAugment, TrivialAugmentWide,
 * AutoAugment and AugMix make of a magnitude, sign included. Rotate is step_warp_rotate. */
bool step_warp_shear_x(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_shear_y(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_translate_x(const struct step_warp *warp, double magnitude, struct op *ret);
bool step_warp_translate_y(const struct step_warp *warp, double magnitude, struct op *ret);
