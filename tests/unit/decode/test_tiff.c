/* TIFF: the sentence for each bad file; regions of turned images; and the memory that libtiff gets.
 * types_corpus.py compares pixels with Pillow's. */
#include "images.h"

#include "decode/types/tiff_memory.h"

#include "fuzz/tiff_seeds.h"

enum {
	WIDTH = 256,
	HEIGHT = 257,
	BITS = 258,
	COMPRESSION = 259,
	PHOTOMETRIC = 262,
	STRIPS = 273,
	SAMPLES = 277,
	ROWS = 278,
	STRIP_BYTES = 279,
};

static bool skips(void)
{
	return !strcmp(decode_format_library(DECODE_TIFF), "none");
}

/* The entry of a tag in a little-endian file. */
static uint8_t *entry_of(struct bytes tiff, unsigned tag)
{
	const uint8_t *at = tiff.data + 4;
	uint8_t *entry = tiff.data + (at[0] | at[1] << 8) + 2;
	for (; (unsigned)(entry[0] | entry[1] << 8) != tag; entry += 12)
		assert_true(entry + 12 < tiff.data + tiff.size);
	return entry;
}

static void set32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static void expect(struct bytes tiff, int outcome, const char *text)
{
	struct decoder *decoder = make_decoder(NULL);
	struct result result = decode_bytes(decoder, tiff, NULL, true);
	if (result.outcome != outcome)
		fail_msg("outcome %d: %s; expected %d: %s", result.outcome, result.message, outcome,
			text);
	if (text && !strstr(result.message, text))
		fail_msg("%s: expected %s", result.message, text);
	result_free(&result);
	decoder_free(decoder);
	free(tiff.data);
}

static void test_tags(void **state)
{
	static const struct {
		unsigned tag, type; /* type 0: as it is */
		uint32_t value;
		int outcome;
		const char *text;
	} cases[] = {
		{WIDTH, 0, 0, DECODE_E_CORRUPT, "0 x 4 pixels"},
		{WIDTH, 0, 65536, DECODE_E_PIXELS, "a side may have at most 65535"},
		{WIDTH, 2, 5, DECODE_E_CORRUPT, "the tag ImageWidth is not an integer"},
		{HEIGHT, 0, 5, DECODE_E_TRUNCATED, "2 tiles or strips; an image of its size has 3"},
		{COMPRESSION, 0, 6, DECODE_E_UNSUPPORTED, "compression 6 (JPEG of before 1995)"},
		{COMPRESSION, 0, 50001, DECODE_E_UNSUPPORTED, "compression 50001"},
		{COMPRESSION, 0, 8, DECODE_E_CORRUPT, "the strip at (0, 0)"},
		{PHOTOMETRIC, 0, 8, DECODE_E_UNSUPPORTED, "CIELAB"},
		{PHOTOMETRIC, 0, 9, DECODE_E_UNSUPPORTED, "photometric interpretation 9"},
		{SAMPLES, 0, 4, DECODE_E_UNSUPPORTED, "with 4 samples of 8 bits"},
		{SAMPLES, 0, 60000, DECODE_E_UNSUPPORTED, "with 60000 samples"},
		{ROWS, 0, 0, DECODE_E_CORRUPT, "strips without rows"},
	};
	if (skips())
		return;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct bytes tiff = bytes_copy(tiff_raw, sizeof(tiff_raw));
		uint8_t *entry = entry_of(tiff, cases[i].tag);
		if (cases[i].type)
			entry[2] = (uint8_t)cases[i].type;
		set32(entry + 8, cases[i].value);
		expect(tiff, cases[i].outcome, cases[i].text);
	}
}

static void test_places(void **state)
{
	if (skips())
		return;
	struct bytes tiff = bytes_copy(tiff_raw, sizeof(tiff_raw));
	const uint8_t *entry = entry_of(tiff, STRIPS) + 8;
	set32(tiff.data + (entry[0] | entry[1] << 8) + 4, 0xfffffff0u);
	expect(tiff, DECODE_E_TRUNCATED, "the file ends in the pixels at (0, 2)");
	tiff = bytes_copy(tiff_raw, sizeof(tiff_raw));
	set32(tiff.data + 4, (uint32_t)sizeof(tiff_raw));
	expect(tiff, DECODE_E_TRUNCATED, "its directory should begin at byte");
	tiff = bytes_copy(tiff_raw, 12);
	expect(tiff, DECODE_E_TRUNCATED, "the file ends in its header");
	tiff = bytes_copy("MM\0+\0\10\0\0\0\0\0\0\0\0\0\20", 16);
	expect(tiff, DECODE_E_UNSUPPORTED, "a big-endian BigTIFF");
}

/* A file that is cut anywhere is refused with a sentence, and nothing beyond it is read. */
static void test_cut(void **state)
{
	if (skips())
		return;
	for (size_t size = 8; size < sizeof(tiff_lzw); size++) {
		struct bytes tiff = bytes_copy(tiff_lzw, size);
		struct decoder *decoder = make_decoder(NULL);
		struct result result = decode_bytes(decoder, tiff, NULL, true);
		result_free(&result);
		decoder_free(decoder);
		free(tiff.data);
	}
}

/* More pixels in a tile than in any image: refused before memory is taken for it. */
static void test_large_tile(void **state)
{
	if (skips())
		return;
	struct decode_limits limits = decode_limits_default();
	limits.pixels = 20 * 9;
	struct bytes tiff = bytes_copy(tiff_tiles, sizeof(tiff_tiles));
	struct decoder *decoder = make_decoder(&limits);
	struct result result = decode_bytes(decoder, tiff, NULL, true);
	assert_int_equal(result.outcome, DECODE_E_PIXELS);
	assert_non_null(strstr(result.message, "a tile of 16 x 16 pixels"));
	decoder_free(decoder);
	free(tiff.data);
}

/* An image that is one row high and two tiles wide gives its row once. */
static void test_low_tiles(void **state)
{
	if (skips())
		return;
	struct bytes tiff = bytes_copy(tiff_tiles, sizeof(tiff_tiles));
	struct decoder *decoder = make_decoder(NULL);
	struct result whole = decode_bytes(decoder, tiff, NULL, true);
	assert_int_equal(whole.outcome, DECODE_OK);
	assert_int_equal(tiff.data[0x128 + 2 + 12 + 11], 9); /* its height */
	tiff.data[0x128 + 2 + 12 + 11] = 1;
	struct result low = decode_bytes(decoder, tiff, NULL, true);
	assert_int_equal(low.outcome, DECODE_OK);
	assert_int_equal(low.info.width, 20);
	assert_int_equal(low.info.height, 1);
	assert_memory_equal(low.rgb, whole.rgb, (size_t)20 * 3);
	result_free(&low);
	result_free(&whole);
	decoder_free(decoder);
	free(tiff.data);
}

/* Each region of an image that is stored on its side is a part of the whole. */
static void test_turned(void **state)
{
	if (skips())
		return;
	struct bytes tiff = bytes_copy(tiff_deflate, sizeof(tiff_deflate));
	struct decoder *decoder = make_decoder(NULL);
	struct result whole = decode_bytes(decoder, tiff, NULL, true);
	assert_int_equal(whole.outcome, DECODE_OK);
	assert_int_equal(whole.info.width, 5);
	assert_int_equal(whole.info.height, 6);
	for (uint32_t y = 0; y < 6; y++)
		for (uint32_t x = 0; x < 5; x++) {
			const struct decode_region region = {x, y, x + 1, y + 1};
			struct result part = decode_bytes(decoder, tiff, &region, false);
			assert_int_equal(part.outcome, DECODE_OK);
			assert_memory_equal(
				part.rgb, whole.rgb + ((size_t)y * 5 + x) * 3, (size_t)3);
			result_free(&part);
		}
	result_free(&whole);
	decoder_free(decoder);
	free(tiff.data);
}

/* Random calls: pieces do not overlap, keep their bytes, and all memory comes back. */
static void test_memory(void **state)
{
	enum { BYTES = 1 << 14, PIECES = 40, CALLS = 20000 };
	static _Alignas(16) uint8_t memory[BYTES];
	uint8_t *piece[PIECES] = {NULL};
	size_t size[PIECES] = {0};
	unsigned random = 1, refused = 0;
	tiff_memory_lend(memory, BYTES);
	for (int call = 0; call < CALLS; call++) {
		random = random * 1664525u + 1013904223u;
		const size_t i = (random >> 8) % PIECES, wanted = (random >> 16) % 900;
		for (size_t j = 0; j < size[i]; j++)
			assert_int_equal(piece[i][j], (uint8_t)(i + 1));
		if (piece[i] && call % 3) {
			tiff_memory_free(piece[i]);
			piece[i] = NULL;
			size[i] = 0;
			continue;
		}
		uint8_t *made = piece[i] ? tiff_memory_realloc(piece[i], wanted)
					 : tiff_memory_malloc(wanted);
		refused += made == NULL;
		if (!made)
			continue;
		assert_true(made >= memory && made + wanted <= memory + BYTES);
		assert_int_equal((uintptr_t)made % 16, 0);
		piece[i] = made;
		size[i] = wanted;
		memset(made, (int)(i + 1), wanted);
	}
	assert_true(refused > 0 && tiff_memory_short());
	for (size_t i = 0; i < PIECES; i++)
		tiff_memory_free(piece[i]);
	uint8_t *all = tiff_memory_calloc(1, BYTES - 16);
	assert_ptr_equal(all, memory + 16);
	assert_int_equal(all[BYTES - 17], 0);
	assert_null(tiff_memory_malloc(1));
	assert_null(tiff_memory_calloc(SIZE_MAX, 2));
	assert_null(tiff_memory_malloc(SIZE_MAX));
	tiff_memory_return();
	assert_null(tiff_memory_malloc(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_large_tile),
		cmocka_unit_test(test_low_tiles),
		cmocka_unit_test(test_turned),
		cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
