/* convert: all kernels that this processor has against arithmetic in double precision: every value,
 * every mean and std, every shape and alignment.
 *
 *     client_convert          the tests
 *     client_convert --bench  rates of all kernels, through and past the caches, alternating */
#include "client/lib/convert.h"
#include "client/random.h"

#include "penstock/penstock.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
	GUARD = 128,
	GUARD_BYTE = 0xa5,
	WIDEST = 300,
	HIGHEST = 6,
	MOST = 3,
	MAX_PIXELS = WIDEST * HIGHEST * MOST,
	SHAPES = 300,
	RANDOM_STATISTICS = 200,
	BENCH_COUNT = 64,
	BENCH_SIDE = 224,
	BENCH_ROUNDS = 9,
	VALUES = 256,
};

static const char *const kernel_names[] = {"c", "avx2", "avx512", "neon"};
enum { KERNEL_NAMES = sizeof kernel_names / sizeof kernel_names[0] };

static const char *const dtype_names[] = {"uint8", "float32", "float16", "bfloat16"};
static const char *const layout_names[] = {"nhwc", "nchw"};

/* Any finite float: all exponents, both signs. */
static float random_float(void)
{
	float value;
	do {
		uint32_t bits = random_bits();
		memcpy(&value, &bits, sizeof value);
	} while (!isfinite(value) || value == 0);
	return value;
}

static float random_share(void)
{
	return (float)random_below(1 << 24) / (1 << 24);
}

/* NULL if this processor does not have the kernels. */
static struct penstock_convert *converter(
	const char *kernels, const struct penstock_convert_options *options)
{
	struct penstock_convert *convert = NULL;
	assert_int_equal(setenv("PENSTOCK_KERNELS", kernels, 1), 0);
	int result = penstock_convert_new(options, &convert);
	assert_true(result == 0 || result == -ENOTSUP);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	return convert;
}

static struct penstock_convert_options options_of(uint32_t dtype, uint32_t layout)
{
	struct penstock_convert_options options;
	penstock_convert_options_init(&options);
	options.dtype = dtype;
	options.layout = layout;
	return options;
}

/* The bits of a binary format of `digits` bits of mantissa, of which one is implied, and exponents
 * down to `least`, up to `most`. */
static uint16_t short_bits(float value, int digits, int least, int most)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	uint16_t infinite = (uint16_t)((most - least + 2) << (digits - 1));
	if (isinf(value) || value == 0)
		return value == 0 ? sign : sign | infinite;
	int exponent;
	double magnitude = fabs((double)value);
	(void)frexp(magnitude, &exponent);
	exponent = exponent - 1 < least ? least : exponent - 1;
	/* Steps above zero that are as far apart as here; rint() rounds ties to even. */
	double steps = rint(ldexp(magnitude, digits - 1 - exponent));
	double bits = steps + ldexp(exponent - least, digits - 1);
	return (uint16_t)(sign | (bits >= infinite ? infinite : (uint16_t)bits));
}

static void expected_element(
	const struct penstock_convert_options *options, int channel, uint8_t x, void *ret)
{
	volatile float share = (float)x / 255.0f; /* volatile: rounded to float at each step */
	volatile float centered = share - options->mean[channel];
	float value = centered / options->std[channel];
	uint16_t bits = 0;
	switch (options->dtype) {
	case PENSTOCK_UINT8:
		memcpy(ret, &x, 1);
		return;
	case PENSTOCK_FLOAT32:
		memcpy(ret, &value, sizeof value);
		return;
	case PENSTOCK_FLOAT16:
		bits = short_bits(value, 11, -14, 15);
		break;
	default:
		bits = short_bits(value, 8, -126, 127);
	}
	memcpy(ret, &bits, sizeof bits);
}

static size_t element_bytes(uint32_t dtype)
{
	return dtype == PENSTOCK_UINT8 ? 1 : dtype == PENSTOCK_FLOAT32 ? 4 : 2;
}

struct expected {
	struct penstock_convert_options options;
	uint8_t table[3][VALUES][4];
};

static void expected_init(struct expected *expected, const struct penstock_convert_options *options)
{
	expected->options = *options;
	for (int channel = 0; channel < 3; channel++)
		for (int x = 0; x < VALUES; x++)
			expected_element(options, channel, (uint8_t)x, expected->table[channel][x]);
}

/* The conversion of `count` images of that many pixels. */
static void expected_rows(const struct expected *expected, const uint8_t *from, size_t count,
	size_t pixels, uint8_t *out)
{
	size_t bytes = element_bytes(expected->options.dtype);
	bool planar = expected->options.layout == PENSTOCK_NCHW;
	for (size_t i = 0; i < count * pixels * 3; i++) {
		size_t picture = i / (3 * pixels), pixel = i / 3 % pixels, channel = i % 3;
		size_t to = planar ? (picture * 3 + channel) * pixels + pixel : i;
		memcpy(out + to * bytes, expected->table[channel][from[i]], bytes);
	}
}

static void check_statistics(const struct penstock_convert_options *options, bool shortcut)
{
	uint8_t from[VALUES * 3], law[VALUES * 3 * 4], out[VALUES * 3 * 4];
	struct expected expected;
	expected_init(&expected, options);
	for (int i = 0; i < VALUES * 3; i++)
		from[i] = (uint8_t)(i / 3);
	expected_rows(&expected, from, 1, VALUES, law);
	for (int k = 0; k < KERNEL_NAMES; k++) {
		struct penstock_convert *convert = converter(kernel_names[k], options);
		if (!convert)
			continue;
		penstock_convert_rows(convert, from, 1, 1, VALUES, out);
		assert_memory_equal(law, out, VALUES * 3 * element_bytes(options->dtype));
		/* Without lookup tables asked for, none are used. */
		if (shortcut && k > 0)
			assert_ptr_not_equal(convert->convert.kernels, &convert_c);
		penstock_convert_free(convert);
	}
}

static void check_all_kinds(const float mean[3], const float std[3], bool shortcut)
{
	for (uint32_t dtype = 0; dtype < CONVERT_DTYPES; dtype++) {
		for (uint32_t layout = 0; layout < CONVERT_LAYOUTS; layout++) {
			struct penstock_convert_options options = options_of(dtype, layout);
			memcpy(options.mean, mean, sizeof options.mean);
			memcpy(options.std, std, sizeof options.std);
			check_statistics(&options, shortcut);
		}
	}
}

static void usual_statistics(void **state)
{
	(void)state;
	static const float usual[][2][3] = {
		{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
		{{0, 0, 0}, {1, 1, 1}},
		{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}},
		{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
		{{0.48145466f, 0.4578275f, 0.40821073f}, {0.26862954f, 0.26130258f, 0.27577711f}},
		{{0.1307f, 0.1307f, 0.1307f}, {0.3081f, 0.3081f, 0.3081f}},
		{{0, 0, 0}, {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}},
	};
	for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
		check_all_kinds(usual[i][0], usual[i][1], true);
	for (int i = 0; i < RANDOM_STATISTICS; i++) {
		float mean[3], std[3];
		for (int c = 0; c < 3; c++) {
			mean[c] = random_share();
			std[c] = 0.01f + random_share();
		}
		check_all_kinds(mean, std, true);
	}
}

/* Results that overflow, vanish, or are zeros of either sign; constants that have no reciprocal. */
static void odd_statistics(void **state)
{
	(void)state;
	static const float odd[] = {-0.25f, 1e-45f, -1e-45f, 1e-38f, 3e38f, -3e38f, 1e30f, 1e-30f,
		1e-5f, 0x1.fffffep-3f, 0x1.000002p0f, 51 / 255.0f, 1, -1};
	enum { ODD = sizeof odd / sizeof odd[0] };
	for (int i = 0; i < ODD; i++) {
		for (int j = 0; j < ODD; j++) {
			const float mean[3] = {odd[i], 0, odd[(i + 1) % ODD]};
			const float std[3] = {odd[j], odd[(j + 3) % ODD], odd[(j + 5) % ODD]};
			check_all_kinds(mean, std, false);
		}
	}
	for (int i = 0; i < RANDOM_STATISTICS; i++) {
		float mean[3], std[3];
		for (int c = 0; c < 3; c++) {
			mean[c] = i % 2 ? random_float() : random_share();
			std[c] = random_float();
		}
		check_all_kinds(mean, std, false);
	}
}

struct shape {
	uint32_t count, height, width;
	size_t offset; /* of the output, from a multiple of 64 */
};

struct room {
	uint8_t from[MAX_PIXELS * 3 + 1], law[MAX_PIXELS * 3 * 4];
	_Alignas(CONVERT_LINE) uint8_t out[GUARD + CONVERT_LINE + MAX_PIXELS * 3 * 4 + GUARD];
};

/* Reads must end at `from`'s last byte; otherwise ASan reports it. */
static void check_shape(struct penstock_convert *convert, const struct expected *expected,
	const struct shape *shape, struct room *room)
{
	size_t pixels = (size_t)shape->height * shape->width;
	size_t bytes =
		shape->count * penstock_convert_row_bytes(convert, shape->height, shape->width);
	assert_int_equal(bytes, shape->count * pixels * 3 * element_bytes(expected->options.dtype));
	uint8_t *from = malloc(shape->count * pixels * 3 + 1);
	assert_non_null(from);
	uint8_t *exact = from + 1; /* aligned to nothing */
	memcpy(exact, room->from, shape->count * pixels * 3);
	uint8_t *out = room->out + GUARD + shape->offset;
	memset(room->out, GUARD_BYTE, GUARD + CONVERT_LINE + bytes + GUARD);
	penstock_convert_rows(convert, exact, shape->count, shape->height, shape->width, out);
	free(from);
	assert_memory_equal(out, room->law, bytes);
	for (uint8_t *p = room->out; p < out; p++)
		assert_int_equal(*p, GUARD_BYTE);
	for (uint8_t *p = out + bytes; p < out + bytes + GUARD; p++)
		assert_int_equal(*p, GUARD_BYTE);
}

static void check_shapes(
	uint32_t dtype, uint32_t layout, const struct shape *shape, struct room *room)
{
	struct penstock_convert_options options = options_of(dtype, layout);
	struct expected expected;
	expected_init(&expected, &options);
	expected_rows(&expected, room->from, shape->count, (size_t)shape->height * shape->width,
		room->law);
	for (int k = 0; k < KERNEL_NAMES; k++) {
		struct penstock_convert *convert = converter(kernel_names[k], &options);
		if (!convert)
			continue;
		check_shape(convert, &expected, shape, room);
		convert->convert.stream_from = 0;
		check_shape(convert, &expected, shape, room);
		penstock_convert_free(convert);
	}
}

static void shapes(void **state)
{
	(void)state;
	struct room *room = aligned_alloc(CONVERT_LINE, sizeof *room);
	assert_non_null(room);
	for (size_t i = 0; i < sizeof room->from; i++)
		room->from[i] = (uint8_t)random_bits();
	for (uint32_t i = 0; i < SHAPES; i++) {
		/* Small ones in order, then any; every second one where streaming stores can begin,
		 * planes of whole lines now and then. */
		struct shape shape = {.count = i % (MOST + 1),
			.height = 1 + random_below(HIGHEST),
			.width = i < 80 ? i : 1 + random_below(WIDEST),
			.offset = i % 2 ? random_below(CONVERT_LINE) : 4 * random_below(16)};
		if (i % 3 == 0)
			shape.width = shape.width / 64 * 64;
		for (uint32_t dtype = 0; dtype < CONVERT_DTYPES; dtype++)
			for (uint32_t layout = 0; layout < CONVERT_LAYOUTS; layout++)
				check_shapes(dtype, layout, &shape, room);
	}
	free(room);
}

static void nothing_to_do(void **state)
{
	(void)state;
	struct penstock_convert_options options = options_of(PENSTOCK_FLOAT32, PENSTOCK_NCHW);
	struct penstock_convert *convert;
	assert_int_equal(penstock_convert_new(&options, &convert), 0);
	penstock_convert_rows(convert, NULL, 0, 224, 224, NULL);
	penstock_convert_rows(convert, NULL, 3, 0, 224, NULL);
	penstock_convert_free(convert);
	penstock_convert_free(NULL);
}

static void expect_refusal(
	const struct penstock_convert_options *options, int code, const char *sentence)
{
	struct penstock_convert *convert = NULL;
	assert_int_equal(penstock_convert_new(options, &convert), code);
	assert_null(convert);
	if (!strstr(penstock_error(), sentence))
		fail_msg("'%s' is not in '%s'", sentence, penstock_error());
}

static void bad_options(void **state)
{
	(void)state;
	struct penstock_convert_options good = options_of(PENSTOCK_FLOAT32, PENSTOCK_NHWC), bad;
	expect_refusal(NULL, -EINVAL, "penstock_convert_options_init");
	memset(&bad, 0, sizeof bad);
	expect_refusal(&bad, -EINVAL, "penstock_convert_options_init");
	bad = good;
	bad.dtype = 4;
	expect_refusal(&bad, -EINVAL, "options.dtype is 4");
	bad = good;
	bad.layout = 2;
	expect_refusal(&bad, -EINVAL, "options.layout is 2");
	bad = good;
	bad.mean[1] = NAN;
	expect_refusal(&bad, -EINVAL, "options.mean[1] is nan");
	bad = good;
	bad.std[2] = INFINITY;
	expect_refusal(&bad, -EINVAL, "options.std[2] is inf");
	bad = good;
	bad.std[0] = 0;
	expect_refusal(&bad, -EINVAL, "options.std[0] is 0");
	good.size += 8; /* a later application's */
	struct penstock_convert *convert;
	assert_int_equal(penstock_convert_new(&good, &convert), 0);
	penstock_convert_free(convert);
}

static void bad_kernels(void **state)
{
	(void)state;
	const struct penstock_convert_options good = options_of(PENSTOCK_FLOAT32, PENSTOCK_NHWC);
	assert_int_equal(setenv("PENSTOCK_KERNELS", "sse", 1), 0);
	expect_refusal(&good, -EINVAL, "PENSTOCK_KERNELS=sse: expected c, avx2");
#ifdef __x86_64__
	assert_int_equal(setenv("PENSTOCK_KERNELS", "neon", 1), 0);
#else
	assert_int_equal(setenv("PENSTOCK_KERNELS", "avx512-vnni", 1), 0);
#endif
	expect_refusal(&good, -ENOTSUP, "this processor does not have these instructions");
	assert_int_equal(setenv("PENSTOCK_KERNELS", "", 1), 0);
	struct penstock_convert *convert;
	assert_int_equal(penstock_convert_new(&good, &convert), 0);
	penstock_convert_free(convert);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
}

struct bench {
	struct penstock_convert *convert;
	const char *kernels;
	bool stream;
	double best, best_read; /* seconds of writing, and of reading it after */
};

static double seconds(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void bench_round(struct bench *bench, uint8_t *from, uint64_t *out, size_t bytes)
{
	memset(from, (int)random_bits(), (size_t)BENCH_COUNT * BENCH_SIDE * BENCH_SIDE * 3);
	bench->convert->convert.stream_from = bench->stream ? 0 : SIZE_MAX;
	double start = seconds();
	penstock_convert_rows(bench->convert, from, BENCH_COUNT, BENCH_SIDE, BENCH_SIDE, out);
	double written = seconds();
	uint64_t sum = 0;
	for (size_t i = 0; i < bytes / sizeof *out; i++)
		sum += out[i];
	__asm__ volatile("" : : "r"(sum)); /* is wanted */
	double read = seconds();
	if (bench->best == 0 || written - start < bench->best)
		bench->best = written - start;
	if (bench->best_read == 0 || read - written < bench->best_read)
		bench->best_read = read - written;
}

static void bench_kind(uint32_t dtype, uint32_t layout, uint8_t *from, uint64_t *out)
{
	struct penstock_convert_options options = options_of(dtype, layout);
	struct bench bench[2 * KERNEL_NAMES] = {0};
	int benches = 0;
	for (int k = 0; k < 2 * KERNEL_NAMES; k++) {
		struct bench *b = &bench[benches];
		b->kernels = kernel_names[k / 2];
		b->stream = k % 2;
		b->convert = converter(b->kernels, &options);
		if (b->convert && b->stream &&
			!b->convert->convert.kernels->stream[dtype][layout]) {
			penstock_convert_free(b->convert);
			b->convert = NULL;
		}
		benches += b->convert != NULL;
	}
	size_t bytes =
		BENCH_COUNT * penstock_convert_row_bytes(bench->convert, BENCH_SIDE, BENCH_SIDE);
	for (int round = 0; round < BENCH_ROUNDS; round++)
		for (int i = 0; i < benches; i++)
			bench_round(&bench[i], from, out, bytes);
	for (int i = 0; i < benches; i++) {
		(void)printf("%-9s %s  %-7s %-8s %7.2f ms  %6.0f images/s, then read in %6.2f ms\n",
			dtype_names[dtype], layout_names[layout], bench[i].kernels,
			bench[i].stream ? "streamed" : "", bench[i].best * 1e3,
			BENCH_COUNT / bench[i].best, bench[i].best_read * 1e3);
		penstock_convert_free(bench[i].convert);
	}
}

static int bench_all(void)
{
	size_t values = (size_t)BENCH_COUNT * BENCH_SIDE * BENCH_SIDE * 3;
	uint8_t *from = malloc(values);
	uint64_t *out = aligned_alloc(4096, values * 4);
	if (!from || !out)
		return 1;
	memset(out, 0, values * 4);
	for (uint32_t dtype = 0; dtype < CONVERT_DTYPES; dtype++)
		for (uint32_t layout = 0; layout < CONVERT_LAYOUTS; layout++)
			bench_kind(dtype, layout, from, out);
	free(from);
	free(out);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--bench") == 0)
		return bench_all();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_statistics),
		cmocka_unit_test(odd_statistics),
		cmocka_unit_test(shapes),
		cmocka_unit_test(nothing_to_do),
		cmocka_unit_test(bad_options),
		cmocka_unit_test(bad_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
