/* hostile: files that cost as much as files of so many pixels can, for what the limits of the
 * decoder are measured and tested by. Written symbol by symbol: their codes are all 16 bits long,
 * which no table of any decoder holds, and their values so large that few bytes are gained, but for
 * one scan of everything no larger than the own decoder takes.
 *
 * Kinds: `empty`: scans of a few bytes that make libjpeg walk all blocks. `refine`: every
 * coefficient is corrected by a bit nobody can foretell, in scan after scan. `dense`: a first AC
 * scan, again and again. `components`: sequential scans of one component after the other, again and
 * again. `baseline`: one scan, all 63 coefficients of all blocks. `late`: the same with its last
 * bytes missing, so that the own decoder steps back when it has decoded everything. `restart`: with
 * a marker per MCU. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum hostile_kind {
	HOSTILE_EMPTY,
	HOSTILE_REFINE,
	HOSTILE_DENSE,
	HOSTILE_COMPONENTS,
	HOSTILE_BASELINE,
	HOSTILE_LATE,
	HOSTILE_RESTART,
	HOSTILE_ODD,
	HOSTILE_KINDS,
};

static const char *const hostile_names[HOSTILE_KINDS] = {
	"empty", "refine", "dense", "components", "baseline", "late", "restart", "odd"};

struct hostile {
	uint8_t *bytes; /* malloc'ed, 64 readable after `size` */
	size_t size, capacity;
	uint64_t acc;
	unsigned bits;
	uint32_t random;
	unsigned high; /* what 16-bit AC codes begin behind */
};

static inline void hostile_byte(struct hostile *h, unsigned byte)
{
	enum { BEHIND = 64 };
	if (h->size + BEHIND >= h->capacity) {
		h->capacity = 2 * h->capacity + (1 << 20);
		h->bytes = realloc(h->bytes, h->capacity);
		if (!h->bytes)
			abort();
	}
	h->bytes[h->size++] = (uint8_t)byte;
}

static inline void hostile_text(struct hostile *h, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hostile_byte(h, bytes[i]);
}

static inline void hostile_bits(struct hostile *h, unsigned value, unsigned count)
{
	h->acc = h->acc << count | (value & ((1u << count) - 1));
	for (h->bits += count; h->bits >= 8; h->bits -= 8) {
		unsigned byte = (unsigned)(h->acc >> (h->bits - 8)) & 255;
		hostile_byte(h, byte);
		if (byte == 0xff)
			hostile_byte(h, 0);
	}
}

static inline void hostile_fill(struct hostile *h)
{
	if (h->bits)
		hostile_bits(h, 0x7f, 8 - h->bits);
}

static inline unsigned hostile_random(struct hostile *h)
{
	h->random = h->random * 1664525 + 1013904223; /* Numerical Recipes' generator */
	return h->random >> 8;
}

/* A table all of whose codes have 16 bits, a symbol's code being its place; but the first one's,
 * which may have a single bit: then the others come behind 8000. */
static inline void hostile_table(
	struct hostile *h, unsigned number, const uint8_t *symbols, uint8_t count, bool first_short)
{
	const uint8_t head[] = {0xff, 0xc4, 0, (uint8_t)(19 + count), (uint8_t)number, first_short};
	hostile_text(h, head, sizeof(head));
	for (int i = 1; i < 15; i++)
		hostile_byte(h, 0);
	hostile_byte(h, count - first_short);
	hostile_text(h, symbols, count);
}

static inline void hostile_begin(
	struct hostile *h, unsigned frame, unsigned width, unsigned height, unsigned components)
{
	const uint8_t start[] = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
	hostile_text(h, start, sizeof(start));
	for (int i = 0; i < 64; i++)
		hostile_byte(h, 1);
	const uint8_t head[] = {0xff, (uint8_t)frame, 0, (uint8_t)(8 + 3 * components), 8,
		(uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8), (uint8_t)width,
		(uint8_t)components};
	hostile_text(h, head, sizeof(head));
	for (unsigned i = 0; i < components; i++) {
		const uint8_t component[] = {(uint8_t)(i + 1), 0x11, 0};
		hostile_text(h, component, sizeof(component));
	}
}

/* One component's or all components' scan. `first` to `last`: coefficients; `from`, `to`: bits. */
static inline void hostile_scan(struct hostile *h, unsigned component, unsigned components,
	unsigned first, unsigned last, unsigned bits)
{
	const uint8_t head[] = {0xff, 0xda, 0, (uint8_t)(6 + 2 * components), (uint8_t)components};
	hostile_text(h, head, sizeof(head));
	for (unsigned i = 0; i < components; i++) {
		hostile_byte(h, component + i + 1);
		hostile_byte(h, 0);
	}
	hostile_byte(h, first);
	hostile_byte(h, last);
	hostile_byte(h, bits);
}

static const uint8_t hostile_dc[] = {0, 1, 11};
static const uint8_t hostile_ac[] = {1, 0, 0xe0, 10, 5};
enum { DC_NONE, DC_ONE, DC_LARGE };
enum { AC_ONE, AC_END, AC_MANY_ENDS, AC_LARGE, AC_TAME };

/* All blocks' ends in codes for 2^14 .. 2^15 - 1 of them; `correct` further bits per block. */
static inline void hostile_ends(struct hostile *h, uint64_t blocks, unsigned correct)
{
	enum { LEAST = 1 << 14 };
	while (blocks >= LEAST) {
		uint64_t run = blocks < 2 * LEAST ? blocks : 2 * LEAST - 1;
		hostile_bits(h, h->high + AC_MANY_ENDS, 16);
		hostile_bits(h, (unsigned)(run - LEAST), 14);
		for (uint64_t i = 0; i < run * correct; i += 21)
			hostile_bits(h, hostile_random(h),
				run * correct - i < 21 ? (unsigned)(run * correct - i) : 21);
		blocks -= run;
	}
	for (; blocks; blocks--) {
		hostile_bits(h, h->high + AC_END, 16);
		for (unsigned i = 0; i < correct; i += 21)
			hostile_bits(h, hostile_random(h), 21);
	}
	hostile_fill(h);
}

/* All 63 coefficients of each block. */
static inline void hostile_full(struct hostile *h, unsigned symbol, unsigned size)
{
	for (int k = 1; k < 64; k++) {
		hostile_bits(h, symbol, h->high && symbol == AC_ONE ? 1 : 16);
		hostile_bits(h, hostile_random(h), size);
	}
}

static inline void hostile_progressive(
	struct hostile *h, enum hostile_kind kind, uint64_t blocks, unsigned scans)
{
	hostile_scan(h, 0, 1, 0, 0, 0);
	for (uint64_t i = 0; i < blocks; i++)
		hostile_bits(h, DC_NONE, 16);
	hostile_fill(h);
	for (unsigned scan = 1; scan < scans; scan++) {
		bool first = kind == HOSTILE_DENSE || (kind == HOSTILE_REFINE && scan == 1);
		hostile_scan(h, 0, 1, 1, 63,
			kind == HOSTILE_REFINE && scan > 1 ? 0x10 : kind == HOSTILE_REFINE);
		for (uint64_t i = 0; first && i < blocks; i++)
			hostile_full(h, kind == HOSTILE_DENSE ? AC_LARGE : AC_ONE,
				kind == HOSTILE_DENSE ? 10 : 1);
		if (first)
			hostile_fill(h);
		else
			hostile_ends(h, blocks, kind == HOSTILE_REFINE ? 63 : 0);
	}
}

static inline void hostile_block(struct hostile *h)
{
	hostile_bits(h, DC_ONE, 16);
	hostile_bits(h, h->random >> 31, 1);
	hostile_full(h, AC_TAME, 5);
}

static inline void hostile_sequential(
	struct hostile *h, enum hostile_kind kind, uint64_t blocks, unsigned scans)
{
	if (kind == HOSTILE_COMPONENTS) {
		for (unsigned scan = 0; scan < scans; scan++) {
			hostile_scan(h, scan % 3, 1, 0, 63, 0);
			for (uint64_t i = 0; i < blocks; i++)
				hostile_block(h);
			hostile_fill(h);
		}
		return;
	}
	const uint8_t interval[] = {0xff, 0xdd, 0, 4, 0, 1};
	bool markers = kind == HOSTILE_RESTART || kind == HOSTILE_ODD;
	if (markers)
		hostile_text(h, interval, sizeof(interval));
	hostile_scan(h, 0, 3, 0, 63, 0);
	for (uint64_t i = 0; i < blocks; i++) {
		if (i && markers) {
			hostile_fill(h);
			hostile_byte(h, 0xff);
			hostile_byte(
				h, 0xd0 + (kind == HOSTILE_ODD ? hostile_random(h) : i - 1) % 8);
		}
		for (int component = 0; component < 3; component++)
			hostile_block(h);
	}
	hostile_fill(h);
	if (kind == HOSTILE_LATE)
		h->size -= 8;
}

/* The caller frees .bytes. */
static inline struct hostile hostile_make(
	enum hostile_kind kind, unsigned width, unsigned height, unsigned scans)
{
	struct hostile h = {.random = 1};
	uint64_t blocks = (uint64_t)((width + 7) / 8) * ((height + 7) / 8);
	bool progressive = kind <= HOSTILE_DENSE;
	hostile_begin(&h, progressive ? 0xc2 : 0xc1, width, height, progressive ? 1 : 3);
	hostile_table(&h, 0, hostile_dc, sizeof(hostile_dc), false);
	hostile_table(&h, 0x10, hostile_ac, sizeof(hostile_ac), kind == HOSTILE_REFINE);
	h.high = kind == HOSTILE_REFINE ? 0x7fff : 0;
	if (progressive)
		hostile_progressive(&h, kind, blocks, scans);
	else
		hostile_sequential(&h, kind, blocks, scans);
	hostile_byte(&h, 0xff);
	hostile_byte(&h, 0xd9);
	return h;
}
