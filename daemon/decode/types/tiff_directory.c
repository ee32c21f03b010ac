/* tiff_directory: see tiff_directory.h. */
#include "decode/types/tiff_directory.h"

#include "base/util.h"

#include <limits.h>
#include <string.h>

enum {
	HEAD_BYTES = 8,
	BIG_HEAD_BYTES = 16,
	ENTRY_BYTES = 12,
	BIG_ENTRY_BYTES = 20,
	BIG_VERSION = 43,
	/* libtiff sorts all its tags again for each one that it does not know. */
	ENTRIES_MOST = 1024,
	TURNS = 8,
};

enum {
	TYPE_BYTE = 1,
	TYPE_SHORT = 3,
	TYPE_LONG = 4,
	TYPE_UNDEFINED = 7,
	TYPE_IFD = 13,
	TYPE_LONG8 = 16
};

enum { FORMAT_UNSIGNED = 1, FORMAT_SIGNED = 2, FORMAT_FLOAT = 3 };

enum {
	PHOTO_WHITE = 0,
	PHOTO_BLACK = 1,
	PHOTO_RGB = 2,
	PHOTO_PALETTE = 3,
	PHOTO_CMYK = 5,
	PHOTO_YCBCR = 6,
	PHOTO_LAB = 8,
};

enum { EXTRA_UNKNOWN = 0, EXTRA_PREMULTIPLIED = 1, EXTRA_ALPHA = 2, EXTRA_COREL = 999 };

enum tag {
	TAG_WIDTH,
	TAG_HEIGHT,
	TAG_BITS,
	TAG_COMPRESSION,
	TAG_PHOTO,
	TAG_FILL_ORDER,
	TAG_STRIP_OFFSETS,
	TAG_ORIENTATION,
	TAG_SAMPLES,
	TAG_ROWS,
	TAG_PLANAR,
	TAG_COLORS,
	TAG_TILE_WIDTH,
	TAG_TILE_HEIGHT,
	TAG_TILE_OFFSETS,
	TAG_EXTRAS,
	TAG_FORMAT,
	TAG_XMP,
	TAG_MEDIA_PHOTO,
	TAGS,
};

static const struct {
	uint16_t number;
	const char *name;
} known[TAGS] = {
	[TAG_WIDTH] = {256, "ImageWidth"},
	[TAG_HEIGHT] = {257, "ImageLength"},
	[TAG_BITS] = {258, "BitsPerSample"},
	[TAG_COMPRESSION] = {259, "Compression"},
	[TAG_PHOTO] = {262, "PhotometricInterpretation"},
	[TAG_FILL_ORDER] = {266, "FillOrder"},
	[TAG_STRIP_OFFSETS] = {273, "StripOffsets"},
	[TAG_ORIENTATION] = {274, "Orientation"},
	[TAG_SAMPLES] = {277, "SamplesPerPixel"},
	[TAG_ROWS] = {278, "RowsPerStrip"},
	[TAG_PLANAR] = {284, "PlanarConfiguration"},
	[TAG_COLORS] = {320, "ColorMap"},
	[TAG_TILE_WIDTH] = {322, "TileWidth"},
	[TAG_TILE_HEIGHT] = {323, "TileLength"},
	[TAG_TILE_OFFSETS] = {324, "TileOffsets"},
	[TAG_EXTRAS] = {338, "ExtraSamples"},
	[TAG_FORMAT] = {339, "SampleFormat"},
	[TAG_XMP] = {700, "XMP"},
	[TAG_MEDIA_PHOTO] = {0xbc01, "Windows Media Photo"},
};

struct directory {
	struct types_bytes file;
	struct sentence *sentence;
	bool little, wide; /* wide: BigTIFF */
	unsigned entries;
	uint64_t bytes; /* of the data of all entries */
	struct tiff_values tags[TAGS];
};

/* The samples of a pixel. */
struct samples {
	unsigned count, bits;
	unsigned extras[TIFF_SAMPLES], extra_count;
	unsigned format, photo, fill;
};

static uint64_t number(const uint8_t *p, unsigned bytes, bool little)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | p[little ? bytes - 1 - i : i];
	return value;
}

/* Bytes of a value; 0 for types that Pillow does not know. */
static unsigned unit_bytes(unsigned type)
{
	static const uint8_t bytes[TYPE_LONG8 + 1] = {
		0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
	return type <= TYPE_LONG8 ? bytes[type] : 0;
}

static struct tiff_values *wanted(struct directory *directory, unsigned tag)
{
	for (int i = 0; i < TAGS; i++)
		if (known[i].number == tag)
			return &directory->tags[i];
	return NULL;
}

/* Reads an entry. False: its data reaches beyond the file. */
static bool read_entry(struct directory *directory, const uint8_t *entry)
{
	const unsigned word = directory->wide ? 8 : 4;
	const bool little = directory->little;
	unsigned type = (unsigned)number(entry + 2, 2, little), unit = unit_bytes(type);
	uint64_t count = number(entry + 4, word, little), bytes;
	struct tiff_values *values = wanted(directory, (unsigned)number(entry, 2, little));
	const uint8_t *data = entry + 4 + word;
	if (!unit || !count || (values && values->bytes))
		return true;
	/* All after one that is too large are skipped too, but for those in the entry itself. */
	if (__builtin_mul_overflow(count, unit, &bytes))
		bytes = UINT64_MAX;
	if (bytes > word) {
		uint64_t at = number(data, word, little);
		if (at > INT64_MAX)
			return true;
		if (__builtin_add_overflow(directory->bytes, bytes, &directory->bytes))
			directory->bytes = UINT64_MAX;
		if (directory->bytes > directory->file.size)
			return true;
		if (!types_has(&directory->file, at, bytes))
			return false;
		data = directory->file.data + at;
	}
	if (values)
		*values = (struct tiff_values){.bytes = data,
			.count = count,
			.unit = unit,
			.integer = type == TYPE_SHORT || type == TYPE_LONG || type == TYPE_IFD ||
				   type == TYPE_LONG8,
			.bytewise = type == TYPE_BYTE || type == TYPE_UNDEFINED};
	return true;
}

static int read_entries(struct directory *directory, uint64_t at)
{
	const struct types_bytes *file = &directory->file;
	const unsigned counted = directory->wide ? 8 : 2;
	const unsigned entry = directory->wide ? BIG_ENTRY_BYTES : ENTRY_BYTES;
	if (!at || !types_has(file, at, counted))
		return sentence_set(directory->sentence, DECODE_E_TRUNCATED,
			"TIFF: its directory should begin at byte %llu of %zu",
			(unsigned long long)at, file->size);
	uint64_t entries = number(file->data + at, counted, directory->little);
	if (entries > UINT16_MAX)
		return sentence_set(directory->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: a directory of %llu entries; penstock reads at most %d",
			(unsigned long long)entries, UINT16_MAX);
	directory->entries = (unsigned)entries;
	at += counted;
	for (uint64_t i = 0; i < entries && types_has(file, at, entry); i++, at += entry)
		if (!read_entry(directory, file->data + at))
			break;
	return DECODE_OK;
}

static int read_directory(struct directory *directory)
{
	const struct types_bytes *file = &directory->file;
	const uint8_t *head = file->data;
	if (file->size < BIG_HEAD_BYTES)
		return sentence_set(directory->sentence, DECODE_E_TRUNCATED,
			"TIFF: the file ends in its header");
	directory->little = head[0] == 'I';
	directory->wide = head[2] == BIG_VERSION;
	if (head[3] == BIG_VERSION)
		return sentence_set(directory->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: a big-endian BigTIFF; Pillow does not read these either: write it "
			"little-endian");
	return read_entries(directory, directory->wide ? number(head + 8, 8, directory->little)
						       : number(head + 4, 4, directory->little));
}

/* The first value of a tag, or `otherwise` where it is missing. */
static int first(const struct directory *directory, enum tag tag, uint64_t otherwise, uint64_t *ret)
{
	const struct tiff_values *values = &directory->tags[tag];
	*ret = otherwise;
	if (!values->bytes)
		return DECODE_OK;
	if (!values->integer)
		return sentence_set(directory->sentence, DECODE_E_CORRUPT,
			"TIFF: the tag %s is not an integer", known[tag].name);
	*ret = number(values->bytes, values->unit, directory->little);
	return DECODE_OK;
}

/* The values of a tag, at most TIFF_SAMPLES of them. */
static int several(
	const struct directory *directory, enum tag tag, unsigned *ret, unsigned *ret_count)
{
	const struct tiff_values *values = &directory->tags[tag];
	*ret_count = 0;
	if (!values->bytes)
		return DECODE_OK;
	if (!values->integer)
		return sentence_set(directory->sentence, DECODE_E_CORRUPT,
			"TIFF: the tag %s is not an integer", known[tag].name);
	if (values->count > TIFF_SAMPLES)
		return sentence_set(directory->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: %llu values of %s; a pixel may have at most %d samples",
			(unsigned long long)values->count, known[tag].name, TIFF_SAMPLES);
	for (uint64_t i = 0; i < values->count; i++) {
		uint64_t value =
			number(values->bytes + i * values->unit, values->unit, directory->little);
		ret[i] = value > UINT_MAX ? UINT_MAX : (unsigned)value;
	}
	*ret_count = (unsigned)values->count;
	return DECODE_OK;
}

static bool all_equal(const unsigned *values, unsigned count)
{
	for (unsigned i = 1; i < count; i++)
		if (values[i] != values[0])
			return false;
	return true;
}

static int unknown_pixels(struct sentence *sentence, const struct samples *samples)
{
	return sentence_set(sentence, DECODE_E_UNSUPPORTED,
		"TIFF: photometric interpretation %u with %u samples of %u bits, format %u, fill "
		"order %u and %u extra samples; convert it to 8-bit RGB or gray",
		samples->photo, samples->count, samples->bits, samples->format, samples->fill,
		samples->extra_count);
}

/* Reads how many samples a pixel has, and of how many bits. Where samples are stored separately,
 * extra ones of unknown meaning are left out. */
static int read_samples(
	const struct directory *directory, struct tiff_layout *layout, struct samples *ret)
{
	unsigned bits[TIFF_SAMPLES] = {1}, bits_count = 0, formats[TIFF_SAMPLES] = {0},
		 format_count = 0;
	uint64_t count = 0, photo = 0, fill = 0;
	int outcome = first(directory, TAG_SAMPLES, 1, &count);
	if (!outcome)
		outcome = first(directory, TAG_PHOTO, PHOTO_WHITE, &photo);
	if (!outcome)
		outcome = first(directory, TAG_FILL_ORDER, 1, &fill);
	if (!outcome)
		outcome = several(directory, TAG_BITS, bits, &bits_count);
	if (!outcome)
		outcome = several(directory, TAG_EXTRAS, ret->extras, &ret->extra_count);
	if (!outcome)
		outcome = several(directory, TAG_FORMAT, formats, &format_count);
	if (outcome)
		return outcome;
	if (!bits_count)
		bits_count = 1;
	bool unknown =
		ret->extra_count && ret->extras[0] == 0 && all_equal(ret->extras, ret->extra_count);
	layout->samples = (unsigned)(count > UINT_MAX ? UINT_MAX : count);
	if (layout->separate && unknown && count > ret->extra_count) {
		bits_count -= bits_count > ret->extra_count ? ret->extra_count : bits_count;
		count -= ret->extra_count;
		ret->extra_count = 0;
	}
	ret->count = (unsigned)(count > UINT_MAX ? UINT_MAX : count);
	ret->bits = bits[0];
	ret->format = format_count ? formats[0] : FORMAT_UNSIGNED;
	ret->photo = (unsigned)(photo > UINT_MAX ? UINT_MAX : photo);
	ret->fill = (unsigned)(fill > UINT_MAX ? UINT_MAX : fill);
	if (directory->tags[TAG_PHOTO].count > 1)
		ret->photo = PHOTO_WHITE;
	if (count > TIFF_SAMPLES || !count || !bits_count ||
		(bits_count > 1 && bits_count < count) ||
		!all_equal(bits, (unsigned)(bits_count < count ? bits_count : count)) ||
		(format_count && !all_equal(formats, format_count)))
		return unknown_pixels(directory->sentence, ret);
	return DECODE_OK;
}

/* The extra samples are `first` and otherwise unknown ones. */
static bool extras_are(const struct samples *samples, unsigned first_extra)
{
	for (unsigned i = 1; i < samples->extra_count; i++)
		if (samples->extras[i] != EXTRA_UNKNOWN)
			return false;
	return samples->extra_count && samples->extras[0] == first_extra;
}

static bool choose_gray(struct tiff_layout *layout, const struct samples *s)
{
	const bool white = s->photo == PHOTO_WHITE, plain = s->fill == 1;
	const bool small = s->bits == 1 || s->bits == 2 || s->bits == 4 || s->bits == 8;
	layout->inverted = white && small;
	layout->is_signed = s->format == FORMAT_SIGNED || s->bits == 32;
	layout->pixel = small ? TIFF_AS_GRAY : TIFF_AS_NUMBER;
	if (s->count == 2)
		return !white && plain && s->bits == 8 && s->format == FORMAT_UNSIGNED &&
		       s->extra_count == 1 &&
		       (s->extras[0] == EXTRA_UNKNOWN || s->extras[0] == EXTRA_ALPHA);
	if (s->count != 1 || s->extra_count)
		return false;
	switch (s->format) {
	case FORMAT_UNSIGNED:
		if (small)
			return plain || s->fill == 2;
		if (s->bits == 12 || s->bits == 32)
			return layout->little && !white && plain;
		return s->bits == 16 && (plain || (s->fill == 2 && !white && layout->little)) &&
		       (layout->little || !white);
	case FORMAT_SIGNED:
		return plain && !white && (s->bits == 8 || s->bits == 16 || s->bits == 32);
	case FORMAT_FLOAT:
		layout->pixel = TIFF_AS_FLOAT;
		return plain && s->bits == 32;
	default:
		return false;
	}
}

static bool choose_palette(struct tiff_layout *layout, const struct samples *s)
{
	const bool small = s->bits == 1 || s->bits == 2 || s->bits == 4 || s->bits == 8;
	layout->pixel = TIFF_AS_PALETTE;
	if (s->count == 1)
		return small && !s->extra_count && (s->fill == 1 || s->fill == 2);
	return s->count == 2 && s->bits == 8 && s->fill == 1 && s->extra_count == 1 &&
	       (s->extras[0] == EXTRA_UNKNOWN || s->extras[0] == EXTRA_ALPHA);
}

static bool choose_rgb(struct tiff_layout *layout, const struct samples *s)
{
	const bool none = s->extra_count == 0;
	layout->pixel = extras_are(s, EXTRA_PREMULTIPLIED) ? TIFF_AS_PREMULTIPLIED : TIFF_AS_RGB;
	if (s->count == 3)
		return none && (s->fill == 1 || (s->fill == 2 && s->bits == 8));
	if (s->fill != 1 || (s->count > 4 && s->bits != 8))
		return false;
	if (s->count == 4 &&
		(none || (s->bits == 8 && s->extra_count == 1 && s->extras[0] == EXTRA_COREL)))
		return true;
	return s->extra_count == s->count - 3 &&
	       (extras_are(s, EXTRA_UNKNOWN) || extras_are(s, EXTRA_PREMULTIPLIED) ||
		       extras_are(s, EXTRA_ALPHA));
}

static bool choose_pixel(struct tiff_layout *layout, const struct samples *s)
{
	if (s->photo == PHOTO_WHITE || s->photo == PHOTO_BLACK)
		return choose_gray(layout, s);
	if (s->format != FORMAT_UNSIGNED)
		return false;
	switch (s->photo) {
	case PHOTO_PALETTE:
		return choose_palette(layout, s);
	case PHOTO_RGB:
		return (s->bits == 8 || s->bits == 16) && choose_rgb(layout, s);
	case PHOTO_CMYK:
		layout->pixel = TIFF_AS_CMYK;
		return s->fill == 1 && s->count >= 4 && s->extra_count == s->count - 4 &&
		       (!s->extra_count || extras_are(s, EXTRA_UNKNOWN)) &&
		       (s->bits == 8 || (s->bits == 16 && s->count == 4));
	case PHOTO_YCBCR:
		layout->pixel = s->count == 1 ? TIFF_AS_GRAY : TIFF_AS_YCBCR;
		return s->fill == 1 && s->bits == 8 && !s->extra_count &&
		       (s->count == 3 || (s->count == 1 && layout->compression == TIFF_RAW));
	default:
		return false;
	}
}

static unsigned pixel_planes(const struct tiff_layout *layout, unsigned samples)
{
	return layout->separate ? samples : 1;
}

/* Uncompressed separate samples are read by Pillow as if they had 8 bits; what that gets right. */
static bool raw_separate(const struct tiff_layout *layout, const struct samples *s)
{
	if (!layout->separate)
		return true;
	switch (layout->pixel) {
	case TIFF_AS_GRAY:
		return s->count == 1 && s->photo != PHOTO_YCBCR && (s->bits == 8 || s->bits == 1) &&
		       s->fill == 1;
	case TIFF_AS_NUMBER:
	case TIFF_AS_FLOAT:
		return s->bits == 32 && layout->little;
	case TIFF_AS_PALETTE:
		return s->count == 1 && s->bits == 8 && s->fill == 1;
	case TIFF_AS_RGB:
		return s->count == 3 + s->extra_count && s->count <= TIFF_PLANES && s->bits == 8 &&
		       s->fill == 1;
	case TIFF_AS_CMYK:
		return s->count == 4 && s->bits == 8;
	default:
		return false;
	}
}

/* Pillow has no code for these, uncompressed and with their bits in reverse order. */
static bool raw_reversed(const struct tiff_layout *layout, const struct samples *s)
{
	return !layout->reversed ||
	       (layout->pixel == TIFF_AS_PALETTE ? s->bits == 8
						 : !(layout->inverted && s->bits == 8));
}

/* How pixels are stored, which depends on who reads them in Pillow: its own code where they are
 * not compressed, libtiff otherwise. */
static int choose_reading(struct tiff_layout *layout, struct sentence *sentence, struct samples *s)
{
	if (s->photo == PHOTO_LAB)
		return sentence_set(
			sentence, DECODE_E_UNSUPPORTED, "TIFF: CIELAB colors; convert it to RGB");
	if (s->photo == PHOTO_BLACK && s->extra_count == 1 && s->extras[0] == EXTRA_PREMULTIPLIED)
		return sentence_set(sentence, DECODE_E_UNSUPPORTED,
			"TIFF: gray times alpha; Pillow does not convert it to RGB either: convert "
			"it to gray");
	if (!choose_pixel(layout, s))
		return unknown_pixels(sentence, s);
	layout->bits = s->bits;
	layout->planes = pixel_planes(layout, s->count);
	layout->fill_reversed = s->fill == 2;
	if (layout->compression == TIFF_RAW) {
		layout->reversed = s->fill == 2;
		layout->big = !layout->little;
		/* Pillow forgets it. */
		if (layout->separate)
			layout->inverted = false;
		return raw_separate(layout, s) && raw_reversed(layout, s)
			       ? DECODE_OK
			       : unknown_pixels(sentence, s);
	}
	/* libtiff gives samples in the machine's order; Pillow knows it for gray of 16 bits
	 * without a sign and for colors. */
	const bool known_order =
		s->count > 1 || (s->bits == 16 && s->format == FORMAT_UNSIGNED) || s->bits == 12;
	layout->big = known_order ? __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ : !layout->little;
	layout->library_color = layout->pixel == TIFF_AS_YCBCR &&
				(layout->compression != TIFF_JPEG || layout->separate);
	if (layout->pixel == TIFF_AS_YCBCR)
		layout->pixel = TIFF_AS_RGB;
	if (layout->library_color) {
		layout->planes = 1;
		return DECODE_OK;
	}
	if (layout->planes > TIFF_PLANES || (layout->planes > 1 && s->bits != 8 && s->bits != 16))
		return unknown_pixels(sentence, s);
	/* libtiff takes an extra sample without a meaning for one of unknown meaning, and Pillow
	 * takes that for premultiplied alpha. */
	if (layout->planes == TIFF_PLANES && layout->pixel == TIFF_AS_RGB && !s->extra_count)
		layout->pixel = TIFF_AS_PREMULTIPLIED;
	return DECODE_OK;
}

static int read_palette(struct directory *directory, struct tiff_layout *layout)
{
	const struct tiff_values *values = &directory->tags[TAG_COLORS];
	uint64_t colors = values->count / DECODE_PLANES;
	if (!values->bytes || !values->integer || values->count % DECODE_PLANES ||
		colors > TIFF_COLORS)
		return sentence_set(directory->sentence, DECODE_E_CORRUPT,
			"TIFF: an image with a palette whose ColorMap has %llu values; expected 3 "
			"for each of at most %d colors",
			(unsigned long long)values->count, TIFF_COLORS);
	for (uint64_t i = 0; i < values->count; i++) {
		uint64_t value = tiff_value(layout, values, i);
		if (value > UINT16_MAX)
			return sentence_set(directory->sentence, DECODE_E_CORRUPT,
				"TIFF: a color of %llu; a ColorMap has at most 65535",
				(unsigned long long)value);
		layout->palette[i / colors][i % colors] = (uint8_t)(value >> 8);
	}
	return DECODE_OK;
}

/* Of the tag, or else as an XMP text has it. */
static unsigned read_orientation(const struct directory *directory)
{
	static const char name[] = "tiff:Orientation";
	const struct tiff_values *tag = &directory->tags[TAG_ORIENTATION];
	const struct tiff_values *xmp = &directory->tags[TAG_XMP];
	uint64_t value = 1;
	if (tag->bytes) {
		if (tag->integer)
			value = number(tag->bytes, tag->unit, directory->little);
		return value >= 1 && value <= TURNS ? (unsigned)value : 1;
	}
	if (!xmp->bytes || !xmp->bytewise)
		return 1;
	const uint8_t *at = xmp->bytes, *end = at + xmp->count;
	while ((at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1))) {
		at += sizeof(name) - 1;
		if (end - at >= 2 && *at == '>')
			at++;
		else if (end - at >= 3 && at[0] == '=' && at[1] == '"')
			at += 2;
		else
			continue;
		if (*at >= '0' && *at <= '9')
			return *at >= '1' && *at <= '0' + TURNS ? (unsigned)(*at - '0') : 1;
	}
	return 1;
}

static int read_tiles(const struct directory *directory, struct tiff_layout *layout)
{
	uint64_t width = 0, height = 0;
	int outcome = first(directory, TAG_TILE_WIDTH, 0, &width);
	if (!outcome)
		outcome = first(directory, TAG_TILE_HEIGHT, 0, &height);
	if (outcome)
		return outcome;
	if (!width || !height || width > INT_MAX || height > INT_MAX)
		return sentence_set(directory->sentence, DECODE_E_CORRUPT,
			"TIFF: tiles of %llu x %llu pixels", (unsigned long long)width,
			(unsigned long long)height);
	layout->tile_width = (uint32_t)width;
	layout->tile_height = (uint32_t)height;
	layout->offsets = directory->tags[TAG_TILE_OFFSETS];
	return DECODE_OK;
}

static int read_strips(const struct directory *directory, struct tiff_layout *layout)
{
	uint64_t rows = 0;
	int outcome = first(directory, TAG_ROWS, layout->height, &rows);
	if (outcome)
		return outcome;
	if (!rows)
		return sentence_set(
			directory->sentence, DECODE_E_CORRUPT, "TIFF: strips without rows");
	layout->tile_width = layout->width;
	layout->tile_height = rows < layout->height ? (uint32_t)rows : layout->height;
	layout->offsets = directory->tags[TAG_STRIP_OFFSETS];
	return DECODE_OK;
}

/* Where tiles or strips are. */
static int read_places(const struct directory *directory, struct tiff_layout *layout,
	const struct decode_limits *limits)
{
	/* Pillow's own code looks at StripOffsets first; libtiff at TileWidth and TileLength. */
	const bool strips = directory->tags[TAG_STRIP_OFFSETS].bytes != NULL;
	const bool tiles =
		directory->tags[TAG_TILE_WIDTH].bytes && directory->tags[TAG_TILE_HEIGHT].bytes;
	layout->tiled = layout->compression == TIFF_RAW ? !strips : tiles;
	int outcome =
		layout->tiled ? read_tiles(directory, layout) : read_strips(directory, layout);
	if (outcome)
		return outcome;
	if ((uint64_t)layout->tile_width * layout->tile_height > limits->pixels)
		return sentence_set(directory->sentence, DECODE_E_PIXELS,
			"TIFF: a tile of %u x %u pixels; the limit max_image_pixels is %llu",
			layout->tile_width, layout->tile_height,
			(unsigned long long)limits->pixels);
	layout->across = (layout->width - 1) / layout->tile_width + 1;
	layout->down = (layout->height - 1) / layout->tile_height + 1;
	if (layout->compression != TIFF_RAW)
		return DECODE_OK;
	struct tiff_values *offsets = &layout->offsets;
	uint64_t places = (uint64_t)layout->across * layout->down * layout->planes;
	uint64_t found = offsets->bytes && offsets->integer ? offsets->count : 0;
	/* The last one counts where each covers the image. */
	if (places == 1 && found > 1 && !layout->separate && layout->tile_width == layout->width &&
		layout->tile_height == layout->height) {
		offsets->bytes += (found - 1) * offsets->unit;
		found = 1;
	}
	if (found != places)
		return sentence_set(directory->sentence,
			found < places ? DECODE_E_TRUNCATED : DECODE_E_CORRUPT,
			"TIFF: %llu tiles or strips; an image of its size has %llu",
			(unsigned long long)found, (unsigned long long)places);
	return DECODE_OK;
}

static bool compression_known(uint64_t compression)
{
	switch (compression) {
	case TIFF_RAW:
	case TIFF_CCITT_RLE:
	case TIFF_CCITT_G3:
	case TIFF_CCITT_G4:
	case TIFF_LZW:
	case TIFF_JPEG:
	case TIFF_DEFLATE:
	case TIFF_CCITT_RLEW:
	case TIFF_PACKBITS:
	case TIFF_DEFLATE_OLD:
	case TIFF_LZMA:
	case TIFF_ZSTD:
		return true;
	default:
		return false;
	}
}

static int read_compression(const struct directory *directory, struct tiff_layout *layout)
{
	uint64_t compression = 0;
	int outcome = first(directory, TAG_COMPRESSION, TIFF_RAW, &compression);
	if (outcome)
		return outcome;
	if (directory->tags[TAG_MEDIA_PHOTO].bytes || !compression_known(compression))
		return sentence_set(directory->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: compression %llu%s; compress it with LZW or Deflate",
			(unsigned long long)compression,
			compression == TIFF_OLD_JPEG ? " (JPEG of before 1995)" : "");
	layout->compression = (unsigned)compression;
	if (compression != TIFF_RAW && directory->entries > ENTRIES_MOST)
		return sentence_set(directory->sentence, DECODE_E_UNSUPPORTED,
			"TIFF: a directory of %u entries; penstock reads at most %d of a "
			"compressed "
			"image",
			directory->entries, ENTRIES_MOST);
	return DECODE_OK;
}

int tiff_layout_read(struct tiff_layout *ret, struct types_bytes file,
	const struct decode_limits *limits, struct sentence *sentence)
{
	struct directory directory = {.file = file, .sentence = sentence};
	struct samples samples = {0};
	uint64_t width = 0, height = 0, planar = 0;
	*ret = (struct tiff_layout){0};
	int outcome = read_directory(&directory);
	if (!outcome)
		outcome = first(&directory, TAG_WIDTH, 0, &width);
	if (!outcome)
		outcome = first(&directory, TAG_HEIGHT, 0, &height);
	if (!outcome)
		outcome = first(&directory, TAG_PLANAR, 1, &planar);
	if (!outcome)
		outcome = reader_check_size(sentence, limits, "TIFF", width, height);
	if (outcome)
		return outcome;
	ret->little = directory.little;
	ret->tag_bytes = UTIL_MIN(directory.bytes, (uint64_t)file.size);
	ret->width = (uint32_t)width;
	ret->height = (uint32_t)height;
	ret->separate = planar == 2;
	ret->orientation = read_orientation(&directory);
	outcome = read_compression(&directory, ret);
	if (!outcome)
		outcome = read_samples(&directory, ret, &samples);
	if (!outcome)
		outcome = choose_reading(ret, sentence, &samples);
	if (!outcome && ret->pixel == TIFF_AS_PALETTE)
		outcome = read_palette(&directory, ret);
	if (!outcome)
		outcome = read_places(&directory, ret, limits);
	return outcome;
}

uint64_t tiff_value(
	const struct tiff_layout *layout, const struct tiff_values *values, uint64_t index)
{
	return number(values->bytes + index * values->unit, values->unit, layout->little);
}

uint64_t tiff_row_bytes(const struct tiff_layout *layout)
{
	uint64_t samples = layout->separate ? 1 : layout->samples;
	return ((uint64_t)layout->tile_width * layout->bits * samples + 7) / 8;
}
