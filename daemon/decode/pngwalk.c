/* pngwalk: see pngwalk.h. One function per chunk that Pillow looks into. Other chunks must be
 * complete, and are skipped. */
#include "decode/pngwalk.h"

#include "base/util.h"

#include <string.h>
#include <zlib.h>

enum { CHUNK_HEAD = 8, CHUNK_CRC = 4, SIGNATURE = 8, SEQUENCE = 4 };

/* Results of a step, in addition to the outcomes. */
enum { CHUNK_PIXELS = -1, CHUNK_END = -2 };

struct chunk {
	char name[5];
	const uint8_t *bytes;
	uint32_t size; /* as stated; the bytes may be cut only where a function says so */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int refuse(struct pngwalk *walk, const char *name, const char *what)
{
	return sentence_set(walk->sentence, DECODE_E_CORRUPT, "PNG chunk %s: %s", name, what);
}

static int cut(struct pngwalk *walk, const char *name)
{
	return sentence_set(
		walk->sentence, DECODE_E_TRUNCATED, "PNG: the file ends in chunk %s", name);
}

static bool is_name_byte(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_';
}

/* Reads length and name. False where the file ends or the bytes are not a name; the place is then
 * unchanged. */
static bool read_head(struct pngwalk *walk, struct chunk *ret)
{
	if (walk->size - walk->at < CHUNK_HEAD)
		return false;
	const uint8_t *p = walk->data + walk->at;
	for (int i = 0; i < 4; i++) {
		if (!is_name_byte(p[4 + i]))
			return false;
		ret->name[i] = (char)p[4 + i];
	}
	ret->name[4] = 0;
	ret->size = be32(p);
	ret->bytes = p + CHUNK_HEAD;
	walk->at += CHUNK_HEAD;
	return true;
}

static bool is(const struct chunk *chunk, const char *name)
{
	return memcmp(chunk->name, name, 4) == 0;
}

/* Pairs of depth and color type that PNG allows (and Pillow knows). */
static bool is_known_pair(unsigned depth, unsigned color)
{
	switch (color) {
	case 0:
		return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
	case 3:
		return depth == 1 || depth == 2 || depth == 4 || depth == 8;
	case 2:
	case 4:
	case 6:
		return depth == 8 || depth == 16;
	default:
		return false;
	}
}

static int read_header(struct pngwalk *walk, const struct chunk *chunk)
{
	if (chunk->size < 13)
		return refuse(walk, chunk->name, "shorter than 13 bytes");
	walk->width = be32(chunk->bytes);
	walk->height = be32(chunk->bytes + 4);
	if (is_known_pair(chunk->bytes[8], chunk->bytes[9])) {
		walk->depth = chunk->bytes[8];
		walk->color = chunk->bytes[9];
		walk->known = true;
	}
	if (chunk->bytes[12])
		walk->interlaced = true;
	return chunk->bytes[11] ? refuse(walk, chunk->name, "an unknown filter method") : DECODE_OK;
}

/* Entries that the chunk does not have are black. */
static int read_palette(struct pngwalk *walk, const struct chunk *chunk)
{
	if (!walk->known || walk->color != 3)
		return DECODE_OK;
	uint32_t entries = chunk->size / 3;
	if (entries > PNGWALK_PALETTE)
		return refuse(walk, chunk->name, "more than 256 colors");
	memset(walk->palette, 0, sizeof(walk->palette));
	memcpy(walk->palette, chunk->bytes, (size_t)entries * 3);
	walk->palette_seen = true;
	return DECODE_OK;
}

/* Transparency changes no color. It matters where exactly one palette entry is transparent and the
 * file has no palette: Pillow then fails to look the color up. */
static int read_transparency(struct pngwalk *walk, const struct chunk *chunk)
{
	if (!walk->known || walk->color == 4 || walk->color == 6)
		return DECODE_OK;
	if (walk->color == 3) {
		uint32_t clear = 0, opaque = 0;
		for (uint32_t i = 0; i < chunk->size; i++) {
			clear += chunk->bytes[i] == 0;
			opaque += chunk->bytes[i] == 255;
		}
		walk->transparent_index = clear == 1 && clear + opaque == chunk->size;
		return DECODE_OK;
	}
	return chunk->size < (walk->color == 2 ? 6u : 2u) ? refuse(walk, chunk->name, "too short")
							  : DECODE_OK;
}

static voidpf zlib_take(voidpf scratch, uInt items, uInt size)
{
	return scratch_take(scratch, (size_t)items * size);
}

static void zlib_give(voidpf scratch, voidpf piece)
{
	(void)scratch, (void)piece; /* all is taken back with the image */
}

/* Inflates only to measure the length. 0; 1: more than PNGWALK_TEXT_BYTES. A damaged stream is not
 * a failure, since Pillow drops the text. */
static int inflate_measure(struct pngwalk *walk, const uint8_t *bytes, size_t size)
{
	uint8_t out[4096];
	size_t mark = walk->scratch->used, total = 0;
	z_stream z = {.next_in = (z_const Bytef *)(uintptr_t)bytes,
		.avail_in = (uInt)size,
		.zalloc = zlib_take,
		.zfree = zlib_give,
		.opaque = walk->scratch};
	if (inflateInit(&z) != Z_OK)
		return 0;
	int state = Z_OK;
	while (state == Z_OK && total < PNGWALK_TEXT_BYTES) {
		z.next_out = out;
		z.avail_out = sizeof(out);
		state = inflate(&z, Z_SYNC_FLUSH);
		total += sizeof(out) - z.avail_out;
	}
	bool more = state == Z_OK && z.avail_in > 0;
	(void)inflateEnd(&z);
	walk->scratch->used = mark;
	walk->inflated += total;
	return more;
}

static int judge_inflated(struct pngwalk *walk, const struct chunk *chunk, const uint8_t *bytes)
{
	if (inflate_measure(walk, bytes, (size_t)(chunk->bytes + chunk->size - bytes)))
		return refuse(walk, chunk->name, "grows beyond 1 MiB");
	if (walk->inflated > PNGWALK_INFLATE_BYTES)
		return refuse(walk, chunk->name, "texts and profiles grow beyond 64 MiB");
	return DECODE_OK;
}

/* Where a name that ends with a zero byte ends; NULL where there is no zero byte. */
static const uint8_t *after_name(const uint8_t *bytes, const uint8_t *end)
{
	const uint8_t *zero = bytes < end ? memchr(bytes, 0, (size_t)(end - bytes)) : NULL;
	return zero ? zero + 1 : NULL;
}

static int read_profile(struct pngwalk *walk, const struct chunk *chunk)
{
	const uint8_t *end = chunk->bytes + chunk->size;
	const uint8_t *method = after_name(chunk->bytes, end);
	if (!method)
		method = chunk->bytes; /* Pillow: a name that does not end has length -1 */
	if (method >= end)
		return refuse(walk, chunk->name, "no compression method");
	if (*method)
		return refuse(walk, chunk->name, "an unknown compression method");
	return judge_inflated(walk, chunk, method + 1);
}

static int read_text(struct pngwalk *walk, const struct chunk *chunk)
{
	const uint8_t *text = after_name(chunk->bytes, chunk->bytes + chunk->size);
	if (text)
		walk->inflated += (uint64_t)(chunk->bytes + chunk->size - text);
	return walk->inflated > PNGWALK_INFLATE_BYTES
		       ? refuse(walk, chunk->name, "texts grow beyond 64 MiB")
		       : DECODE_OK;
}

static int read_compressed_text(struct pngwalk *walk, const struct chunk *chunk)
{
	const uint8_t *end = chunk->bytes + chunk->size;
	const uint8_t *method = after_name(chunk->bytes, end);
	if (!method || method == end)
		return DECODE_OK;
	if (*method)
		return refuse(walk, chunk->name, "an unknown compression method");
	return judge_inflated(walk, chunk, method + 1);
}

/* Key, flag, method, language, translated key, text. Skips a malformed chunk. */
static int read_international_text(struct pngwalk *walk, const struct chunk *chunk)
{
	const uint8_t *end = chunk->bytes + chunk->size;
	const uint8_t *flags = after_name(chunk->bytes, end);
	if (!flags || end - flags < 2)
		return DECODE_OK;
	const uint8_t *key = after_name(flags + 2, end);
	const uint8_t *text = key ? after_name(key, end) : NULL;
	if (!text || (flags[0] && flags[1]))
		return DECODE_OK;
	if (flags[0])
		return judge_inflated(walk, chunk, text);
	return read_text(walk, chunk);
}

static int read_frame(struct pngwalk *walk, const struct chunk *chunk)
{
	if (chunk->size < 26)
		return refuse(walk, chunk->name, "shorter than 26 bytes");
	uint32_t sequence = be32(chunk->bytes);
	if (walk->sequence + 1 != (int64_t)sequence)
		return refuse(walk, chunk->name, "out of sequence");
	walk->sequence = sequence;
	uint32_t width = be32(chunk->bytes + 4), height = be32(chunk->bytes + 8);
	uint64_t x = be32(chunk->bytes + 12), y = be32(chunk->bytes + 16);
	if (x + width > walk->width || y + height > walk->height)
		return refuse(walk, chunk->name, "a frame that reaches beyond the image");
	walk->frame_seen = true;
	walk->frame_partial = width != walk->width || height != walk->height;
	return DECODE_OK;
}

/* An animation states its number of frames. One that states it twice, or states 0, is a still
 * image. */
static int read_animation(struct pngwalk *walk, const struct chunk *chunk)
{
	if (chunk->size < 8)
		return refuse(walk, chunk->name, "shorter than 8 bytes");
	uint32_t frames = be32(chunk->bytes);
	if (walk->frames)
		walk->frames = 0;
	else if (frames <= 0x80000000u)
		walk->frames = frames;
	return DECODE_OK;
}

static int at_least(struct pngwalk *walk, const struct chunk *chunk, uint32_t bytes)
{
	return chunk->size < bytes ? refuse(walk, chunk->name, "too short") : DECODE_OK;
}

/* Judges a chunk whose data is complete. */
static int read_chunk(struct pngwalk *walk, const struct chunk *chunk)
{
	static const struct {
		const char *name;
		int (*read)(struct pngwalk *, const struct chunk *);
		uint32_t least;
	} known[] = {
		{"IHDR", read_header, 0},
		{"PLTE", read_palette, 0},
		{"tRNS", read_transparency, 0},
		{"iCCP", read_profile, 0},
		{"tEXt", read_text, 0},
		{"zTXt", read_compressed_text, 0},
		{"iTXt", read_international_text, 0},
		{"fcTL", read_frame, 0},
		{"acTL", read_animation, 0},
		{"gAMA", NULL, 4},
		{"cHRM", NULL, 32},
		{"sRGB", NULL, 1},
		{"pHYs", NULL, 9},
	};
	for (size_t i = 0; i < UTIL_COUNT(known); i++)
		if (is(chunk, known[i].name))
			return known[i].read ? known[i].read(walk, chunk)
					     : at_least(walk, chunk, known[i].least);
	return DECODE_OK;
}

/* A chunk of an animation's data begins with its sequence number. */
static int read_animation_data(struct pngwalk *walk, struct chunk *chunk)
{
	if (chunk->size < SEQUENCE)
		return refuse(walk, chunk->name, "shorter than 4 bytes");
	if (walk->size - walk->at < SEQUENCE)
		return cut(walk, chunk->name);
	uint32_t sequence = be32(chunk->bytes);
	if (walk->sequence < 0 || walk->sequence + 1 != (int64_t)sequence)
		return refuse(walk, chunk->name, "out of sequence");
	walk->sequence = sequence;
	chunk->bytes += SEQUENCE;
	chunk->size -= SEQUENCE;
	walk->at += SEQUENCE;
	return CHUNK_PIXELS;
}

/* Makes this chunk the current chunk of pixels. The place moves past its data, as far as the file
 * has it. */
static void set_pixels(struct pngwalk *walk, const struct chunk *chunk)
{
	size_t left = walk->size - walk->at;
	walk->pixels = chunk->bytes;
	walk->pixels_cut = chunk->size > left;
	walk->pixels_left = UTIL_MIN((size_t)chunk->size, left);
	walk->at += walk->pixels_left;
}

/* Reads the data of a chunk whose head was read. Returns an outcome, CHUNK_PIXELS (after
 * set_pixels), or CHUNK_END. */
static int step(struct pngwalk *walk, struct chunk *chunk)
{
	if (is(chunk, "IEND"))
		return CHUNK_END;
	int kind = DECODE_OK;
	if (is(chunk, "fdAT"))
		kind = read_animation_data(walk, chunk);
	else if (is(chunk, "IDAT") && walk->known)
		kind = CHUNK_PIXELS;
	if (kind > DECODE_OK)
		return kind;
	if (kind == CHUNK_PIXELS) {
		set_pixels(walk, chunk);
		return CHUNK_PIXELS;
	}
	if (chunk->size > walk->size - walk->at)
		return cut(walk, chunk->name);
	walk->at += chunk->size;
	return read_chunk(walk, chunk);
}

static int check_sum(struct pngwalk *walk, const struct chunk *chunk)
{
	if (walk->size - walk->at < CHUNK_CRC)
		return cut(walk, chunk->name);
	uLong sum = crc32(0, (const Bytef *)chunk->name, 4);
	sum = crc32_z(sum, chunk->bytes, chunk->size);
	if (sum != be32(walk->data + walk->at))
		return refuse(walk, chunk->name, "a wrong checksum");
	walk->at += CHUNK_CRC;
	return DECODE_OK;
}

static int judge_transparency(struct pngwalk *walk)
{
	if (walk->transparent_index && !walk->palette_seen)
		return sentence_set(walk->sentence, DECODE_E_CORRUPT,
			"PNG: transparency for a palette that is missing");
	return DECODE_OK;
}

static int judge_begun(struct pngwalk *walk)
{
	if (!walk->known)
		return sentence_set(walk->sentence, DECODE_E_UNSUPPORTED,
			"PNG: a depth or color type that PNG does not allow");
	if (walk->width == 0 || walk->height == 0)
		return sentence_set(
			walk->sentence, DECODE_E_CORRUPT, "PNG: the width or height is 0");
	if (walk->frame_partial)
		return sentence_set(walk->sentence, DECODE_E_UNSUPPORTED,
			"PNG: a first frame that does not cover the image");
	return judge_transparency(walk);
}

int pngwalk_begin(struct pngwalk *walk, const uint8_t *data, size_t size, struct scratch *scratch,
	struct sentence *sentence)
{
	*walk = (struct pngwalk){.data = data,
		.size = size,
		.at = SIGNATURE,
		.sequence = -1,
		.scratch = scratch,
		.sentence = sentence};
	for (;;) {
		struct chunk chunk;
		if (!read_head(walk, &chunk))
			return sentence_set(sentence,
				size - walk->at < CHUNK_HEAD ? DECODE_E_TRUNCATED
							     : DECODE_E_CORRUPT,
				"PNG: no chunk at byte %zu, before any pixels", walk->at);
		int kind = step(walk, &chunk);
		if (kind == CHUNK_PIXELS)
			return judge_begun(walk);
		if (kind == CHUNK_END)
			return sentence_set(sentence, DECODE_E_CORRUPT, "PNG: no pixels");
		if (kind == DECODE_OK)
			kind = check_sum(walk, &chunk);
		if (kind)
			return kind;
	}
}

static void skip_sum(struct pngwalk *walk)
{
	walk->at += UTIL_MIN((size_t)CHUNK_CRC, walk->size - walk->at);
}

int pngwalk_next(struct pngwalk *walk)
{
	struct chunk chunk;
	skip_sum(walk);
	if (walk->pixels_cut || !read_head(walk, &chunk))
		return sentence_set(
			walk->sentence, DECODE_E_TRUNCATED, "PNG: the file ends in its pixels");
	if (is(&chunk, "DDAT")) {
		set_pixels(walk, &chunk);
		return DECODE_OK;
	}
	if (!is(&chunk, "IDAT") && !is(&chunk, "fdAT"))
		return sentence_set(walk->sentence, DECODE_E_TRUNCATED,
			"PNG: pixels are missing before chunk %s", chunk.name);
	int kind = step(walk, &chunk);
	return kind == CHUNK_PIXELS ? DECODE_OK : kind;
}

int pngwalk_finish(struct pngwalk *walk)
{
	uint8_t palette[PNGWALK_PALETTE][3];
	bool seen = walk->palette_seen;
	memcpy(palette, walk->palette, sizeof(palette));
	/* An image outside its animation counts as a frame. */
	bool animated = walk->frames && (uint64_t)walk->frames + !walk->frame_seen > 1;
	for (;;) {
		struct chunk chunk;
		skip_sum(walk);
		if (!read_head(walk, &chunk) || (animated && is(&chunk, "fcTL")))
			break;
		int kind = step(walk, &chunk);
		if (kind == CHUNK_PIXELS && walk->pixels_cut)
			return cut(walk, chunk.name);
		if (kind == CHUNK_END)
			break;
		if (kind > DECODE_OK)
			return kind;
	}
	/* A palette after the pixels comes too late to count; a transparency does not. */
	memcpy(walk->palette, palette, sizeof(palette));
	walk->palette_seen = seen;
	return judge_transparency(walk);
}

uint64_t pngwalk_scratch_bytes(void)
{
	return 64 << 10; /* zlib's inflate: a window of 32 KiB and its state */
}
