/* decode: see decode.h. This file owns the scratch and its permit: an image's readers take their
 * memory from what is provided here, after the limits were looked at and before the first pixel. */
#include "decode/decode.h"

#include "decode/decode_jpeg.h"
#include "decode/decode_png.h"
#include "decode/pngwalk.h"
#include "decode/scratch.h"
#include "decode/sniff.h"
#include "decode/words.h"

#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Enough for a single scan of any width up to 16 K samples and for coefficients of 0.3 MP in 4:4:4.
 */
enum { DECODER_SCRATCH = 2 << 20 };

struct decoder {
	struct decode_limits limits;
	struct scratch scratch;
	struct words words;
	struct decode_jpeg *jpeg;
	struct decode_png *png;
	struct decode_info info;
	bool open;
};

const char *decode_outcome_name(enum decode_outcome outcome)
{
	static const char *const names[DECODE_OUTCOMES] = {
		[DECODE_OK] = "ok",
		[DECODE_E_NOT_IMAGE] = "not-image",
		[DECODE_E_CORRUPT] = "corrupt",
		[DECODE_E_TRUNCATED] = "truncated",
		[DECODE_E_UNSUPPORTED] = "unsupported",
		[DECODE_E_PIXELS] = "too-many-pixels",
		[DECODE_E_SCANS] = "too-many-scans",
		[DECODE_E_MEMORY] = "too-much-memory",
	};
	return (unsigned)outcome < DECODE_OUTCOMES ? names[outcome] : "unknown";
}

struct decode_limits decode_limits_default(void)
{
	return (struct decode_limits){.pixels = 64000000, .scans = 500, .large = NULL};
}

int decoder_new(const struct decode_limits *limits, struct decoder **ret, struct fault *fault)
{
	struct decoder *decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		goto no_memory;
	decoder->limits = *limits;
	if (scratch_init(&decoder->scratch, DECODER_SCRATCH, limits->large))
		goto no_memory;
	if (decode_jpeg_new(&decoder->scratch, &decoder->words, &decoder->jpeg))
		goto no_memory;
	if (decode_png_new(&decoder->scratch, &decoder->words, &decoder->png))
		goto no_memory;
	*ret = decoder;
	return 0;
no_memory:
	decoder_free(decoder);
	return fault_set(fault, -ENOMEM,
		"decoder: %llu bytes of working memory cannot be allocated; use fewer threads or "
		"free memory",
		(unsigned long long)decoder_scratch_bytes());
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	decoder_abort(decoder);
	decode_png_free(decoder->png);
	decode_jpeg_free(decoder->jpeg);
	scratch_deinit(&decoder->scratch);
	free(decoder);
}

uint64_t decoder_scratch_bytes(void)
{
	return sizeof(struct decoder) + DECODER_SCRATCH + decode_jpeg_bytes() + decode_png_bytes();
}

static int begin_format(
	struct decoder *decoder, const uint8_t *data, size_t size, struct decode_info *ret)
{
	if (sniff_jpeg(data, size)) {
		ret->format = DECODE_JPEG;
		return decode_jpeg_begin(decoder->jpeg, &decoder->limits, data, size, ret);
	}
	if (sniff_png(data, size)) {
		ret->format = DECODE_PNG;
		return decode_png_begin(decoder->png, &decoder->limits, data, size, ret);
	}
	return words_set(&decoder->words, DECODE_E_NOT_IMAGE,
		"neither JPEG nor PNG; it looks like %s", sniff_name(data, size));
}

int decoder_begin(
	struct decoder *decoder, const uint8_t *data, size_t size, struct decode_info *ret)
{
	decoder_abort(decoder);
	decoder->words.text[0] = 0;
	decoder->info = (struct decode_info){0};
	decoder->open = true;
	int outcome = begin_format(decoder, data, size, &decoder->info);
	if (outcome)
		decoder_abort(decoder);
	else
		*ret = decoder->info;
	return outcome;
}

void decoder_abort(struct decoder *decoder)
{
	if (!decoder->open)
		return;
	if (decoder->info.format == DECODE_JPEG)
		decode_jpeg_end(decoder->jpeg);
	else if (decoder->info.format == DECODE_PNG)
		decode_png_end(decoder->png);
	scratch_reset(&decoder->scratch);
	decoder->open = false;
}

static uint64_t need(const struct decoder *decoder)
{
	return decoder->info.format == DECODE_JPEG ? decode_jpeg_need(decoder->jpeg)
						   : decode_png_need(decoder->png);
}

uint64_t decoder_large_bytes(const struct decoder *decoder)
{
	if (!decoder->open)
		return 0;
	uint64_t bytes = need(decoder);
	return scratch_would_borrow(&decoder->scratch, bytes) ? util_align(bytes, SCRATCH_ALIGN)
							      : 0;
}

static int provide(struct decoder *decoder)
{
	uint64_t bytes = need(decoder);
	int result = scratch_provide(&decoder->scratch, bytes);
	if (result != PERMIT_E_TOO_LARGE)
		return result;
	char wanted[16], total[16];
	return words_set(&decoder->words, DECODE_E_MEMORY,
		"%u x %u pixels need %s to decode; large images share %s", decoder->info.width,
		decoder->info.height, size_format(bytes, wanted, sizeof(wanted)),
		size_format(decoder->limits.large->total, total, sizeof(total)));
}

int decoder_rows(struct decoder *decoder, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context)
{
	assert(decoder->open && region.x0 < region.x1 && region.x1 <= decoder->info.width);
	assert(region.y0 < region.y1 && region.y1 <= decoder->info.height);
	int outcome = provide(decoder);
	if (!outcome && decoder->info.format == DECODE_JPEG)
		outcome = decode_jpeg_rows(decoder->jpeg, region, to_end, row, context);
	else if (!outcome)
		outcome = decode_png_rows(decoder->png, region, to_end, row, context);
	decoder_abort(decoder);
	if (!outcome)
		decoder->words.text[0] =
			0; /* what a library said and Pillow would not have minded */
	return outcome;
}

const char *decoder_message(const struct decoder *decoder)
{
	return decoder->words.text;
}
