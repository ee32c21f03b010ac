/* Limits: pixels, scans, memory by permit; and that no image needs more than was estimated. */
#include "images.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static const struct jpeg_kind plain = {.width = 64, .height = 48, .components = 3, .h = 2, .v = 2};

static void test_pixels(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	struct bytes jpeg = make_jpeg(&plain), png = make_png(64, 48, PNG_COLOR_TYPE_RGB, 8, false);
	for (int kind = 0; kind < 2; kind++) {
		limits.pixels = 64 * 48;
		struct decoder *decoder = make_decoder(&limits);
		struct result result = decode_bytes(decoder, kind ? png : jpeg, NULL, true);
		assert_int_equal(result.outcome, DECODE_OK);
		result_free(&result);
		decoder_free(decoder);
		limits.pixels--;
		decoder = make_decoder(&limits);
		result = decode_bytes(decoder, kind ? png : jpeg, NULL, true);
		assert_int_equal(result.outcome, DECODE_E_PIXELS);
		assert_non_null(strstr(result.message, "64 x 48"));
		decoder_free(decoder);
	}
	free(jpeg.data);
	free(png.data);
}

/* Few pixels, but more on a side than crops and resampling can count. */
static void test_sides(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = make_decoder(&limits);
	for (int tall = 0; tall < 2; tall++)
		for (int extra = 0; extra < 2; extra++) {
			unsigned side = DECODE_SIDE_MAX + (unsigned)extra;
			struct bytes png = make_png(
				tall ? 1 : side, tall ? side : 1, PNG_COLOR_TYPE_GRAY, 8, false);
			struct result result = decode_bytes(decoder, png, NULL, true);
			assert_int_equal(result.outcome, extra ? DECODE_E_PIXELS : DECODE_OK);
			if (extra)
				assert_non_null(
					strstr(result.message, "a side may have at most 65535"));
			else
				result_free(&result);
			free(png.data);
		}
	decoder_free(decoder);
}

/* A header with 65,535 x 65,535 pixels is refused before any memory is taken for them. */
static void test_pixels_before_memory(void **state)
{
	(void)state;
	struct bytes jpeg = make_jpeg(&plain);
	for (size_t i = 2; i + 9 < jpeg.size; i++)
		if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == 0xc0) {
			memset(jpeg.data + i + 5, 0xff, 4);
			break;
		}
	struct permit pool;
	permit_init(&pool, (uint64_t)1 << 40);
	struct decode_limits limits = decode_limits_default();
	limits.large = &pool;
	struct decoder *decoder = make_decoder(&limits);
	struct result result = decode_bytes(decoder, jpeg, NULL, true);
	assert_int_equal(result.outcome, DECODE_E_PIXELS);
	assert_int_equal(pool.peak, 0);
	decoder_free(decoder);
	permit_deinit(&pool);
	free(jpeg.data);
}

static void test_scans(void **state)
{
	(void)state;
	enum { SCANS = 40 };
	struct jpeg_kind kind = {.width = 40, .height = 40, .components = 1, .scans = SCANS};
	struct bytes jpeg = make_jpeg(&kind);
	struct decode_limits limits = decode_limits_default();
	for (unsigned limit = SCANS - 1; limit <= SCANS; limit++) {
		limits.scans = limit;
		struct decoder *decoder = make_decoder(&limits);
		struct result result = decode_bytes(decoder, jpeg, NULL, false);
		assert_true(result.info.progressive);
		assert_int_equal(result.outcome, limit < SCANS ? DECODE_E_SCANS : DECODE_OK);
		result_free(&result);
		decoder_free(decoder);
	}
	limits = decode_limits_default();
	assert_int_equal(limits.scans, 500);
	free(jpeg.data);
}

/* Large images take a permit for what they need, give it back, and are refused where the pool is
 * smaller. */
static void test_permit(void **state)
{
	(void)state;
	struct jpeg_kind progressive = {.width = 2000,
		.height = 1500,
		.components = 3,
		.h = 2,
		.v = 2,
		.progressive = true};
	struct bytes images[] = {
		make_jpeg(&progressive), make_png(2000, 1500, PNG_COLOR_TYPE_RGB_ALPHA, 8, true)};
	for (size_t i = 0; i < UTIL_COUNT(images); i++) {
		struct permit pool;
		struct decode_limits limits = decode_limits_default();
		limits.large = &pool;
		permit_init(&pool, (uint64_t)64 << 20);
		struct decoder *decoder = make_decoder(&limits);
		struct decode_info info;
		assert_int_equal(decoder_large_bytes(decoder), 0);
		assert_int_equal(
			decoder_begin(decoder, images[i].data, images[i].size, &info), DECODE_OK);
		uint64_t bytes = decoder_large_bytes(decoder);
		assert_true(bytes > (4u << 20) && bytes < (32u << 20));
		decoder_abort(decoder);
		struct result result = decode_bytes(decoder, images[i], NULL, true);
		assert_int_equal(result.outcome, DECODE_OK);
		assert_int_equal(pool.peak, bytes);
		assert_int_equal(pool.used, 0);
		result_free(&result);
		decoder_free(decoder);
		permit_deinit(&pool);

		permit_init(&pool, bytes - 1);
		decoder = make_decoder(&limits);
		result = decode_bytes(decoder, images[i], NULL, true);
		assert_int_equal(result.outcome, DECODE_E_MEMORY);
		assert_non_null(strstr(result.message, "2000 x 1500"));
		result_free(&result);
		decoder_free(decoder);
		permit_deinit(&pool);
		free(images[i].data);
	}
}

/* Broken large images give their permit back too. */
static void test_permit_after_failure(void **state)
{
	(void)state;
	struct jpeg_kind progressive = {
		.width = 2000, .height = 1500, .components = 3, .progressive = true};
	struct bytes images[] = {
		make_jpeg(&progressive), make_png(2000, 1500, PNG_COLOR_TYPE_RGB, 8, true)};
	struct permit pool;
	permit_init(&pool, (uint64_t)64 << 20);
	struct decode_limits limits = decode_limits_default();
	limits.large = &pool;
	struct decoder *decoder = make_decoder(&limits);
	for (size_t i = 0; i < UTIL_COUNT(images); i++) {
		images[i].size /= 2;
		struct result result = decode_bytes(decoder, images[i], NULL, false);
		assert_int_equal(result.outcome, DECODE_E_TRUNCATED);
		assert_true(pool.peak > 0);
		assert_int_equal(pool.used, 0);
		result_free(&result);
		free(images[i].data);
	}
	decoder_free(decoder);
	permit_deinit(&pool);
}

struct waiter {
	struct decode_limits limits;
	struct bytes image;
	atomic_bool done;
};

static void *wait_and_decode(void *context)
{
	struct waiter *waiter = context;
	struct decoder *decoder = make_decoder(&waiter->limits);
	struct result result = decode_bytes(decoder, waiter->image, NULL, false);
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	decoder_free(decoder);
	atomic_store(&waiter->done, true);
	return NULL;
}

static void test_waits_for_its_turn(void **state)
{
	(void)state;
	struct jpeg_kind progressive = {
		.width = 1600, .height = 1200, .components = 3, .progressive = true};
	struct permit pool;
	permit_init(&pool, (uint64_t)32 << 20);
	struct waiter waiter = {
		.limits = decode_limits_default(), .image = make_jpeg(&progressive)};
	waiter.limits.large = &pool;
	assert_int_equal(permit_acquire(&pool, (uint64_t)31 << 20), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, wait_and_decode, &waiter), 0);
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	assert_false(atomic_load(&waiter.done));
	permit_release(&pool, (uint64_t)31 << 20);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&waiter.done));
	permit_deinit(&pool);
	free(waiter.image.data);
}

/* An image whose rows exceed the scratch gets exactly the estimated memory, so that an estimate
 * that is too low results in DECODE_E_MEMORY. */
static void test_estimate_jpeg(void **state)
{
	(void)state;
	struct decoder *decoder = make_decoder(NULL);
	for (int progressive = 0; progressive < 2; progressive++)
		for (int components = 1; components <= 4; components += components == 1 ? 2 : 1)
			for (int h = 1; h <= 4; h++)
				for (int v = 1; v <= (components == 4 ? 1 : 4); v++) {
					struct jpeg_kind kind = {.width = 60001,
						.height = 9,
						.components = components,
						.h = h,
						.v = v,
						.progressive = progressive,
						.quality = 10};
					if (h * v + components - 1 > 10)
						continue;
					struct bytes jpeg = make_jpeg(&kind);
					struct result result =
						decode_bytes(decoder, jpeg, NULL, true);
					if (result.outcome != DECODE_OK)
						print_error("%d x %d of %d: %s\n", h, v, components,
							result.message);
					assert_true(
						result.outcome == DECODE_OK || h == 3 || v == 3);
					assert_int_not_equal(result.outcome, DECODE_E_MEMORY);
					result_free(&result);
					free(jpeg.data);
				}
	struct jpeg_kind arithmetic = {.width = 20001,
		.height = 16,
		.components = 3,
		.h = 2,
		.v = 2,
		.arithmetic = true,
		.quality = 1};
	struct bytes jpeg = make_jpeg(&arithmetic);
	struct result result = decode_bytes(decoder, jpeg, NULL, true);
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	free(jpeg.data);
	decoder_free(decoder);
}

static void test_estimate_png(void **state)
{
	(void)state;
	static const int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB,
		PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB_ALPHA};
	struct decoder *decoder = make_decoder(NULL);
	for (size_t i = 0; i < UTIL_COUNT(colors); i++)
		for (int depth = 8; depth <= 16; depth += 8)
			for (int interlaced = 0; interlaced < 2; interlaced++) {
				struct bytes png = make_png(interlaced ? 900 : DECODE_SIDE_MAX,
					interlaced ? 800 : 3, colors[i], depth, interlaced);
				struct result result = decode_bytes(decoder, png, NULL, true);
				assert_int_equal(result.outcome, DECODE_OK);
				result_free(&result);
				free(png.data);
			}
	decoder_free(decoder);
}

static void test_scratch_is_stated(void **state)
{
	(void)state;
	uint64_t most = decoder_scratch_bytes(DECODER_SCRATCH_MOST);
	assert_true(most >= (9u << 20) && most < (10u << 20));
	assert_int_equal(most - decoder_scratch_bytes(DECODER_SCRATCH_LEAST), 4u << 20);
	assert_in_range(decoder_whole_bytes(), 2u << 20, 3u << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pixels),
		cmocka_unit_test(test_sides),
		cmocka_unit_test(test_pixels_before_memory),
		cmocka_unit_test(test_scans),
		cmocka_unit_test(test_permit),
		cmocka_unit_test(test_permit_after_failure),
		cmocka_unit_test(test_waits_for_its_turn),
		cmocka_unit_test(test_estimate_jpeg),
		cmocka_unit_test(test_estimate_png),
		cmocka_unit_test(test_scratch_is_stated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
