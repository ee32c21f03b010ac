/* lanes_scalar_body: four lanes interleaved in one thread's scalar code; see lane.h.
 *
 * Included by a .c file that sets LANES_TABLE, LANES_NAME, LANES_UNSTUFF and LANES_CHECKSUM, and
 * compiled once per instruction set (BMI2's shifts save a quarter of the time). A stream is a lane
 * in the processor's registers. Four streams advance by a symbol in turn, so that their chains of
 * look-up, shift and look-up overlap. The symbol loop has one branch, taken when a block ends or
 * the table does not have the code.
 *
 * The window has the next bits at its top, at least 56 after a refill and at most 63. That is
 * enough for SYMBOLS symbols of HUFFMAN_VALUE_BITS; code that takes more bits refills the window
 * itself. */
#include "decode/jpeg/lane.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
	SYMBOLS = 4,
	STREAMS = 4,
	WINDOW = 56,
	ADVANCE_SHIFT = 8,
	VALUE_SHIFT = 16,
};

struct stream {
	uint64_t window;
	uint32_t filled; /* its low 6 bits: how many bits of the window are valid */
	uint32_t k; /* coefficients that the block has */
	const uint8_t *at; /* what the window is refilled from */
	const uint32_t *table; /* AC */
	int16_t *block;
	uint32_t step; /* from block to block; 0 where they are not wanted */
	const struct huffman_place *place; /* of the block in its MCU */
	uint32_t left; /* blocks of the run, or of a chunk's MCU, including this one */
	uint32_t strange; /* not 0 once a prediction left its range */
	const uint8_t *limit; /* from here on the window is certainly past the segment's end */
	struct lane *lane; /* NULL: idle */
};

struct driver {
	lane_next_fn *next;
	void *context;
	struct lane lane[STREAMS];
	unsigned busy; /* streams that are not idle */
	bool ask; /* a run has begun while streams are idle: there may be runs for them now */
	/* For blocks that are not wanted. */
	_Alignas(BLOCKS_ALIGN) int16_t nowhere[STREAMS][BLOCKS_SIZE];
};

/* An idle stream looks up this entry again and again: no bits, no advance. */
static const uint32_t idle_entry = 0;
static const uint8_t idle_bytes[sizeof(uint64_t)];

INLINE void refill(struct stream *s)
{
	uint64_t next;
	memcpy(&next, s->at, sizeof(next));
	s->window |= __builtin_bswap64(next) >> (s->filled & 63);
	s->at += ((s->filled & 63) ^ 63) >> 3;
	s->filled |= WINDOW;
}

INLINE void consume(struct stream *s, unsigned bits)
{
	s->window <<= bits & 63;
	s->filled -= bits;
}

/* Bits consumed since the segment's start. */
INLINE uint64_t stream_bit(const struct stream *s)
{
	return (uint64_t)(s->at - s->lane->bytes) * 8 - (s->filled & 63);
}

/* By vectors: a compiler may use a string instruction for memset, which takes longer to start than
 * this takes in all. */
INLINE void clear(int16_t *block)
{
	typedef int64_t vector __attribute__((vector_size(32), may_alias));
	vector *to = (vector *)(void *)block;
	to[0] = to[1] = to[2] = to[3] = (vector){0};
}

/* Decodes by the canonical rule and takes the bits. Length 0: took none. */
static __attribute__((noinline)) struct huffman_symbol decode_escape(
	uint64_t window, const struct lane *lane, const struct huffman_place *place, bool ac)
{
	return huffman_decode(&lane->huffman->code[place->class_of][ac], window);
}

/* Begins a block: its DC. 0 or STEPBACK_CODE. */
INLINE int begin_block(struct stream *s)
{
	clear(s->block);
	refill(s);
	uint32_t entry = s->place->dc[s->window >> (64 - HUFFMAN_VALUE_BITS)];
	int value = (int16_t)(entry >> VALUE_SHIFT);
	if (__builtin_expect(entry & 63, 1)) {
		consume(s, entry & 63);
	} else {
		struct huffman_symbol symbol = decode_escape(s->window, s->lane, s->place, false);
		if (!symbol.length)
			return STEPBACK_CODE;
		consume(s, symbol.length);
		value = symbol.value;
		refill(s);
	}
	int32_t *dc = &s->lane->dc[s->place->component_of];
	*dc = (int32_t)((uint32_t)*dc + (uint32_t)value);
	s->strange |= lane_dc_strange(*dc);
	s->block[0] = (int16_t)*dc;
	s->table = s->place->ac;
	s->k = 1;
	return 0;
}

static void idle(struct stream *s, int16_t *nowhere)
{
	*s = (struct stream){
		.filled = 63, /* never refilled by more than one bit */
		.k = 1,
		.at = idle_bytes,
		.table = &idle_entry,
		.block = nowhere,
	};
}

/* Turns the predictions of a chunk's MCU, which began at 0, back into differences. */
static void undo_predictions(const struct huffman *huffman, int16_t *blocks)
{
	int16_t before[BLOCKS_COMPONENTS] = {0};
	for (unsigned i = 0; i < huffman->in_mcu; i++) {
		int16_t *block = blocks + (size_t)i * BLOCKS_SIZE;
		int16_t *dc = &before[huffman->place[i].component_of], now = *block;
		*block = (int16_t)(now - *dc);
		*dc = now;
	}
}

/* Notes that a chunk's MCU is complete. False: so is the run. */
static bool note_mcu(struct stream *s)
{
	struct lane *lane = s->lane;
	const struct huffman *huffman = lane->huffman;
	size_t size = (size_t)huffman->in_mcu * BLOCKS_SIZE;
	uint64_t bit = stream_bit(s);
	if (bit > lane->bits)
		return false;
	undo_predictions(huffman, lane->blocks + lane->complete * size);
	lane->marks[lane->complete++] = (uint32_t)bit;
	if (lane->complete == lane->mcus || bit > lane->stop)
		return false;
	memset(lane->dc, 0, sizeof(lane->dc));
	s->block = lane->blocks + lane->complete * size;
	s->place = huffman->place;
	s->left = huffman->in_mcu;
	return true;
}

/* Ends a chunk's run. */
static void end_chunk(const struct stream *s, int outcome)
{
	struct lane *lane = s->lane;
	lane->bit = stream_bit(s);
	lane->outcome = outcome ? outcome : lane->bit > lane->bits ? STEPBACK_SHORT : 0;
}

/* Enters the lane's run. 0 or STEPBACK_CODE. */
INLINE int begin_run(struct stream *s, int16_t *nowhere)
{
	struct lane *lane = s->lane;
	s->at = lane->bytes + lane->bit / 8;
	s->window = 0;
	s->filled = 0;
	refill(s);
	consume(s, lane->bit % 8);
	s->block = lane->blocks ? lane->blocks : nowhere;
	s->step = lane->blocks ? BLOCKS_SIZE : 0;
	s->place = lane->huffman->place;
	s->left = lane->mcus * lane->huffman->in_mcu;
	s->strange = 0;
	if (lane->marks) {
		lane->complete = 0;
		memset(lane->dc, 0, sizeof(lane->dc));
		s->left = lane->huffman->in_mcu;
	}
	s->limit = lane->bytes + (lane->bits + 7) / 8 + sizeof(uint64_t);
	return begin_block(s);
}

/* Ends the run with its outcome and takes the next one, until one begins or none is left. */
static __attribute__((noinline)) struct stream take_run(
	struct stream s, unsigned number, struct driver *driver, int outcome)
{
	struct lane *lane = s.lane;
	for (;;) {
		if (s.left && lane->marks && !outcome && note_mcu(&s)) {
			outcome = begin_block(&s);
			if (!outcome)
				return s;
		}
		if ((s.left || outcome) && lane->marks)
			end_chunk(&s, outcome);
		else if (s.left || outcome) /* not at the very first */
			lane_end(lane, stream_bit(&s),
				outcome     ? outcome
				: s.strange ? STEPBACK_RANGE
					    : 0);
		if (!driver->next(driver->context, lane)) {
			idle(&s, driver->nowhere[number]);
			driver->busy--;
			return s;
		}
		driver->ask |= driver->busy < STREAMS;
		outcome = begin_run(&s, driver->nowhere[number]);
		if (!outcome)
			return s;
	}
}

INLINE void turn(struct stream *s, unsigned number, struct driver *driver, int outcome)
{
	*s = take_run(*s, number, driver, outcome);
}

/* The block is complete: goes on to the next one, or to the next run. */
INLINE void next_block(struct stream *s, unsigned number, struct driver *driver)
{
	int outcome = s->at > s->limit ? STEPBACK_SHORT : 0;
	if (__builtin_expect(s->left == 1 || outcome, 0)) {
		turn(s, number, driver, outcome);
		return;
	}
	s->left--;
	s->block += s->step;
	s->place = s->place->next;
	outcome = begin_block(s);
	if (__builtin_expect(outcome, 0))
		turn(s, number, driver, outcome);
}

/* Decodes a symbol that is not completely in the table. `k`: coefficients before it. */
INLINE void escape(struct stream *s, uint32_t entry, unsigned number, struct driver *driver)
{
	uint32_t k = s->k - HUFFMAN_ESCAPE;
	int value;
	refill(s);
	if (__builtin_expect(entry & 63, 1)) {
		unsigned size = entry >> VALUE_SHIFT;
		/* All ones if the value begins with a 0; no branch, since it cannot be predicted.
		 */
		int negative = (int)((int64_t)~s->window >> 63);
		value = (int)(s->window >> (64 - size)) + (negative & (1 - (1 << size)));
		consume(s, size);
	} else {
		struct huffman_symbol symbol = decode_escape(s->window, s->lane, s->place, true);
		if (!symbol.length) {
			turn(s, number, driver, STEPBACK_CODE);
			return;
		}
		consume(s, symbol.length);
		value = symbol.value;
		k += symbol.advance;
	}
	s->k = k;
	if (k >= HUFFMAN_EOB) {
		next_block(s, number, driver);
		return;
	}
	if (k > BLOCKS_SIZE) {
		turn(s, number, driver, STEPBACK_RUN);
		return;
	}
	s->block[k - 1] = (int16_t)value;
	if (k == BLOCKS_SIZE)
		next_block(s, number, driver);
	else
		refill(s);
}

/* One AC symbol of one stream. */
INLINE void symbol(struct stream *s, unsigned number, struct driver *driver)
{
	uint32_t entry = s->table[s->window >> (64 - HUFFMAN_VALUE_BITS)];
	consume(s, entry);
	s->k += entry >> ADVANCE_SHIFT & 0xff;
	if (__builtin_expect(s->k < BLOCKS_SIZE, 1)) {
		s->block[s->k - 1] = (int16_t)(entry >> VALUE_SHIFT);
	} else if (s->k >= HUFFMAN_ESCAPE) {
		escape(s, entry, number, driver);
	} else if (s->k == BLOCKS_SIZE || s->k >= HUFFMAN_EOB) {
		/* An EOB's value is 0, and so is the last coefficient then. */
		if (s->k == BLOCKS_SIZE)
			s->block[BLOCKS_SIZE - 1] = (int16_t)(entry >> VALUE_SHIFT);
		next_block(s, number, driver);
	} else {
		turn(s, number, driver, STEPBACK_RUN);
	}
}

/* Each of these goes on until no stream has a run, or there may be runs for idle ones. */

static __attribute__((noinline)) void decode_one(struct stream *streams, struct driver *driver)
{
	struct stream a = streams[0];
	while (driver->busy && !driver->ask) {
		refill(&a);
		for (int i = 0; i < SYMBOLS; i++)
			symbol(&a, 0, driver);
	}
	streams[0] = a;
}

static __attribute__((noinline)) void decode_four(struct stream *streams, struct driver *driver)
{
	struct stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];
	while (driver->busy && !driver->ask) {
		refill(&a);
		refill(&b);
		refill(&c);
		refill(&d);
		for (int i = 0; i < SYMBOLS; i++) {
			symbol(&a, 0, driver);
			symbol(&b, 1, driver);
			symbol(&c, 2, driver);
			symbol(&d, 3, driver);
		}
	}
	streams[0] = a, streams[1] = b, streams[2] = c, streams[3] = d;
}

/* Asks for runs for the streams that are idle. */
static void ask_for_runs(struct stream *streams, struct driver *driver)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		if (streams[i].lane)
			continue;
		driver->busy++;
		streams[i] = (struct stream){.lane = &driver->lane[i]};
		streams[i] = take_run(streams[i], i, driver, 0);
	}
	driver->ask = false;
}

static void decode(lane_next_fn *next, void *context)
{
	struct stream streams[STREAMS] = {0};
	struct driver driver = {.next = next, .context = context};
	ask_for_runs(streams, &driver);
	while (driver.busy) {
		if (driver.busy == 1 && streams[0].lane)
			decode_one(streams, &driver);
		else
			decode_four(streams, &driver);
		if (driver.ask)
			ask_for_runs(streams, &driver);
	}
}

const struct lanes LANES_TABLE = {
	.name = LANES_NAME,
	.kind = HUFFMAN_VALUES,
	.width = STREAMS,
	.decode = decode,
	.unstuff = LANES_UNSTUFF,
	.checksum = LANES_CHECKSUM,
};
