/* gif: the first frame of a GIF, read by Pillow's rules (Pillow 13.0.0, GifImagePlugin.py and
 * libImaging/GifDecode.c).
 *
 * The image has the size of the screen, or more where the frame reaches beyond it. Pixels outside
 * the frame have the transparent index where there is one, and index 0 otherwise. A palette in
 * which each entry is the gray of its index is not used: the frame has the screen's palette then,
 * or none. Transparency does not change a color.
 *
 * Pillow reads the data in pieces of 64 KiB, each when the blocks before are used up. After an end
 * code it goes on only if the file has another piece. */
#include "decode/types/types.h"

#include "base/util.h"
#include "decode/types/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SCREEN_BYTES = 13,
	FRAME_BYTES = 9,
	BITS_MOST = 12,
	TABLE = 1 << BITS_MOST,
	PIECE_BYTES = 65536,
	HAS_PALETTE = 0x80,
	INTERLACED = 0x40,
	EXTENSION = '!',
	FRAME = ',',
	TRAILER = ';',
	CONTROL = 249,
	COMMENT = 254,
	APPLICATION = 255,
};

struct gif {
	struct scratch *scratch;
	struct sentence *sentence;
	struct types_bytes file;
	uint32_t width, height;
	uint32_t left, top, across, down; /* the frame */
	bool interlaced;
	uint8_t bits; /* of the first codes, without the one that is added */
	uint8_t outside; /* the index of pixels outside the frame */
	size_t at; /* of the frame's data */
	const uint8_t *palette; /* in the file; NULL: gray */
	size_t colors;
	size_t shown; /* of the file: the pieces that were read */
	uint8_t *pixels; /* of the frame: indices */
	struct types_row row;
	/* LZW: what each code adds, and the code before it. */
	uint8_t last[TABLE + 1];
	uint16_t link[TABLE + 1];
	uint8_t text[TABLE]; /* of a code, from its end */
};

static bool gif_sniff(const uint8_t *data, size_t size)
{
	return size >= 6 && (!memcmp(data, "GIF87a", 6) || !memcmp(data, "GIF89a", 6));
}

static int gif_make(const struct reader_tools *tools, void **ret)
{
	struct gif *gif = calloc(1, sizeof(*gif));
	if (!gif)
		return -ENOMEM;
	gif->scratch = tools->scratch;
	gif->sentence = tools->sentence;
	*ret = gif;
	return 0;
}

static uint64_t gif_bytes(void)
{
	return sizeof(struct gif);
}

static int cut(const struct gif *gif, const char *where)
{
	return sentence_set(
		gif->sentence, DECODE_E_TRUNCATED, "GIF: the file ends in its %s", where);
}

/* A block of an extension; false: none, since its length is 0 or the file ends. */
static bool next_block(struct gif *gif, const uint8_t **ret, size_t *ret_size)
{
	if (gif->at >= gif->file.size)
		return false;
	size_t size = gif->file.data[gif->at++];
	*ret = gif->file.data + gif->at;
	*ret_size = UTIL_MIN(size, gif->file.size - gif->at);
	gif->at += *ret_size;
	return *ret_size;
}

/* Reads a palette of 2 to the power of `bits` colors, and takes it into use unless it is that of
 * grays. */
static int read_palette(struct gif *gif, unsigned bits)
{
	size_t colors = (size_t)1 << bits;
	if (!types_has(&gif->file, gif->at, colors * 3))
		return cut(gif, "palette");
	const uint8_t *palette = gif->file.data + gif->at;
	gif->at += colors * 3;
	for (size_t i = 0; i < colors; i++)
		if (palette[i * 3] != i || palette[i * 3 + 1] != i || palette[i * 3 + 2] != i) {
			gif->palette = palette;
			gif->colors = colors;
			break;
		}
	return DECODE_OK;
}

static int read_extension(struct gif *gif)
{
	static const char netscape[] = "NETSCAPE2.0";
	const uint8_t *block;
	size_t size;
	if (gif->at >= gif->file.size)
		return cut(gif, "extension");
	unsigned kind = gif->file.data[gif->at++];
	bool found = next_block(gif, &block, &size);
	if (kind == COMMENT) {
		while (found)
			found = next_block(gif, &block, &size);
		return DECODE_OK;
	}
	if (kind == CONTROL && found) {
		if (size < 3 || (block[0] & 1 && size < 4))
			return sentence_set(gif->sentence, DECODE_E_CORRUPT,
				"GIF: a graphic control extension of %zu bytes; expected 4", size);
		if (block[0] & 1)
			gif->outside = block[3];
	}
	if (kind == APPLICATION && found && size >= sizeof(netscape) - 1 &&
		!memcmp(block, netscape, sizeof(netscape) - 1))
		(void)next_block(gif, &block, &size);
	while (next_block(gif, &block, &size))
		;
	return DECODE_OK;
}

static int read_frame(struct gif *gif)
{
	if (!types_has(&gif->file, gif->at, FRAME_BYTES))
		return cut(gif, "frame's header");
	const uint8_t *frame = gif->file.data + gif->at;
	gif->at += FRAME_BYTES;
	gif->left = types_get16(frame);
	gif->top = types_get16(frame + 2);
	gif->across = types_get16(frame + 4);
	gif->down = types_get16(frame + 6);
	gif->width = UTIL_MAX(gif->width, gif->left + gif->across);
	gif->height = UTIL_MAX(gif->height, gif->top + gif->down);
	gif->interlaced = frame[8] & INTERLACED;
	if (frame[8] & HAS_PALETTE) {
		int outcome = read_palette(gif, (frame[8] & 7u) + 1);
		if (outcome)
			return outcome;
	}
	if (gif->at >= gif->file.size)
		return cut(gif, "frame's header");
	gif->bits = gif->file.data[gif->at++];
	if (gif->bits > BITS_MOST || !gif->across || !gif->down)
		return sentence_set(gif->sentence, DECODE_E_CORRUPT,
			"GIF: a frame of %u x %u pixels in codes of %u bits", gif->across,
			gif->down, gif->bits);
	return DECODE_OK;
}

/* Reads up to the data of the first frame. */
static int read_head(struct gif *gif)
{
	const uint8_t *data = gif->file.data;
	int outcome = DECODE_OK;
	if (gif->file.size < SCREEN_BYTES)
		return cut(gif, "header");
	gif->width = types_get16(data + 6);
	gif->height = types_get16(data + 8);
	gif->palette = NULL;
	gif->outside = 0;
	gif->at = SCREEN_BYTES;
	if (data[10] & HAS_PALETTE)
		outcome = read_palette(gif, (data[10] & 7u) + 1);
	while (!outcome) {
		unsigned kind = gif->at < gif->file.size ? data[gif->at++] : TRAILER;
		if (kind == TRAILER)
			return sentence_set(
				gif->sentence, DECODE_E_CORRUPT, "GIF: it has no frame");
		if (kind == FRAME)
			return read_frame(gif);
		if (kind == EXTENSION)
			outcome = read_extension(gif);
	}
	return outcome;
}

static int gif_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct gif *gif = self;
	gif->file = (struct types_bytes){data, size};
	int outcome = read_head(gif);
	if (!outcome)
		outcome = reader_check_size(gif->sentence, limits, "GIF", gif->width, gif->height);
	if (outcome)
		return outcome;
	*ret = (struct decode_info){
		.width = gif->width, .height = gif->height, .format = DECODE_GIF};
	return DECODE_OK;
}

static uint64_t gif_need(void *self, bool spilled)
{
	const struct gif *gif = self;
	(void)spilled;
	return types_row_bytes(gif->width) + (uint64_t)gif->across * gif->down + SCRATCH_ALIGN;
}

/* The state of LZW, and where the next pixel goes. */
struct lzw {
	uint32_t bits; /* read ahead, the next one lowest */
	unsigned have, block; /* bits in `bits`; bytes left of the block */
	unsigned clear, next, width; /* codes; bits of a code */
	unsigned before; /* the last code */
	uint8_t first; /* the first index of what the last code stood for */
	bool fresh; /* no code since the last clear code */
	uint32_t x, y, step, pass; /* pass: of an interlaced frame, 4 is the last one */
};

static void lzw_clear(struct gif *gif, struct lzw *lzw)
{
	lzw->clear = 1u << gif->bits;
	lzw->next = lzw->clear + 2;
	lzw->width = gif->bits + 1u;
	lzw->fresh = true;
}

/* Reads another piece of the file. False: there is none. */
static bool show_more(struct gif *gif)
{
	if (gif->shown >= gif->file.size)
		return false;
	gif->shown += UTIL_MIN(gif->file.size - gif->shown, (size_t)PIECE_BYTES);
	return true;
}

/* Begins the next block, once all of it was read. False: the file ends before. */
static bool begin_block(struct gif *gif, struct lzw *lzw)
{
	while (gif->at >= gif->shown || gif->file.data[gif->at] > gif->shown - gif->at - 1)
		if (!show_more(gif))
			return false;
	lzw->block = gif->file.data[gif->at++];
	return true;
}

/* The next code. False: the file ends. */
static bool lzw_code(struct gif *gif, struct lzw *lzw, unsigned *ret)
{
	while (lzw->have < lzw->width) {
		if (!lzw->block) {
			if (!begin_block(gif, lzw))
				return false;
			continue;
		}
		lzw->block--;
		lzw->bits |= (uint32_t)gif->file.data[gif->at++] << lzw->have;
		lzw->have += 8;
	}
	*ret = lzw->bits & ((1u << lzw->width) - 1);
	lzw->bits >>= lzw->width;
	lzw->have -= lzw->width;
	return true;
}

/* Goes on to the next row, or the next pass. False: all rows are complete. */
static bool next_row(const struct gif *gif, struct lzw *lzw)
{
	static const uint8_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
	lzw->x = 0;
	lzw->y += lzw->step;
	while (lzw->y >= gif->down) {
		if (lzw->pass + 1 >= sizeof(first))
			return false;
		lzw->pass++;
		lzw->y = first[lzw->pass];
		lzw->step = step[lzw->pass];
	}
	return true;
}

/* Finds what a code stands for, as text[*ret_from ..]. False: no code before it allows it. */
static bool lzw_expand(struct gif *gif, struct lzw *lzw, unsigned code, unsigned *ret_from)
{
	unsigned from = TABLE, at = code;
	if (lzw->fresh) {
		if (code > lzw->clear)
			return false;
		lzw->fresh = false;
		lzw->first = (uint8_t)code;
		lzw->before = code;
		gif->text[--from] = lzw->first;
		*ret_from = from;
		return true;
	}
	if (code > lzw->next)
		return false;
	if (code == lzw->next) {
		gif->text[--from] = lzw->first;
		at = lzw->before;
	}
	while (at >= lzw->clear) {
		if (!from || at >= TABLE)
			return false;
		gif->text[--from] = gif->last[at];
		at = gif->link[at];
	}
	lzw->first = (uint8_t)at;
	if (lzw->next < TABLE) {
		gif->last[lzw->next] = lzw->first;
		gif->link[lzw->next] = (uint16_t)lzw->before;
		if (lzw->next == (1u << lzw->width) - 1 && lzw->width < BITS_MOST)
			lzw->width++;
		lzw->next++;
	}
	lzw->before = code;
	if (!from)
		return false;
	gif->text[--from] = lzw->first;
	*ret_from = from;
	return true;
}

/* Writes the indices of a code. False: all rows are complete, up to `until` where they come in
 * order. */
static bool lzw_write(struct gif *gif, struct lzw *lzw, unsigned from, uint32_t until)
{
	for (; from < TABLE; from++) {
		gif->pixels[(size_t)lzw->y * gif->across + lzw->x] = gif->text[from];
		if (++lzw->x < gif->across)
			continue;
		if (!next_row(gif, lzw) || (!gif->interlaced && lzw->y >= until))
			return false;
	}
	return true;
}

/* Unpacks the frame's rows up to `until`. */
static int unpack(struct gif *gif, uint32_t until)
{
	struct lzw lzw = {
		.step = gif->interlaced ? 8 : 1, .pass = gif->interlaced ? 0 : UINT32_MAX / 2};
	unsigned code = 0, from = 0;
	gif->shown = gif->at;
	(void)show_more(gif);
	lzw_clear(gif, &lzw);
	while (lzw_code(gif, &lzw, &code)) {
		if (code == lzw.clear) {
			lzw_clear(gif, &lzw);
			continue;
		}
		if (code == lzw.clear + 1) {
			if (!show_more(gif))
				break;
			continue;
		}
		if (!lzw_expand(gif, &lzw, code, &from))
			return sentence_set(gif->sentence, DECODE_E_CORRUPT,
				"GIF: code %u, when the next one to be made is %u", code, lzw.next);
		if (!lzw_write(gif, &lzw, from, until))
			return DECODE_OK;
	}
	return cut(gif, "pixels");
}

static void deliver(struct gif *gif, uint32_t y, struct decode_region region)
{
	const uint8_t *from = y >= gif->top && y - gif->top < gif->down
				      ? gif->pixels + (size_t)(y - gif->top) * gif->across
				      : NULL;
	for (uint32_t x = region.x0; x < region.x1; x++) {
		bool inside = from && x >= gif->left && x - gif->left < gif->across;
		unsigned index = inside ? from[x - gif->left] : gif->outside;
		for (unsigned c = 0; c < DECODE_PLANES; c++) {
			unsigned color = index;
			if (gif->palette)
				color = index < gif->colors ? gif->palette[index * 3 + c] : 0;
			gif->row.rgb[c][x - region.x0] = (uint8_t)color;
		}
	}
}

static int gif_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct gif *gif = self;
	gif->pixels = scratch_take(gif->scratch, (size_t)gif->across * gif->down);
	if (!types_row_take(&gif->row, gif->scratch, gif->width) || !gif->pixels)
		return types_no_room(gif->sentence, "GIF");
	uint32_t until = region.y1 > gif->top ? region.y1 - gif->top : 0;
	int outcome = DECODE_OK;
	if (until || to_end)
		outcome = unpack(gif, to_end ? gif->down : until);
	for (uint32_t y = region.y0; !outcome && y < region.y1; y++) {
		deliver(gif, y, region);
		types_row_give(&gif->row, row, context);
	}
	return outcome;
}

static void gif_end(void *self)
{
	struct gif *gif = self;
	gif->pixels = NULL;
}

const struct reader types_gif = {
	.format = DECODE_GIF,
	.name = "GIF",
	.library = "penstock",
	.sniff = gif_sniff,
	.make = gif_make,
	.unmake = free,
	.bytes = gif_bytes,
	.begin = gif_begin,
	.rows = gif_rows,
	.end = gif_end,
	.need = gif_need,
};
