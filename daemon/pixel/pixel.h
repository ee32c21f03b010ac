/* pixel: rows of a source region go in, one row of the batch comes out (resampled, flipped).
 *
 * A map of this folder:
 *   pixel.[ch]       this file: recipe -> plan (which region, which window of which resize), and
 *                    the sink for the source's rows
 *   pad.[ch]         windows that reach beyond the image
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
 * BILINEAR), or any other of its filters; both orders of the passes (python-pillow/Pillow#9549:
 * vertical first where h > oh and h - oh > 2 (w - ow), w, h the crop, ow, oh the result), a pass
 * skipped when its size is unchanged, uint8 between the passes.
 *
 * Fast mode (pixel_plan_shrink): the same resampling, of the crop's box in a source that the
 * decoder has shrunk. */
#pragma once

#include "base/fault.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers are part of hashes that states keep. */
enum pixel_recipe_kind {
	PIXEL_RESIZED_CROP = 0, /* RandomResizedCrop(image_size, scale, ratio) */
	/* Of the whole image: Resize(resize), then CenterCrop(image_size), or RandomCrop if
	 * random_window. */
	PIXEL_RESIZE = 1,
	PIXEL_CROP = 2, /* CenterCrop or RandomCrop alone, of the source as it is */
};

/* How RandomCrop makes up what lies outside, as torchvision's F.pad does for PIL images. */
enum pixel_padding_mode {
	PIXEL_PAD_CONSTANT, /* fill */
	PIXEL_PAD_EDGE, /* the nearest pixel */
	PIXEL_PAD_REFLECT, /* mirrored about the outermost pixel, again and again */
	PIXEL_PAD_SYMMETRIC, /* mirrored behind the outermost pixel */
};

enum { PIXEL_PADDING_MAX = 2048 };

struct pixel_padding {
	enum pixel_padding_mode mode;
	uint32_t left, top, right, bottom;
	/* Where the image is still too narrow (or low), both sides get what is missing, each all
	 * of it: torchvision's pad_if_needed. */
	bool if_needed;
	uint8_t fill[3];
};

/* Of pixel_recipe.resize. */
enum { PIXEL_RESIZE_MAX = 4096 };

struct pixel_recipe {
	enum pixel_recipe_kind kind;
	uint32_t image_size; /* 1 .. 2048 */
	/* RESIZED_CROP: least and most of the area and of width by height; see draw.h. */
	double scale[2], ratio[2];
	/* RESIZE: 1 .. PIXEL_RESIZE_MAX, of the shorter side, or `both`: of both. */
	uint32_t resize;
	bool both;
	/* RESIZE, CROP: RandomCrop(image_size) with this padding. Otherwise CenterCrop, which pads
	 * an image that is too small with zeros; the padding is all zero then. */
	bool random_window;
	struct pixel_padding padding; /* sides up to PIXEL_PADDING_MAX */
	double flip, flip_vertical; /* how likely, 0 .. 1 */
	bool fast; /* JPEGs may be decoded shrunk where the crop is large enough */
	enum weights_filter filter; /* of the resize */
};

/* What a stream does unless it says otherwise. Training: RandomResizedCrop(image_size),
 * RandomHorizontalFlip(0.5). Evaluation: Resize(int(image_size * 256 / 224)),
 * CenterCrop(image_size). Pure. */
struct pixel_recipe pixel_recipe_train(uint32_t image_size);
struct pixel_recipe pixel_recipe_eval(uint32_t image_size);

/* What a sample's random parameters hang on. */
struct pixel_key {
	uint64_t seed;
	uint64_t position; /* in the epoch's global order */
	uint32_t epoch;
	uint32_t view; /* of several of one sample, from 0; below 16 */
};

/* Everything that is done to one sample: a pure function of recipe, key and source size. */
struct pixel_plan {
	/* Of the source; the whole image where nothing is cropped before it is resized. */
	uint32_t crop_x, crop_y, crop_w, crop_h;
	uint32_t resize_w, resize_h; /* that crop is resized to */
	/* Of the resized image: what is seen of it; at least a pixel. It is image_size x image_size
	 * unless the window reaches beyond the image. */
	uint32_t window_x, window_y, window_w, window_h;
	/* Then the window is image_size x image_size at this place of the padded image, of which
	 * that part is put in place by the sink, and the rest by pixel_sink_end. */
	bool padded;
	uint32_t place_x, place_y;
	bool flip, flip_vertical;
	uint8_t shrink; /* what is decoded, and resized, is the source at 1/2^shrink of its size */
};

/* Whether RandomCrop finds its image_size in a source of this size, once it is padded: torchvision
 * refuses images where not. Always true of other recipes, and where padding.if_needed. Pure. */
bool pixel_recipe_fits(const struct pixel_recipe *recipe, uint32_t src_w, uint32_t src_h);

/* torchvision's RandomResizedCrop.get_params with draws from Philox (see draw.h), or its sizes of
 * Resize and CenterCrop, with Python's rounding, or its RandomCrop.get_params. A source that does
 * not fit is padded as if needed. Pure. */
void pixel_plan_make(const struct pixel_recipe *recipe, const struct pixel_key *key, uint32_t src_w,
	uint32_t src_h, struct pixel_plan *ret);

/* Whether a crop is not empty and lies inside a source of at most 65,535 pixels on a side: to be
 * asked of records that somebody else wrote, before pixel_plan_from_crop. */
bool pixel_crop_fits(uint32_t crop_x, uint32_t crop_y, uint32_t crop_w, uint32_t crop_h,
	uint32_t src_w, uint32_t src_h);

/* The same plan from a record of a slot (replay): crop and flip given, the rest follows, but for
 * flip_vertical, which is the caller's to set, and for where RandomCrop took its window
 * (random_window), which is drawn again by pixel_plan_place: until then it is the centre. The crop
 * must fit. */
void pixel_plan_from_crop(const struct pixel_recipe *recipe, uint32_t crop_x, uint32_t crop_y,
	uint32_t crop_w, uint32_t crop_h, bool flip, uint32_t src_w, uint32_t src_h,
	struct pixel_plan *ret);

/* The window's place, of recipes with a random_window; nothing of others. Pure. */
void pixel_plan_place(
	const struct pixel_recipe *recipe, const struct pixel_key *key, struct pixel_plan *plan);

/* Fast mode: makes the plan one of the source shrunk as far as its crop, in both directions, still
 * has as many pixels as it is resized to: by 8, 4, 2, or not at all. Crop and sizes stay as they
 * are, in the source's own pixels; where the crop begins or ends within a shrunk pixel, that pixel
 * counts by its share. */
void pixel_plan_shrink(struct pixel_plan *plan);

/* The part of the source that the plan's window needs: what the decoder has to deliver; in shrunk
 * pixels, if the plan is. */
struct pixel_region {
	uint32_t x0, y0, x1, y1;
};

/* That part, or a little more: pixels whose weights round to zero may be among it. Pure; what
 * pixel_sink_begin tells lies within. */
void pixel_plan_region(
	const struct pixel_recipe *recipe, const struct pixel_plan *plan, struct pixel_region *ret);

/* Carries plans out, one at a time, row by row. Belongs to one thread; all memory is taken when it
 * is made, for outputs of up to `max_image_size` and sources of up to 65,535 on a side. */
struct pixel_sink;

/* 0, -EINVAL (size, or an unknown PENSTOCK_KERNELS), -ENOTSUP (PENSTOCK_KERNELS names instructions
 * that are not there), -ENOMEM. Any thread. */
int pixel_sink_new(uint32_t max_image_size, struct pixel_sink **ret, struct fault *fault);
void pixel_sink_free(struct pixel_sink *sink);

/* What pixel_sink_new takes, for the ledger: 3.7 MB + about 410 bytes x max_image_size, of which a
 * sink touches what its sources need (ImageNet at 224: about 0.1 MB). Nearly all of it is for
 * sources that hardly anybody has: Lanczos over 65,535 rows of 33,000 pixels, vertically first, has
 * seven outputs under way, of 12 bytes per pixel, and its horizontal weights beside them. Bilinear
 * would do with a third, but the filter is a stream's choice and a sink is a worker's. The terms
 * are in arena_most (resample.c). */
uint64_t pixel_sink_bytes(uint32_t max_image_size);

/* Prepares weights; tells which region to feed. `out` is image_size x image_size x 3 bytes, row
 * after row, NHWC. */
void pixel_sink_begin(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out, struct pixel_region *ret_region);

/* One row of the region, top to bottom: x1 - x0 bytes each of R, G, B, and PIXEL_ROW_SLACK readable
 * bytes behind each. The signature is decode_row_fn's. */
enum { PIXEL_PLANES = 3, PIXEL_ROW_SLACK = 256 };
void pixel_sink_row(void *sink, const uint8_t *const rgb[PIXEL_PLANES]);

/* After the last row: `out` is complete. Asserts that all rows of the region were given. */
void pixel_sink_end(struct pixel_sink *sink);
