/* op: an operation on an image, with every parameter known.
 *
 * The draws of a step (step.h) for a sample result in a few ops. replay and `show` report ops, and
 * the tests compare them with Pillow. With equal parameters the bytes equal torchvision's on PIL
 * images (torchvision.transforms.functional) with Pillow 13; only OP_BLUR, which is a float
 * convolution there, may differ by 1.
 *
 * An image is RGB, uint8, height x width x 3, rows without gaps. Ops are pure functions of image
 * and parameters; the caller provides scratch (augment.h). */
#pragma once

#include "pixel/pad.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op_kind {
	OP_FLIP_HORIZONTAL,
	OP_FLIP_VERTICAL,
	/* color.c: each pixel by itself, or after one look at all of them. `amount` is
	 * torchvision's parameter of the same name. */
	OP_BRIGHTNESS, /* brightness_factor: ImageEnhance.Brightness */
	OP_CONTRAST, /* contrast_factor: ImageEnhance.Contrast */
	OP_SATURATION, /* saturation_factor: ImageEnhance.Color */
	OP_HUE, /* hue_factor, -0.5 .. 0.5: through HSV of 8 bits */
	OP_GRAYSCALE,
	OP_INVERT,
	OP_POSTERIZE, /* bits, 0 .. 8 */
	OP_SOLARIZE, /* threshold, 0 .. 256 */
	OP_EQUALIZE,
	OP_AUTOCONTRAST,
	/* filter.c: neighbors */
	OP_SHARPNESS, /* sharpness_factor: ImageEnhance.Sharpness */
	OP_BLUR, /* torchvision's gaussian_blur: `kernel`, `sigma` */
	OP_PILLOW_BLUR, /* ImageFilter.GaussianBlur(amount), as in DINO and DeiT III */
	/* warp.c: Image.transform; pixels from outside are `fill` */
	OP_AFFINE, /* matrix[0..5], output to source, as Pillow takes it */
	OP_PERSPECTIVE, /* matrix[0..7] */
	OP_ROTATE_QUARTERS, /* `amount` quarter turns counterclockwise, 0 .. 3: Pillow's shortcut */
	/* erase.c, on the finished row */
	OP_ERASE, /* box, value */
	/* augmix.c: the next `chains` ops begin chains, see step.h */
	OP_AUGMIX,
	OP_CHAIN, /* `length` ops follow that belong to it; `amount` is its weight */
	/* timm's; likewise. MIX: `amount` is the share of the mix. BLEND: the amounts of the chains
	 * say how much of each is blended into what is there so far. */
	OP_TIMM_MIX,
	OP_TIMM_BLEND,
	OP_SOLARIZE_ADD, /* color.c: `amount` (0 .. 128) is added to values below 128 */
	/* size.c: what changes the image's size, as OP_AFFINE and OP_ROTATE_QUARTERS may */
	OP_WINDOW, /* `axis`: part of the padded image; pixels from outside are `fill` */
	OP_RESIZE, /* Image.crop(box), then Image.resize to width x height by `filter` */
	OP_KINDS,
};

enum { OP_MATRIX = 8 };

struct op {
	enum op_kind kind;
	/* OP_AFFINE, OP_PERSPECTIVE: NEAREST, BILINEAR, BICUBIC; OP_RESIZE: any. */
	enum weights_filter filter;
	uint32_t width, height; /* of the result; 0: of the image */
	double amount;
	double matrix[OP_MATRIX];
	uint32_t kernel[2]; /* odd, below twice the side of the augmenter; width, height */
	double sigma[2]; /* x, y */
	uint8_t fill[3];
	struct {
		uint32_t x, y, w, h;
		double value[3]; /* in the units of the row; see step.h */
		bool noise;
	} box;
	struct pad_axis axis[2]; /* x, y */
	uint32_t chains, length;
};

/* The longest side that an op takes or makes. Nearest warps count in 16.16 fixed point. */
enum { OP_SIDE_MAX = 32767 };

struct op_image {
	uint8_t *pixels;
	uint32_t width, height; /* 1 .. OP_SIDE_MAX */
};

/* Whether the op mixes the chains that follow it. */
bool op_mixes(enum op_kind kind);
/* The size of the op's result for an image of this size. */
struct pixel_size op_size(const struct op *op, struct pixel_size size);

/* The number of ops that belong to the first op of `ops`, including itself: more than one only for
 * those that mix chains. */
uint32_t op_length(const struct op *ops);

/* Describes an op for captions: "solarize 110", "erase 12,7 40x32"; at most `room` bytes. */
void op_text(const struct op *op, char *buffer, size_t room);
