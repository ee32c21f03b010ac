/* scans_body: decodes single scans of files that have several; see scans.h.
 *
 * Included by a .c file that sets SCANS_TABLE and SCANS_NAME, and compiled once per instruction
 * set. It may also define deposit(bits, to), which gives the lowest bits to the ones of `to` from
 * the bottom up; nth_one(of, n), the n-th one (from 0) of `of`, or 0; and apply(block, add, new,
 * negative, step), which refines a block. Each has a plain form here.
 *
 * A stream of bits is in a window as in lanes_scalar_body.h: for first scans from the top, for
 * refining scans from the bottom. No bounds are checked per symbol: a block takes less than
 * LANE_SLACK bytes, and the place is compared with the end after each block; with only DC, so does
 * an MCU, and the place is compared after each of these.
 *
 * A refining scan sends, for a block, runs over coefficients that are still zero, each with a new
 * one at its end, and between them a bit for each coefficient that the run passes and that is not
 * zero (T.81, G.1.2.3). Which these are depends only on the block's history. So the coefficients
 * are not looked at: three masks are collected and applied at once, to blocks that are kept. */
#include "decode/jpeg/scans/scan_tables.h"
#include "decode/jpeg/scans/scans.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
	WINDOW = 56,
	ADVANCE_SHIFT = 8,
	VALUE_SHIFT = 16,
	AC_BITS = 10, /* of a value of an 8-bit image */
};

struct bits {
	uint64_t window;
	uint32_t filled; /* its low 6 bits: how many bits of the window are valid */
	const uint8_t *at; /* what the window is refilled from */
	const uint8_t *limit; /* from here on the window is certainly past the segment's end */
	const uint8_t *bytes; /* the segment */
	uint64_t end; /* its bits */
};

/* A scan's state between two blocks. */
struct state {
	struct bits bits;
	uint32_t more; /* blocks that end without a symbol */
	int32_t dc[BLOCKS_COMPONENTS];
	size_t segment;
	uint32_t left; /* MCUs of the segment */
};

#ifndef SCANS_DEPOSIT
INLINE uint64_t deposit(uint64_t bits, uint64_t to)
{
	uint64_t deposited = 0;
	for (; to; to &= to - 1, bits >>= 1)
		deposited |= (to & -to) & -(bits & 1);
	return deposited;
}

INLINE uint64_t nth_one(uint64_t of, unsigned n)
{
	for (; n; n--)
		of &= of - 1;
	return of & -of;
}
#endif

#ifndef SCANS_APPLY
INLINE void apply(int16_t *block, uint64_t add, uint64_t new, uint64_t negative, int step)
{
	for (; add; add &= add - 1) {
		int16_t *to = &block[__builtin_ctzll(add)];
		*to = (int16_t)(*to + (*to < 0 ? -step : step));
	}
	for (; new; new &= new - 1)
		block[__builtin_ctzll(new)] = (int16_t)(negative & new & -new ? -step : step);
}
#endif

INLINE uint64_t bits_next(const struct bits *b)
{
	uint64_t next;
	memcpy(&next, b->at, sizeof(next));
	return next;
}

INLINE void refill_top(struct bits *b)
{
	b->window |= __builtin_bswap64(bits_next(b)) >> (b->filled & 63);
	b->at += ((b->filled & 63) ^ 63) >> 3;
	b->filled |= WINDOW;
}

INLINE void consume_top(struct bits *b, unsigned bits)
{
	b->window <<= bits & 63;
	b->filled -= bits;
}

INLINE void refill_bottom(struct bits *b)
{
	b->window |= bits_next(b) << (b->filled & 63);
	b->at += ((b->filled & 63) ^ 63) >> 3;
	b->filled |= WINDOW;
}

INLINE void consume_bottom(struct bits *b, unsigned bits)
{
	b->window >>= bits & 63;
	b->filled -= bits;
}

/* Bits consumed since the segment's start. */
INLINE uint64_t bits_place(const struct bits *b)
{
	return (uint64_t)(b->at - b->bytes) * 8 - (b->filled & 63);
}

/* Enters the next segment. 0 or STEPBACK_RESTART. */
static int enter(const struct scans_work *work, struct state *s)
{
	if (s->segment == work->segment_count)
		return STEPBACK_RESTART;
	const struct unstuff_segment *segment = &work->segments[s->segment++];
	const uint8_t *bytes = work->bytes + segment->start;
	s->bits = (struct bits){.at = bytes,
		.bytes = bytes,
		.limit = bytes + segment->bytes + sizeof(uint64_t),
		.end = (uint64_t)segment->bytes * 8};
	s->more = 0;
	memset(s->dc, 0, sizeof(s->dc));
	s->left = work->scan->restart_mcus ? work->scan->restart_mcus : UINT32_MAX;
	return 0;
}

/* Leaves a segment; `ends`: a marker has to follow. */
static int leave(const struct state *s, bool ends)
{
	uint64_t place = bits_place(&s->bits);
	if (place > s->bits.end)
		return STEPBACK_SHORT;
	if (ends && s->bits.end - place >= 8)
		return STEPBACK_END;
	return ends && s->more ? STEPBACK_RUN : 0;
}

/* MCUs are counted down where a scan has restart markers. */
INLINE int step_mcu(const struct scans_work *work, struct state *s)
{
	if (__builtin_expect(!s->left, 0)) {
		int reason = leave(s, true);
		if (!reason)
			reason = enter(work, s);
		if (reason)
			return reason;
	}
	s->left -= work->scan->restart_mcus > 0;
	return 0;
}

/* Decodes by the canonical rule. Length 0: no code. */
static __attribute__((noinline)) struct huffman_symbol decode_escape(
	const struct scans_work *work, unsigned i, bool ac, uint64_t window)
{
	return huffman_decode(&work->code[i][ac], window);
}

/* The DC of a block, in a first scan or a sequential one. `i`: the component's number in the scan.
 */
INLINE int first_dc(const struct scans_work *work, struct state *s, unsigned i, int16_t *block)
{
	unsigned low = work->scan->low;
	refill_top(&s->bits);
	uint32_t entry = work->table[i][0][s->bits.window >> (64 - HUFFMAN_VALUE_BITS)];
	int value = (int16_t)(entry >> VALUE_SHIFT);
	if (__builtin_expect(entry & 63, 1)) {
		consume_top(&s->bits, entry & 63);
	} else {
		struct huffman_symbol symbol = decode_escape(work, i, false, s->bits.window);
		if (!symbol.length)
			return STEPBACK_CODE;
		consume_top(&s->bits, symbol.length);
		value = symbol.value;
	}
	s->dc[i] += value;
	if (((uint32_t)s->dc[i] + (BLOCKS_DC >> low)) >> (12 - low))
		return STEPBACK_RANGE;
	block[0] = (int16_t)(s->dc[i] * (1 << low));
	return 0;
}

/* One more bit of a block's DC. */
INLINE int refine_dc(const struct scans_work *work, struct state *s, unsigned i, int16_t *block)
{
	(void)i;
	refill_top(&s->bits);
	block[0] = (int16_t)(block[0] | (int)(s->bits.window >> 63) << work->scan->low);
	consume_top(&s->bits, 1);
	return 0;
}

/* A whole block of a sequential scan. */
INLINE int whole_block(const struct scans_work *work, struct state *s, unsigned i, int16_t *block)
{
	const uint32_t *table = work->table[i][1];
	/* The block before in the same MCU may have passed the end. */
	int reason = s->bits.at > s->bits.limit ? STEPBACK_SHORT : first_dc(work, s, i, block);
	if (reason)
		return reason;
	for (uint32_t k = 1; k < BLOCKS_SIZE;) {
		refill_top(&s->bits);
		uint32_t entry = table[s->bits.window >> (64 - HUFFMAN_VALUE_BITS)];
		uint32_t advance = entry >> ADVANCE_SHIFT & 0xff;
		struct huffman_symbol symbol = {
			entry & 63, advance, (int16_t)(entry >> VALUE_SHIFT)};
		if (__builtin_expect(advance >= HUFFMAN_ESCAPE, 0))
			symbol = decode_escape(work, i, true, s->bits.window);
		if (!symbol.length)
			return STEPBACK_CODE;
		consume_top(&s->bits, symbol.length);
		if (symbol.advance == HUFFMAN_EOB)
			return 0;
		k += symbol.advance;
		if (k > BLOCKS_SIZE)
			return STEPBACK_RUN;
		block[k - 1] = (int16_t)symbol.value;
	}
	return 0;
}

typedef int block_fn(const struct scans_work *work, struct state *s, unsigned i, int16_t *block);

/* Decodes a scan of several components. */
INLINE int walk_mcus(const struct scans_work *work, block_fn *block)
{
	const struct blocks *kept = work->blocks;
	struct state s = {0};
	int reason = enter(work, &s);
	for (uint32_t y = 0; y < work->plan->mcu_rows; y++)
		for (uint32_t x = 0; x < work->parse->mcus_across && !reason; x++) {
			reason = step_mcu(work, &s);
			bool keep = y >= kept->mcu_y0 && x - kept->mcu_x0 < kept->columns;
			size_t mcu =
				keep ? (size_t)(y - kept->mcu_y0) * kept->columns + x - kept->mcu_x0
				     : 0;
			int16_t *to = work->coefficients + mcu * kept->in_mcu * BLOCKS_SIZE;
			for (unsigned i = 0; i < work->scan->components && !reason; i++) {
				const struct blocks_component *c =
					&kept->component[work->scan->component[i]];
				for (unsigned b = 0; b < (unsigned)c->h * c->v && !reason; b++)
					reason = block(work, &s, i,
						keep ? to + (c->first + b) * BLOCKS_SIZE
						     : work->nowhere);
			}
			if (!reason && s.bits.at > s.bits.limit)
				reason = STEPBACK_SHORT;
		}
	return reason ? reason : leave(&s, work->plan->mcu_rows == work->parse->mcus_down);
}

/* Blocks from `x` to `to` of row y; `row`: see scan_plan_row, or NULL where they are not kept. */
typedef int span_fn(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row);

/* Decodes a scan of one component: in spans that are kept or not, within one segment. */
INLINE int walk_spans(const struct scans_work *work, span_fn *span)
{
	unsigned number = work->scan->component[0];
	const struct scan_plan_component *c = &work->plan->component[number];
	struct state s = {0};
	int reason = enter(work, &s);
	for (uint32_t y = 0; y < c->rows; y++) {
		int16_t *row = y < c->y0 ? NULL
					 : work->coefficients + scan_plan_row(work->parse,
									work->blocks, number, y);
		for (uint32_t x = 0, to; x < c->across && !reason; x = to) {
			if (!s.left)
				reason = leave(&s, true);
			if (!s.left && !reason)
				reason = enter(work, &s);
			bool keep = row && x >= c->x0 && x < c->x1;
			to = row && x < c->x0 ? c->x0 : keep ? c->x1 : c->across;
			to = to - x > s.left ? x + s.left : to;
			if (!reason)
				reason = span(work, &s, y, x, to, keep ? row : NULL);
			s.left -= work->scan->restart_mcus ? to - x : 0;
		}
	}
	return reason ? reason : leave(&s, c->rows == c->down);
}

INLINE int span_blocks(const struct scans_work *work, struct state *s, uint32_t x, uint32_t to,
	int16_t *row, block_fn *block)
{
	unsigned number = work->scan->component[0];
	const uint32_t *column = work->column[number];
	uint32_t x0 = work->plan->component[number].x0;
	for (; x < to; x++) {
		int reason = block(work, s, 0, row ? row + column[x - x0] : work->nowhere);
		if (!reason && s->bits.at > s->bits.limit)
			reason = STEPBACK_SHORT;
		if (reason)
			return reason;
	}
	return 0;
}

static int span_first_dc(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row)
{
	(void)y;
	return span_blocks(work, s, x, to, row, first_dc);
}

static int span_refine_dc(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row)
{
	(void)y;
	return span_blocks(work, s, x, to, row, refine_dc);
}

static int span_whole(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row)
{
	(void)y;
	return span_blocks(work, s, x, to, row, whole_block);
}

static int scans_blocks(const struct scans_work *work)
{
	const struct script_scan *scan = work->scan;
	if (scan->low > AC_BITS)
		return STEPBACK_RANGE;
	if (scan->components > 1 && scan->last)
		return walk_mcus(work, whole_block);
	if (scan->components > 1)
		return walk_mcus(work, scan->high ? refine_dc : first_dc);
	if (scan->last)
		return walk_spans(work, span_whole);
	return walk_spans(work, scan->high ? span_refine_dc : span_first_dc);
}

/* A symbol of a first AC scan that is not completely in the table, from the window at its code.
 * Length 0: no code. The end of a band has the number of blocks that end with it as its value. */
static __attribute__((noinline)) struct huffman_symbol first_escape(
	const struct scans_work *work, uint64_t window)
{
	unsigned length, low = work->scan->low;
	int symbol = huffman_symbol_at(&work->code[0][1], (uint32_t)(window >> 48), &length);
	if (symbol < 0 || scan_first_bad((unsigned)symbol, low))
		return (struct huffman_symbol){0};
	unsigned run = (unsigned)symbol >> 4, size = symbol & 15;
	bool ends = size == 0 && symbol != SCAN_NO_COEFFICIENT;
	unsigned more = ends ? run : size;
	unsigned bits = more ? (unsigned)(window << length >> (64 - more)) : 0;
	if (ends)
		return (struct huffman_symbol){
			length + run, HUFFMAN_EOB, (int)((1u << run) - 1 + bits)};
	return (struct huffman_symbol){
		length + size, run + 1, huffman_extend(bits, size) * (1 << low)};
}

/* The first bits of AC coefficients. The index k is shifted so that the band ends at 64. */
static int span_first(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row)
{
	unsigned number = work->scan->component[0];
	const struct scan_plan_component *c = &work->plan->component[number];
	const uint32_t *column = work->column[number], *table = work->table[0][1];
	uint64_t *history = work->history[number];
	const unsigned shift = BLOCKS_SIZE - 1u - work->scan->last;
	const uint32_t first = work->scan->first + shift;
	struct bits b = s->bits;
	uint32_t more = s->more;
	int reason = 0;
	history = history ? history + (size_t)y * c->across : NULL;
	for (;; x++) {
		if (more) {
			uint32_t skip = more < to - x ? more : to - x;
			more -= skip;
			x += skip;
		}
		if (x >= to || reason)
			break;
		int16_t *block = (row ? row + column[x - c->x0] : work->nowhere) - shift;
		uint64_t seen = 0;
		uint32_t k = first;
		while (k < BLOCKS_SIZE) {
			refill_top(&b);
			uint32_t entry = table[b.window >> (64 - HUFFMAN_VALUE_BITS)];
			uint32_t advance = entry >> ADVANCE_SHIFT & 0xff;
			int value = (int16_t)(entry >> VALUE_SHIFT);
			unsigned length = entry & 63;
			if (__builtin_expect(advance >= HUFFMAN_ESCAPE, 0)) {
				struct huffman_symbol symbol = first_escape(work, b.window);
				length = symbol.length;
				advance = length ? symbol.advance : HUFFMAN_EOB;
				value = symbol.value;
				reason = length ? reason : STEPBACK_CODE;
			}
			consume_top(&b, length);
			k += advance;
			if (__builtin_expect(k <= BLOCKS_SIZE, 1)) {
				block[k - 1] = (int16_t)value;
				seen |= (uint64_t)(value != 0) << (k - 1);
			} else if (k >= HUFFMAN_EOB) {
				more = (uint32_t)value;
			} else {
				reason = STEPBACK_RUN;
			}
		}
		if (history)
			history[x] |= seen >> shift;
		if (__builtin_expect(b.at > b.limit, 0) && !reason)
			reason = STEPBACK_SHORT;
	}
	s->bits = b;
	s->more = more;
	return reason;
}

static int scans_first(const struct scans_work *work)
{
	return walk_spans(work, span_first);
}

/* Takes a bit for each one of `of`, of which there may be 63, from a window that was just refilled
 * and then gave at most a code: there may be fewer in it. */
INLINE uint64_t correct(struct bits *b, uint64_t of)
{
	enum { SURE = WINDOW - 16 };
	unsigned count = (unsigned)__builtin_popcountll(of);
	if (__builtin_expect(count > SURE, 0)) {
		uint64_t low = of & UINT32_MAX, below = deposit(b->window, low);
		consume_bottom(b, (unsigned)__builtin_popcountll(low));
		refill_bottom(b);
		uint64_t above = deposit(b->window, of - low);
		consume_bottom(b, (unsigned)__builtin_popcountll(of - low));
		return below | above;
	}
	uint64_t bits = deposit(b->window, of);
	consume_bottom(b, count);
	return bits;
}

/* As first_escape; an entry as the table has them, but its length may be up to 17, or 0. */
static __attribute__((noinline)) uint32_t refine_escape(
	const struct scans_work *work, uint64_t window)
{
	unsigned length;
	uint32_t next = scan_reverse((uint32_t)window & 0xffff, 16);
	int symbol = huffman_symbol_at(&work->code[0][1], next, &length);
	if (symbol < 0 || scan_refine_bad((unsigned)symbol))
		return 0;
	unsigned run = (unsigned)symbol >> 4;
	if (symbol & 1)
		return (length + 1) | run << SCAN_RUN_SHIFT | SCAN_NEW |
		       (window >> length & 1 ? 0 : SCAN_NEGATIVE);
	if (symbol == SCAN_NO_COEFFICIENT)
		return length | run << SCAN_RUN_SHIFT;
	return length | SCAN_EOB | SCAN_EOB_BITS | run << SCAN_MORE_SHIFT;
}

/* How many blocks more end with this one, from an entry and the bits after its code. */
INLINE uint32_t refine_more(struct bits *b, uint32_t entry)
{
	uint32_t more = entry >> SCAN_MORE_SHIFT;
	if (entry & SCAN_EOB_BITS) {
		unsigned size = more;
		more = (1u << size) - 1 +
		       scan_reverse((uint32_t)b->window & ((1u << size) - 1), size);
		consume_bottom(b, size);
	}
	return more;
}

/* One more bit of AC coefficients. */
static int span_refine(const struct scans_work *work, struct state *s, uint32_t y, uint32_t x,
	uint32_t to, int16_t *row)
{
	unsigned number = work->scan->component[0];
	const struct scan_plan_component *c = &work->plan->component[number];
	const uint32_t *column = work->column[number], *table = work->table[0][1];
	uint64_t *history = work->history[number] + (size_t)y * c->across;
	const uint64_t band =
		((uint64_t)2 << work->scan->last) - ((uint64_t)1 << work->scan->first);
	const int step = 1 << work->scan->low;
	struct bits b = s->bits;
	uint32_t more = s->more;
	int reason = 0;
	for (; x < to && !reason; x++) {
		uint64_t old = history[x] & band, free = band & ~history[x];
		uint64_t add = 0, new = 0, negative = 0;
		if (more && !old) {
			more--;
			continue;
		}
		refill_bottom(&b);
		if (!more) {
			do {
				uint32_t entry = table[b.window & ((1u << SCAN_REFINE_BITS) - 1)];
				if (__builtin_expect(!(entry & 63), 0)) {
					entry = refine_escape(work, b.window);
					if (!entry) {
						reason = STEPBACK_CODE;
						break;
					}
					consume_bottom(&b, entry & 63);
					refill_bottom(&b);
				} else {
					consume_bottom(&b, entry & 63);
				}
				if (entry & SCAN_EOB) {
					more = refine_more(&b, entry) + 1;
					refill_bottom(&b);
					break;
				}
				uint64_t at = nth_one(free, entry >> SCAN_RUN_SHIFT & 15);
				uint64_t above = ~(at | (at - 1));
				if (__builtin_expect(!at, 0)) {
					reason = STEPBACK_RUN;
					break;
				}
				add |= correct(&b, old & (at - 1));
				new |= entry &SCAN_NEW ? at : 0;
				negative |= entry & SCAN_NEGATIVE ? at : 0;
				free &= above;
				old &= above;
				refill_bottom(&b);
			} while (free | old);
		}
		if (more) {
			add |= correct(&b, old);
			more--;
		}
		history[x] |= new;
		if (row && (add | new))
			apply(row + column[x - c->x0], add, new, negative, step);
		if (__builtin_expect(b.at > b.limit, 0) && !reason)
			reason = STEPBACK_SHORT;
	}
	s->bits = b;
	s->more = more;
	return reason;
}

static int scans_refine(const struct scans_work *work)
{
	return walk_spans(work, span_refine);
}

const struct scans_kernels SCANS_TABLE = {
	.name = SCANS_NAME,
	.blocks = scans_blocks,
	.first = scans_first,
	.refine = scans_refine,
};
