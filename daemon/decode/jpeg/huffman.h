/* huffman: a scan's codes as tables, in the two forms that the lanes use to look symbols up.
 *
 * Values (scalar lanes): the next 12 bits give run, size and the value itself if code and value
 * fit; that is the best length for one look-up at a time. Codes (SIMD lanes): the next 11 bits give
 * run, size and lengths; shifts extract the value, which costs nothing there, and the table stays
 * in the cache. If these bits also have the value, and a coefficient that follows without zeros
 * between, or an EOB, or both, then one entry stands for all of it. That saves a fourth of all
 * look-ups, and the two coefficients, which are neighbors, are one store. A symbol that the table
 * does not have is an escape, decoded by the canonical rule (T.81, F.2.2.3), which is also the
 * reference.
 *
 * Components that share their tables share a class; there are up to three. Symbols that no 8-bit
 * image needs (an AC size above 10, sizes of 0 with a run that is neither EOB nor 15) count as bad
 * codes. Built by one thread, then only read. */
#pragma once

#include "decode/jpeg/parse.h"

#include <stdbool.h>

enum {
	HUFFMAN_VALUE_BITS = 12,
	HUFFMAN_CODE_BITS = 11,
	/* AC symbols add to the number k of coefficients that a block has. Below 64 the block
	 * continues, at 64 it is full. Larger sums: 65 .. 127 a run went too far, 128 .. 191 the
	 * block ended early, 192 and more the table does not have the symbol. */
	HUFFMAN_EOB = 128,
	HUFFMAN_ESCAPE = 192,
	/* What an entry of a code table may have besides its first symbol. */
	HUFFMAN_PAIR = 1 << 5,
	HUFFMAN_LAST = 1 << 7,
	HUFFMAN_FOLDED_LENGTH = 31, /* the bits of all that the entry stands for */
	/* Where its other fields begin. */
	HUFFMAN_SIZE_SHIFT = 16,
	HUFFMAN_LENGTH_SHIFT = 21,
	HUFFMAN_PAIR_SHIFT = 26,
	HUFFMAN_LONGEST = 16 + 11, /* bits of a code and its value */
};

enum huffman_kind {
	HUFFMAN_NONE, /* canonical form only */
	HUFFMAN_VALUES,
	HUFFMAN_CODES,
};

/* The canonical form. */
struct huffman_code {
	uint32_t limit[17]; /* by length: from these 16 bits on, codes are longer */
	int32_t offset[17]; /* by length: from a code to its symbol's index */
	const uint8_t *symbols; /* in the file */
	bool ac;
};

/* What a block of an MCU is decoded with. */
struct huffman_place {
	const uint32_t *dc, *ac; /* tables */
	uint32_t class_of, component_of;
	/* That of the next block; after an MCU's last block its first. A load instead of a
	 * comparison: lanes that take turns make a pattern that no branch predictor learns. */
	const struct huffman_place *next;
};

/* Points into itself, so it must not be moved. */
struct huffman {
	struct huffman_code code[BLOCKS_COMPONENTS][2]; /* by class; DC, AC */
	unsigned classes, components, in_mcu;
	struct huffman_place place[BLOCKS_IN_MCU]; /* by block of an MCU */
	const uint32_t *tables; /* by class: DC, then AC */
};

/* An entry of a value table, from the lowest bit: length of code and value (8 bits; 0 in an escape
 * of unknown length), advance of k (8 bits), value (16 bits, signed). An AC escape whose code is
 * known has the code's length, HUFFMAN_ESCAPE + advance, and the value's size.
 *
 * An entry of a code table, from the lowest bit: length of all (5 bits), HUFFMAN_PAIR, a 0,
 * HUFFMAN_LAST; advance by the first symbol (8 bits); its value's size (4), a 0; its code's length
 * (4), a 0; with HUFFMAN_PAIR the next coefficient, which is never 0 (6, signed). HUFFMAN_LAST: an
 * EOB comes last. Whether the block has room for all that is left to the lanes: if the block is
 * full before the entry's end, only its first symbol counts. */

/* One symbol with its value. */
struct huffman_symbol {
	unsigned length; /* bits, up to HUFFMAN_LONGEST; 0: a bad code */
	unsigned advance; /* of k: 1 in DC, run + 1 in AC, 16 without a value, or HUFFMAN_EOB */
	int value;
};

/* Bytes that huffman_build needs for the scan's tables of this kind. */
size_t huffman_tables_bytes(const struct parse *parse, enum huffman_kind kind);

/* Builds the tables of the scan. `tables` is aligned to a cache line and, like the file, outlives
 * *ret. 0 or STEPBACK_TABLES. */
int huffman_build(
	const struct parse *parse, enum huffman_kind kind, uint32_t *tables, struct huffman *ret);

/* The canonical form of one code, and its table of values, of 1 << HUFFMAN_VALUE_BITS entries. 0 or
 * STEPBACK_TABLES. */
int huffman_build_code(const struct parse_code *from, bool ac, struct huffman_code *ret);
void huffman_build_values(const struct parse_code *from, bool ac, uint32_t *table);

/* The symbol, as it is in the file, of the code at the top of these 16 bits, and its length; -1: a
 * bad code. */
int huffman_symbol_at(const struct huffman_code *code, uint32_t next, unsigned *ret_length);

/* The value that `size` bits encode: with a leading 0 it is negative (T.81, table F.1). */
static inline int huffman_extend(unsigned bits, unsigned size)
{
	return size && bits < 1u << (size - 1) ? (int)bits - (1 << size) + 1 : (int)bits;
}

/* The symbol at the top of `window`, of which at least HUFFMAN_LONGEST bits are valid. */
struct huffman_symbol huffman_decode(const struct huffman_code *code, uint64_t window);
