/* lanes_avx512: 32 lanes as two vectors of 16; for x86-64 with AVX-512 F, BW, VL, DQ, VBMI2 (only
 * this file is compiled with them); empty elsewhere. See lane.h.
 *
 * Each of 16 lanes is a small state machine that takes one symbol per step, DC or AC alike, and
 * with it a coefficient without zeros before it, or an EOB, or both, where one entry of the table
 * has them. Its next 32 bits are gathered and shifted to the top, and the first 11 of them look the
 * symbol up in the lane's current table. Run, length and value follow by arithmetic. The
 * coefficient is scattered as 32 bits with the next one, or a zero, above it. A zero is overwritten
 * later. A window serves a second step if 25 bits suffice for both. Two such vectors are advanced
 * alternately, so that the gathers of one overlap with the arithmetic of the other.
 *
 * DC differences are stored like coefficients and summed up when a piece of a run is complete. Rare
 * events (a code longer than 11 bits, a failure, a run's end) are handled lane by lane in memory.
 *
 * For chunks, the bits where MCUs end are needed, of which few steps have any. A branch on them
 * could not be predicted. So each step appends the bits of the lanes whose MCU ends to a log,
 * mostly none at all, and the log is sorted out when a run ends. That costs every step a little, so
 * the loop exists with and without it.
 *
 * Places are 32-bit offsets from the first lane's data: bits for the bytes, coefficients for the
 * blocks, entries for the tables. The reference decodes a lane that is out of their reach; callers
 * keep the data of all lanes in one stretch of memory. */
#if defined(__AVX512VBMI2__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include "decode/jpeg/lane.h"

#include "base/util.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
	HALVES = 2,
	WIDTH = 16,
	LANES = HALVES * WIDTH,
	WINDOW_BITS = 25, /* valid in a gathered window, at any place in its first byte */
	PIECE_MCUS = 32, /* a run is decoded in pieces, whose blocks stay in the cache */
	ROW = 1 << HUFFMAN_CODE_BITS, /* entries of a table */
	ROW_SHIFT = HUFFMAN_CODE_BITS,
	NOTHING = 0, /* a table entry without bits, advance and value */
	FOLDED = HUFFMAN_PAIR | HUFFMAN_LAST,
	NEXT_SHIFT = HUFFMAN_PAIR_SHIFT - 16, /* to the place above the first value */
	CHOOSE = 0xca, /* of ternary logic: by the first, the second or the third */
	/* Added to the k of a block that an entry's EOB completes. */
	LAST = 512,
	LOG_BITS = 1024,
	/* Reach of the offsets, with room for slack. */
	REACH_BITS = INT32_MAX - 8 * 4096,
	REACH = INT32_MAX / 2,
};

/* The lanes' state in memory, while lanes are handled one by one. */
struct spill {
	_Alignas(64) int32_t bit[WIDTH], limit[WIDTH], k[WIDTH], at[WIDTH], end[WIDTH], step[WIDTH];
	int32_t place[WIDTH], wrap[WIDTH], pattern[WIDTH], home[WIDTH];
	int32_t entry[WIDTH]; /* the step's entries */
};

/* The same in registers. */
struct half {
	__m512i bit, limit; /* the place, and the segment's end */
	__m512i k; /* coefficients that the block has; 0: its DC is next */
	__m512i at, end, step; /* the block, the end of the last one, from one to the next */
	__m512i place, wrap; /* twice the block's place in its MCU, and its bound */
	__m512i pattern; /* classes of an MCU's blocks, two bits each */
	__m512i home, table; /* the lane's tables, and the one in use */
	__m512i window, used; /* the next bits, and how many of them are gone */
	__mmask16 live; /* lanes that have a run */
	__mmask16 drop; /* lanes whose blocks are not wanted */
};

/* Where MCUs of chunks have ended: of each step that had any, the lanes, and the bits in order of
 * these. */
struct log {
	uint32_t steps, bits; /* how many */
	uint16_t lanes[LOG_BITS + 1]; /* the last one is overwritten by steps without any */
	_Alignas(64) int32_t bit[LOG_BITS + WIDTH];
};

/* A lane's run and its current piece. */
struct seat {
	struct lane lane;
	int16_t *out; /* the piece's first block, or the dump */
	int64_t origin; /* bits from base to the lane's segment */
	uint32_t step, blocks; /* of the piece */
	uint32_t mcus_left; /* after the piece */
	int outcome;
	bool running;
	uint32_t noted; /* MCUs of a chunk's run */
};

struct driver {
	lane_next_fn *next;
	void *context;
	const uint8_t *bytes;
	int16_t *blocks; /* NULL until a lane has any */
	const uint32_t *tables;
	unsigned busy;
	bool ask; /* a run has ended, and a half is idle: there may be runs for it now */
	struct spill spill[HALVES];
	struct seat seat[LANES];
	struct log log[HALVES];
	/* For DC differences of unwanted blocks, and the zero above the last one. */
	int16_t dump[LANES][PIECE_MCUS * BLOCKS_IN_MCU + 2];
};

static bool reaches(const struct driver *driver, const struct lane *lane)
{
	int64_t bytes = lane->bytes - driver->bytes;
	int64_t tables = lane->huffman->tables - driver->tables;
	int64_t blocks = lane->blocks ? lane->blocks - driver->blocks : 0;
	int64_t size = (int64_t)lane->mcus * lane->huffman->in_mcu * BLOCKS_SIZE;
	return llabs(bytes) <= REACH_BITS / 8 &&
	       bytes * 8 + (int64_t)lane->bits <= (int64_t)REACH_BITS && llabs(tables) <= REACH &&
	       llabs(blocks) <= REACH && size <= REACH;
}

/* Starts the next piece of the lane's run at blocks `out`. */
static void start_piece(struct driver *driver, unsigned number, int16_t *out)
{
	struct seat *seat = &driver->seat[number];
	struct spill *spill = &driver->spill[number / WIDTH];
	unsigned i = number % WIDTH;
	uint32_t mcus = UTIL_MIN(seat->mcus_left, (uint32_t)PIECE_MCUS);
	if (seat->lane.marks)
		mcus = seat->mcus_left;
	seat->mcus_left -= mcus;
	seat->blocks = mcus * seat->lane.huffman->in_mcu;
	seat->out = out;
	memset(out, 0, (size_t)seat->blocks * seat->step * sizeof(*out) + sizeof(uint32_t));
	const int16_t *base = seat->lane.blocks ? driver->blocks : driver->dump[0];
	spill->k[i] = 0;
	spill->place[i] = 0;
	spill->step[i] = (int32_t)seat->step;
	spill->at[i] = (int32_t)(out - base);
	spill->end[i] = spill->at[i] + (int32_t)(seat->blocks * seat->step);
}

static void start_run(struct driver *driver, unsigned number)
{
	struct seat *seat = &driver->seat[number];
	struct lane *lane = &seat->lane;
	struct spill *spill = &driver->spill[number / WIDTH];
	unsigned i = number % WIDTH;
	const struct huffman *huffman = lane->huffman;
	seat->origin = (lane->bytes - driver->bytes) * 8;
	seat->mcus_left = lane->mcus;
	seat->step = lane->blocks ? BLOCKS_SIZE : 1;
	seat->outcome = 0;
	spill->bit[i] = (int32_t)(seat->origin + (int64_t)lane->bit);
	uint64_t limit = lane->marks ? UTIL_MIN(lane->stop, lane->bits) : lane->bits;
	spill->limit[i] = (int32_t)(seat->origin + (int64_t)limit);
	seat->noted = 0;
	spill->wrap[i] = (int32_t)(2 * huffman->in_mcu);
	spill->home[i] = (int32_t)(huffman->tables - driver->tables);
	spill->pattern[i] = 0;
	for (unsigned block = 0; block < huffman->in_mcu; block++)
		spill->pattern[i] |= (int32_t)(huffman->place[block].class_of << 2 * block);
	start_piece(driver, number, lane->blocks ? lane->blocks : driver->dump[number]);
}

/* Sums up the DC differences of a complete piece. Nonzero when one left its range. */
static uint32_t predict(struct seat *seat)
{
	const struct huffman *huffman = seat->lane.huffman;
	int32_t *dc = seat->lane.dc;
	int16_t *out = seat->out;
	uint32_t strange = 0;
	for (uint32_t left = seat->blocks; left; left -= huffman->in_mcu) {
		for (unsigned i = 0; i < huffman->in_mcu; i++) {
			unsigned c = huffman->place[i].component_of;
			dc[c] = (int32_t)((uint32_t)dc[c] + (uint32_t)*out);
			strange |= lane_dc_strange(dc[c]);
			*out = (int16_t)dc[c];
			out += seat->step;
		}
	}
	return strange;
}

/* Gives each lane the bits that were noted for it. */
static void sort_log(struct driver *driver, unsigned half)
{
	struct log *log = &driver->log[half];
	const int32_t *bit = log->bit;
	for (uint32_t i = 0; i < log->steps; i++)
		for (unsigned left = log->lanes[i]; left; left &= left - 1) {
			struct seat *seat =
				&driver->seat[half * WIDTH + (unsigned)__builtin_ctz(left)];
			uint32_t at = (uint32_t)(*bit++ - seat->origin);
			if (seat->lane.marks)
				seat->lane.marks[seat->noted++] = at;
		}
	log->steps = log->bits = 0;
}

/* Called when a seat's piece has ended or failed, or it has none yet: starts the run's next piece,
 * or the next run. False when no run is left. */
static bool turn_seat(struct driver *driver, unsigned number)
{
	struct seat *seat = &driver->seat[number];
	struct lane *lane = &seat->lane;
	if (seat->running && lane->marks) {
		int64_t bit = driver->spill[number / WIDTH].bit[number % WIDTH] - seat->origin;
		lane->bit = (uint64_t)bit;
		lane->complete = seat->noted;
		lane->outcome = seat->outcome;
	} else if (seat->running) {
		if (!seat->outcome && predict(seat))
			seat->outcome = STEPBACK_RANGE;
		if (!seat->outcome && seat->mcus_left) {
			start_piece(driver, number,
				lane->blocks ? seat->out + (size_t)seat->blocks * seat->step
					     : seat->out);
			return true;
		}
		int64_t bit = driver->spill[number / WIDTH].bit[number % WIDTH] - seat->origin;
		lane_end(lane, (uint64_t)bit, seat->outcome);
	}
	driver->busy -= seat->running;
	seat->running = false;
	while (driver->next(driver->context, lane)) {
		if (!driver->bytes) {
			driver->bytes = lane->bytes;
			driver->tables = lane->huffman->tables;
		}
		if (!driver->blocks)
			driver->blocks = lane->blocks;
		if (reaches(driver, lane)) {
			start_run(driver, number);
			seat->running = true;
			driver->busy++;
			return true;
		}
		lane_decode_ref(lane);
	}
	return false;
}

INLINE void half_load(struct half *h, const struct spill *s)
{
	h->bit = _mm512_load_si512(s->bit);
	h->limit = _mm512_load_si512(s->limit);
	h->k = _mm512_load_si512(s->k);
	h->at = _mm512_load_si512(s->at);
	h->end = _mm512_load_si512(s->end);
	h->step = _mm512_load_si512(s->step);
	h->place = _mm512_load_si512(s->place);
	h->wrap = _mm512_load_si512(s->wrap);
	h->pattern = _mm512_load_si512(s->pattern);
	h->home = _mm512_load_si512(s->home);
}

/* Stores only what changes from step to step. */
INLINE void half_store(const struct half *h, struct spill *s)
{
	_mm512_store_si512(s->bit, h->bit);
	_mm512_store_si512(s->k, h->k);
	_mm512_store_si512(s->at, h->at);
	_mm512_store_si512(s->place, h->place);
	_mm512_store_si512(s->end, h->end);
}

struct turned {
	__mmask16 live, drop;
};

/* Turns the seats of `which`, and asks again for those that have no run: an image may have come. */
static __attribute__((noinline)) struct turned turn_seats(
	struct driver *driver, unsigned half, __mmask16 which, struct turned state)
{
	driver->ask = which != 0;
	sort_log(driver, half);
	for (unsigned left = which | (uint16_t)~state.live; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left), bit = 1u << i;
		bool runs = turn_seat(driver, half * WIDTH + i);
		bool drops = runs && !driver->seat[half * WIDTH + i].lane.blocks;
		state.live = (__mmask16)(runs ? state.live | bit : state.live & ~bit);
		state.drop = (__mmask16)(drops ? state.drop | bit : state.drop & ~bit);
		if (!runs)
			driver->spill[half].k[i] = 0;
	}
	return state;
}

/* One symbol by the canonical rule for a lane whose table does not hold it. 0 or an enum stepback.
 */
static int escape(struct driver *driver, unsigned half, unsigned i)
{
	struct spill *spill = &driver->spill[half];
	const struct seat *seat = &driver->seat[half * WIDTH + i];
	int32_t k = spill->k[i] - HUFFMAN_ESCAPE;
	uint64_t window;
	memcpy(&window, driver->bytes + (spill->bit[i] >> 3), sizeof(window));
	window = __builtin_bswap64(window) << (spill->bit[i] & 7);
	unsigned class = (unsigned)spill->pattern[i] >> spill->place[i] & 3;
	struct huffman_symbol symbol =
		huffman_decode(&seat->lane.huffman->code[class][k != 0], window);
	if (!symbol.length)
		return STEPBACK_CODE;
	spill->bit[i] += (int32_t)symbol.length;
	bool dc = k == 0;
	k += (int32_t)symbol.advance;
	if (k > BLOCKS_SIZE && k < HUFFMAN_EOB)
		return STEPBACK_RUN;
	spill->k[i] = k;
	int16_t *base = seat->lane.blocks ? driver->blocks : driver->dump[0];
	if (symbol.value && (dc || seat->lane.blocks))
		base[spill->at[i] + k - 1] = (int16_t)symbol.value;
	return 0;
}

/* Where an entry had more than fits the block, only its first symbol counts: takes back the rest. A
 * second coefficient that fits stays in the block, and the next step decodes it again. */
static void unfold(struct driver *driver, unsigned half, unsigned i)
{
	struct spill *spill = &driver->spill[half];
	const struct seat *seat = &driver->seat[half * WIDTH + i];
	const int32_t entry = spill->entry[i];
	const int32_t first =
		(entry >> HUFFMAN_LENGTH_SHIFT & 15) + (entry >> HUFFMAN_SIZE_SHIFT & 15);
	spill->bit[i] -= (entry & HUFFMAN_FOLDED_LENGTH) - first;
	spill->k[i] -= (entry & HUFFMAN_LAST ? LAST : 0) + (entry & HUFFMAN_PAIR ? 1 : 0);
	/* The second coefficient went to the next block, or to the spare one. */
	if (spill->k[i] == BLOCKS_SIZE && seat->lane.blocks)
		driver->blocks[spill->at[i] + BLOCKS_SIZE] = 0;
}

/* Ends a chunk's run after the MCU in which a block was completed after the run's last bit. */
static void stop_after_mcu(struct driver *driver, unsigned half, unsigned i)
{
	struct spill *spill = &driver->spill[half];
	const struct seat *seat = &driver->seat[half * WIDTH + i];
	int32_t left = (spill->wrap[i] - spill->place[i]) / 2; /* blocks, with this one */
	spill->end[i] = spill->at[i] + left * spill->step[i];
	spill->limit[i] = (int32_t)(seat->origin + (int64_t)seat->lane.bits);
}

struct excepted {
	__mmask16 done, failed;
};

/* Handles lanes whose k is not that of a coefficient, a full block or its early end (`odd`): a
 * failure, a code that the table does not have, or an entry with more than fits the block; and
 * lanes whose block ends past their limit. `done`: lanes whose block is complete. */
static __attribute__((noinline)) struct excepted except(
	struct driver *driver, unsigned half, __mmask16 odd, __mmask16 past, __mmask16 done)
{
	struct excepted state = {done, 0};
	for (unsigned left = odd | past; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left), bit = 1u << i;
		struct spill *spill = &driver->spill[half];
		struct seat *seat = &driver->seat[half * WIDTH + i];
		int outcome = 0;
		if (odd & bit && spill->entry[i] & FOLDED)
			unfold(driver, half, i);
		const bool sound = !(odd & bit) || spill->k[i] <= BLOCKS_SIZE;
		const int64_t end = seat->origin + (int64_t)seat->lane.bits;
		if (spill->bit[i] > end)
			outcome = STEPBACK_SHORT;
		else if (!sound && spill->k[i] < HUFFMAN_ESCAPE)
			outcome = STEPBACK_RUN;
		else if (!sound)
			outcome = escape(driver, half, i);
		/* An escape may have completed the block beyond the limit, too. */
		const bool over =
			!outcome && spill->k[i] >= BLOCKS_SIZE && spill->bit[i] > spill->limit[i];
		if (over && spill->bit[i] > end)
			outcome = STEPBACK_SHORT;
		else if (over)
			stop_after_mcu(driver, half, i);
		seat->outcome = outcome;
		if (outcome)
			state.failed |= (__mmask16)bit;
		if (outcome || spill->k[i] < BLOCKS_SIZE)
			state.done &= (__mmask16)~bit;
	}
	return state;
}

INLINE __m512i set1(int value)
{
	return _mm512_set1_epi32(value);
}

/* The table of each lane's next symbol. */
INLINE void choose_table(struct half *h)
{
	__m512i class = _mm512_and_si512(_mm512_srlv_epi32(h->pattern, h->place), set1(3));
	h->table = _mm512_add_epi32(h->home, _mm512_slli_epi32(class, ROW_SHIFT + 1));
	__mmask16 ac = _mm512_test_epi32_mask(h->k, h->k);
	h->table = _mm512_mask_add_epi32(h->table, ac, h->table, set1(ROW));
}

INLINE void gather_window(struct half *h, const struct driver *driver)
{
	const __m512i swap = _mm512_broadcast_i32x4(
		_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
	__m512i bytes = _mm512_mask_i32gather_epi32(
		_mm512_setzero_si512(), h->live, _mm512_srai_epi32(h->bit, 3), driver->bytes, 1);
	h->window = _mm512_sllv_epi32(
		_mm512_shuffle_epi8(bytes, swap), _mm512_and_si512(h->bit, set1(7)));
	h->used = _mm512_setzero_si512();
}

INLINE __m512i look_up(const struct half *h, const struct driver *driver)
{
	__m512i index =
		_mm512_add_epi32(_mm512_srli_epi32(h->window, 32 - HUFFMAN_CODE_BITS), h->table);
	return _mm512_mask_i32gather_epi32(set1(NOTHING), h->live, index, driver->tables, 4);
}

/* The same from a window that was used once: NOTHING where its bits may not suffice. */
INLINE __m512i look_up_again(const struct half *h, const struct driver *driver)
{
	__m512i entry = look_up(h, driver);
	__m512i used =
		_mm512_add_epi32(h->used, _mm512_and_si512(entry, set1(HUFFMAN_FOLDED_LENGTH)));
	return _mm512_mask_mov_epi32(
		set1(NOTHING), _mm512_cmple_epi32_mask(used, set1(WINDOW_BITS)), entry);
}

/* What the first symbol adds to k. */
INLINE __m512i advance_of(__m512i entry)
{
	const __m512i pick = _mm512_broadcast_i32x4(
		_mm_setr_epi8(1, -1, -1, -1, 5, -1, -1, -1, 9, -1, -1, -1, 13, -1, -1, -1));
	return _mm512_shuffle_epi8(entry, pick);
}

/* The first symbol's value in the low 16 bits, and above it the coefficient of a pair, or 0. Double
 * shifts use only the low 5 bits of their count. */
INLINE __m512i values_of(const struct half *h, __m512i entry)
{
	const __m512i zero = _mm512_setzero_si512();
	__m512i bits =
		_mm512_shldv_epi32(h->window, zero, _mm512_srli_epi32(entry, HUFFMAN_LENGTH_SHIFT));
	__m512i size = _mm512_srli_epi32(entry, HUFFMAN_SIZE_SHIFT);
	__m512i value = _mm512_shldv_epi32(zero, bits, size);
	__mmask16 negative = _mm512_testn_epi32_mask(bits, set1(INT32_MIN));
	value = _mm512_mask_sub_epi32(
		value, negative, value, _mm512_shldv_epi32(zero, set1(-1), size));
	return _mm512_ternarylogic_epi32(
		set1(0xffff), value, _mm512_srai_epi32(entry, NEXT_SHIFT), CHOOSE);
}

/* k counts from 1. */
INLINE void *before(int16_t *base)
{
	return (void *)((uintptr_t)base - sizeof(*base));
}

/* Stores values that are not zero. A value outside its block is not stored: that is a fault, which
 * is found later. The second of two may be outside: then it is in the next block, or the spare one,
 * and is taken back. */
INLINE void scatter(const struct half *h, struct driver *driver, __m512i values, __mmask16 dc)
{
	__mmask16 store = _mm512_test_epi32_mask(values, values);
	store = _mm512_mask_cmple_epi32_mask(store, h->k, set1(BLOCKS_SIZE));
	__m512i index = _mm512_add_epi32(h->at, h->k);
	_mm512_mask_i32scatter_epi32(
		before(driver->blocks), store & (__mmask16)~h->drop, index, values, 2);
	__mmask16 dump = store & h->drop & dc;
	if (__builtin_expect(dump, 0))
		_mm512_mask_i32scatter_epi32(before(driver->dump[0]), dump, index,
			_mm512_and_si512(values, set1(0xffff)), 2);
}

/* Notes the bits of lanes whose MCU has ended. */
INLINE void note(const struct half *h, struct log *log, __mmask16 ended)
{
	_mm512_storeu_si512(log->bit + log->bits, _mm512_maskz_compress_epi32(ended, h->bit));
	log->lanes[log->steps] = ended;
	log->bits += (uint32_t)__builtin_popcount(ended);
	log->steps += ended != 0;
}

/* Takes one entry in every lane. */
INLINE void step(struct half *h, struct driver *driver, unsigned number, __m512i entry, bool chunks)
{
	__m512i length = _mm512_and_si512(entry, set1(HUFFMAN_FOLDED_LENGTH));
	__m512i values = values_of(h, entry);
	__mmask16 pair = _mm512_test_epi32_mask(entry, set1(HUFFMAN_PAIR));
	__mmask16 last = _mm512_test_epi32_mask(entry, set1(HUFFMAN_LAST));
	__mmask16 dc = _mm512_testn_epi32_mask(h->k, h->k);
	h->k = _mm512_add_epi32(h->k, advance_of(entry));
	h->bit = _mm512_add_epi32(h->bit, length);
	h->used = _mm512_add_epi32(h->used, length);
	h->window = _mm512_sllv_epi32(h->window, length);
	scatter(h, driver, values, dc);
	h->k = _mm512_mask_add_epi32(h->k, pair, h->k, set1(1));
	h->k = _mm512_mask_add_epi32(h->k, last, h->k, set1(LAST));

	__mmask16 done = _mm512_cmpge_epi32_mask(h->k, set1(BLOCKS_SIZE));
	__mmask16 odd = _mm512_mask_cmpneq_epi32_mask(
		_mm512_test_epi32_mask(h->k, set1(BLOCKS_SIZE)), h->k, set1(BLOCKS_SIZE));
	__mmask16 over = _mm512_mask_cmpgt_epi32_mask(done, h->bit, h->limit);
	__mmask16 failed = 0;
	if (__builtin_expect(odd | over, 0)) {
		half_store(h, &driver->spill[number]);
		_mm512_store_si512(driver->spill[number].entry, entry);
		struct excepted state = except(driver, number, odd, over, done);
		done = state.done;
		failed = state.failed;
		h->bit = _mm512_load_si512(driver->spill[number].bit);
		h->k = _mm512_load_si512(driver->spill[number].k);
		if (chunks) {
			h->end = _mm512_load_si512(driver->spill[number].end);
			h->limit = _mm512_load_si512(driver->spill[number].limit);
		}
		h->used = _mm512_mask_mov_epi32(h->used, odd | over, set1(WINDOW_BITS + 1));
	}
	h->k = _mm512_maskz_mov_epi32((__mmask16)~done, h->k);
	h->at = _mm512_mask_add_epi32(h->at, done, h->at, h->step);
	h->place = _mm512_mask_add_epi32(h->place, done, h->place, set1(2));
	__mmask16 inside = _mm512_cmplt_epi32_mask(h->place, h->wrap);
	h->place = _mm512_maskz_mov_epi32(inside, h->place);
	if (chunks)
		note(h, &driver->log[number], done & (__mmask16)~inside);
	__mmask16 ended = _mm512_mask_cmpeq_epi32_mask(done, h->at, h->end) | failed;
	if (__builtin_expect(ended, 0)) {
		half_store(h, &driver->spill[number]);
		__mmask16 turned = ended | (__mmask16)~h->live;
		struct turned state =
			turn_seats(driver, number, ended, (struct turned){h->live, h->drop});
		h->live = state.live;
		h->drop = state.drop;
		half_load(h, &driver->spill[number]);
		h->used = _mm512_mask_mov_epi32(h->used, turned, set1(WINDOW_BITS + 1));
	}
	choose_table(h);
}

/* Keeps room for the next two steps. */
INLINE void keep_log(struct driver *driver)
{
	for (unsigned half = 0; half < HALVES; half++)
		if (__builtin_expect(driver->log[half].bits > LOG_BITS - 2 * WIDTH, 0))
			sort_log(driver, half);
}

/* Asks for runs for a half that is idle, and so has none that could end. By value: a half whose
 * address is known elsewhere would not stay in registers. */
static __attribute__((noinline)) struct half ask_for(
	struct half h, struct driver *driver, unsigned half)
{
	if (h.live)
		return h;
	struct turned state = turn_seats(driver, half, 0, (struct turned){0, 0});
	h.live = state.live;
	h.drop = state.drop;
	half_load(&h, &driver->spill[half]);
	h.used = set1(WINDOW_BITS + 1);
	choose_table(&h);
	return h;
}

INLINE void run(struct driver *driver, bool chunks)
{
	struct half a, b;
	struct turned none = {0, 0};
	struct turned first = turn_seats(driver, 0, 0xffff, none);
	struct turned second = turn_seats(driver, 1, 0xffff, none);
	half_load(&a, &driver->spill[0]);
	half_load(&b, &driver->spill[1]);
	a.live = first.live, a.drop = first.drop;
	b.live = second.live, b.drop = second.drop;
	choose_table(&a);
	choose_table(&b);
	while (driver->busy) {
		gather_window(&a, driver);
		gather_window(&b, driver);
		__m512i entry_a = look_up(&a, driver), entry_b = look_up(&b, driver);
		step(&a, driver, 0, entry_a, chunks);
		step(&b, driver, 1, entry_b, chunks);
		entry_a = look_up_again(&a, driver);
		entry_b = look_up_again(&b, driver);
		step(&a, driver, 0, entry_a, chunks);
		step(&b, driver, 1, entry_b, chunks);
		if (chunks)
			keep_log(driver);
		if (__builtin_expect(driver->ask, 0) && !(a.live && b.live)) {
			driver->ask = false;
			a = ask_for(a, driver, 0);
			b = ask_for(b, driver, 1);
		}
	}
}

static void driver_init(struct driver *driver, lane_next_fn *next, void *context)
{
	*driver = (struct driver){.next = next, .context = context};
}

static void decode(lane_next_fn *next, void *context)
{
	struct driver driver;
	driver_init(&driver, next, context);
	run(&driver, false);
}

static void decode_chunks(lane_next_fn *next, void *context)
{
	struct driver driver;
	driver_init(&driver, next, context);
	run(&driver, true);
}

const struct lanes lanes_avx512_chunks = {
	.name = "avx512",
	.kind = HUFFMAN_CODES,
	.width = LANES,
	.decode = decode_chunks,
	.unstuff = unstuff_avx512,
	.checksum = checksum_avx512,
	.chunks = &lanes_avx512_chunks,
};

const struct lanes lanes_avx512 = {
	.name = "avx512",
	.kind = HUFFMAN_CODES,
	.width = LANES,
	.decode = decode,
	.unstuff = unstuff_avx512,
	.checksum = checksum_avx512,
	/* An idle lane costs as much as a busy one: this pays if at least half of them are busy. */
	.few = &lanes_avx2,
	.few_below = LANES / 2,
	.chunks = &lanes_avx512_chunks,
};
#else
typedef int lanes_avx512_empty;
#endif
