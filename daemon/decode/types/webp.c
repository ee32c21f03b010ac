/* webp: WebP by libwebp: lossy, lossless, with alpha, and the first frame of an animation. Pillow
 * 13.0.0 reads them by WebPAnimDecoder; this file does what that does for the first frame.
 *
 * Only the region is decoded, and nothing below its last row. libwebp treats the edges of what it
 * is asked for as the edges of the image, so a margin of two pixels around the region is decoded
 * too and left out.
 *
 * libwebp has no hook for its memory. cmake/PenstockWebp.cmake links its decoder into one object
 * whose calls of malloc, calloc and free are those of webp_memory.c, so that it takes all memory
 * from the scratch, of which this file knows in advance how much an image of a kind and a size may
 * take. An image that needs more is refused, whatever the budget: a lossless one with thousands of
 * sets of code tables, or an animation of thousands of frames. */
#include "decode/types/types.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/types/common.h"
#include "decode/types/webp_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

enum {
	MARGIN = 2, /* pixels; begins at an even one */
	DEMUX_BYTES = 256 << 10,
	/* libwebp's own memory. Lossy: a fixed part, and by the column of 16 pixels. */
	LOSSY_FIXED = 96 << 10,
	LOSSY_COLUMN = 4 << 10,
	/* Lossless, and the alpha of lossy ones: a fixed part; rows of pixels beside the image;
	 * sets of code tables, of which a block of 4 x 4 pixels has at most one. */
	LOSSLESS_FIXED = 1 << 20,
	LOSSLESS_ROWS = 24,
	SET_BYTES = 16 << 10,
	SETS_MOST = 1024,
	SET_PIXELS = 16,
};

struct webp {
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	uint32_t width, height;
	WebPData frame; /* in the file */
	struct decode_region place; /* of the frame in the image */
	bool alpha, lossless;
	struct types_row row;
};

static bool webp_sniff(const uint8_t *data, size_t size)
{
	return size >= 16 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBPVP8", 7) &&
	       (data[15] == ' ' || data[15] == 'L' || data[15] == 'X');
}

static int webp_make(const struct reader_tools *tools, void **ret)
{
	struct webp *webp = calloc(1, sizeof(*webp));
	if (!webp)
		return -ENOMEM;
	webp->scratch = tools->scratch;
	webp->sentence = tools->sentence;
	webp->kernels = tools->kernels;
	*ret = webp;
	return 0;
}

static uint64_t webp_bytes(void)
{
	return sizeof(struct webp);
}

static int refuse(const struct webp *webp, VP8StatusCode status)
{
	switch (status) {
	case VP8_STATUS_NOT_ENOUGH_DATA:
		return sentence_set(
			webp->sentence, DECODE_E_TRUNCATED, "WebP: the file ends in its pixels");
	case VP8_STATUS_OUT_OF_MEMORY:
		return sentence_set(webp->sentence, DECODE_E_MEMORY,
			"WebP: it needs more memory than an image of its size may take: more than "
			"%d sets of code tables",
			SETS_MOST);
	default:
		return sentence_set(webp->sentence, DECODE_E_CORRUPT,
			"WebP: libwebp refuses it (status %d)", (int)status);
	}
}

/* Finds the image's size and its first frame. */
static int find_frame(struct webp *webp, const uint8_t *data, size_t size)
{
	WebPIterator frame;
	const WebPData file = {data, size};
	WebPDemuxer *demux = WebPDemux(&file);
	if (!demux || !WebPDemuxGetFrame(demux, 1, &frame))
		return sentence_set(webp->sentence,
			webp_memory_short() ? DECODE_E_MEMORY : DECODE_E_CORRUPT,
			webp_memory_short() ? "WebP: an animation of too many frames"
					    : "WebP: its chunks are incomplete or out of order");
	webp->width = WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH);
	webp->height = WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT);
	webp->frame = frame.fragment;
	webp->place = (struct decode_region){(uint32_t)frame.x_offset, (uint32_t)frame.y_offset,
		(uint32_t)(frame.x_offset + frame.width),
		(uint32_t)(frame.y_offset + frame.height)};
	return DECODE_OK;
}

static int webp_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct webp *webp = self;
	WebPBitstreamFeatures features = {0};
	void *memory = scratch_take(webp->scratch, DEMUX_BYTES);
	if (!memory)
		return types_no_room(webp->sentence, "WebP");
	webp_memory_lend(memory, DEMUX_BYTES);
	int outcome = find_frame(webp, data, size);
	webp_memory_return();
	if (!outcome)
		outcome = reader_check_size(
			webp->sentence, limits, "WebP", webp->width, webp->height);
	if (outcome)
		return outcome;
	VP8StatusCode status = WebPGetFeatures(webp->frame.bytes, webp->frame.size, &features);
	if (status != VP8_STATUS_OK)
		return refuse(webp, status);
	webp->alpha = features.has_alpha;
	webp->lossless = features.format == 2;
	*ret = (struct decode_info){
		.width = webp->width, .height = webp->height, .format = DECODE_WEBP};
	return DECODE_OK;
}

/* Bytes of a pixel as libwebp gives it. */
static uint32_t pixel_bytes(const struct webp *webp)
{
	return webp->alpha ? 4 : 3;
}

/* The memory that libwebp may take for the frame. */
static uint64_t library_bytes(const struct webp *webp)
{
	uint64_t width = webp->place.x1 - webp->place.x0, height = webp->place.y1 - webp->place.y0;
	uint64_t pixels = width * height, bytes = 0;
	if (!webp->lossless)
		bytes += LOSSY_FIXED + (width / 16 + 1) * LOSSY_COLUMN;
	if (!webp->lossless && webp->alpha)
		bytes += 2 * pixels;
	if (webp->lossless || webp->alpha)
		bytes += LOSSLESS_FIXED + 4 * (pixels + LOSSLESS_ROWS * width) + pixels +
			 UTIL_MIN(pixels / SET_PIXELS + 1, (uint64_t)SETS_MOST) * SET_BYTES;
	return bytes;
}

static uint64_t frame_bytes(const struct webp *webp)
{
	return (uint64_t)(webp->place.x1 - webp->place.x0) * (webp->place.y1 - webp->place.y0) *
	       pixel_bytes(webp);
}

/* The file's memory is mapped where the pool does not have it: libwebp must have all in memory. */
static uint64_t webp_need(void *self, bool spilled)
{
	const struct webp *webp = self;
	(void)spilled;
	return types_row_bytes(webp->width) + util_align(frame_bytes(webp), SCRATCH_ALIGN) +
	       util_align(library_bytes(webp), SCRATCH_ALIGN);
}

/* The part of the frame that is decoded for a region of the image; empty where they do not meet. */
static struct decode_region frame_part(const struct webp *webp, struct decode_region region)
{
	const struct decode_region *place = &webp->place;
	struct decode_region part = {UTIL_MAX(region.x0, place->x0), UTIL_MAX(region.y0, place->y0),
		UTIL_MIN(region.x1, place->x1), UTIL_MIN(region.y1, place->y1)};
	if (part.x0 >= part.x1 || part.y0 >= part.y1)
		return (struct decode_region){0};
	part.x0 = (part.x0 - place->x0 - UTIL_MIN(part.x0 - place->x0, (uint32_t)MARGIN)) & ~1u;
	part.y0 = (part.y0 - place->y0 - UTIL_MIN(part.y0 - place->y0, (uint32_t)MARGIN)) & ~1u;
	part.x1 = UTIL_MIN(part.x1 + MARGIN, place->x1) - place->x0;
	part.y1 = UTIL_MIN(part.y1 + MARGIN, place->y1) - place->y0;
	return part;
}

static int decode_part(struct webp *webp, struct decode_region part, uint8_t *out, void *memory)
{
	WebPDecoderConfig config;
	uint32_t stride = (part.x1 - part.x0) * pixel_bytes(webp);
	if (!WebPInitDecoderConfig(&config))
		return sentence_set(webp->sentence, DECODE_E_UNSUPPORTED,
			"WebP: libwebp is not of the version that penstock was built with");
	config.options.use_cropping = 1;
	config.options.crop_left = (int)part.x0;
	config.options.crop_top = (int)part.y0;
	config.options.crop_width = (int)(part.x1 - part.x0);
	config.options.crop_height = (int)(part.y1 - part.y0);
	config.output.colorspace = webp->alpha ? MODE_RGBA : MODE_RGB;
	config.output.is_external_memory = 1;
	config.output.u.RGBA.rgba = out;
	config.output.u.RGBA.stride = (int)stride;
	config.output.u.RGBA.size = (size_t)stride * (part.y1 - part.y0);
	webp_memory_lend(memory, library_bytes(webp));
	VP8StatusCode status = WebPDecode(webp->frame.bytes, webp->frame.size, &config);
	bool short_of_memory = webp_memory_short();
	webp_memory_return();
	if (status == VP8_STATUS_OK)
		return DECODE_OK;
	return refuse(webp, short_of_memory ? VP8_STATUS_OUT_OF_MEMORY : status);
}

/* A row of the region: the frame's pixels, and black outside it. */
static void deliver(struct webp *webp, uint32_t y, struct decode_region region,
	struct decode_region part, const uint8_t *out)
{
	const struct decode_region *place = &webp->place;
	uint8_t *to[DECODE_PLANES];
	uint32_t x0 = UTIL_MAX(region.x0, place->x0), x1 = UTIL_MIN(region.x1, place->x1);
	bool inside = y >= place->y0 && y < place->y1 && x0 < x1;
	if (!inside || x0 > region.x0 || x1 < region.x1)
		for (int c = 0; c < DECODE_PLANES; c++)
			memset(webp->row.rgb[c], 0, region.x1 - region.x0);
	if (!inside)
		return;
	size_t pixel = pixel_bytes(webp), stride = (part.x1 - part.x0) * pixel;
	const uint8_t *from =
		out + (y - place->y0 - part.y0) * stride + (x0 - place->x0 - part.x0) * pixel;
	for (int c = 0; c < DECODE_PLANES; c++)
		to[c] = webp->row.rgb[c] + (x0 - region.x0);
	if (pixel == 3) {
		webp->kernels->split(to, from, x1 - x0);
		return;
	}
	for (uint32_t i = 0; i < x1 - x0; i++)
		for (int c = 0; c < DECODE_PLANES; c++)
			to[c][i] = from[i * pixel + (size_t)c];
}

static int webp_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct webp *webp = self;
	uint8_t *out = scratch_take(webp->scratch, (size_t)frame_bytes(webp));
	void *memory = scratch_take(webp->scratch, (size_t)library_bytes(webp));
	if (!types_row_take(&webp->row, webp->scratch, webp->width) || !out || !memory)
		return types_no_room(webp->sentence, "WebP");
	const struct decode_region all = {0, 0, webp->width, webp->height};
	struct decode_region part = frame_part(webp, to_end ? all : region);
	int outcome = part.x1 ? decode_part(webp, part, out, memory) : DECODE_OK;
	for (uint32_t y = region.y0; !outcome && y < region.y1; y++) {
		deliver(webp, y, region, part, out);
		types_row_give(&webp->row, row, context);
	}
	return outcome;
}

static void webp_end(void *self)
{
	struct webp *webp = self;
	webp->frame = (WebPData){0};
}

const struct reader types_webp = {
	.format = DECODE_WEBP,
	.name = "WebP",
	.library = "libwebp",
	.sniff = webp_sniff,
	.make = webp_make,
	.unmake = free,
	.bytes = webp_bytes,
	.begin = webp_begin,
	.rows = webp_rows,
	.end = webp_end,
	.need = webp_need,
};
