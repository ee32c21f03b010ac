/* image: one image of the source in, the image that goes into the shard out.
 *
 * Whatever is asked for, the source is decoded to its end first: what Pillow refuses is broken and
 * left out. Then
 *   - lossless, the default: a JPEG is transcoded. Restart markers cost bytes, so where it becomes
 *     larger than its source there are choices: with the asked interval, with four times that, and
 *     without markers, or the source's own bytes where even that is larger. Whoever writes takes
 *     the first that the bytes saved so far pay for: so the packed set does not become larger than
 *     its source. Where anything about a file is out of the ordinary, its own bytes go along, and
 * PNGs stay as they are;
 *   - max_side: what is longer on a side is resized, as Pillow does it with its Lanczos filter
 *     (trainers will resample it again, and this one keeps the most), and coded anew;
 *   - quality: everything is coded anew; what would become larger than its source is packed without
 *     loss instead.
 * What came out is decoded again: without loss, all its pixels must equal the source's, or the
 * source's bytes go along.
 *
 * Memory of large images (coefficients, pixels to compare) is taken under the permit `work`, one
 * for each image, and held while its decoder may wait for another one of `decoders`: a different
 * pool, so nobody waits in a circle. What `work` never has makes an image stay as it is, whichever
 * thread meets it. One maker per thread. */
#pragma once

#include "base/fault.h"
#include "base/permit.h"
#include "client/cli/pack/jpegout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_how {
	IMAGE_TRANSCODED, /* with the interval asked for */
	IMAGE_TRANSCODED_WIDER, /* with four times as many MCUs between markers */
	IMAGE_TRANSCODED_PLAIN, /* without markers */
	IMAGE_REENCODED, /* lossy */
	IMAGE_KEPT_PNG, /* from here on: the source's bytes */
	IMAGE_KEPT_COLOURS, /* CMYK, YCCK */
	IMAGE_KEPT_IRREGULAR, /* readable, but something in it has to be overlooked */
	IMAGE_KEPT_SMALLER, /* the source is smaller than whatever is made of it */
	IMAGE_KEPT_MEMORY, /* needs more than there is for one image */
	IMAGE_KEPT_DIFFERS, /* the pixels would have been others */
	IMAGE_HOWS,
};
const char *image_how_name(enum image_how how); /* "transcoded", "kept_png", ... */

enum image_subsampling { IMAGE_420, IMAGE_422, IMAGE_444, IMAGE_KEEP };

struct image_options {
	struct jpegout_interval interval;
	uint32_t max_side; /* 0: as large as they are */
	unsigned quality; /* 0: only what is resized is coded anew, at IMAGE_QUALITY */
	enum image_subsampling subsampling; /* of what is coded anew */
	bool verify;
};
enum {
	IMAGE_QUALITY = 90,
	IMAGE_SIDE_MOST = 16384,
	IMAGE_SLACK = 64 /* bytes readable behind an image's last, for the decoder */
};

struct image_memory {
	struct permit *work, *decoders; /* outlive the maker */
};

enum { IMAGE_CHOICES = 3 };

struct image {
	struct image_choice {
		uint8_t *bytes; /* malloc'ed */
		size_t size;
		enum image_how how;
	} choice[IMAGE_CHOICES]; /* the best first; the last one is not larger than the source,
				    unless it was coded anew */
	unsigned choices;
	bool png;
};

void image_deinit(struct image *image);

/* Bytes of all choices. Pure. */
size_t image_bytes(const struct image *image);

struct image_maker;

/* 0 or a negative errno with a fault. */
int image_maker_new(const struct image_options *options, struct image_memory memory,
	struct image_maker **ret, struct fault *fault);
void image_maker_free(struct image_maker *maker);

/* Bytes that a maker holds itself. */
uint64_t image_maker_bytes(const struct image_options *options);

/* `data` is malloc'ed, with IMAGE_SLACK bytes behind `size`; it is taken over in any case. 0; a
 * positive enum decode_outcome: broken, see image_maker_message; -ENOMEM. */
int image_make(struct image_maker *maker, uint8_t *data, size_t size, struct image *ret);

/* Why the last image was broken. */
const char *image_maker_message(const struct image_maker *maker);

/* Size of a picture whose longer side becomes `side`: the shorter one rounded to the nearest, at
 * least 1. Pure. */
void image_fit(
	uint32_t width, uint32_t height, uint32_t side, uint32_t *ret_width, uint32_t *ret_height);
