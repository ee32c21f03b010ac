/* tiff: the first image of a TIFF file: uncompressed ones as they are in the file, others by
 * libtiff, which decompresses strip by strip or tile by tile. Pillow 13.0.0 does the same.
 *
 * Only strips and tiles are decompressed that the region touches. An image that is stored turned or
 * mirrored (Orientation) is delivered upright, from a copy of the region.
 *
 * libtiff and its codecs take all memory from the scratch (tiff_memory.h). library_bytes() says how
 * much an image may take; one that needs more is refused, whatever the budget. */
#include "decode/types/types.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/types/common.h"
#include "decode/types/tiff_directory.h"
#include "decode/types/tiff_memory.h"
#include "decode/types/tiff_rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum {
	/* libtiff's own memory: a fixed part, which has room for the tables of LZW and Deflate;
	 * data of tags, twice; places of strips and tiles; rows, for predictors and fax codes. */
	LIBRARY_FIXED = 1 << 20,
	LIBRARY_PLACE = 64,
	LIBRARY_PIXEL = 64,
	/* JPEG: rows of a sample; of a progressive one, two bytes of a sample. */
	JPEG_FIXED = 1 << 20,
	JPEG_COLUMN = 128,
	JPEG_MARGIN = 32,
	/* Windows of 8 MiB, as the levels up to 19 of Zstandard and 6 of LZMA have. */
	WINDOW = 9 << 20,
	RGBA_BYTES = 4,
	LIBRARY_TEXT = 200,
	/* Rows that are turned at once: each row of the canvas is touched once for all of them. */
	TURN_ROWS = 16,
};

struct tiff {
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	struct types_bytes file;
	struct tiff_layout layout;
	bool turned;
	/* While rows are made: */
	TIFF *library;
	uint64_t at; /* libtiff's place in the file */
	char text[LIBRARY_TEXT]; /* libtiff's first complaint */
	uint8_t *segment[TIFF_PLANES]; /* a strip or tile that libtiff has decompressed */
	struct decode_region source; /* the region in the image as stored */
	uint8_t *canvas; /* rows, each three planes */
	uint32_t canvas_rows;
	struct types_row upright[TURN_ROWS]; /* of a turned image */
};

/* A strip or tile. */
struct segment {
	const uint8_t *plane[TIFF_PLANES];
	size_t row_bytes;
};

static bool tiff_sniff(const uint8_t *data, size_t size)
{
	static const char *const heads[] = {"MM\0*", "II*\0", "MM*\0", "II\0*", "MM\0+", "II+\0"};
	if (size < 8)
		return false;
	for (size_t i = 0; i < UTIL_COUNT(heads); i++)
		if (!memcmp(data, heads[i], 4))
			return true;
	return false;
}

static int tiff_make(const struct reader_tools *tools, void **ret)
{
	struct tiff *tiff = calloc(1, sizeof(*tiff));
	if (!tiff)
		return -ENOMEM;
	tiff->scratch = tools->scratch;
	tiff->sentence = tools->sentence;
	tiff->kernels = tools->kernels;
	*ret = tiff;
	return 0;
}

static uint64_t tiff_bytes(void)
{
	return sizeof(struct tiff);
}

static bool is_sideways(const struct tiff_layout *layout)
{
	return layout->orientation >= 5;
}

static uint32_t upright_width(const struct tiff_layout *layout)
{
	return is_sideways(layout) ? layout->height : layout->width;
}

static int tiff_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct tiff *tiff = self;
	struct tiff_layout *layout = &tiff->layout;
	tiff->file = (struct types_bytes){data, size};
	int outcome = tiff_layout_read(layout, tiff->file, limits, tiff->sentence);
	if (outcome)
		return outcome;
	if (!TIFFIsCODECConfigured((uint16_t)layout->compression))
		return sentence_set(tiff->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: compression %u, which the libtiff of this build does not have; "
			"compress it "
			"with LZW or Deflate",
			layout->compression);
	tiff->turned = layout->orientation > 1;
	*ret = (struct decode_info){.width = upright_width(layout),
		.height = is_sideways(layout) ? layout->width : layout->height,
		.format = DECODE_TIFF};
	return DECODE_OK;
}

/* ---- memory ---- */

static uint64_t canvas_stride(const struct tiff_layout *layout)
{
	return util_align((uint64_t)layout->width + DECODE_ROW_SLACK, SCRATCH_ALIGN);
}

/* Rows that are kept: all, those of a row of tiles, or one. */
static uint32_t canvas_rows(const struct tiff *tiff)
{
	const struct tiff_layout *layout = &tiff->layout;
	if (tiff->turned)
		return layout->height;
	return layout->tiled ? UTIL_MIN(layout->tile_height, layout->height) : 1;
}

/* Bytes of a strip or tile as libtiff gives it; of one plane. */
static uint64_t segment_bytes(const struct tiff_layout *layout)
{
	if (layout->compression == TIFF_RAW)
		return 0;
	if (layout->library_color)
		return (uint64_t)layout->width * layout->tile_height * RGBA_BYTES;
	return tiff_row_bytes(layout) * layout->tile_height;
}

/* The memory that libtiff may take. */
static uint64_t library_bytes(const struct tiff *tiff)
{
	const struct tiff_layout *layout = &tiff->layout;
	const uint64_t width = layout->tile_width, height = layout->tile_height;
	if (layout->compression == TIFF_RAW)
		return 0;
	uint64_t places = (uint64_t)layout->across * layout->down;
	uint64_t bytes = LIBRARY_FIXED + 2 * layout->tag_bytes + width * LIBRARY_PIXEL +
			 places * (layout->separate ? layout->samples : 1) * LIBRARY_PLACE;
	if (layout->compression == TIFF_JPEG)
		bytes += JPEG_FIXED + width * layout->samples * JPEG_COLUMN +
			 2 * (width + JPEG_MARGIN) * (height + JPEG_MARGIN) * layout->samples;
	if (layout->compression == TIFF_LZMA || layout->compression == TIFF_ZSTD)
		bytes += WINDOW;
	if (layout->library_color)
		bytes += 2 * width * height * layout->samples;
	/* Bits in reverse order: libtiff turns them in a copy. */
	if (layout->fill_reversed)
		bytes += tiff->file.size;
	return bytes;
}

static uint64_t tiff_need(void *self, bool spilled)
{
	const struct tiff *tiff = self;
	const struct tiff_layout *layout = &tiff->layout;
	(void)spilled;
	return canvas_stride(layout) * DECODE_PLANES * canvas_rows(tiff) +
	       (tiff->turned ? TURN_ROWS * types_row_bytes(upright_width(layout)) : 0) +
	       (util_align(segment_bytes(layout), SCRATCH_ALIGN) + SCRATCH_ALIGN) * layout->planes +
	       util_align(library_bytes(tiff), SCRATCH_ALIGN) + SCRATCH_ALIGN;
}

static bool take_memory(struct tiff *tiff, void **ret_library)
{
	const struct tiff_layout *layout = &tiff->layout;
	tiff->canvas_rows = canvas_rows(tiff);
	tiff->canvas = scratch_take(
		tiff->scratch, (size_t)(canvas_stride(layout) * DECODE_PLANES * tiff->canvas_rows));
	bool taken = tiff->canvas != NULL;
	for (int i = 0; tiff->turned && i < TURN_ROWS; i++)
		taken &= types_row_take(&tiff->upright[i], tiff->scratch, upright_width(layout));
	if (layout->compression == TIFF_RAW)
		return taken;
	for (unsigned p = 0; p < layout->planes; p++) {
		tiff->segment[p] = scratch_take(tiff->scratch, (size_t)segment_bytes(layout));
		taken &= tiff->segment[p] != NULL;
	}
	*ret_library = scratch_take(tiff->scratch, (size_t)library_bytes(tiff));
	return taken && *ret_library;
}

/* ---- libtiff ---- */

static tmsize_t library_read(thandle_t self, void *to, tmsize_t size)
{
	struct tiff *tiff = self;
	if (size <= 0 || tiff->at >= tiff->file.size)
		return 0;
	size_t count = UTIL_MIN((size_t)size, tiff->file.size - (size_t)tiff->at);
	memcpy(to, tiff->file.data + tiff->at, count);
	tiff->at += count;
	return (tmsize_t)count;
}

static tmsize_t library_write(thandle_t self, void *from, tmsize_t size)
{
	(void)self, (void)from, (void)size;
	return 0;
}

static toff_t library_seek(thandle_t self, toff_t to, int whence)
{
	struct tiff *tiff = self;
	if (whence == SEEK_CUR)
		to += tiff->at;
	else if (whence == SEEK_END)
		to += tiff->file.size;
	tiff->at = to;
	return to;
}

static int library_close(thandle_t self)
{
	(void)self;
	return 0;
}

static toff_t library_size(thandle_t self)
{
	const struct tiff *tiff = self;
	return tiff->file.size;
}

/* libtiff does not write to what it maps. */
static int library_map(thandle_t self, void **ret, toff_t *ret_size)
{
	const struct tiff *tiff = self;
	union {
		const uint8_t *read;
		void *map;
	} bytes = {.read = tiff->file.data};
	*ret = bytes.map;
	*ret_size = tiff->file.size;
	return 1;
}

static void library_unmap(thandle_t self, void *map, toff_t size)
{
	(void)self, (void)map, (void)size;
}

__attribute__((format(printf, 4, 0))) static int library_complains(
	TIFF *library, void *self, const char *module, const char *format, va_list arguments)
{
	struct tiff *tiff = self;
	(void)library, (void)module;
	if (!tiff->text[0])
		(void)vsnprintf(tiff->text, sizeof(tiff->text), format, arguments);
	return 1;
}

static int library_warns(
	TIFF *library, void *self, const char *module, const char *format, va_list arguments)
{
	(void)library, (void)self, (void)module, (void)format, (void)arguments;
	return 1;
}

static int refuse(struct tiff *tiff, const char *what, uint32_t x, uint32_t y)
{
	if (tiff_memory_short())
		return sentence_set(tiff->sentence, DECODE_E_MEMORY,
			"TIFF: %s at (%u, %u) needs more memory than an image of its size may take",
			what, x, y);
	return sentence_set(tiff->sentence, DECODE_E_CORRUPT, "TIFF: %s at (%u, %u): %s", what, x,
		y, tiff->text[0] ? tiff->text : "libtiff refuses it");
}

/* libtiff reads the directory by rules of its own: what it makes of the pixels must be the same. */
static bool library_agrees(const struct tiff *tiff)
{
	const struct tiff_layout *layout = &tiff->layout;
	TIFF *library = tiff->library;
	uint32_t width = 0, height = 0, rows = 0, tile_width = 0, tile_height = 0;
	uint16_t bits = 0, samples = 0, planar = 0, compression = 0;
	(void)TIFFGetField(library, TIFFTAG_IMAGEWIDTH, &width);
	(void)TIFFGetField(library, TIFFTAG_IMAGELENGTH, &height);
	(void)TIFFGetFieldDefaulted(library, TIFFTAG_BITSPERSAMPLE, &bits);
	(void)TIFFGetFieldDefaulted(library, TIFFTAG_SAMPLESPERPIXEL, &samples);
	(void)TIFFGetFieldDefaulted(library, TIFFTAG_PLANARCONFIG, &planar);
	(void)TIFFGetField(library, TIFFTAG_COMPRESSION, &compression);
	if (width != layout->width || height != layout->height || bits != layout->bits ||
		samples != layout->samples || compression != layout->compression ||
		(planar == PLANARCONFIG_SEPARATE) != layout->separate ||
		(TIFFIsTiled(library) != 0) != layout->tiled)
		return false;
	if (layout->tiled) {
		(void)TIFFGetField(library, TIFFTAG_TILEWIDTH, &tile_width);
		(void)TIFFGetField(library, TIFFTAG_TILELENGTH, &tile_height);
		if (tile_width != layout->tile_width || tile_height != layout->tile_height)
			return false;
	} else {
		(void)TIFFGetFieldDefaulted(library, TIFFTAG_ROWSPERSTRIP, &rows);
		if (UTIL_MIN(rows, height) != layout->tile_height)
			return false;
	}
	if (layout->library_color)
		return true;
	uint64_t row = layout->tiled ? TIFFTileRowSize64(library) : TIFFScanlineSize64(library);
	uint64_t all = layout->tiled ? TIFFTileSize64(library) : TIFFStripSize64(library);
	return row == tiff_row_bytes(layout) && all == segment_bytes(layout);
}

static int library_open(struct tiff *tiff)
{
	TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
	tiff->text[0] = 0;
	tiff->at = 0;
	if (!options)
		return refuse(tiff, "the file", 0, 0);
	TIFFOpenOptionsSetErrorHandlerExtR(options, library_complains, tiff);
	TIFFOpenOptionsSetWarningHandlerExtR(options, library_warns, tiff);
	tiff->library = TIFFClientOpenExt("image", "r", tiff, library_read, library_write,
		library_seek, library_close, library_size, library_map, library_unmap, options);
	TIFFOpenOptionsFree(options);
	if (!tiff->library)
		return refuse(tiff, "the directory", 0, 0);
	const struct tiff_layout *layout = &tiff->layout;
	uint16_t photometric = 0;
	(void)TIFFGetField(tiff->library, TIFFTAG_PHOTOMETRIC, &photometric);
	if (photometric == PHOTOMETRIC_YCBCR && !layout->library_color)
		(void)TIFFSetField(tiff->library, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
	if (!library_agrees(tiff))
		return sentence_set(tiff->sentence, DECODE_E_CORRUPT,
			"TIFF: its tags contradict each other, or the data of its pixels");
	return DECODE_OK;
}

static void library_done(struct tiff *tiff)
{
	if (tiff->library)
		TIFFClose(tiff->library);
	tiff->library = NULL;
	tiff_memory_return();
}

/* Rows of a strip, or of a row of tiles, as colors that libtiff has converted. */
static int library_colors(struct tiff *tiff, uint32_t y)
{
	const struct tiff_layout *layout = &tiff->layout;
	TIFFRGBAImage image;
	char text[1024] = "";
	union {
		uint8_t *bytes;
		void *any;
	} to = {.bytes = tiff->segment[0]};
	if (!TIFFRGBAImageOK(tiff->library, text) ||
		!TIFFRGBAImageBegin(&image, tiff->library, 1, text)) {
		if (!tiff->text[0])
			(void)snprintf(
				tiff->text, sizeof(tiff->text), "%.*s", LIBRARY_TEXT - 1, text);
		return refuse(tiff, "the colors", 0, y);
	}
	image.orientation = ORIENTATION_TOPLEFT;
	image.req_orientation = ORIENTATION_TOPLEFT;
	image.row_offset = (int)y;
	image.col_offset = 0;
	int done = TIFFRGBAImageGet(
		&image, to.any, layout->width, UTIL_MIN(layout->tile_height, layout->height - y));
	TIFFRGBAImageEnd(&image);
	return done ? DECODE_OK : refuse(tiff, layout->tiled ? "tiles" : "the strip", 0, y);
}

/* Decompresses the strip or tile that begins at a pixel. Codecs may leave out rows at its end. */
static int library_segment(struct tiff *tiff, uint32_t x, uint32_t y)
{
	const struct tiff_layout *layout = &tiff->layout;
	const tmsize_t bytes = (tmsize_t)segment_bytes(layout);
	for (unsigned p = 0; p < layout->planes; p++)
		memset(tiff->segment[p], 0, (size_t)bytes);
	if (layout->library_color)
		return library_colors(tiff, y);
	for (unsigned p = 0; p < layout->planes; p++) {
		const uint16_t plane = (uint16_t)p;
		tmsize_t made = layout->tiled ? TIFFReadTile(tiff->library, tiff->segment[p], x, y,
							0, plane)
					      : TIFFReadEncodedStrip(tiff->library,
							TIFFComputeStrip(tiff->library, y, plane),
							tiff->segment[p], bytes);
		if (made < 0)
			return refuse(tiff, layout->tiled ? "the tile" : "the strip", x, y);
	}
	return DECODE_OK;
}

/* ---- pixels ---- */

/* The strip or tile that begins at a pixel, as it is in the file. */
static int raw_segment(struct tiff *tiff, uint32_t x, uint32_t y, struct segment *ret)
{
	const struct tiff_layout *layout = &tiff->layout;
	const uint64_t places = (uint64_t)layout->across * layout->down;
	const uint64_t place =
		(uint64_t)(y / layout->tile_height) * layout->across + x / layout->tile_width;
	const uint64_t across = UTIL_MIN(layout->tile_width, layout->width - x);
	const uint64_t rows = UTIL_MIN(layout->tile_height, layout->height - y);
	const uint64_t bits = (uint64_t)layout->bits * (layout->separate ? 1 : layout->samples);
	ret->row_bytes = (size_t)tiff_row_bytes(layout);
	for (unsigned p = 0; p < layout->planes; p++) {
		uint64_t at = tiff_value(layout, &layout->offsets, places * p + place);
		if (!types_has(
			    &tiff->file, at, (rows - 1) * ret->row_bytes + (across * bits + 7) / 8))
			return sentence_set(tiff->sentence, DECODE_E_TRUNCATED,
				"TIFF: the file ends in the pixels at (%u, %u)", x, y);
		ret->plane[p] = tiff->file.data + at;
	}
	return DECODE_OK;
}

static int find_segment(struct tiff *tiff, uint32_t x, uint32_t y, struct segment *ret)
{
	const struct tiff_layout *layout = &tiff->layout;
	if (layout->compression == TIFF_RAW)
		return raw_segment(tiff, x, y, ret);
	ret->row_bytes = (size_t)(layout->library_color ? (uint64_t)layout->width * RGBA_BYTES
							: tiff_row_bytes(layout));
	for (unsigned p = 0; p < layout->planes; p++)
		ret->plane[p] = tiff->segment[p];
	return library_segment(tiff, x, y);
}

static void canvas_row(const struct tiff *tiff, uint32_t y, uint8_t *ret[DECODE_PLANES])
{
	const size_t stride = (size_t)canvas_stride(&tiff->layout);
	for (size_t c = 0; c < DECODE_PLANES; c++)
		ret[c] = tiff->canvas +
			 ((size_t)(y % tiff->canvas_rows) * DECODE_PLANES + c) * stride;
}

/* Puts columns [x0, x1) of a row on the canvas. `x`: the first column of the segment. */
static void draw(struct tiff *tiff, const struct segment *segment, uint32_t x, uint32_t row,
	uint32_t y, uint32_t x0, uint32_t x1)
{
	const struct tiff_layout *layout = &tiff->layout;
	const uint8_t *plane[TIFF_PLANES] = {NULL};
	uint8_t *to[DECODE_PLANES];
	canvas_row(tiff, y, to);
	for (unsigned p = 0; p < layout->planes; p++)
		plane[p] = segment->plane[p] + row * segment->row_bytes;
	for (int c = 0; c < DECODE_PLANES; c++)
		to[c] += x0 - tiff->source.x0;
	if (!layout->library_color) {
		tiff_rows_unpack(layout, tiff->kernels, plane, x0 - x, x1 - x0, to);
		return;
	}
	for (uint32_t i = 0; i < x1 - x0; i++)
		for (size_t c = 0; c < DECODE_PLANES; c++)
			to[c][i] = plane[0][(size_t)(x0 - x + i) * RGBA_BYTES + c];
}

/* Rows [y, y + rows of a segment): decompresses what the region touches, or all of it. */
static int make_band(struct tiff *tiff, uint32_t y, bool all, decode_row_fn *row, void *context)
{
	const struct tiff_layout *layout = &tiff->layout;
	const struct decode_region *source = &tiff->source;
	const uint32_t y0 = UTIL_MAX(y, source->y0);
	const uint32_t y1 =
		UTIL_MIN(y + UTIL_MIN(layout->tile_height, layout->height - y), source->y1);
	/* libtiff's colors come for all tiles of a row at once. */
	const uint32_t step = layout->library_color ? layout->width : layout->tile_width;
	struct segment segment;
	for (uint64_t x = 0; x < layout->width; x += step) {
		const uint32_t left = (uint32_t)x;
		const uint32_t x0 = UTIL_MAX(left, source->x0);
		const uint32_t x1 =
			UTIL_MIN(left + UTIL_MIN(step, layout->width - left), source->x1);
		if (!all && (x0 >= x1 || y0 >= y1))
			continue;
		int outcome = find_segment(tiff, left, y, &segment);
		if (outcome)
			return outcome;
		for (uint32_t at = y0; x0 < x1 && at < y1; at++) {
			draw(tiff, &segment, left, at - y, at, x0, x1);
			/* A strip is as wide as the image, and its canvas has one row. */
			if (!layout->tiled && !tiff->turned) {
				struct types_row made;
				canvas_row(tiff, at, made.rgb);
				types_row_give(&made, row, context);
			}
		}
	}
	for (uint32_t at = y0; layout->tiled && !tiff->turned && at < y1; at++) {
		struct types_row made;
		canvas_row(tiff, at, made.rgb);
		types_row_give(&made, row, context);
	}
	return DECODE_OK;
}

static int make_bands(struct tiff *tiff, bool to_end, decode_row_fn *row, void *context)
{
	const struct tiff_layout *layout = &tiff->layout;
	for (uint64_t y = 0; y < layout->height; y += layout->tile_height) {
		if (!to_end && y >= tiff->source.y1)
			break;
		if (!to_end && y + layout->tile_height <= tiff->source.y0)
			continue;
		int outcome = make_band(tiff, (uint32_t)y, to_end, row, context);
		if (outcome)
			return outcome;
	}
	return DECODE_OK;
}

/* Where a pixel of the upright image is in the image as stored. */
static void stored_place(
	const struct tiff_layout *layout, uint32_t x, uint32_t y, uint32_t *ret_x, uint32_t *ret_y)
{
	const unsigned turn = layout->orientation;
	const bool right = turn == 2 || turn == 3 || turn == 7 || turn == 8;
	const bool down = turn == 3 || turn == 4 || turn == 6 || turn == 7;
	const uint32_t across = is_sideways(layout) ? y : x;
	const uint32_t along = is_sideways(layout) ? x : y;
	*ret_x = right ? layout->width - 1 - across : across;
	*ret_y = down ? layout->height - 1 - along : along;
}

static struct decode_region stored_region(
	const struct tiff_layout *layout, struct decode_region region)
{
	uint32_t x0, y0, x1, y1;
	stored_place(layout, region.x0, region.y0, &x0, &y0);
	stored_place(layout, region.x1 - 1, region.y1 - 1, &x1, &y1);
	return (struct decode_region){
		UTIL_MIN(x0, x1), UTIL_MIN(y0, y1), UTIL_MAX(x0, x1) + 1, UTIL_MAX(y0, y1) + 1};
}

/* Makes rows [y, y + rows) of the upright image; more than one only if it is sideways. */
static void turn(struct tiff *tiff, struct decode_region region, uint32_t y, uint32_t rows)
{
	const struct tiff_layout *layout = &tiff->layout;
	for (uint32_t x = region.x0; x < region.x1; x++) {
		uint32_t from_x, from_y, last_x, last_y;
		uint8_t *from[DECODE_PLANES];
		stored_place(layout, x, y, &from_x, &from_y);
		stored_place(layout, x, y + rows - 1, &last_x, &last_y);
		canvas_row(tiff, from_y, from);
		for (int c = 0; c < DECODE_PLANES; c++) {
			const uint8_t *pixel = from[c] + (from_x - tiff->source.x0);
			for (uint32_t i = 0; i < rows; i++)
				tiff->upright[i].rgb[c][x - region.x0] =
					last_x < from_x ? *(pixel - i) : pixel[i];
		}
	}
}

static void give_turned(
	struct tiff *tiff, struct decode_region region, decode_row_fn *row, void *context)
{
	const uint32_t most = is_sideways(&tiff->layout) ? TURN_ROWS : 1;
	for (uint32_t y = region.y0; y < region.y1; y += most) {
		const uint32_t rows = UTIL_MIN(most, region.y1 - y);
		turn(tiff, region, y, rows);
		for (uint32_t i = 0; i < rows; i++)
			types_row_give(&tiff->upright[i], row, context);
	}
}

static int tiff_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct tiff *tiff = self;
	const bool raw = tiff->layout.compression == TIFF_RAW;
	void *memory = NULL;
	int outcome = DECODE_OK;
	if (!take_memory(tiff, &memory))
		return types_no_room(tiff->sentence, "TIFF");
	tiff->source = stored_region(&tiff->layout, region);
	if (!raw) {
		tiff_memory_lend(memory, library_bytes(tiff));
		outcome = library_open(tiff);
	}
	if (!outcome)
		outcome = make_bands(tiff, to_end, row, context);
	if (!raw)
		library_done(tiff);
	if (!outcome && tiff->turned)
		give_turned(tiff, region, row, context);
	return outcome;
}

static void tiff_end(void *self)
{
	struct tiff *tiff = self;
	tiff->file = (struct types_bytes){0};
}

const struct reader types_tiff = {
	.format = DECODE_TIFF,
	.name = "TIFF",
	.library = "libtiff",
	.sniff = tiff_sniff,
	.make = tiff_make,
	.unmake = free,
	.bytes = tiff_bytes,
	.begin = tiff_begin,
	.rows = tiff_rows,
	.end = tiff_end,
	.need = tiff_need,
};
