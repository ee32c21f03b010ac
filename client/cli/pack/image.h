/* image: takes one image of the source and makes the image that goes into the shard.
 *
 * It always decodes the whole source first: an image that Pillow refuses is broken and left out.
 * Then
 *   - lossless, the default: it transcodes a JPEG. Restart markers cost bytes, so if the result is
 *     larger than its source it offers choices: with the requested interval, with four times that,
 *     without markers, and the source's own bytes if even that is larger. The writer takes the
 *     first choice that the bytes saved so far pay for: so the packed set does not become larger
 *     than its source. An unusual JPEG and a PNG keep their own bytes;
 *   - max_side: it resizes an image with a longer side, as Pillow does with its Lanczos filter
 *     (trainers resample the image again, and Lanczos keeps the most detail), and encodes it again;
 *   - quality: it encodes every image again; an image that would become larger than its source is
 *     packed without loss instead.
 * It decodes the result again: without loss, all pixels must equal the source's, or the source's
 * bytes are packed.
 *
 * Memory for large images (coefficients, pixels to compare) comes from the permit `work`, once
 * per image, and is held while the image's decoder may wait for the permit `decoders`: a
 * different pool, so no threads wait in a circle. An image that needs more than all of `work`
 * keeps its own bytes, on any thread. One maker per thread. */
#pragma once

#include "base/fault.h"
#include "base/permit.h"
#include "client/cli/pack/jpegout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_how {
	IMAGE_TRANSCODED, /* with the requested interval */
	IMAGE_TRANSCODED_WIDER, /* with four times as many MCUs between markers */
	IMAGE_TRANSCODED_PLAIN, /* without markers */
	IMAGE_REENCODED, /* lossy */
	/* From here on: the source's own bytes. A PNG, or another type that is not a JPEG. */
	IMAGE_KEPT_PNG,
	IMAGE_KEPT_COLOURS, /* CMYK, YCCK */
	IMAGE_KEPT_IRREGULAR, /* readable, but only by ignoring something in it */
	IMAGE_KEPT_SMALLER, /* the source is smaller than every other choice */
	IMAGE_KEPT_MEMORY, /* needs more memory than one image may take */
	IMAGE_KEPT_DIFFERS, /* the pixels would differ */
	IMAGE_HOWS,
};
const char *image_how_name(enum image_how how); /* "transcoded", "kept_png", ... */

enum image_subsampling { IMAGE_420, IMAGE_422, IMAGE_444, IMAGE_KEEP };

struct image_options {
	struct jpegout_interval interval;
	uint32_t max_side; /* 0: no limit */
	unsigned quality; /* 0: encode only resized images again, at IMAGE_QUALITY */
	enum image_subsampling subsampling; /* of images encoded again */
	bool verify;
};
enum {
	IMAGE_QUALITY = 90,
	IMAGE_SIDE_MOST = 16384,
	IMAGE_SLACK = 64 /* readable bytes after an image's last one, for the decoder */
};

struct image_memory {
	struct permit *work, *decoders; /* outlive the maker */
};

enum { IMAGE_CHOICES = 3 };

struct image {
	/* The best first; the last is not larger than the source, unless the image was encoded
	 * again. */
	struct image_choice {
		uint8_t *bytes; /* malloc'ed */
		size_t size;
		enum image_how how;
	} choice[IMAGE_CHOICES];
	unsigned choices;
	const char *extension; /* of its content, without the dot: "jpg"; static */
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

/* `data` is malloc'ed, with IMAGE_SLACK bytes after `size`; the maker takes it over in any case.
 * 0; a positive enum decode_outcome: broken, see image_maker_message; -ENOMEM. */
int image_make(struct image_maker *maker, uint8_t *data, size_t size, struct image *ret);

/* Why the last image was broken. */
const char *image_maker_message(const struct image_maker *maker);

/* The size of an image whose longer side becomes `side`: the shorter side is rounded to the nearest
 * integer, at least 1. Pure. */
void image_fit(
	uint32_t width, uint32_t height, uint32_t side, uint32_t *ret_width, uint32_t *ret_height);
