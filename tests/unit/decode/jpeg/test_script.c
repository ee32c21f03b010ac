/* script: the scans of a file that has several, and every reason not to take them. */
#include "unit/decode/images.h"

#include "decode/jpeg/scans/script.h"

enum { SOS_HEADER = 14, SCANS = 10 }; /* of libjpeg's script for three components */

static struct script script;

static int read_script(const uint8_t *data, size_t size)
{
	struct parse parse;
	/* Exactly the file, so that a sanitizer sees a look beyond it. */
	uint8_t *copy = malloc(size ? size : 1);
	assert_non_null(copy);
	memcpy(copy, data, size);
	int reason = parse_read(copy, size, &parse);
	if (!reason) {
		assert_true(parse.several);
		reason = script_read(copy, size, &parse, &script);
	}
	free(copy);
	return reason;
}

static struct bytes make_progressive(void)
{
	struct jpeg_kind kind = {
		.width = 90, .height = 50, .components = 3, .h = 2, .v = 2, .progressive = true};
	return make_jpeg(&kind);
}

/* The offset of the n-th SOS marker, after `read_script`. */
static size_t header_of(struct bytes jpeg, unsigned n)
{
	size_t at = script.scan[n].begin - (6 + 2 * (size_t)script.scan[n].components) - 2;
	assert_int_equal(jpeg.data[at], 0xff);
	assert_int_equal(jpeg.data[at + 1], PARSE_SOS);
	return at;
}

/* The file with `size` bytes at `at` replaced by others; its reason. */
static int replaced(struct bytes jpeg, size_t at, size_t size, const char *by, size_t by_size)
{
	struct bytes made = {malloc(jpeg.size + by_size), jpeg.size - size + by_size};
	assert_non_null(made.data);
	memcpy(made.data, jpeg.data, at);
	memcpy(made.data + at, by, by_size);
	memcpy(made.data + at + by_size, jpeg.data + at + size, jpeg.size - at - size);
	int reason = read_script(made.data, made.size);
	free(made.data);
	return reason;
}

static void test_standard(void **state)
{
	(void)state;
	/* jpeg_simple_progression: components, band, bits. */
	static const uint8_t expected[SCANS][6] = {{3, 0, 0, 0, 0, 1}, {1, 0, 1, 5, 0, 2},
		{1, 2, 1, 63, 0, 1}, {1, 1, 1, 63, 0, 1}, {1, 0, 6, 63, 0, 2}, {1, 0, 1, 63, 2, 1},
		{3, 0, 0, 0, 1, 0}, {1, 2, 1, 63, 1, 0}, {1, 1, 1, 63, 1, 0}, {1, 0, 1, 63, 1, 0}};
	struct bytes jpeg = make_progressive();
	assert_int_equal(read_script(jpeg.data, jpeg.size), 0);
	assert_int_equal(script.count, SCANS);
	assert_int_equal(script.end, jpeg.size);
	for (unsigned i = 0; i < SCANS; i++) {
		const struct script_scan *s = &script.scan[i];
		const uint8_t got[] = {
			s->components, s->component[0], s->first, s->last, s->high, s->low};
		assert_memory_equal(got, expected[i], sizeof(got));
		assert_int_equal(jpeg.data[s->end], 0xff);
		assert_true(s->begin < s->end);
		assert_int_equal(s->dc[0].counts != NULL, s->first == 0 && s->high == 0);
		assert_int_equal(s->ac[0].counts != NULL, s->first > 0);
	}
	for (size_t size = 0; size < jpeg.size; size++)
		assert_int_not_equal(read_script(jpeg.data, size), 0);
	free(jpeg.data);
}

static void test_reasons(void **state)
{
	(void)state;
	/* In the n-th scan's header. */
	static const struct {
		unsigned scan, offset;
		uint8_t value;
		int reason;
	} cases[] = {
		{1, 3, 9, STEPBACK_SCAN}, /* length */
		{1, 4, 0, STEPBACK_SCAN}, {1, 4, 2, STEPBACK_SCAN}, {1, 4, 4, STEPBACK_SCAN},
		{1, 5, 9, STEPBACK_SCAN}, /* no such component */
		{0, 7, 1, STEPBACK_SCAN}, /* the same twice */
		{1, 5, 2, STEPBACK_SCAN}, /* bits that were sent already come again */
		{1, 7, 2, STEPBACK_SCAN}, /* not all bands */
		{1, 7, 6, STEPBACK_SCAN}, /* empty band */
		{1, 8, 64, STEPBACK_SCAN}, {0, 12, 5, STEPBACK_SCAN}, /* DC and AC together */
		{1, 9, 0x21, STEPBACK_SCAN}, /* bits that were never sent are refined */
		{5, 9, 0x20, STEPBACK_SCAN}, {5, 9, 0x31, STEPBACK_SCAN},
		{9, 9, 0x11, STEPBACK_SCAN}, {1, 9, 0x0e, STEPBACK_SCAN},
		{1, 6, 0x04, STEPBACK_TABLES}, {1, 6, 0x03, STEPBACK_TABLES},
		{6, 6, 0xff, 0}, /* DC refinement uses no table */
	};
	struct bytes jpeg = make_progressive();
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		assert_int_equal(read_script(jpeg.data, jpeg.size), 0);
		size_t at = header_of(jpeg, cases[i].scan) + cases[i].offset;
		uint8_t before = jpeg.data[at];
		jpeg.data[at] = cases[i].value;
		if (read_script(jpeg.data, jpeg.size) != cases[i].reason)
			fail_msg("case %zu: %s", i,
				stepback_name((enum stepback)read_script(jpeg.data, jpeg.size)));
		jpeg.data[at] = before;
	}
	free(jpeg.data);
}

static void test_between(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t size;
		int reason;
	} cases[] = {
		{"\xff\xfe\0\4hi", 6, 0}, {"\xff\xdd\0\4\0\7", 6, 0}, /* a restart interval */
		{"\xff\xdd\0\5\0\7\0", 7, STEPBACK_HEADER}, {"\xff\xdb\0\3\0", 5, STEPBACK_TABLES},
		{"\xff\xc2\0\2", 4, STEPBACK_HEADER}, {"\xff\xc4\0\3\0", 5, STEPBACK_TABLES},
		{"\xff\xcc\0\2", 4, STEPBACK_KIND}, {"\xff\xc9\0\2", 4, STEPBACK_KIND},
		{"\xff\xff", 2, STEPBACK_HEADER}, {"\xff\x01", 2, STEPBACK_HEADER},
		{"\xff\xd8", 2, STEPBACK_HEADER},
		{"\xff\xd9", 2, STEPBACK_SCAN}, /* the end: scans are missing */
	};
	struct bytes jpeg = make_progressive();
	assert_int_equal(read_script(jpeg.data, jpeg.size), 0);
	size_t at = script.scan[4].end, last = script.scan[8].end, end = jpeg.size - 2;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(
			replaced(jpeg, at, 0, cases[i].bytes, cases[i].size), cases[i].reason);
	assert_int_equal(replaced(jpeg, at, 0, "\xff\xdd\0\4\0\7", 6), 0);
	for (unsigned i = 0; i < SCANS; i++)
		assert_int_equal(script.scan[i].restart_mcus, i > 4 ? 7 : 0);
	assert_int_equal(replaced(jpeg, last, end - last, "", 0), STEPBACK_SCAN);
	assert_int_equal(replaced(jpeg, end, 2, "", 0), STEPBACK_END);
	assert_int_equal(replaced(jpeg, jpeg.size, 0, "more", 4), 0);
	assert_int_equal(script.end, jpeg.size);
	free(jpeg.data);
}

static void test_many(void **state)
{
	(void)state;
	struct jpeg_kind kind = {
		.width = 9, .height = 9, .components = 1, .progressive = true, .scans = 500};
	struct bytes jpeg = make_jpeg(&kind);
	assert_int_equal(read_script(jpeg.data, jpeg.size), STEPBACK_SCAN);
	free(jpeg.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_standard),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_between),
		cmocka_unit_test(test_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
