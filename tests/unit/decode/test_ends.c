/* Where a scan ends: whatever follows it, or nothing at all, penstock's decoder and libjpeg-turbo
 * have the same outcome and the same pixels, for the whole image and for crops. libjpeg looks
 * further ahead than it needs: it does not finish a file that ends with the scan's last byte,
 * without any marker. */
#include "images.h"

enum { TAIL = 12 };

struct pair {
	struct decoder *own, *library;
};

static struct pair pair_new(void)
{
	return (struct pair){.own = make_decoder_by("own"), .library = make_decoder_by("libjpeg")};
}

static void pair_free(struct pair *pair)
{
	decoder_free(pair->own);
	decoder_free(pair->library);
}

/* Compares region after region; returns how many libjpeg-turbo refused. */
static unsigned pair_compare(const struct pair *pair, struct bytes file)
{
	static const struct decode_region regions[] = {
		{0, 0, 48, 40}, {40, 33, 48, 40}, {0, 39, 1, 40}, {3, 3, 20, 12}};
	unsigned refused = 0;
	for (size_t i = 0; i < UTIL_COUNT(regions); i++) {
		struct result a = decode_bytes(pair->library, file, &regions[i], false);
		struct result b = decode_bytes(pair->own, file, &regions[i], false);
		refused += a.outcome != DECODE_OK;
		if (a.outcome == DECODE_OK || i == 0)
			assert_same(&a, &b);
		result_free(&a);
		result_free(&b);
	}
	return refused;
}

static const struct jpeg_kind kinds[] = {
	{.width = 48, .height = 40, .components = 3, .h = 1, .v = 1},
	{.width = 48, .height = 40, .components = 3, .h = 2, .v = 2},
	{.width = 48, .height = 40, .components = 3, .h = 4, .v = 1, .restart_rows = 1},
	{.width = 48, .height = 40, .components = 1, .quality = 100},
	{.width = 48, .height = 40, .components = 3, .h = 2, .v = 1, .restart_rows = 2},
};

static void test_cut(void **state)
{
	(void)state;
	struct pair pair = pair_new();
	unsigned refused = 0;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct bytes whole = make_jpeg(&kinds[k]);
		for (size_t cut = 0; cut <= TAIL; cut++) {
			struct bytes file = bytes_copy(whole.data, whole.size - cut);
			refused += pair_compare(&pair, file);
			free(file.data);
		}
		free(whole.data);
	}
	assert_true(refused > 0);
	pair_free(&pair);
}

/* Two bytes in place of the end marker, or fill bytes before it. */
static void test_instead(void **state)
{
	(void)state;
	static const uint8_t instead[][2] = {{0xff, 0x00}, {0xff, 0xff}, {0xff, 0xd0}, {0xff, 0xd7},
		{0xff, 0xc4}, {0xff, 0xda}, {0xff, 0xd8}, {0xff, 0x01}, {0x00, 0x00}, {0x12, 0xff}};
	struct pair pair = pair_new();
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct bytes file = make_jpeg(&kinds[k]);
		for (size_t i = 0; i < UTIL_COUNT(instead); i++) {
			memcpy(file.data + file.size - 2, instead[i], 2);
			(void)pair_compare(&pair, file);
		}
		for (size_t fill = 1; fill < 6; fill++) {
			struct bytes filled = bytes_copy(file.data, file.size + fill);
			memset(filled.data + file.size - 2, 0xff, fill + 1);
			filled.data[filled.size - 1] = 0xd9;
			(void)pair_compare(&pair, filled);
			filled.data[filled.size - 1] = 0;
			(void)pair_compare(&pair, filled);
			free(filled.data);
		}
		free(file.data);
	}
	pair_free(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_instead),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
