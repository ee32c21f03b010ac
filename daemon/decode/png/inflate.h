/* inflate: inflates a zlib stream (RFC 1950, 1951) piece by piece, for the rows of a PNG.
 *
 * The caller owns the memory that the bytes go to, and asks for them up to a place in it. So an
 * image takes a window of memory, not its size, and nothing after the last row wanted is inflated.
 * Input comes in pieces, too: `more` is asked for them.
 *
 * Fast where it counts: symbols are found in tables of 12 bits, an entry of which may hold two
 * literals, and 56 bits are read at once. That loop exists once per instruction set
 * (kernels/png_kernels.h). Within 32 bytes of the input's end, a careful loop takes over.
 *
 * Refuses at least what zlib refuses, and a few streams that zlib reads: libpng decides about
 * those. The bytes that were made before an error are zlib's. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INFLATE_HISTORY = 32768, /* bytes before `out` that a match may refer to */
	/* Bytes after the place asked for that may be written, and how many of them may count. */
	INFLATE_OVERSHOOT = 320,
	/* Tables that are built for one stream. Encoders begin a block every 16 KB of output or
	 * more, so only a stream that is made to cost time has as many: a block of 12 bytes that
	 * makes nothing costs 10 us. */
	INFLATE_TABLES_MOST = 1 << 16,
	/* The least input that `more` leaves, unless the input ends: a block's header, and more. */
	INFLATE_INPUT_LEAST = 1024,
	/* Input that the fast loop looks at beyond what it takes. */
	INFLATE_INPUT_MARGIN = 32,

	INFLATE_CODE_MOST = 15, /* bits */
	INFLATE_LITLEN_BITS = 12,
	INFLATE_DIST_BITS = 9,
	/* A subtable of 2^n entries belongs to at least n + 1 codes. So those of 288 codes of up to
	 * 3 bits more have at most 2 entries for each, those of 32 codes of up to 6 bits more at
	 * most 64 / 7. */
	INFLATE_LITLEN_ENTRIES = (1 << INFLATE_LITLEN_BITS) + 2 * 288,
	INFLATE_DIST_ENTRIES = (1 << INFLATE_DIST_BITS) + 10 * 32,
};

/* Entries of the tables.
 *
 * Literals: bits 0 to 7 how many bits of input they take, 8 to 23 one or two bytes of output, 24 to
 * 25 how many. Lengths and distances: bits 0 to 7 how many bits of input they take with their extra
 * bits, 8 to 11 without these, 16 to 30 the least value. Links: 8 to 23 where the subtable is, 24
 * to 27 its bits. */
#define INFLATE_LITERAL 0x80000000u
#define INFLATE_LINK 0x40000000u
#define INFLATE_END 0x20000000u
#define INFLATE_BAD 0x10000000u
#define INFLATE_SPECIAL (INFLATE_LINK | INFLATE_END | INFLATE_BAD)
#define INFLATE_DIST_SPECIAL 0x80000000u

enum inflate_state {
	INFLATE_HEAD, /* a block's header comes next */
	INFLATE_STORED, /* within a stored block */
	INFLATE_CODED, /* within a coded one */
	INFLATE_ENDED,
};

struct inflate {
	const uint8_t *in, *in_end; /* input that was not taken yet */
	bool in_last; /* no input comes after it */
	/* Appends input, so that INFLATE_INPUT_LEAST bytes are there, or sets in_last. May move
	 * what is left, together with the 8 bytes before it. */
	void (*more)(void *context, struct inflate *inflate);
	void *context;
	/* Bits that were taken from `in`, the next one lowest: `count` of them. `made` bytes of
	 * these were not in the input. Above them may be those that come next. */
	uint64_t bits;
	unsigned count, made;

	const uint8_t *start; /* the oldest byte that a match may refer to */
	uint8_t *out; /* where the next byte goes */

	enum inflate_state state;
	bool last; /* the block is the last one */
	bool fixed; /* the tables are those of the fixed codes */
	unsigned tables; /* that were built */
	unsigned stored; /* bytes of a stored block that are left */
	uint32_t litlen[INFLATE_LITLEN_ENTRIES];
	uint32_t dist[INFLATE_DIST_ENTRIES];
};

/* What a loop over coded symbols ended with. */
enum inflate_stop {
	INFLATE_MORE, /* at `stop`, or near the end of the input */
	INFLATE_BLOCK, /* the block ended */
	INFLATE_FAILED, /* bits that mean nothing, or a distance to before `start` */
};

/* The fast loop: needs INFLATE_INPUT_MARGIN bytes of input, and a symbol's room before `stop`. */
typedef enum inflate_stop inflate_coded_fn(struct inflate *inflate, const uint8_t *stop);

/* Begins a stream, of which the caller has set in, in_end, in_last, more and context. Reads the
 * header. False: not a zlib stream, or one with a dictionary. */
bool inflate_begin(struct inflate *inflate);

/* Inflates until `out` has reached `stop`, or the state is INFLATE_ENDED. False: an error, at
 * `out`, or more than INFLATE_TABLES_MOST. */
bool inflate_run(struct inflate *inflate, inflate_coded_fn *coded, const uint8_t *stop);

/* After INFLATE_ENDED: the stream's Adler-32. False: it is not there. */
bool inflate_sum(struct inflate *inflate, uint32_t *ret);
