/* image: what the fuzz targets of image types share: a decoder with small limits, and an image
 * decoded whole or in part, with what always holds: no more and no fewer rows than the region has,
 * the limits are obeyed, and every refusal has a sentence. Included by one file of each target. */
#pragma once

#include "decode/decode.h"

#include "fuzz/want.h"

enum { PIXELS_MOST = 1 << 16 };

struct image {
	int outcome;
	struct decode_info info;
	struct decode_region region;
	uint32_t rows;
	uint8_t rgb[PIXELS_MOST * 3];
};

static struct decoder *decoder;
static struct image whole, part;

/* `pool`: bytes for images that need more than the scratch. */
static void prepare(uint64_t pool_bytes)
{
	static struct permit pool;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	limits.pixels = PIXELS_MOST;
	limits.large = &pool;
	permit_init(&pool, pool_bytes);
	want(decoder_new(&limits, &decoder, &fault) == 0, "no decoder");
}

static void keep_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct image *image = context;
	const size_t width = image->region.x1 - image->region.x0;
	want(image->rows < image->region.y1 - image->region.y0, "more rows than the region has");
	decode_weave(image->rgb + image->rows++ * width * 3, rgb, width);
}

static void want_outcome(int outcome)
{
	want(outcome >= 0 && outcome < DECODE_OUTCOMES, "no such outcome");
	want(!outcome || decoder_message(decoder)[0], "refused without a sentence");
}

/* A region; the whole image if x1 is 0. */
static void decode(struct image *ret, const uint8_t *bytes, size_t size,
	struct decode_region region, bool to_end)
{
	ret->rows = 0;
	ret->outcome = decoder_begin(decoder, bytes, size, &ret->info);
	want_outcome(ret->outcome);
	if (ret->outcome)
		return;
	want((uint64_t)ret->info.width * ret->info.height <= PIXELS_MOST, "beyond the limit");
	if (!region.x1)
		region = (struct decode_region){0, 0, ret->info.width, ret->info.height};
	ret->region = region;
	ret->outcome = decoder_rows(decoder, region, to_end, keep_row, ret);
	want_outcome(ret->outcome);
	want(ret->outcome || ret->rows == region.y1 - region.y0, "rows are missing");
}
