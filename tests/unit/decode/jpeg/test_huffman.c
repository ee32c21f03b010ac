/* Tables against the canonical rule, for random codes: every entry of both forms; invalid codes are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/jpeg/huffman.h"

#include <stdlib.h>
#include <string.h>

static uint32_t seed = 7;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

struct code {
	uint8_t counts[16], symbols[256];
};

/* A code with room left, including the all-ones code, and with symbols of all kinds. */
static struct parse_code random_code(struct code *code, bool ac)
{
	uint32_t left = 65535; /* of 16-bit codes; all ones is none */
	unsigned count = 0;
	memset(code, 0, sizeof(*code));
	for (int length = 1; length <= 16; length++) {
		uint32_t each = 1u << (16 - length);
		uint32_t most = left / each;
		uint32_t take = random_below(3) ? random_below((most > 30 ? 30 : most) + 1) : 0;
		if (count + take > 256)
			take = 256 - count;
		code->counts[length - 1] = (uint8_t)take;
		left -= take * each;
		count += take;
	}
	/* Often those that an entry can have second. EOB has one code, as in every sound table. */
	const unsigned few = random_below(2) ? 5 : 255;
	for (unsigned i = 0; i < count; i++)
		code->symbols[i] = (uint8_t)(ac ? 1 + random_below(few) : random_below(12));
	if (ac && count)
		code->symbols[random_below(count)] = 0;
	return (struct parse_code){code->counts, code->symbols, count};
}

/* T.81, F.2.2.3, as drawn there: bit by bit. */
static struct huffman_symbol by_the_book(const struct parse_code *code, bool ac, uint64_t window)
{
	uint32_t value = 0, first = 0;
	unsigned place = 0;
	for (unsigned length = 1; length <= 16; length++) {
		value = (uint32_t)(window >> (64 - length));
		if (value - first < code->counts[length - 1]) {
			unsigned symbol = code->symbols[place + value - first];
			unsigned size = ac ? symbol & 15 : symbol, run = ac ? symbol >> 4 : 0;
			if (ac && symbol == 0)
				return (struct huffman_symbol){length, HUFFMAN_EOB, 0};
			if (ac && (size > 10 || (size == 0 && run != 15)))
				return (struct huffman_symbol){0};
			int bits = size ? (int)(window << length >> (64 - size)) : 0;
			if (size && !(bits >> (size - 1)))
				bits -= (1 << size) - 1;
			return (struct huffman_symbol){length + size, run + 1, bits};
		}
		place += code->counts[length - 1];
		first = (first + code->counts[length - 1]) << 1;
	}
	return (struct huffman_symbol){0};
}

static uint64_t random_window(uint32_t first, unsigned bits)
{
	uint64_t rest = (uint64_t)random_below(1 << 20) << 40 | (uint64_t)random_below(1 << 20)
									<< 20;
	return (uint64_t)first << (64 - bits) | rest >> bits;
}

static void check_value(uint32_t entry, struct huffman_symbol want, bool ac)
{
	unsigned length = entry & 0xff, advance = entry >> 8 & 0xff;
	int value = (int16_t)(entry >> 16);
	if (want.length && want.length <= HUFFMAN_VALUE_BITS) {
		assert_int_equal(length, want.length);
		assert_int_equal(advance, want.advance);
		assert_int_equal(value, want.value);
	} else if (length) {
		assert_true(ac && want.length);
		assert_int_equal(advance, HUFFMAN_ESCAPE + want.advance);
		assert_int_equal(length + (entry >> 16), want.length);
	} else {
		assert_int_equal(advance, HUFFMAN_ESCAPE);
	}
}

/* Whether bits that begin with a code for a pair's second value, or for EOB, have all of it. */
static bool fits(struct huffman_symbol symbol, unsigned bits, bool pair)
{
	const bool kind = pair ? symbol.advance == 1 && symbol.value && abs(symbol.value) < 32
			       : symbol.advance == HUFFMAN_EOB;
	return symbol.length && symbol.length <= bits && kind;
}

static void check_code(const struct parse_code *ac_code, uint32_t entry, struct huffman_symbol want,
	uint64_t window)
{
	const unsigned advance = entry >> 8 & 0xff, size = entry >> 16 & 15,
		       code = entry >> 21 & 15;
	unsigned length = code + size;
	if (advance == HUFFMAN_ESCAPE) {
		assert_int_equal(entry, HUFFMAN_ESCAPE << 8);
		return;
	}
	assert_int_equal(entry & (1u << 6 | 1u << 20 | 1u << 25), 0);
	assert_int_equal(length, want.length);
	assert_int_equal(advance, want.advance);
	int64_t bits = size ? (int64_t)(window << code >> (64 - size)) : 0;
	if (size && !(bits >> (size - 1)))
		bits -= (1 << size) - 1;
	assert_int_equal(bits, want.value);
	struct huffman_symbol next = {0};
	unsigned room = length < HUFFMAN_CODE_BITS ? HUFFMAN_CODE_BITS - length : 0;
	if (advance < HUFFMAN_EOB)
		next = by_the_book(ac_code, true, window << length);
	const bool pair = fits(next, room, true);
	assert_int_equal((entry & HUFFMAN_PAIR) != 0, pair);
	assert_int_equal((int32_t)entry >> 26, pair ? next.value : 0);
	if (pair) {
		length += next.length;
		room -= next.length;
		next = by_the_book(ac_code, true, window << length);
	}
	const bool last = fits(next, room, false);
	assert_int_equal((entry & HUFFMAN_LAST) != 0, last);
	length += last ? next.length : 0;
	assert_int_equal(entry & HUFFMAN_FOLDED_LENGTH, length);
}

static void check_tables(const struct parse *parse, const uint32_t *values, const uint32_t *codes,
	const struct huffman *huffman)
{
	for (int ac = 0; ac < 2; ac++) {
		const struct parse_code *code = ac ? &parse->ac[0] : &parse->dc[0];
		for (uint32_t i = 0; i < 1 << HUFFMAN_VALUE_BITS; i++) {
			uint64_t window = random_window(i, HUFFMAN_VALUE_BITS);
			struct huffman_symbol want = by_the_book(code, ac, window);
			struct huffman_symbol got = huffman_decode(&huffman->code[0][ac], window);
			assert_int_equal(got.length, want.length);
			assert_int_equal(got.advance, want.advance);
			assert_int_equal(got.value, want.value);
			check_value(values[(ac << HUFFMAN_VALUE_BITS) + (int)i], want, ac);
		}
		for (uint32_t i = 0; i < 1 << HUFFMAN_CODE_BITS; i++) {
			uint64_t window = random_window(i, HUFFMAN_CODE_BITS);
			check_code(&parse->ac[0], codes[(ac << HUFFMAN_CODE_BITS) + (int)i],
				by_the_book(code, ac, window), window);
		}
	}
}

static void test_tables(void **state)
{
	(void)state;
	const struct parse gray = {.components = 1};
	uint32_t *values = test_malloc(huffman_tables_bytes(&gray, HUFFMAN_VALUES));
	uint32_t *codes = test_malloc(huffman_tables_bytes(&gray, HUFFMAN_CODES));
	for (int round = 0; round < 300; round++) {
		struct code dc, ac;
		struct parse parse = {.components = 1};
		parse.component[0].h = parse.component[0].v = 1;
		parse.dc[0] = random_code(&dc, false);
		parse.ac[0] = random_code(&ac, true);
		struct huffman huffman;
		assert_int_equal(huffman_build(&parse, HUFFMAN_VALUES, values, &huffman), 0);
		assert_int_equal(huffman_build(&parse, HUFFMAN_CODES, codes, &huffman), 0);
		check_tables(&parse, values, codes, &huffman);
	}
	test_free(values);
	test_free(codes);
}

static int build_counts(const uint8_t *counts, uint8_t symbol)
{
	uint8_t symbols[256];
	memset(symbols, symbol, sizeof(symbols));
	unsigned count = 0;
	for (int i = 0; i < 16; i++)
		count += counts[i];
	struct parse parse = {.components = 1};
	parse.component[0].h = parse.component[0].v = 1;
	parse.dc[0] = parse.ac[0] = (struct parse_code){counts, symbols, count};
	struct huffman huffman;
	return huffman_build(&parse, HUFFMAN_NONE, NULL, &huffman);
}

static void test_refused(void **state)
{
	(void)state;
	static const uint8_t fine[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	static const uint8_t all_ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2};
	static const uint8_t short_ones[16] = {2};
	static const uint8_t too_many[16] = {0, 3, 2};
	static const uint8_t none[16] = {0};
	assert_int_equal(build_counts(fine, 3), 0);
	assert_int_equal(build_counts(none, 3), 0);
	assert_int_equal(build_counts(all_ones, 3), STEPBACK_TABLES);
	assert_int_equal(build_counts(short_ones, 3), STEPBACK_TABLES);
	assert_int_equal(build_counts(too_many, 3), STEPBACK_TABLES);
	assert_int_equal(build_counts(fine, 12), STEPBACK_TABLES); /* no DC of 8 bits */
}

static void test_classes(void **state)
{
	(void)state;
	static const uint8_t counts[16] = {0, 1};
	static const uint8_t symbols[1] = {0};
	struct parse parse = {.components = 3};
	for (int i = 0; i < 3; i++) {
		parse.dc[i] = parse.ac[i] = (struct parse_code){counts, symbols, 1};
		parse.component[i] = (struct parse_component){.h = i ? 1 : 2, .v = 1};
	}
	struct huffman huffman;
	parse.component[1].ac = 1;
	parse.component[2].ac = 1;
	assert_int_equal(huffman_build(&parse, HUFFMAN_NONE, NULL, &huffman), 0);
	assert_int_equal(huffman.classes, 2);
	assert_int_equal(huffman.in_mcu, 4);
	static const unsigned classes[2][4] = {{0, 0, 1, 1}, {0, 0, 1, 2}};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(huffman.place[i].class_of, classes[0][i]);
		assert_int_equal(huffman.place[i].component_of, i < 2 ? 0 : i - 1);
	}
	parse.component[2].dc = 2;
	assert_int_equal(huffman_build(&parse, HUFFMAN_NONE, NULL, &huffman), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(huffman.place[i].class_of, classes[1][i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_classes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
