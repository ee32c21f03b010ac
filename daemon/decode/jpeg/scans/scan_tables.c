/* scan_tables: see scan_tables.h. */
#include "decode/jpeg/scans/scan_tables.h"

static uint32_t *fill(uint32_t *at, uint32_t entry, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		at[i] = entry;
	return at + count;
}

/* All entries that begin with the code of the end of a band: 1 << size blocks and as many more as
 * the `size` bits after the code say. */
static uint32_t *fill_first_end(uint32_t *at, unsigned size, unsigned rest, unsigned length)
{
	if (size > rest)
		return fill(at, length | SCAN_ESCAPE_EOB << 8 | size << 16, 1u << rest);
	uint32_t entry = (length + size) | HUFFMAN_EOB << 8;
	for (uint32_t more = 0; more < 1u << size; more++)
		at = fill(at, entry | ((1u << size) - 1 + more) << 16, 1u << (rest - size));
	return at;
}

static uint32_t *fill_first(uint32_t *at, unsigned symbol, unsigned length, unsigned low)
{
	unsigned rest = HUFFMAN_VALUE_BITS - length, run = symbol >> 4, size = symbol & 15;
	if (scan_first_bad(symbol, low))
		return fill(at, HUFFMAN_ESCAPE << 8, 1u << rest);
	if (size == 0 && symbol != SCAN_NO_COEFFICIENT)
		return fill_first_end(at, run, rest, length);
	if (size > rest)
		return fill(at, length | (HUFFMAN_ESCAPE + run + 1) << 8 | size << 16, 1u << rest);
	uint32_t entry = (length + size) | (run + 1) << 8;
	if (size == 0)
		return fill(at, entry, 1u << rest);
	int half = 1 << (size - 1), step = 1 << low;
	unsigned each = 1u << (rest - size);
	for (int value = 1 - 2 * half; value <= -half; value++)
		at = fill(at, entry | (uint32_t)(value * step) << 16, each);
	for (int value = half; value < 2 * half; value++)
		at = fill(at, entry | (uint32_t)(value * step) << 16, each);
	return at;
}

void scan_tables_first(const struct parse_code *code, unsigned low, uint32_t *table)
{
	uint32_t *at = table, *end = table + (1 << HUFFMAN_VALUE_BITS);
	const uint8_t *symbol = code->symbols;
	for (unsigned length = 1; length <= HUFFMAN_VALUE_BITS; length++)
		for (unsigned i = 0; i < code->counts[length - 1]; i++)
			at = fill_first(at, *symbol++, length, low);
	fill(at, HUFFMAN_ESCAPE << 8, (unsigned)(end - at));
}

/* Sets all entries that end in these bits. */
static void spread(uint32_t *table, uint32_t bits, unsigned length, uint32_t entry)
{
	for (uint32_t at = bits; at < 1u << SCAN_REFINE_BITS; at += 1u << length)
		table[at] = entry;
}

static void spread_end(uint32_t *table, uint32_t bits, unsigned length, unsigned size)
{
	if (length + size > SCAN_REFINE_BITS) {
		spread(table, bits, length,
			length | SCAN_EOB | SCAN_EOB_BITS | size << SCAN_MORE_SHIFT);
		return;
	}
	for (uint32_t more = 0; more < 1u << size; more++)
		spread(table, bits | scan_reverse(more, size) << length, length + size,
			(length + size) | SCAN_EOB | ((1u << size) - 1 + more) << SCAN_MORE_SHIFT);
}

static void spread_symbol(uint32_t *table, uint32_t bits, unsigned length, unsigned symbol)
{
	unsigned run = symbol >> 4, size = symbol & 15;
	uint32_t entry = run << SCAN_RUN_SHIFT;
	if (scan_refine_bad(symbol))
		return;
	if (size == 0 && symbol != SCAN_NO_COEFFICIENT) {
		spread_end(table, bits, length, run);
	} else if (size == 0) {
		spread(table, bits, length, entry | length);
	} else if (length < SCAN_REFINE_BITS) {
		length++;
		spread(table, bits, length, entry | length | SCAN_NEW | SCAN_NEGATIVE);
		spread(table, bits | 1u << (length - 1), length, entry | length | SCAN_NEW);
	}
}

void scan_tables_refine(const struct parse_code *code, uint32_t *table)
{
	const uint8_t *symbol = code->symbols;
	uint32_t next = 0;
	(void)fill(table, 0, 1u << SCAN_REFINE_BITS);
	for (unsigned length = 1; length <= SCAN_REFINE_BITS; length++, next <<= 1)
		for (unsigned i = 0; i < code->counts[length - 1]; i++)
			spread_symbol(table, scan_reverse(next++, length), length, *symbol++);
}
