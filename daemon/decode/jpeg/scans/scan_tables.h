/* scan_tables: the AC codes of progressive scans as tables.
 *
 * First scans (high 0) look up the next HUFFMAN_VALUE_BITS bits from the top of the window, in
 * entries like huffman.h's value table: length of code and value (8 bits), advance of the
 * coefficient's index (8), value (16, signed, already shifted to its place). The end of a band has
 * the advance HUFFMAN_EOB and, as its value, how many blocks more end with it. Escapes have the
 * length 0, or that of the code: then the advance is HUFFMAN_ESCAPE + the advance and the value is
 * the size, or the advance is SCAN_ESCAPE_EOB and the value is the number of bits that say how many
 * blocks end.
 *
 * Refining scans look up the next SCAN_REFINE_BITS bits from the bottom of the window, where the
 * first bit of the file is the lowest (refinement distributes bits among coefficients, which
 * processors do from the bottom): length of code and sign (8 bits), run (8 bits, 15 at most),
 * SCAN_NEW, SCAN_NEGATIVE. The end of a band has SCAN_EOB and above it (16 bits) how many blocks
 * more end with it; with SCAN_EOB_BITS, how many bits say that. Escapes have the length 0. Pure. */
#pragma once

#include "decode/jpeg/huffman.h"

enum {
	SCAN_ESCAPE_EOB = 224,
	SCAN_REFINE_BITS = 10,
	SCAN_RUN_SHIFT = 8,
	SCAN_NEW = 1 << 12,
	SCAN_NEGATIVE = 1 << 13,
	SCAN_EOB = 1 << 14,
	SCAN_EOB_BITS = 1 << 15,
	SCAN_MORE_SHIFT = 16,
	SCAN_NO_COEFFICIENT = 15 << 4, /* the symbol for 16 zeros */
};

/* A symbol of a first scan: 0, or STEPBACK_CODE where no 8-bit image has it. `low`: the scan's
 * lowest bit. */
static inline bool scan_first_bad(unsigned symbol, unsigned low)
{
	return (symbol & 15) + low > 10;
}

/* A refining scan has no values beyond one bit. */
static inline bool scan_refine_bad(unsigned symbol)
{
	return (symbol & 15) > 1;
}

/* Bits 0 .. count - 1 in the other order; up to 16 of them. */
static inline uint32_t scan_reverse(uint32_t bits, unsigned count)
{
	uint32_t reversed = 0;
	for (unsigned i = 0; i < count; i++)
		reversed |= (bits >> i & 1) << (count - 1 - i);
	return reversed;
}

/* Fill a table of 1 << HUFFMAN_VALUE_BITS, or 1 << SCAN_REFINE_BITS entries; the code has passed
 * huffman_build_code. */
void scan_tables_first(const struct parse_code *code, unsigned low, uint32_t *table);
void scan_tables_refine(const struct parse_code *code, uint32_t *table);
