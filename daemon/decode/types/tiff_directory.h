/* tiff_directory: the first directory of a TIFF file, read by Pillow's rules (Pillow 13.0.0,
 * TiffImagePlugin.py), and what it says about the pixels.
 *
 * The first of several entries with one tag counts. Entries are skipped whose type is unknown,
 * whose data is empty, or whose data makes that of all entries larger than the file; data beyond
 * the end of the file ends the directory. Pure. */
#pragma once

#include "decode/sentence.h"
#include "decode/types/common.h"

enum { TIFF_PLANES = 4, TIFF_SAMPLES = 6, TIFF_COLORS = 256 };

enum tiff_compression {
	TIFF_RAW = 1,
	TIFF_CCITT_RLE = 2,
	TIFF_CCITT_G3 = 3,
	TIFF_CCITT_G4 = 4,
	TIFF_LZW = 5,
	TIFF_OLD_JPEG = 6,
	TIFF_JPEG = 7,
	TIFF_DEFLATE = 8,
	TIFF_CCITT_RLEW = 32771,
	TIFF_PACKBITS = 32773,
	TIFF_DEFLATE_OLD = 32946,
	TIFF_LZMA = 34925,
	TIFF_ZSTD = 50000,
};

/* How the samples of a pixel become red, green and blue. */
enum tiff_pixel {
	TIFF_AS_GRAY, /* 1, 2, 4 or 8 bits, scaled to 255 */
	TIFF_AS_NUMBER, /* 12, 16 or 32 bits, clipped at 0 and 255 */
	TIFF_AS_FLOAT, /* the same, and cut to an integer */
	TIFF_AS_PALETTE,
	TIFF_AS_RGB,
	TIFF_AS_PREMULTIPLIED, /* RGB times alpha */
	TIFF_AS_CMYK,
	TIFF_AS_YCBCR,
};

/* Values of a tag. */
struct tiff_values {
	const uint8_t *bytes; /* in the file; NULL: the tag is missing */
	uint64_t count;
	unsigned unit; /* bytes of a value */
	bool integer; /* unsigned, of 2, 4 or 8 bytes */
	bool bytewise; /* of type BYTE or UNDEFINED */
};

struct tiff_layout {
	bool little; /* the order of bytes in the file */
	uint64_t tag_bytes; /* data of all entries */
	uint32_t width, height; /* as stored */
	unsigned orientation; /* 1 to 8 */
	unsigned compression; /* enum tiff_compression */
	enum tiff_pixel pixel;
	unsigned bits; /* of a sample */
	unsigned samples; /* of a pixel, as stored */
	bool separate; /* each sample in a plane of its own */
	unsigned planes; /* that are read: 1 if not separate */
	bool inverted, reversed; /* 0 is white; the first pixel has the lowest bits */
	bool is_signed;
	bool big; /* samples of more than 8 bits: the high byte comes first */
	bool library_color; /* libtiff converts to RGBA: YCbCr with samples of different sizes */
	bool fill_reversed; /* FillOrder is 2 */
	bool tiled;
	uint32_t tile_width, tile_height; /* of strips: the width, and rows of a strip */
	uint32_t across, down; /* tiles or strips */
	struct tiff_values offsets; /* of tiles or strips */
	uint8_t palette[DECODE_PLANES][TIFF_COLORS];
};

/* DECODE_OK, or the outcome that was written to the sentence. */
int tiff_layout_read(struct tiff_layout *ret, struct types_bytes file,
	const struct decode_limits *limits, struct sentence *sentence);

/* The value at `index` < values->count of integers. */
uint64_t tiff_value(
	const struct tiff_layout *layout, const struct tiff_values *values, uint64_t index);

/* Bytes of a row of a tile or strip, as libtiff gives it; of one plane. */
uint64_t tiff_row_bytes(const struct tiff_layout *layout);
