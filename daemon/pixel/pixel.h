/* pixel: rows of a source region go in, one row of the batch comes out (resampled, flipped).
 *
 * A map of this folder:
 *   pixel.[ch]       this file: recipe -> plan (which region, which window of which resize), and
 *                    the sink for the source's rows
 *   pad.[ch]         windows that reach beyond the image
 *   resize.[ch]      the same resampling of an image in memory, of any size
 *   draw.[ch]        random parameters from Philox, the same on every machine
 *   resample.[ch]    Pillow's resampling, bit for bit, row by row
 *   weights.[ch]     which source pixels an output pixel needs, and how much of each
 *   kernels.[ch]     the inner loops in tables, and which one this processor runs
 *   kernels_c.c      the reference, in plain C
 *   kernels_body.h   plain C, compiled once per instruction set
 *   kernels_madd_body.h
 *                    multiply and add in pairs, for AVX2 and AVX-512
 *   kernels_avx2.c, kernels_avx512.c, kernels_vnni.c, kernels_neon.c
 *                    one table for each instruction set
 *
 * Exact mode: the bytes equal torchvision's PIL path on Pillow 13: crop, then Image.resize(size,
 * BILINEAR) or another of its filters. Both orders of the passes are implemented (vertical first if
 * h > oh and h - oh > 2 (w - ow), where w, h is the crop and ow, oh the result:
 * python-pillow/Pillow#9549). A pass whose size does not change is skipped, and rows between the
 * passes are uint8.
 *
 * Fast mode (pixel_plan_shrink): the same resampling, of the crop's box in a source that the
 * decoder has shrunk. */
#pragma once

#include "base/fault.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stdint.h>

/* The numbers are part of hashes in states: never renumber. */
enum pixel_recipe_kind {
	PIXEL_RESIZED_CROP = 0, /* RandomResizedCrop(size, scale, ratio) */
	/* Resize(resize) of the whole image, then CenterCrop(size), or RandomCrop if
	 * random_window. */
	PIXEL_RESIZE = 1,
	PIXEL_CROP = 2, /* only CenterCrop or RandomCrop, without resizing */
	/* Decoded as a whole: the steps give the image its size (augment/step.h). Plans and sinks
	 * do not know this kind; stream/sequence.h does it. */
	PIXEL_WHOLE = 3,
};

/* How RandomCrop fills the padding, as torchvision's F.pad does for PIL images. */
enum pixel_padding_mode {
	PIXEL_PAD_CONSTANT, /* fill */
	PIXEL_PAD_EDGE, /* the nearest pixel */
	PIXEL_PAD_REFLECT, /* mirrored about the outermost pixel, repeatedly */
	PIXEL_PAD_SYMMETRIC, /* mirrored after the outermost pixel, repeatedly */
};

enum { PIXEL_PADDING_MAX = 4096 };

struct pixel_padding {
	enum pixel_padding_mode mode;
	uint32_t left, top, right, bottom;
	/* If the image is still too narrow (or too low), each of both sides is padded by all that
	 * is missing: torchvision's pad_if_needed. */
	bool if_needed;
	uint8_t fill[3];
};

/* The largest sides of pixel_recipe.size and pixel_recipe.resize. */
enum { PIXEL_SIDE_MAX = 4096, PIXEL_RESIZE_MAX = 8192 };

/* Pixels of an image. */
struct pixel_size {
	uint32_t height, width;
};

struct pixel_recipe {
	enum pixel_recipe_kind kind;
	struct pixel_size size; /* of the row; 1 .. PIXEL_SIDE_MAX each */
	/* RESIZED_CROP: minimum and maximum of the area and of width / height; see draw.h. */
	double scale[2], ratio[2];
	/* RESIZE: 1 .. PIXEL_RESIZE_MAX each. If `both`, the image gets this size; otherwise its
	 * shorter side gets resize.height. */
	struct pixel_size resize;
	bool both;
	/* RESIZE, CROP: RandomCrop(size) with this padding. Otherwise CenterCrop, which pads
	 * an image that is too small with zeros; the padding is all zero then. */
	bool random_window;
	struct pixel_padding padding; /* sides up to PIXEL_PADDING_MAX */
	double flip, flip_vertical; /* probabilities, 0 .. 1 */
	bool fast; /* JPEGs may be decoded shrunk where the crop is large enough */
	enum weights_filter filter; /* of the resize; may be WEIGHTS_RANDOM */
};

static inline struct pixel_size pixel_square(uint32_t side)
{
	return (struct pixel_size){side, side};
}

static inline bool pixel_size_equal(struct pixel_size a, struct pixel_size b)
{
	return a.height == b.height && a.width == b.width;
}

static inline uint32_t pixel_longer(struct pixel_size size)
{
	return size.height > size.width ? size.height : size.width;
}

/* The default recipe of a stream. Training: RandomResizedCrop(size), RandomHorizontalFlip(0.5).
 * Evaluation: Resize(int(side * 256 / 224)) of the shorter side, or of both sides where the row is
 * not a square; then CenterCrop(size). Pure. */
struct pixel_recipe pixel_recipe_train(struct pixel_size size);
struct pixel_recipe pixel_recipe_eval(struct pixel_size size);

/* The key of a sample's random parameters. */
struct pixel_key {
	uint64_t seed;
	uint64_t position; /* in the epoch's global order */
	uint32_t epoch;
	uint32_t view; /* the number of the view of its sample, from 0; below 16 */
};

/* Everything that is done to one sample: a pure function of recipe, key and source size. */
struct pixel_plan {
	/* In the source; the whole image if nothing is cropped before the resize. */
	uint32_t crop_x, crop_y, crop_w, crop_h;
	uint32_t resize_w, resize_h; /* the crop is resized to this */
	/* The visible part of the resized image, at least one pixel. It has the row's size unless
	 * the window reaches beyond the image. */
	uint32_t window_x, window_y, window_w, window_h;
	/* If it does, the window has the row's size, at this place of the padded image. The sink
	 * writes the visible part, and pixel_sink_end the rest. */
	bool padded;
	uint32_t place_x, place_y;
	enum weights_filter filter; /* of the resize, drawn if the recipe's is WEIGHTS_RANDOM */
	bool flip, flip_vertical;
	uint8_t shrink; /* the source is decoded, and then resized, at 1/2^shrink of its size */
};

/* Whether a source of this size, after padding, is large enough for RandomCrop: torchvision refuses
 * other images. Always true for other recipes, and with padding.if_needed. Pure. */
bool pixel_recipe_fits(const struct pixel_recipe *recipe, uint32_t src_w, uint32_t src_h);

/* Makes the plan: torchvision's RandomResizedCrop.get_params with draws from Philox (see draw.h);
 * or its sizes of Resize and CenterCrop, with Python's rounding; or its RandomCrop.get_params. A
 * source that is too small is padded as with if_needed. Pure. */
void pixel_plan_make(const struct pixel_recipe *recipe, const struct pixel_key *key, uint32_t src_w,
	uint32_t src_h, struct pixel_plan *ret);

/* Whether a crop is not empty and inside a source of at most 65,535 pixels on a side. Check records
 * from elsewhere with it before pixel_plan_from_crop. */
bool pixel_crop_fits(uint32_t crop_x, uint32_t crop_y, uint32_t crop_w, uint32_t crop_h,
	uint32_t src_w, uint32_t src_h);

/* The same plan from a record of a slot (replay). Crop and flip determine all but flip_vertical,
 * which the caller sets, the window of RandomCrop (random_window), which is in the center, and the
 * filter, which is bilinear, if they are random: until pixel_plan_place draws them again. The crop
 * must fit. */
void pixel_plan_from_crop(const struct pixel_recipe *recipe, uint32_t crop_x, uint32_t crop_y,
	uint32_t crop_w, uint32_t crop_h, bool flip, uint32_t src_w, uint32_t src_h,
	struct pixel_plan *ret);

/* Draws the place of the window of recipes with a random_window, and a WEIGHTS_RANDOM filter (word
 * 0 of PHILOX_INTERPOLATION); does nothing for others. Pure. */
void pixel_plan_place(
	const struct pixel_recipe *recipe, const struct pixel_key *key, struct pixel_plan *plan);

/* Fast mode: changes the plan to a source that is shrunk (by 8, 4, 2, or not at all) as far as its
 * crop still has, in both directions, at least as many pixels as it is resized to. Crop and sizes
 * stay in pixels of the full source. Where the crop begins or ends within a shrunk pixel, that
 * pixel counts by its share. */
void pixel_plan_shrink(struct pixel_plan *plan);

/* The part of the source that the plan's window needs and the decoder must deliver; in shrunk
 * pixels if the plan is shrunk. */
struct pixel_region {
	uint32_t x0, y0, x1, y1;
};

/* That part, or a little more: it may include pixels whose weights round to zero. The region of
 * pixel_sink_begin is inside it. Pure. */
void pixel_plan_region(const struct pixel_plan *plan, struct pixel_region *ret);

/* Carries out plans, one at a time, row by row. Belongs to one thread. pixel_sink_new allocates all
 * memory, for outputs of up to `max_side` and sources of up to 65,535 pixels on a side. */
struct pixel_sink;

/* 0; -EINVAL (size, or an unknown PENSTOCK_KERNELS); -ENOTSUP (PENSTOCK_KERNELS names instructions
 * that this processor lacks); -ENOMEM. Any thread. */
int pixel_sink_new(uint32_t max_side, struct pixel_sink **ret, struct fault *fault);
void pixel_sink_free(struct pixel_sink *sink);

/* Bytes that pixel_sink_new allocates, for the ledger: 3.7 MB + about 410 bytes x max_side. A
 * sink touches only what its sources need (ImageNet at 224: about 0.1 MB). Nearly all of it is for
 * very rare sources: Lanczos over 65,535 rows of 33,000 pixels, vertically first, has seven outputs
 * in progress, of 12 bytes per pixel, and horizontal weights as well. Bilinear would need a third
 * of that, but the filter belongs to a stream and the sink to a worker. arena_most (resample.c) has
 * the terms. */
uint64_t pixel_sink_bytes(uint32_t max_side);

/* Prepares weights and returns the region to feed. `out` is height x width x 3 bytes of the
 * recipe's size, row after row, NHWC. */
void pixel_sink_begin(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out, struct pixel_region *ret_region);

/* For resize.c: the sink's resampler. */
struct resample;
struct resample *pixel_sink_resample(struct pixel_sink *sink);

/* Interleaves a row of `pixels` pixels; writes nothing beyond them. */
void pixel_sink_weave(
	const struct pixel_sink *sink, uint8_t *to, const uint8_t *const rgb[3], uint32_t pixels);

/* Between pixel_sink_begin and the first row: `out` replaces that of pixel_sink_begin, of a plan
 * that is not padded. */
void pixel_sink_place(struct pixel_sink *sink, uint8_t *out);

/* Feeds one row of the region, from top to bottom: x1 - x0 bytes each of R, G and B, and
 * PIXEL_ROW_SLACK readable bytes after each. It has the signature of decode_row_fn. */
enum { PIXEL_PLANES = 3, PIXEL_ROW_SLACK = 256 };
void pixel_sink_row(void *sink, const uint8_t *const rgb[PIXEL_PLANES]);

/* Call it after the last row: then `out` is complete. Asserts that all rows of the region were
 * fed. */
void pixel_sink_end(struct pixel_sink *sink);
