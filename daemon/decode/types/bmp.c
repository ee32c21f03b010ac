/* bmp: Windows and OS/2 bitmaps, read by Pillow's rules (Pillow 13.0.0, BmpImagePlugin.py).
 *
 * Rows are read in place, in any order; only run-length coded images are unpacked first, into one
 * byte for each pixel. Some of the rules are surprising, and kept:
 *
 *   A palette that only has the gray of each index, or black and white for two, is not used: such
 *   images are read as 8-bit gray or as 1-bit black and white, whatever depth the header gives.
 *   Alpha is dropped; 32-bit images without masks have none.
 *   Runs that would cross the end of a row are cut there, except those of literal pixels. */
#include "decode/types/types.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/types/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FILE_HEAD = 14,
	HEAD_OS2 = 12, /* sizes of headers: BITMAPCOREHEADER; BITMAPINFOHEADER; with masks */
	HEAD_INFO = 40,
	HEAD_MASKS = 52,
	HEAD_ALPHA = 56,
	HEAD_MOST = 124,
	COLORS_MOST = 65536,
	PALETTE = 256,
};

enum compression { RAW = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3 };

/* How the bytes of a row give pixels. */
enum layout {
	BITS, /* black and white: one bit, the highest first */
	GRAY, /* a byte */
	INDEXED, /* 1, 4 or 8 bits into the palette */
	WORDS, /* 16 bits: 5 for each color, or 6 for green */
	BYTES, /* 3 or 4 bytes, a color in each of three */
};

struct bmp {
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	struct types_bytes file;
	uint32_t width, height;
	bool upward; /* the file's first row is the image's last */
	uint64_t offset, stride; /* of the rows in the file */
	enum layout layout;
	unsigned depth; /* bits of a pixel in a row, by `layout` */
	unsigned green; /* WORDS: bits of green */
	uint8_t place[DECODE_PLANES]; /* BYTES: of R, G and B */
	enum compression compression;
	uint8_t palette[PALETTE][DECODE_PLANES];
	uint8_t *indices; /* run-length coded: a byte for each pixel, in the file's order */
	struct types_row row;
};

/* The header while it is read. */
struct head {
	uint32_t bytes, bits, compression, colors, entry; /* entry: bytes of a palette's color */
	uint64_t width, height, at; /* at: the place after the header and the masks */
	uint32_t mask[4]; /* R, G, B, A */
};

static bool bmp_sniff(const uint8_t *data, size_t size)
{
	return size >= 2 && data[0] == 'B' && data[1] == 'M';
}

static int bmp_make(const struct reader_tools *tools, void **ret)
{
	struct bmp *bmp = calloc(1, sizeof(*bmp));
	if (!bmp)
		return -ENOMEM;
	bmp->scratch = tools->scratch;
	bmp->sentence = tools->sentence;
	bmp->kernels = tools->kernels;
	*ret = bmp;
	return 0;
}

static uint64_t bmp_bytes(void)
{
	return sizeof(struct bmp);
}

static int cut(const struct bmp *bmp, const char *where)
{
	return sentence_set(
		bmp->sentence, DECODE_E_TRUNCATED, "BMP: the file ends in its %s", where);
}

static int read_masks(struct bmp *bmp, struct head *head, const uint8_t *info)
{
	const uint8_t *masks = info + HEAD_INFO;
	unsigned count = head->bytes >= HEAD_ALPHA ? 4 : 3;
	if (head->bytes < HEAD_MASKS) {
		masks = bmp->file.data + head->at;
		if (!types_has(&bmp->file, head->at, 12))
			return cut(bmp, "masks");
		head->at += 12;
	}
	for (unsigned i = 0; i < count; i++)
		head->mask[i] = types_get32(masks + (size_t)4 * i);
	return DECODE_OK;
}

static int read_head(struct bmp *bmp, struct head *head)
{
	static const uint8_t sizes[] = {
		HEAD_OS2, HEAD_INFO, HEAD_MASKS, HEAD_ALPHA, 64, 108, HEAD_MOST};
	if (!types_has(&bmp->file, 0, FILE_HEAD + 4))
		return cut(bmp, "header");
	const uint8_t *info = bmp->file.data + FILE_HEAD;
	*head = (struct head){.bytes = types_get32(info), .entry = 3};
	if (head->bytes > HEAD_MOST || !memchr(sizes, (int)head->bytes, sizeof(sizes)))
		return sentence_set(bmp->sentence, DECODE_E_UNSUPPORTED,
			"BMP: a header of %u bytes; expected 12, 40, 52, 56, 64, 108 or 124",
			head->bytes);
	if (!types_has(&bmp->file, FILE_HEAD, head->bytes))
		return cut(bmp, "header");
	head->at = FILE_HEAD + head->bytes;
	bmp->upward = true;
	if (head->bytes == HEAD_OS2) {
		head->width = types_get16(info + 4);
		head->height = types_get16(info + 6);
		head->bits = types_get16(info + 10);
	} else {
		bmp->upward = info[11] != 0xff;
		head->width = types_get32(info + 4);
		head->height = types_get32(info + 8);
		if (!bmp->upward)
			head->height = (UINT64_C(1) << 32) - head->height;
		head->bits = types_get16(info + 14);
		head->compression = types_get32(info + 16);
		head->colors = types_get32(info + 32);
		head->entry = 4;
	}
	if (!head->colors && head->bits < 32)
		head->colors = UINT32_C(1) << head->bits;
	return head->compression == BITFIELDS ? read_masks(bmp, head, info) : DECODE_OK;
}

/* Sets the layout of pixels of several bytes by their masks. False: Pillow does not know them. */
static bool lay_out_masks(struct bmp *bmp, const struct head *head)
{
	static const struct {
		uint32_t bits, mask[4];
		uint8_t place[DECODE_PLANES];
	} known[] = {
		{32, {0xff0000, 0xff00, 0xff, 0}, {2, 1, 0}},
		{32, {0xff000000, 0xff0000, 0xff00, 0}, {3, 2, 1}},
		{32, {0xff000000, 0xff00, 0xff, 0}, {3, 1, 0}},
		{32, {0xff000000, 0xff0000, 0xff00, 0xff}, {3, 2, 1}},
		{32, {0xff, 0xff00, 0xff0000, 0xff000000}, {0, 1, 2}},
		{32, {0xff0000, 0xff00, 0xff, 0xff000000}, {2, 1, 0}},
		{32, {0xff000000, 0xff00, 0xff, 0xff0000}, {3, 1, 0}},
		{32, {0, 0, 0, 0}, {2, 1, 0}},
		{24, {0xff0000, 0xff00, 0xff, 0}, {2, 1, 0}},
		{16, {0xf800, 0x7e0, 0x1f, 0}, {0}},
		{16, {0x7c00, 0x3e0, 0x1f, 0}, {0}},
	};
	for (size_t i = 0; i < UTIL_COUNT(known); i++) {
		size_t masks = head->bits == 32 ? 4 : 3;
		if (known[i].bits != head->bits ||
			memcmp(known[i].mask, head->mask, masks * sizeof(*head->mask)) != 0)
			continue;
		memcpy(bmp->place, known[i].place, sizeof(bmp->place));
		bmp->green = head->mask[1] == 0x7e0 ? 6 : 5;
		return true;
	}
	return false;
}

/* Reads the palette, and chooses the layout of images that have one. */
static int read_palette(struct bmp *bmp, struct head *head)
{
	if (head->colors < 1 || head->colors > COLORS_MOST)
		return sentence_set(bmp->sentence, DECODE_E_CORRUPT,
			"BMP: a palette of %u colors; expected 1 to %d", head->colors, COLORS_MOST);
	uint64_t left = bmp->file.size - head->at;
	uint64_t bytes = UTIL_MIN((uint64_t)head->entry * head->colors, left);
	uint64_t entries = bytes / head->entry;
	const uint8_t *palette = bmp->file.data + head->at;
	bool gray = true;
	for (uint32_t i = 0; i < head->colors && gray; i++) {
		uint8_t value = (uint8_t)(head->colors == 2 ? i * 255 : i);
		const uint8_t *color = palette + (uint64_t)i * head->entry;
		gray = (uint64_t)i * head->entry + 3 <= bytes && color[0] == value &&
		       color[1] == value && color[2] == value;
	}
	head->at += bytes;
	if (gray) {
		bmp->layout = head->colors <= 2 ? BITS : GRAY;
		bmp->depth = head->colors <= 2 ? 1 : 8;
		return DECODE_OK;
	}
	if (entries > PALETTE)
		return sentence_set(bmp->sentence, DECODE_E_CORRUPT,
			"BMP: a palette of %llu colors; an image of %u bits has at most 256",
			(unsigned long long)entries, head->bits);
	memset(bmp->palette, 0, sizeof(bmp->palette));
	for (uint64_t i = 0; i < entries; i++)
		for (int c = 0; c < DECODE_PLANES; c++)
			bmp->palette[i][c] = palette[i * head->entry + 2 - c];
	bmp->layout = INDEXED;
	bmp->depth = head->bits;
	return DECODE_OK;
}

/* Chooses the layout by depth and compression. */
static int lay_out(struct bmp *bmp, struct head *head)
{
	bool known = head->bits == 1 || head->bits == 4 || head->bits == 8 || head->bits == 16 ||
		     head->bits == 24 || head->bits == 32;
	if (!known || head->compression > BITFIELDS)
		return sentence_set(bmp->sentence, DECODE_E_UNSUPPORTED,
			"BMP: %u bits with compression %u; expected 1, 4, 8, 16, 24 or 32 bits "
			"with compression 0 to 3",
			head->bits, head->compression);
	bmp->compression = (enum compression)head->compression;
	bool runs = bmp->compression == RLE8 || bmp->compression == RLE4;
	if ((runs && head->bits > 8) ||
		(bmp->compression == BITFIELDS && !lay_out_masks(bmp, head)))
		return sentence_set(bmp->sentence, DECODE_E_UNSUPPORTED,
			"BMP: %u bits with %s that Pillow does not read", head->bits,
			runs ? "run lengths" : "masks");
	if (head->bits <= 8)
		return read_palette(bmp, head);
	bmp->layout = head->bits == 16 ? WORDS : BYTES;
	bmp->depth = head->bits;
	if (bmp->compression == RAW) {
		bmp->green = 5;
		memcpy(bmp->place, (const uint8_t[]){2, 1, 0}, sizeof(bmp->place));
	}
	return DECODE_OK;
}

static uint64_t row_bytes(const struct bmp *bmp)
{
	return ((uint64_t)bmp->width * bmp->depth + 7) / 8;
}

static bool has_runs(const struct bmp *bmp)
{
	return bmp->compression == RLE8 || bmp->compression == RLE4;
}

static int bmp_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct bmp *bmp = self;
	struct head head;
	bmp->file = (struct types_bytes){data, size};
	int outcome = read_head(bmp, &head);
	if (!outcome)
		outcome = reader_check_size(bmp->sentence, limits, "BMP", head.width, head.height);
	if (outcome)
		return outcome;
	bmp->width = (uint32_t)head.width;
	bmp->height = (uint32_t)head.height;
	bmp->offset = types_get32(data + 10);
	/* Some writers give the palette's place as that of the pixels. */
	if (bmp->offset == FILE_HEAD + head.bytes && head.bits <= 8)
		bmp->offset += (uint64_t)head.entry * head.colors;
	bmp->stride = ((uint64_t)bmp->width * head.bits + 31) / 8 & ~UINT64_C(3);
	outcome = lay_out(bmp, &head);
	if (outcome)
		return outcome;
	if (!bmp->offset)
		bmp->offset = head.at;
	if (!has_runs(bmp) && row_bytes(bmp) > bmp->stride)
		return sentence_set(bmp->sentence, DECODE_E_CORRUPT,
			"BMP: %u bits with a palette of %u grays", head.bits, head.colors);
	*ret = (struct decode_info){
		.width = bmp->width, .height = bmp->height, .format = DECODE_BMP};
	return DECODE_OK;
}

static uint64_t bmp_need(void *self, bool spilled)
{
	const struct bmp *bmp = self;
	(void)spilled;
	uint64_t indices = has_runs(bmp) ? (uint64_t)bmp->width * bmp->height + SCRATCH_ALIGN : 0;
	return types_row_bytes(bmp->width) + indices;
}

/* Run-length codes while they are unpacked. Pillow counts the pixels of the image and those of the
 * row apart from each other. */
struct runs {
	struct bmp *bmp;
	uint64_t at; /* in the file */
	uint64_t made, all; /* pixels */
	uint64_t x;
};

static void put(struct runs *runs, uint8_t index)
{
	if (runs->made < runs->all)
		runs->bmp->indices[runs->made] = index;
	runs->made++;
}

static void unpack_run(struct runs *runs, unsigned count, uint8_t byte)
{
	if (runs->x + count > runs->bmp->width)
		count = runs->x < runs->bmp->width ? (unsigned)(runs->bmp->width - runs->x) : 0;
	bool halves = runs->bmp->compression == RLE4;
	for (unsigned i = 0; i < count; i++)
		put(runs, !halves ? byte : i % 2 ? byte & 15 : byte >> 4);
	runs->x += count;
}

/* False: the codes end here. */
static bool unpack_literals(struct runs *runs, unsigned count)
{
	const struct bmp *bmp = runs->bmp;
	bool halves = bmp->compression == RLE4;
	unsigned pixels = (unsigned)UTIL_MIN(runs->all - runs->made, (uint64_t)count);
	unsigned bytes = halves ? (pixels + 1) / 2 : pixels;
	unsigned got = (unsigned)UTIL_MIN((uint64_t)bytes, bmp->file.size - runs->at);
	const uint8_t *from = bmp->file.data + runs->at;
	for (unsigned i = 0; i < pixels && (halves ? i / 2 : i) < got; i++)
		put(runs, !halves ? from[i] : i % 2 ? from[i / 2] & 15 : from[i / 2] >> 4);
	runs->at += got;
	if (got < bytes || runs->made == runs->all)
		return false;
	runs->x += count;
	runs->at += runs->at % 2;
	return true;
}

/* An end of a row, the end of the image, a jump, or literals. False: the codes end here. */
static bool unpack_escape(struct runs *runs, unsigned code)
{
	const struct bmp *bmp = runs->bmp;
	uint64_t zeros;
	switch (code) {
	case 0:
		while (runs->made % bmp->width)
			put(runs, 0);
		runs->x = 0;
		return true;
	case 1:
		return false;
	case 2:
		if (!types_has(&bmp->file, runs->at, 2))
			return false;
		zeros = bmp->file.data[runs->at] +
			(uint64_t)bmp->file.data[runs->at + 1] * bmp->width;
		runs->at += 2;
		for (zeros = UTIL_MIN(zeros, runs->all - runs->made); zeros; zeros--)
			put(runs, 0);
		runs->x = runs->made % bmp->width;
		return true;
	default:
		return unpack_literals(runs, code);
	}
}

static int unpack(struct bmp *bmp)
{
	struct runs runs = {
		.bmp = bmp, .at = bmp->offset, .all = (uint64_t)bmp->width * bmp->height};
	bool more = true;
	while (more && runs.made < runs.all && types_has(&bmp->file, runs.at, 2)) {
		uint8_t count = bmp->file.data[runs.at], byte = bmp->file.data[runs.at + 1];
		runs.at += 2;
		if (count)
			unpack_run(&runs, count, byte);
		else
			more = unpack_escape(&runs, byte);
	}
	if (runs.made < runs.all)
		return sentence_set(bmp->sentence, DECODE_E_TRUNCATED,
			"BMP: its run lengths end after %llu of %llu pixels",
			(unsigned long long)runs.made, (unsigned long long)runs.all);
	return DECODE_OK;
}

/* The bytes of a row; NULL: they are not all in the file. */
static const uint8_t *find_row(const struct bmp *bmp, uint32_t y)
{
	uint64_t at = bmp->upward ? bmp->height - 1 - y : y;
	if (bmp->indices)
		return bmp->indices + at * bmp->width;
	at = bmp->offset + at * bmp->stride;
	return types_has(&bmp->file, at, row_bytes(bmp)) ? bmp->file.data + at : NULL;
}

static void expand_indices(const struct bmp *bmp, const uint8_t *from, uint32_t x0, uint32_t x1)
{
	unsigned depth = bmp->indices ? 8 : bmp->depth;
	for (uint32_t x = x0; x < x1; x++) {
		uint64_t bit = (uint64_t)x * depth;
		unsigned index = from[bit / 8] >> (8 - depth - bit % 8) & ((1u << depth) - 1);
		for (int c = 0; c < DECODE_PLANES; c++)
			bmp->row.rgb[c][x - x0] = bmp->palette[index][c];
	}
}

static void expand_words(const struct bmp *bmp, const uint8_t *from, uint32_t x0, uint32_t x1)
{
	unsigned green = (1u << bmp->green) - 1;
	for (uint32_t x = x0; x < x1; x++) {
		unsigned word = types_get16(from + (size_t)2 * x);
		bmp->row.rgb[0][x - x0] = (uint8_t)((word >> (5 + bmp->green) & 31) * 255 / 31);
		bmp->row.rgb[1][x - x0] = (uint8_t)((word >> 5 & green) * 255 / green);
		bmp->row.rgb[2][x - x0] = (uint8_t)((word & 31) * 255 / 31);
	}
}

static void expand_bytes(const struct bmp *bmp, const uint8_t *from, uint32_t x0, uint32_t x1)
{
	uint8_t *const *rgb = bmp->row.rgb;
	size_t pixel = bmp->depth / 8;
	if (pixel == 3) { /* always blue first */
		bmp->kernels->split(
			(uint8_t *const[]){rgb[2], rgb[1], rgb[0]}, from + (size_t)x0 * 3, x1 - x0);
		return;
	}
	for (uint32_t x = x0; x < x1; x++)
		for (int c = 0; c < DECODE_PLANES; c++)
			rgb[c][x - x0] = from[x * pixel + bmp->place[c]];
}

static void expand(const struct bmp *bmp, const uint8_t *from, uint32_t x0, uint32_t x1)
{
	uint8_t *const *rgb = bmp->row.rgb;
	switch (bmp->layout) {
	case BITS:
		for (uint32_t x = x0; x < x1; x++) {
			bool white = bmp->indices ? from[x] : from[x / 8] >> (7 - x % 8) & 1;
			rgb[0][x - x0] = rgb[1][x - x0] = rgb[2][x - x0] = white ? 255 : 0;
		}
		break;
	case GRAY:
		for (int c = 0; c < DECODE_PLANES; c++)
			memcpy(rgb[c], from + x0, x1 - x0);
		break;
	case INDEXED:
		expand_indices(bmp, from, x0, x1);
		break;
	case WORDS:
		expand_words(bmp, from, x0, x1);
		break;
	case BYTES:
		expand_bytes(bmp, from, x0, x1);
		break;
	}
}

static int bmp_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct bmp *bmp = self;
	uint64_t pixels = (uint64_t)bmp->width * bmp->height;
	bmp->indices = has_runs(bmp) ? scratch_take(bmp->scratch, pixels) : NULL;
	if (!types_row_take(&bmp->row, bmp->scratch, bmp->width) ||
		(has_runs(bmp) && !bmp->indices))
		return types_no_room(bmp->sentence, "BMP");
	int outcome = bmp->indices ? unpack(bmp) : DECODE_OK;
	for (uint32_t y = to_end ? 0 : region.y0;
		!outcome && y < (to_end ? bmp->height : region.y1); y++) {
		const uint8_t *from = find_row(bmp, y);
		if (!from)
			return cut(bmp, "pixels");
		if (y < region.y0 || y >= region.y1)
			continue;
		expand(bmp, from, region.x0, region.x1);
		types_row_give(&bmp->row, row, context);
	}
	return outcome;
}

static void bmp_end(void *self)
{
	struct bmp *bmp = self;
	bmp->indices = NULL;
}

const struct reader types_bmp = {
	.format = DECODE_BMP,
	.name = "BMP",
	.library = "penstock",
	.sniff = bmp_sniff,
	.make = bmp_make,
	.unmake = free,
	.bytes = bmp_bytes,
	.begin = bmp_begin,
	.rows = bmp_rows,
	.end = bmp_end,
	.need = bmp_need,
};
