/* Files that cost as much as their size allows, or more: which of them the limits on pixels and
 * scans accept or refuse, and with which sentence; and that penstock's decoder has libjpeg-turbo's
 * outcome where every symbol is an escape. tests/bench/hostile_bench measures what they cost. */
#include "unit/decode/images.h"

#include "bench/hostile.h"

static struct bytes make_hostile(
	enum hostile_kind kind, unsigned width, unsigned height, unsigned scans)
{
	struct hostile h = hostile_make(kind, width, height, scans);
	struct bytes bytes = bytes_copy(h.bytes, h.size);
	free(h.bytes);
	return bytes;
}

static struct result decode_one(const struct decode_limits *limits, struct bytes file)
{
	struct decoder *decoder = make_decoder(limits);
	struct decode_region corner = {0, 0, 8, 1};
	struct result result = decode_bytes(decoder, file, &corner, false);
	decoder_free(decoder);
	return result;
}

/* Up to the limit, and one scan more. */
static void check_scans(unsigned width, unsigned height, unsigned scans)
{
	for (unsigned more = 0; more < 2; more++) {
		struct bytes file = make_hostile(HOSTILE_EMPTY, width, height, scans + more);
		struct result result = decode_one(NULL, file);
		char words[64];
		(void)snprintf(words, sizeof(words), "more than %u scans of %u x %u pixels", scans,
			width, height);
		assert_int_equal(result.outcome, more ? DECODE_E_SCANS : DECODE_OK);
		assert_int_equal(strstr(result.message, words) != NULL, more);
		result_free(&result);
		free(file.data);
	}
}

static void test_pixels_times_scans(void **state)
{
	(void)state;
	check_scans(4000, 4000, 13); /* 208 MP in all */
	check_scans(65500, 244, 13);
	check_scans(2000, 2000, 52);
	check_scans(8000, 8000, 6); /* libjpeg's own script for gray images, whatever the size */
}

static void test_any_number_of_scans(void **state)
{
	(void)state;
	struct bytes file = make_hostile(HOSTILE_EMPTY, 8, 8, 501);
	struct result result = decode_one(NULL, file);
	assert_int_equal(result.outcome, DECODE_E_SCANS);
	assert_string_equal(result.message, "JPEG: more than 500 scans");
	result_free(&result);
	free(file.data);
}

/* No file with the scans of a usual encoder is refused, however large. */
static void test_usual_scripts(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	limits.scan_pixels = 1;
	for (int components = 1; components <= 4; components += components == 1 ? 2 : 1) {
		struct jpeg_kind kind = {
			.width = 90, .height = 70, .components = components, .progressive = true};
		struct bytes file = make_jpeg(&kind);
		struct result result = decode_one(&limits, file);
		assert_int_equal(result.outcome, DECODE_OK);
		result_free(&result);
		free(file.data);
	}
	assert_int_equal(decode_limits_default().scan_pixels, 208000000);
}

/* Sequential scans count as well. */
static void test_components_again(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	limits.scan_pixels = 20 * 64 * 64;
	for (unsigned scans = 20; scans <= 21; scans++) {
		struct bytes file = make_hostile(HOSTILE_COMPONENTS, 64, 64, scans);
		struct result result = decode_one(&limits, file);
		assert_int_equal(result.outcome, scans == 20 ? DECODE_OK : DECODE_E_SCANS);
		result_free(&result);
		free(file.data);
	}
}

/* More data in several scans than any image needs; and as much as an image can have: noise,
 * progressive, the highest quality, no subsampling. */
static void test_bytes_of_scans(void **state)
{
	(void)state;
	struct bytes file = make_hostile(HOSTILE_DENSE, 800, 800, 3); /* 2 MB each but the first */
	struct result result = decode_one(NULL, file);
	assert_int_equal(result.outcome, DECODE_E_SCANS);
	assert_string_equal(result.message,
		"JPEG: the scans have more than 2008576 bytes for 800 x 800 pixels");
	result_free(&result);
	free(file.data);
	file = make_hostile(HOSTILE_DENSE, 800, 800, 1);
	result = decode_one(NULL, file);
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	free(file.data);
	struct jpeg_kind noise = {.width = 1500,
		.height = 1100,
		.components = 3,
		.progressive = true,
		.noise = true,
		.quality = 100};
	file = make_jpeg(&noise);
	assert_true(file.size > 2 * 1500 * 1100);
	result = decode_one(NULL, file);
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	free(file.data);
}

/* Only escapes, with an end that is missing, a marker per MCU, a side of 65,500. */
static void test_slow_paths(void **state)
{
	(void)state;
	static const struct {
		enum hostile_kind kind;
		unsigned width, height, scans;
	} files[] = {{HOSTILE_BASELINE, 400, 300, 1}, {HOSTILE_LATE, 400, 300, 1},
		{HOSTILE_RESTART, 400, 300, 1}, {HOSTILE_ODD, 400, 300, 1},
		{HOSTILE_BASELINE, 65500, 8, 1}, {HOSTILE_LATE, 8, 4000, 1},
		{HOSTILE_REFINE, 120, 90, 9}, {HOSTILE_DENSE, 120, 90, 9}};
	struct decoder *library = make_decoder_by("libjpeg"), *own = make_decoder_by("own");
	for (size_t i = 0; i < UTIL_COUNT(files); i++) {
		struct bytes file = make_hostile(
			files[i].kind, files[i].width, files[i].height, files[i].scans);
		struct result a = decode_bytes(library, file, NULL, false);
		struct result b = decode_bytes(own, file, NULL, false);
		assert_same(&a, &b);
		result_free(&a);
		result_free(&b);
		free(file.data);
	}
	decoder_free(own);
	decoder_free(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pixels_times_scans),
		cmocka_unit_test(test_any_number_of_scans),
		cmocka_unit_test(test_usual_scripts),
		cmocka_unit_test(test_components_again),
		cmocka_unit_test(test_bytes_of_scans),
		cmocka_unit_test(test_slow_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
