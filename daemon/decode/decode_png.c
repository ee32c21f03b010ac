/* decode_png: see decode_png.h.
 *
 * Penstock's decoder (png/) makes the rows of images that are not interlaced. Where it gives up,
 * and for all others, libpng makes them; rows that were delivered already are left out.
 *
 * libpng never sees the file. pngwalk judges the chunks as Pillow does and hands out the compressed
 * pixels. From them this file makes a plain PNG on the fly, a header and the pixel chunks with
 * their lengths, which libpng inflates, unfilters and deinterlaces. Palette images are declared as
 * gray ones of the same depth, whose rows have the same layout, so that no palette is needed. No
 * libpng transform is used. Rows are converted to RGB here, only in the region's columns, as
 * Pillow's unpackers and its convert("RGB") do (Pillow 13.0.0, libImaging/Unpack.c and Convert.c).
 *
 * One difference is left: a zlib stream that ends too early, exactly at a row's end. Pillow leaves
 * the missing rows black; libpng refuses, and so does this file.
 *
 * libpng leaves its functions by longjmp after an error. Every call into it is made by a step
 * function under guarded(), which has no locals that a jump could spoil. */
#include "decode/decode_png.h"

#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/png/pngdec.h"
#include "decode/pngwalk.h"
#include "decode/sniff.h"

#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

enum {
	/* Read at once, as Pillow does: it decides where zlib's checksum is checked. */
	PIECE_BYTES = 65536,
	CHUNK_HEAD = 8,
	CHUNK_CRC = 4,
	HEADER_BYTES = CHUNK_HEAD + 13 + CHUNK_CRC,
	PNG_SIGNATURE = 8,
	NAME_IHDR = 0x49484452,
	NAME_IDAT = 0x49444154,
};

typedef void expand_fn(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk);

struct png_reader {
	png_structp lib;
	png_infop info;
	jmp_buf escape;
	int escaped; /* the outcome after a jump */
	bool mapped; /* the file is mapped: pages that were read are dropped */
	size_t dropped; /* up to this byte */
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	const struct png_kernels *png_kernels; /* NULL: libpng makes all rows */
	struct stages *stages;
	struct pngwalk walk;
	/* The PNG that libpng reads: bytes made here, then the current chunk's, then four for its
	 * checksum. */
	uint8_t made[CHUNK_CRC + HEADER_BYTES + CHUNK_HEAD];
	size_t made_at, made_bytes;
	uint64_t rows_left; /* rows still to be inflated, over all passes */
	size_t rows_end; /* where the walk was when the last of them was inflated */
	/* The arguments of png_rows; here, not in locals, because a jump may leave a step.
	 */
	struct decode_region region;
	bool to_end;
	decode_row_fn *row;
	void *context;
	expand_fn *expand; /* NULL: rows are triples of 8 bits */
	/* One row, or all rows of an interlaced image. Where that spills: the first `kept` rows,
	 * and room for one of the others. */
	uint8_t *raw;
	uint32_t kept;
	uint64_t *sum; /* of each of the others in the file; 0: it was never written */
	uint8_t *rgb[DECODE_PLANES]; /* of the region */
	uint32_t y;
	uint32_t delivered; /* rows of the region, by penstock's decoder */
};

static void put32(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static const uint8_t channels[7] = {1, 0, 3, 1, 2, 0, 4}; /* of the color types */

/* Bytes of that many pixels of a row. */
static size_t row_bytes(const struct png_reader *png, uint32_t pixels)
{
	return ((size_t)pixels * channels[png->walk.color] * png->walk.depth + 7) / 8;
}

static size_t raw_bytes(const struct png_reader *png)
{
	return row_bytes(png, png->walk.width);
}

static void on_error(png_structp lib, png_const_charp text)
{
	struct png_reader *png = png_get_error_ptr(lib);
	if (!png->escaped)
		png->escaped = sentence_set(png->sentence, DECODE_E_CORRUPT, "PNG: %s", text);
	longjmp(png->escape, 1);
}

static void on_warning(png_structp lib, png_const_charp text)
{
	(void)lib, (void)text;
}

static png_voidp lib_take(png_structp lib, png_alloc_size_t bytes)
{
	struct png_reader *png = png_get_mem_ptr(lib);
	return scratch_take(png->scratch, bytes);
}

static void lib_give(png_structp lib, png_voidp piece)
{
	(void)lib, (void)piece; /* all is taken back with the image */
}

static void make_header(struct png_reader *png)
{
	uint8_t *p = png->made;
	put32(p, 13);
	put32(p + 4, NAME_IHDR);
	put32(p + 8, png->walk.width);
	put32(p + 12, png->walk.height);
	p[16] = png->walk.depth;
	p[17] = png->walk.color == 3 ? 0 : png->walk.color;
	p[18] = p[19] = 0;
	p[20] = png->walk.interlaced;
	put32(p + 21, 0); /* libpng is told to ignore checksums */
	png->made_at = 0;
	png->made_bytes = HEADER_BYTES;
}

static void make_chunk_head(struct png_reader *png)
{
	uint8_t *p = png->made + png->made_bytes;
	put32(p, (uint32_t)png->walk.pixels_left);
	put32(p + 4, NAME_IDAT);
	png->made_bytes += CHUNK_HEAD;
}

/* When the current chunk is used up, makes its checksum and the next one's head. Without a next
 * chunk, leaves libpng by an error. */
static void make_more(struct png_reader *png, png_structp lib)
{
	put32(png->made, 0);
	png->made_at = 0;
	png->made_bytes = CHUNK_CRC;
	png->escaped = pngwalk_next(&png->walk);
	if (png->escaped)
		png_error(lib, png->sentence->text);
	make_chunk_head(png);
}

/* Bounds the part of a mapped file that is in memory. */
static void drop_read(struct png_reader *png)
{
	enum { PIECE = 1 << 20 };
	size_t place = (size_t)(png->walk.pixels - png->walk.data);
	if (!png->mapped || place < png->dropped + PIECE)
		return;
	spill_drop(png->walk.data, png->dropped, place);
	png->dropped = place;
}

static void on_read(png_structp lib, png_bytep out, size_t bytes)
{
	struct png_reader *png = png_get_io_ptr(lib);
	while (bytes) {
		bool made = png->made_at < png->made_bytes;
		if (!made && !png->walk.pixels_left) {
			make_more(png, lib);
			continue;
		}
		size_t part = UTIL_MIN(
			bytes, made ? png->made_bytes - png->made_at : png->walk.pixels_left);
		memcpy(out, made ? png->made + png->made_at : png->walk.pixels, part);
		if (made) {
			png->made_at += part;
		} else {
			png->walk.pixels += part;
			png->walk.pixels_left -= part;
		}
		out += part;
		bytes -= part;
	}
	drop_read(png);
}

/* Called for each row that was inflated and unfiltered. */
static void on_row(png_structp lib, png_row_infop row, png_bytep data)
{
	(void)row, (void)data;
	struct png_reader *png = png_get_user_transform_ptr(lib);
	if (png->rows_left && --png->rows_left == 0)
		png->rows_end = png->walk.at;
}

static int guarded(struct png_reader *png, int (*step)(struct png_reader *))
{
	if (setjmp(png->escape))
		return png->escaped;
	return step(png);
}

static int png_make(const struct reader_tools *tools, void **ret)
{
	struct png_reader *png = calloc(1, sizeof(*png));
	if (!png)
		return -ENOMEM;
	png->scratch = tools->scratch;
	png->sentence = tools->sentence;
	png->kernels = tools->kernels;
	png->png_kernels = tools->png_kernels;
	png->stages = tools->stages;
	*ret = png;
	return 0;
}

static uint64_t png_bytes(void)
{
	return sizeof(struct png_reader);
}

/* libpng's structs are in the scratch, all of which is taken back: there is nothing to destroy. */
static void png_end(void *self)
{
	struct png_reader *png = self;
	png->lib = NULL;
	png->info = NULL;
}

static int png_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct png_reader *png = self;
	int outcome = pngwalk_begin(&png->walk, data, size, png->scratch, png->sentence);
	if (outcome)
		return outcome;
	png->mapped = limits->mapped;
	png->dropped = 0;
	outcome =
		reader_check_size(png->sentence, limits, "PNG", png->walk.width, png->walk.height);
	if (outcome)
		return outcome;
	*ret = (struct decode_info){
		.width = png->walk.width,
		.height = png->walk.height,
		.format = DECODE_PNG,
		.progressive = png->walk.interlaced,
	};
	return DECODE_OK;
}

/* Bytes of a whole pixel, from one to that of the same kind to its right. */
static unsigned pixel_bytes(const struct png_reader *png)
{
	return UTIL_MAX(channels[png->walk.color] * png->walk.depth / 8u, 1u);
}

/* The scratch that libpng or penstock's decoder takes, whichever takes more: the second begins
 * where the first gave up. */
static uint64_t rows_need(const struct png_reader *png)
{
	/* libpng's structs, its piece of input, zlib's state and window; its two rows, the raw row
	 * here, and the RGB row. */
	enum { FIXED = 128 << 10, ROW_EXTRA = 512, PIXEL_BYTES = 8 };
	uint64_t row = raw_bytes(png) + ROW_EXTRA;
	uint64_t library = FIXED + 2 * (row + 8 * PIXEL_BYTES);
	bool own = png->png_kernels && !png->walk.interlaced;
	return UTIL_MAX(library, own ? pngdec_scratch_bytes(raw_bytes(png)) : 0);
}

static uint64_t png_need(void *self, bool spilled)
{
	const struct png_reader *png = self;
	enum { ROW_EXTRA = 512 };
	uint64_t rows = png->walk.interlaced && !spilled ? png->walk.height : 1;
	uint64_t sums = spilled ? png->walk.height * sizeof(uint64_t) + SCRATCH_ALIGN : 0;
	return sums + rows_need(png) + rows * raw_bytes(png) + ROW_EXTRA +
	       DECODE_PLANES * (png->walk.width + (uint64_t)ROW_EXTRA) + pngwalk_scratch_bytes();
}

/* Sample x of a packed gray or palette row of 1, 2, 4 or 8 bits. */
static unsigned packed(const uint8_t *row, uint32_t x, unsigned depth)
{
	uint64_t bit = (uint64_t)x * depth;
	return row[bit / 8] >> (8 - depth - bit % 8) & ((1u << depth) - 1);
}

static void expand_gray(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	unsigned depth = walk->depth, scale = 255 / ((1u << depth) - 1);
	for (uint32_t x = x0; x < x1; x++)
		rgb[0][x - x0] = rgb[1][x - x0] = rgb[2][x - x0] =
			(uint8_t)(packed(row, x, depth) * scale);
}

static void expand_gray8(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	(void)walk;
	for (int c = 0; c < DECODE_PLANES; c++)
		memcpy(rgb[c], row + x0, x1 - x0);
}

static void expand_palette8(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	for (uint32_t x = x0; x < x1; x++) {
		const uint8_t *color = walk->palette[row[x]];
		for (int c = 0; c < DECODE_PLANES; c++)
			rgb[c][x - x0] = color[c];
	}
}

static void expand_palette(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	for (uint32_t x = x0; x < x1; x++)
		for (int c = 0; c < DECODE_PLANES; c++)
			rgb[c][x - x0] = walk->palette[packed(row, x, walk->depth)][c];
}

/* Pillow keeps gray of 16 bits as numbers and clips them at 255; it does not scale them. */
static void expand_gray16(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	(void)walk;
	for (uint32_t x = x0; x < x1; x++)
		rgb[0][x - x0] = rgb[1][x - x0] = rgb[2][x - x0] =
			row[(size_t)x * 2] ? 255 : row[(size_t)x * 2 + 1];
}

/* Color or gray, with or without alpha, which is dropped; takes the upper 8 of 16 bits. */
static void expand_samples(uint8_t *const rgb[DECODE_PLANES], const uint8_t *row, uint32_t x0,
	uint32_t x1, const struct pngwalk *walk)
{
	size_t sample = walk->depth / 8, colors = walk->color & 2 ? 3 : 1;
	size_t pixel = sample * (colors + (walk->color & 4 ? 1 : 0));
	size_t green = colors == 3 ? sample : 0;
	const uint8_t *p = row + x0 * pixel;
	for (uint32_t i = 0; i < x1 - x0; i++, p += pixel) {
		rgb[0][i] = p[0];
		rgb[1][i] = p[green];
		rgb[2][i] = p[2 * green];
	}
}

static expand_fn *expand_for(const struct pngwalk *walk)
{
	if (walk->color == 3)
		return walk->depth == 8 ? expand_palette8 : expand_palette;
	if (walk->color == 0 && walk->depth == 8)
		return expand_gray8;
	if (walk->color == 0)
		return walk->depth == 16 ? expand_gray16 : expand_gray;
	return walk->color == 2 && walk->depth == 8 ? NULL : expand_samples;
}

static void deliver(struct png_reader *png, const uint8_t *raw)
{
	const struct decode_region *r = &png->region;
	if (png->delivered) {
		png->delivered--;
		return;
	}
	if (png->png_kernels && png->walk.color == 6 && png->walk.depth == 8)
		png->png_kernels->split4(png->rgb, raw + (size_t)r->x0 * 4, r->x1 - r->x0);
	else if (png->expand)
		png->expand(png->rgb, raw, r->x0, r->x1, &png->walk);
	else
		png->kernels->split(png->rgb, raw + (size_t)r->x0 * 3, r->x1 - r->x0);
	png->row(png->context, (const uint8_t *const *)png->rgb);
}

/* The rows of all passes, as libpng counts them: a pass without columns has none. */
static uint64_t count_rows(const struct pngwalk *walk)
{
	if (!walk->interlaced)
		return walk->height;
	uint64_t rows = 0;
	for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
		if (PNG_PASS_COLS(walk->width, pass))
			rows += PNG_PASS_ROWS(walk->height, pass);
	return rows;
}

static int step_open(struct png_reader *png)
{
	png->lib = png_create_read_struct_2(
		PNG_LIBPNG_VER_STRING, png, on_error, on_warning, png, lib_take, lib_give);
	png->info = png->lib ? png_create_info_struct(png->lib) : NULL;
	if (!png->info)
		return sentence_set(png->sentence, DECODE_E_MEMORY, "PNG: libpng cannot start");
	png_set_read_fn(png->lib, png, on_read);
	png_set_sig_bytes(png->lib, PNG_SIGNATURE);
	png_set_user_limits(png->lib, INT32_MAX, INT32_MAX);
	png_set_crc_action(png->lib, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
	png_set_compression_buffer_size(png->lib, PIECE_BYTES);
	/* Streams whose header understates their window are common enough that zlib accepts them by
	 * default. */
	png_set_option(png->lib, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
	make_header(png);
	make_chunk_head(png);
	png_read_info(png->lib, png->info);
	png_set_read_user_transform_fn(png->lib, on_row);
	png_set_user_transform_info(png->lib, png, 0, 0);
	if (png->walk.interlaced)
		(void)png_set_interlace_handling(png->lib);
	png_start_read_image(png->lib);
	return DECODE_OK;
}

static int step_interlaced(struct png_reader *png)
{
	size_t stride = raw_bytes(png);
	for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
		for (uint32_t y = 0; y < png->walk.height; y++)
			png_read_row(png->lib, png->raw + y * stride, NULL);
	return DECODE_OK;
}

/* Whether a row has pixels in a pass (PNG, "Interlacing and pass extraction"). */
static bool in_pass(uint32_t y, int pass)
{
	return PNG_ROW_IN_INTERLACE_PASS(y, (unsigned)pass);
}

/* A row of an interlaced image; *ret_file: it is in the file, and has to be put back there when it
 * is changed. 0 or -errno. */
static int fetch_row(struct png_reader *png, uint32_t y, uint8_t **ret, bool *ret_file)
{
	size_t stride = raw_bytes(png);
	*ret_file = y >= png->kept;
	*ret = png->raw + UTIL_MIN(y, png->kept) * stride;
	if (!*ret_file)
		return 0;
	uint32_t at = y - png->kept;
	if (png->sum[at])
		return scratch_read_back(png->scratch, *ret, stride,
			png->scratch->file_at + at * (uint64_t)stride, png->sum[at]);
	memset(*ret, 0, stride);
	return 0;
}

static int put_row(struct png_reader *png, uint32_t y, const uint8_t *row)
{
	size_t stride = raw_bytes(png);
	uint32_t at = y - png->kept;
	png->sum[at] = scratch_sum(row, stride);
	return whole_write(
		png->scratch->file, row, stride, png->scratch->file_at + at * (uint64_t)stride);
}

static int step_interlaced_spilled(struct png_reader *png)
{
	for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
		for (uint32_t y = 0; y < png->walk.height; y++) {
			uint8_t *row = NULL;
			bool file = false;
			int result = in_pass(y, pass) ? fetch_row(png, y, &row, &file) : DECODE_OK;
			if (result)
				return result;
			png->y = file ? y : UINT32_MAX;
			png_read_row(png->lib, row, NULL);
			result = file ? put_row(png, y, row) : DECODE_OK;
			if (result)
				return result;
		}
	return DECODE_OK;
}

static int step_row(struct png_reader *png)
{
	png_read_row(png->lib, png->raw, NULL);
	return DECODE_OK;
}

/* Runs a step that reads rows. After the last row libpng goes on to look for the end of the stream.
 * Pillow does not, so an error there does not count. */
static int read_guarded(struct png_reader *png, int (*step)(struct png_reader *))
{
	int outcome = guarded(png, step);
	if (outcome > DECODE_OK && png->rows_left == 0)
		outcome = DECODE_OK;
	return outcome;
}

static int read_interlaced(struct png_reader *png)
{
	bool spilled = png->scratch->file >= 0, file;
	png->y = UINT32_MAX;
	int outcome = read_guarded(png, spilled ? step_interlaced_spilled : step_interlaced);
	/* An error after the last row does not count, but has kept the row from its place. */
	if (!outcome && png->escaped && png->y != UINT32_MAX)
		outcome = put_row(png, png->y, png->raw + png->kept * raw_bytes(png));
	for (uint32_t y = png->region.y0; !outcome && y < png->region.y1; y++) {
		uint8_t *row;
		outcome = fetch_row(png, y, &row, &file);
		if (!outcome)
			deliver(png, row);
	}
	return outcome;
}

static int read_rows(struct png_reader *png)
{
	uint32_t until = png->to_end ? png->walk.height : png->region.y1;
	for (png->y = 0; png->y < until; png->y++) {
		int outcome = read_guarded(png, step_row);
		if (outcome)
			return outcome;
		if (png->y >= png->region.y0 && png->y < png->region.y1)
			deliver(png, png->raw);
	}
	return DECODE_OK;
}

/* Takes memory for the rows. False: what was provided is too little. */
static bool take_rows(struct png_reader *png)
{
	uint32_t rows = png->walk.interlaced ? png->walk.height : 1;
	bool spilled = png->walk.interlaced && png->scratch->file >= 0, taken = true;
	png->kept = rows;
	if (spilled)
		png->kept = (uint32_t)UTIL_MIN(
			png->scratch->spare / raw_bytes(png), (uint64_t)rows - 1);
	png->raw = scratch_take(
		png->scratch, raw_bytes(png) * (spilled ? (size_t)png->kept + 1 : rows));
	if (spilled) {
		png->sum = scratch_take(png->scratch, (rows - png->kept) * sizeof(*png->sum));
		taken = png->sum != NULL;
	}
	if (spilled && taken)
		memset(png->sum, 0, (rows - png->kept) * sizeof(*png->sum));
	for (int c = 0; c < DECODE_PLANES; c++) {
		png->rgb[c] = scratch_take(png->scratch, png->walk.width + DECODE_ROW_SLACK);
		taken &= png->rgb[c] != NULL;
	}
	return taken && png->raw;
}

static void own_row(void *context, const uint8_t *row)
{
	struct png_reader *png = context;
	uint32_t y = png->y++;
	if (y >= png->region.y0 && y < png->region.y1)
		deliver(png, row);
}

static void own_read(void *context)
{
	drop_read(context);
}

/* Lets penstock's decoder make the rows. False: libpng has to, from the first row on; those of the
 * region that were delivered are left out. */
static bool own_rows(struct png_reader *png)
{
	const struct pngwalk walk = png->walk;
	const size_t used = png->scratch->used, dropped = png->dropped;
	const struct decode_region *r = &png->region;
	const struct pngdec_rows rows = {
		.kernels = png->png_kernels,
		.walk = &png->walk,
		.stride = raw_bytes(png),
		.bytes = row_bytes(png, r->x1),
		.pixel = pixel_bytes(png),
		.rows = png->to_end ? png->walk.height : r->y1,
		.give = own_row,
		.read = own_read,
		.context = png,
		.stages = png->stages,
	};
	uint32_t given;
	png->y = 0;
	bool made = pngdec_make(&rows, png->scratch, &given);
	png->scratch->used = used;
	if (made)
		return true;
	png->walk = walk;
	png->dropped = dropped;
	png->delivered = given > r->y0 ? UTIL_MIN(given, r->y1) - r->y0 : 0;
	return false;
}

static int library_rows(struct png_reader *png)
{
	int outcome = guarded(png, step_open);
	if (!outcome)
		outcome = png->walk.interlaced ? read_interlaced(png) : read_rows(png);
	if (!outcome && png->to_end)
		png->walk.at = png->rows_end;
	return outcome;
}

static int png_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct png_reader *png = self;
	png->region = region;
	png->to_end = to_end;
	png->row = row;
	png->context = context;
	png->escaped = 0;
	png->expand = expand_for(&png->walk);
	png->rows_left = count_rows(&png->walk);
	if (!take_rows(png))
		return sentence_set(png->sentence, DECODE_E_MEMORY,
			"PNG: its rows do not fit into the memory that was provided for them");
	int outcome = DECODE_OK;
	png->delivered = 0;
	if (png->walk.interlaced || !png->png_kernels || !own_rows(png))
		outcome = library_rows(png);
	return outcome || !to_end ? outcome : pngwalk_finish(&png->walk);
}

const struct reader decode_png = {
	.format = DECODE_PNG,
	.name = "PNG",
	.library = "libpng",
	.sniff = sniff_png,
	.make = png_make,
	.unmake = free,
	.bytes = png_bytes,
	.begin = png_begin,
	.rows = png_rows,
	.end = png_end,
	.need = png_need,
};
