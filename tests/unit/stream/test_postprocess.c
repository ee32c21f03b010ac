/* postprocess: what happens to an image between its resampling and its row: steps, conversion,
 * erasing; that the ledger is told what the scratch takes; that a row allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "stream/postprocess.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_COUNTS 0
#endif
#endif
#ifndef TEST_COUNTS
#define TEST_COUNTS 1
#endif

/* Counts every allocation of this process, and calls glibc's own functions by these names. */
static atomic_ulong allocations, allocated;
#if TEST_COUNTS
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static void count(size_t bytes)
{
	(void)atomic_fetch_add(&allocations, 1);
	(void)atomic_fetch_add(&allocated, bytes);
}

/* The C library's names for parameters are reserved.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
void *malloc(size_t bytes)
{
	count(bytes);
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	count(n * bytes);
	return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	count(bytes);
	return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	count(bytes);
	return __libc_memalign(align, bytes);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
#endif

enum { SIDE = 61, VALUES = SIDE * SIDE * 3, GUARD = 64 };

static const char *const heavy =
	"{source: x, image_size: 61, transforms: [RandomResizedCrop: {size: 61}, RandomApply: {p: "
	"0.8, transforms: [ColorJitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: "
	"0.1}, GaussianBlur: {kernel_size: 7}]}, RandAugment, AugMix, RandomPerspective, "
	"RandomSolarize: {threshold: 128}, RandomEqualize, RandomErasing: {p: 1, value: 7}]%s}";

static struct stream_spec parse(const char *text)
{
	struct stream_spec spec;
	struct fault fault = {""};
	if (spec_parse(text, strlen(text), "test", &spec, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	return spec;
}

static struct stream_spec parse_heavy(const char *more)
{
	char text[2048];
	(void)snprintf(text, sizeof text, heavy, more);
	return parse(text);
}

static void paint(uint8_t *image)
{
	for (size_t i = 0; i < VALUES; i++)
		image[i] = (uint8_t)(i * 7 + i / (SIDE * 3) * 5);
}

/* Makes row `number` into `out`, and checks that the bytes around it stay as they were. */
static void make(struct postprocessor *postprocessor, uint64_t number, uint32_t side, size_t bytes,
	uint8_t *out)
{
	const struct pixel_key key = {.seed = 5, .position = number, .view = (uint32_t)number % 8};
	static uint8_t guarded[GUARD + sizeof(float) * VALUES + GUARD];
	memset(guarded, 0xa5, sizeof guarded);
	paint(postprocessor_image(postprocessor, guarded + GUARD));
	postprocessor_run(postprocessor, &key, pixel_square(side), guarded + GUARD);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(guarded[i], 0xa5);
		assert_int_equal(guarded[GUARD + UTIL_MAX(bytes, (size_t)VALUES) + i], 0xa5);
	}
	memcpy(out, guarded + GUARD, bytes);
}

/* Rows that a worker's own sink is too small for bring a sink, which the ledger counts. */
static void large_rows_have_a_sink(void **state)
{
	const struct stream_spec small = parse("{source: x, image_size: [2048, 8]}"),
				 large = parse("{source: x, image_size: [2049, 8]}");
	struct postprocess postprocess;
	struct postprocessor *postprocessor;
	struct fault fault;
	(void)state;
	assert_false(postprocess_needed(&small, 0));
	assert_int_equal(postprocess_bytes(&small), 0);
	assert_true(postprocess_needed(&large, 0));
	assert_true(postprocess_bytes(&large) > pixel_sink_bytes(2049));
	assert_int_equal(postprocess_init(&postprocess, &large, 0, &fault), 0);
	assert_int_equal(postprocessor_new(&postprocess, &postprocessor, &fault), 0);
	assert_non_null(postprocessor_sink(postprocessor));
	postprocessor_free(postprocessor);
	postprocess_deinit(&postprocess);
}

static void rows_cost_no_allocation(void **state)
{
	static const char *const shapes[] = {"", ", dtype: float32",
		", dtype: float16, layout: NCHW", ", layout: NCHW", ", dtype: bfloat16"};
	static uint8_t out[sizeof(float) * VALUES];
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(shapes); i++) {
		const struct stream_spec spec = parse_heavy(shapes[i]);
		struct fault fault;
		struct postprocess postprocess;
		struct postprocessor *postprocessor;
		size_t bytes = (size_t)VALUES * slots_pixel_bytes(spec.shape.dtype + 1);
		assert_true(postprocess_needed(&spec, 0));
		assert_int_equal(postprocess_init(&postprocess, &spec, 0, &fault), 0);
		unsigned long before = atomic_load(&allocated);
		assert_int_equal(postprocessor_new(&postprocess, &postprocessor, &fault), 0);
		/* The ledger is told what is taken, to within what malloc rounds. */
		if (TEST_COUNTS)
			assert_in_range(atomic_load(&allocated) - before,
				postprocess_bytes(&spec) - 4096, postprocess_bytes(&spec));
		unsigned long count = atomic_load(&allocations);
		for (uint64_t row = 0; row < 200; row++)
			make(postprocessor, row, SIDE, bytes, out);
		assert_int_equal(atomic_load(&allocations), count);
		postprocessor_free(postprocessor);
		postprocess_deinit(&postprocess);
	}
}

/* The scratch of another worker makes the same bytes, after other rows. */
static void rows_depend_only_on_their_key(void **state)
{
	static uint8_t one[200][VALUES], other[VALUES];
	const struct stream_spec spec = parse_heavy("");
	struct fault fault;
	struct postprocess postprocess;
	struct postprocessor *first, *second;
	unsigned differ = 0;
	(void)state;
	assert_int_equal(postprocess_init(&postprocess, &spec, 0, &fault), 0);
	assert_int_equal(postprocessor_new(&postprocess, &first, &fault), 0);
	assert_int_equal(postprocessor_new(&postprocess, &second, &fault), 0);
	for (uint64_t row = 0; row < 200; row++)
		make(first, row, SIDE, VALUES, one[row]);
	for (uint64_t row = 200; row-- > 0;) {
		make(second, row, SIDE, VALUES, other);
		assert_memory_equal(one[row], other, VALUES);
		differ += row > 0 && memcmp(one[row], one[row - 1], VALUES) != 0;
	}
	assert_true(differ > 190);
	postprocessor_free(first);
	postprocessor_free(second);
	postprocess_deinit(&postprocess);
}

/* An epoch with smaller images uses less of the same scratch. */
static void smaller_images_fit(void **state)
{
	static uint8_t out[VALUES], again[VALUES];
	const struct stream_spec large = parse_heavy(""),
				 small = parse("{source: x, image_size: 40, transforms: "
					       "[RandomResizedCrop: {size: 40}, RandAugment]}"),
				 both = parse("{source: x, image_size: {0: 40, 1: 61}, transforms: "
					      "[RandomResizedCrop: {size: 61}, RandAugment]}");
	struct fault fault;
	struct postprocess postprocess[2];
	struct postprocessor *postprocessor[2];
	(void)state;
	assert_true(postprocess_bytes(&both) <= postprocess_bytes(&large));
	assert_true(postprocess_bytes(&small) < postprocess_bytes(&both));
	assert_int_equal(postprocess_init(&postprocess[0], &small, 0, &fault), 0);
	assert_int_equal(postprocess_init(&postprocess[1], &both, 0, &fault), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(postprocessor_new(&postprocess[i], &postprocessor[i], &fault), 0);
	for (uint64_t row = 0; row < 50; row++) {
		const struct pixel_key key = {.seed = 1, .position = row};
		for (int i = 0; i < 2; i++) {
			uint8_t *image = postprocessor_image(postprocessor[i], NULL);
			for (size_t k = 0; k < 40 * 40 * 3; k++)
				image[k] = (uint8_t)(k * 11);
			postprocessor_run(
				postprocessor[i], &key, pixel_square(40), i ? again : out);
		}
		assert_memory_equal(out, again, 40 * 40 * 3);
	}
	for (int i = 0; i < 2; i++) {
		postprocessor_free(postprocessor[i]);
		postprocess_deinit(&postprocess[i]);
	}
}

/* A stream that needs no postprocessing has none: the image is the row. */
static void plain_streams_have_none(void **state)
{
	static const char *const plain[] = {"{source: x}", "{source: x, train: false}",
		"{source: x, views: 8}", "{source: x, image_size: {0: 128, 3: 224}}",
		"{source: x, transforms: [RandomResizedCrop: {size: 176}, RandomVerticalFlip]}"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(plain); i++) {
		const struct stream_spec spec = parse(plain[i]);
		assert_false(postprocess_needed(&spec, 0));
		assert_int_equal(postprocess_bytes(&spec), 0);
	}
}

/* A stream that only erases needs no second image. */
static void erasing_works_on_the_row(void **state)
{
	const struct stream_spec spec = parse("{source: x, transforms: [RandomResizedCrop: {size: "
					      "61}, RandomErasing: {p: 1, value: 9}]}");
	static uint8_t row[VALUES], plain[VALUES];
	struct fault fault;
	struct postprocess postprocess;
	struct postprocessor *postprocessor;
	const struct pixel_key key = {.seed = 3};
	size_t erased = 0;
	(void)state;
	assert_true(postprocess_needed(&spec, 0));
	assert_int_equal(postprocess_init(&postprocess, &spec, 0, &fault), 0);
	assert_int_equal(postprocessor_new(&postprocess, &postprocessor, &fault), 0);
	assert_ptr_equal(postprocessor_image(postprocessor, row), row);
	paint(row);
	paint(plain);
	postprocessor_run(postprocessor, &key, pixel_square(SIDE), row);
	for (size_t i = 0; i < VALUES; i++) {
		assert_true(row[i] == plain[i] || row[i] == 9);
		erased += row[i] != plain[i];
	}
	assert_in_range(erased, VALUES / 100, VALUES / 2);
	postprocessor_free(postprocessor);
	postprocess_deinit(&postprocess);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_rows_have_a_sink),
		cmocka_unit_test(rows_cost_no_allocation),
		cmocka_unit_test(rows_depend_only_on_their_key),
		cmocka_unit_test(smaller_images_fit),
		cmocka_unit_test(plain_streams_have_none),
		cmocka_unit_test(erasing_works_on_the_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
