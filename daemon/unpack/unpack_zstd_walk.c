/* unpack_zstd_walk: see unpack_zstd_walk.h, and RFC 8878 for the format. */
#include "unpack/unpack_zstd_walk.h"

#include "base/util.h"

#include <string.h>

enum { UNIT_FRAME, UNIT_BLOCK, UNIT_BODY };
enum { BLOCK_RAW, BLOCK_RLE, BLOCK_COMPRESSED, BLOCK_HEAD = 3 };
/* The descriptor of a frame. */
enum { FRAME_LEAST = 6, FRAME_SINGLE = 1 << 5, FRAME_RESERVED = 1 << 3, FRAME_DICTIONARY = 3 };
enum { WINDOW_LOG_LEAST = 10 };

/* A shadow is given up for a younger one when it is so old, and the other half of that: after this
 * many windows, or bytes if the window is large. */
enum { SHADOW_WINDOWS = 4, SHADOW_AGE_MOST = 2 << 20 };

static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};

void zstd_walk_opening(uint8_t window, uint8_t ret[ZSTD_WALK_OPENING])
{
	memcpy(ret, magic, sizeof magic);
	ret[4] = 0; /* a window, no size, no checksum, no dictionary */
	ret[5] = window;
}

void zstd_walk_deinit(struct zstd_walk *walk)
{
	for (size_t i = 0; i < UNPACK_SHADOWS; i++) {
		(void)ZSTD_freeDCtx(walk->context[i]);
		walk->context[i] = NULL;
	}
}

void zstd_walk_begin(struct zstd_walk *walk)
{
	walk->on = true;
	walk->unit = UNIT_FRAME;
	walk->left = FRAME_LEAST;
	walk->head_size = 0;
	walk->known = walk->last = walk->drains = walk->sampled = false;
	walk->now = (struct zstd_place){0, 0};
	walk->at = 0;
	walk->compressed_begin = walk->compressed_end = walk->before_end = 0;
	for (size_t i = 0; i < UNPACK_SHADOWS; i++)
		walk->shadow[i].live = false;
}

size_t zstd_walk_limit(const struct zstd_walk *walk)
{
	return walk->drains ? 0 : (size_t)UTIL_MIN(walk->left, (uint64_t)SIZE_MAX);
}

/* ---- shadows ---- */

static void shadow_begin(struct zstd_walk *walk, unsigned i)
{
	struct unpack_shadow *shadow = &walk->shadow[i];
	uint8_t opening[ZSTD_WALK_OPENING];
	ZSTD_inBuffer from = {.src = opening, .size = sizeof opening};
	ZSTD_outBuffer to = {.dst = walk->out, .size = sizeof walk->out};
	if (!walk->context[i])
		walk->context[i] = ZSTD_createDCtx();
	/* Without memory there is one less. */
	shadow->live = walk->context[i] &&
		       !ZSTD_isError(ZSTD_DCtx_reset(walk->context[i], ZSTD_reset_session_only));
	if (!shadow->live)
		return;
	zstd_walk_opening(walk->window, opening);
	shadow->live = !ZSTD_isError(ZSTD_decompressStream(walk->context[i], &to, &from)) &&
		       from.pos == from.size;
	shadow->begin = shadow->good = walk->now.total;
	walk->begin[i] = walk->now;
}

static void shadows_renew(struct zstd_walk *walk)
{
	const uint64_t window = UINT64_C(1) << (WINDOW_LOG_LEAST + (walk->window >> 3));
	const unsigned which = unpack_shadow_renew(walk->shadow, walk->now.total, walk->at,
		UTIL_MIN(SHADOW_WINDOWS * window, (uint64_t)SHADOW_AGE_MOST));
	if (which < UNPACK_SHADOWS)
		shadow_begin(walk, which);
}

/* The shadow does what was done in the whole frame. */
static void shadow_step(struct zstd_walk *walk, unsigned i, const struct zstd_walk_done *done)
{
	struct unpack_shadow *shadow = &walk->shadow[i];
	ZSTD_inBuffer from = {.src = done->input, .size = done->size};
	ZSTD_outBuffer to = {.dst = walk->out, .size = done->room};
	const size_t found = ZSTD_decompressStream(walk->context[i], &to, &from);
	shadow->live = !ZSTD_isError(found) && from.pos == done->taken && to.pos == done->made;
	if (shadow->live && memcmp(walk->out, done->out, done->made) != 0)
		shadow->good = walk->now.total + done->made;
}

/* ---- units ---- */

/* The frame's head has `head_size` bytes so far. Sets `left`, or `on` to false. */
static void frame_head(struct zstd_walk *walk)
{
	static const uint8_t sizes[] = {0, 2, 4, 8};
	const uint8_t descriptor = walk->head[4];
	const bool single = descriptor & FRAME_SINGLE;
	const unsigned flag = descriptor >> 6;
	const unsigned bytes = flag ? sizes[flag] : single;
	const unsigned all = sizeof magic + 1 + !single + bytes;
	if (memcmp(walk->head, magic, sizeof magic) != 0 ||
		descriptor & (FRAME_RESERVED | FRAME_DICTIONARY)) {
		walk->on = false;
		return;
	}
	walk->left = all - walk->head_size;
	if (walk->left)
		return;
	/* A frame with a single segment says its size instead of that of its window. */
	uint64_t size = bytes == 2 ? 256 : 0;
	for (unsigned i = 0; i < bytes; i++)
		size += (uint64_t)walk->head[all - bytes + i] << 8 * i;
	unsigned log = WINDOW_LOG_LEAST;
	while (log < 63 && UINT64_C(1) << log < size)
		log++;
	const unsigned window = single ? (log - WINDOW_LOG_LEAST) << 3 : walk->head[5];
	walk->window = (uint8_t)window;
	walk->on = walk->known = window <= PACKED_WINDOW_MOST;
}

static void block_next(struct zstd_walk *walk)
{
	walk->unit = UNIT_BLOCK;
	walk->left = BLOCK_HEAD;
	walk->head_size = 0;
	memmove(walk->recent, walk->recent + 1, sizeof walk->recent - sizeof walk->recent[0]);
	walk->recent[ZSTD_WALK_RECENT - 1] = walk->now;
	shadows_renew(walk);
}

static void block_head(struct zstd_walk *walk)
{
	const uint32_t head =
		walk->head[0] | (uint32_t)walk->head[1] << 8 | (uint32_t)walk->head[2] << 16;
	const unsigned kind = head >> 1 & 3;
	walk->last = head & 1;
	walk->unit = UNIT_BODY;
	walk->left = kind == BLOCK_RLE ? 1 : head >> 3;
	if (kind < BLOCK_COMPRESSED)
		return;
	walk->before_end = walk->compressed_end;
	walk->compressed_begin = walk->now.total;
	walk->compressed_end = UINT64_MAX;
}

/* All bytes of the unit were taken, and all that they unpack to was given out. */
static void unit_end(struct zstd_walk *walk)
{
	if (walk->unit == UNIT_FRAME) {
		frame_head(walk);
		if (!walk->on || walk->left)
			return;
		walk->first = walk->now;
		for (size_t i = 0; i < ZSTD_WALK_RECENT; i++)
			walk->recent[i] = walk->now;
		block_next(walk);
	} else if (walk->unit == UNIT_BLOCK) {
		block_head(walk);
		if (!walk->left)
			walk->drains = true;
	} else {
		walk->compressed_end = UTIL_MIN(walk->compressed_end, walk->now.total);
		/* Another frame may follow, of which there are no parts. */
		if (walk->last)
			walk->on = false;
		else
			block_next(walk);
	}
}

void zstd_walk_step(struct zstd_walk *walk, const struct zstd_walk_done *done)
{
	const bool drained = walk->drains || walk->left == done->taken;
	for (unsigned i = 0; i < UNPACK_SHADOWS; i++)
		if (walk->shadow[i].live)
			shadow_step(walk, i, done);
	for (size_t i = 0; walk->unit != UNIT_BODY && i < done->taken; i++)
		walk->head[walk->head_size++] = done->input[i];
	walk->now.from += done->taken;
	walk->now.total += done->made;
	walk->left -= done->taken;
	walk->drains = drained && done->made == done->room && !done->ended;
	if (drained && !walk->drains)
		unit_end(walk);
	/* libzstd has read an empty last block with its head. */
	if (done->ended)
		walk->on = walk->drains = false;
}

/* ---- samples ---- */

void zstd_walk_sample_begin(struct zstd_walk *walk, uint64_t at)
{
	walk->sampled = walk->known;
	walk->at = at;
	walk->sample = walk->first;
	for (size_t i = 0; i < ZSTD_WALK_RECENT; i++)
		if (walk->recent[i].total <= at)
			walk->sample = walk->recent[i];
}

/* Whether no block from the sample's first to its last byte, before `end`, is compressed. */
static bool sample_is_raw(const struct zstd_walk *walk, uint64_t end)
{
	const uint64_t begin = walk->sample.total;
	return walk->compressed_end <= begin ||
	       (walk->compressed_begin >= end && walk->before_end <= begin);
}

bool zstd_walk_sample_end(const struct zstd_walk *walk, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret)
{
	struct zstd_place place = walk->first;
	/* A frame after the first one is not followed. */
	if (!walk->sampled || walk->now.total < at + size)
		return false;
	const unsigned which = unpack_shadow_choose(walk->shadow, at);
	if (which < UNPACK_SHADOWS)
		place = walk->begin[which];
	if (sample_is_raw(walk, at + size))
		place = walk->sample;
	/* libzstd keeps a frame's last byte until all is given out. */
	const uint64_t to =
		walk->now.from + (walk->unit == UNIT_BODY && walk->last && walk->left == 1);
	if (to - place.from > UINT32_MAX || at - place.total + size > UINT32_MAX)
		return false;
	*ret_from = place.from;
	*ret = (struct packed){.stored = (uint32_t)(to - place.from),
		.inner = (uint32_t)(at - place.total),
		.whole = (uint32_t)(at - place.total) + size,
		.window = walk->window,
		.method = PACKED_ZSTD_PART};
	return true;
}
