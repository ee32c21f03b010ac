/* The device's functions, emulated on the CPU (see emulate.cpp for what that shows), against
 * reference.c; and the reference against known values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/cases.h"
#include "cuda/emulate.h"

#include "base/util.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---- */

static float float_of(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Each finite half is its own rounding; halfway between two neighbors goes to the even one, and
 * the floats next to that to their sides. */
static void rounds_to_float16(void **state)
{
	(void)state;
	for (uint32_t half = 0; half < 0x7c00; half++) {
		uint16_t bits = (uint16_t)half;
		double low = (double)reference_read(&bits, 0, PENSTOCK_CUDA_FLOAT16);
		uint16_t next = (uint16_t)(half + 1);
		double high = half == 0x7bff
				      ? 65536
				      : (double)reference_read(&next, 0, PENSTOCK_CUDA_FLOAT16);
		float middle = (float)((low + high) / 2);
		assert_int_equal(reference_float16((float)low), bits);
		assert_int_equal(reference_float16(-(float)low), bits | 0x8000);
		assert_int_equal(reference_float16(middle), half & 1 ? next : bits);
		assert_int_equal(reference_float16(nextafterf(middle, 0)), bits);
		assert_int_equal(reference_float16(nextafterf(middle, INFINITY)), next);
	}
	assert_int_equal(reference_float16(1), 0x3c00);
	assert_int_equal(reference_float16(-65504), 0xfbff);
	assert_int_equal(reference_float16(INFINITY), 0x7c00);
	assert_int_equal(reference_float16(FLT_MIN), 0);
	assert_int_equal(reference_float16(NAN), 0x7fff);
}

static void rounds_to_bfloat16(void **state)
{
	(void)state;
	for (uint32_t half = 0; half < 0x7f80; half++) {
		uint16_t even = (uint16_t)(half + (half & 1));
		assert_int_equal(reference_bfloat16(float_of(half << 16)), half);
		assert_int_equal(reference_bfloat16(float_of(half << 16 | 0x8000)), even);
		assert_int_equal(reference_bfloat16(-float_of(half << 16 | 0x8000)), even | 0x8000);
		assert_int_equal(reference_bfloat16(float_of(half << 16 | 0x7fff)), half);
		assert_int_equal(reference_bfloat16(float_of(half << 16 | 0x8001)), half + 1);
	}
	assert_int_equal(reference_bfloat16(1), 0x3f80);
	assert_int_equal(reference_bfloat16(NAN), 0x7fff);
}

/* numpy 2: ((np.float32(b) / 255 - mean) / std).view(np.uint32), all in float32. */
static void normalises_as_numpy(void **state)
{
	static const struct {
		uint8_t byte[3];
		uint32_t expected[3];
	} known[] = {
		{{0, 0, 0}, {0xc0078bbd, 0xc0024924, 0xbfe6f809}},
		{{1, 2, 3}, {0xc006732b, 0xc0000b79, 0xbfe046ad}},
		{{4, 8, 16}, {0xc0032973, 0xbff2a4ee, 0xbfc3461e}},
		{{32, 64, 128}, {0xbfc8f2df, 0xbf6a4ee0, 0x3eda5d3c}},
		{{127, 129, 131}, {0x3d6939a6, 0x3e6408a3, 0x3ef522ac}},
		{{85, 170, 200}, {0xbf298c7c, 0x3f70c30d, 0x3fd737ef}},
		{{254, 253, 255}, {0x400ed58a, 0x4019300c, 0x4028f5c3}},
		{{99, 33, 77}, {0xbed858e9, 0xbfba9f30, 0xbeecbf39}},
	};
	(void)state;
	struct penstock_cuda_row row = {.blend = 1};
	for (size_t i = 0; i < UTIL_COUNT(known); i++) {
		struct kernels_normalise a = {.images = known[i].byte,
			.row = &row,
			.rows = 1,
			.height = 1,
			.width = 1,
			.mean = {0.485f, 0.456f, 0.406f},
			.std = {0.229f, 0.224f, 0.225f}};
		float value[3];
		assert_false(reference_pixel(&a, 0, 0, 0, value));
		assert_memory_equal(value, known[i].expected, sizeof value);
	}
}

/* ---- the kernels ---- */

static void emulate(void *context, const struct cases_launch *launch)
{
	(void)context;
	emulate_launch(launch->name,
		launch->normalise ? (const void *)launch->normalise : (const void *)launch->targets,
		launch->grid);
}

static void equals_the_reference(void **state)
{
	(void)state;
	const struct cases_runner runner = {.run = emulate, .every = 1};
	unsigned launches = cases_all(&runner);
	assert_true(launches > 1000);
}

static void knows_its_functions(void **state)
{
	(void)state;
	for (int dtype = 0; dtype < 3; dtype++)
		for (int layout = 0; layout < 2; layout++)
			assert_true(emulate_knows(
				kernels_normalise_name((enum penstock_cuda_dtype)dtype,
					(enum penstock_cuda_layout)layout)));
	assert_true(emulate_knows("penstock_targets"));
	assert_false(emulate_knows("penstock_normalise"));
}

/* The comparison itself: a device that errs in one bit, in one byte behind the rows, or in noise is
 * found out. */
struct liar {
	unsigned launch, at;
	size_t byte;
	uint8_t change;
	bool noise;
};

static void lie(void *context, const struct cases_launch *launch)
{
	struct liar *liar = context;
	emulate(NULL, launch);
	bool here = launch->normalise && launch->normalise->erase_random == liar->noise;
	if (!here || liar->launch++ != liar->at)
		return;
	size_t byte = liar->byte < launch->out_bytes ? liar->byte : launch->out_bytes - 1;
	((uint8_t *)launch->normalise->out)[byte] ^= liar->change;
}

static void tells_a_wrong_result(void **state)
{
	(void)state;
	const struct liar liars[] = {{.byte = 0, .change = 1}, {.byte = SIZE_MAX, .change = 0x80},
		{.at = 30, .byte = 2, .change = 4},
		{.at = 5, .byte = 3, .change = 0x40, .noise = true}};
	for (size_t i = 0; i < UTIL_COUNT(liars); i++) {
		struct liar liar = liars[i];
		const struct cases_runner runner = {.run = lie, .context = &liar, .every = 16};
		assert_int_equal(cases_all(&runner), 0);
	}
}

/* ---- rows ---- */

/* Every thread reads what is done to its row once, however many pixels it writes: 16 bytes where
 * nothing is done, 32 with a rectangle, 48 and 32 of the partner where two rows are mixed. */
static void reads_rows_once(void **state)
{
	enum { SIDE = 64, ROWS = 2, VALUES = ROWS * SIDE * SIDE * 3 };
	static const struct {
		uint32_t flags, reads;
	} kinds[] = {{0, 1}, {PENSTOCK_CUDA_ROW_FLIPPED, 2}, {PENSTOCK_CUDA_ROW_ERASED, 2},
		{PENSTOCK_CUDA_ROW_MIXED, 5},
		{PENSTOCK_CUDA_ROW_MIXED | PENSTOCK_CUDA_ROW_ERASED | PENSTOCK_CUDA_ROW_FLIPPED,
			5}};
	(void)state;
	static _Alignas(16) uint8_t images[VALUES];
	static _Alignas(16) float out[VALUES];
	for (size_t kind = 0; kind < UTIL_COUNT(kinds); kind++) {
		_Alignas(16) struct penstock_cuda_row rows[ROWS];
		for (uint32_t i = 0; i < ROWS; i++)
			rows[i] = (struct penstock_cuda_row){.flags = kinds[kind].flags,
				.erase_x = 5,
				.erase_w = 20,
				.erase_h = 30,
				.partner = 1 - i,
				.blend = 0.75f,
				.partner_blend = 0.25f};
		for (int layout = 0; layout < 2; layout++) {
			struct kernels_normalise a = {.images = images,
				.row = rows,
				.out = out,
				.rows = ROWS,
				.height = SIDE,
				.width = SIDE,
				.std = {1, 1, 1}};
			kernels_normalise_prepare(&a);
			struct kernels_grid grid = kernels_normalise_grid(
				&a, PENSTOCK_CUDA_FLOAT32, (enum penstock_cuda_layout)layout);
			uint64_t before = emulate_wide_reads();
			emulate_launch(kernels_normalise_name(PENSTOCK_CUDA_FLOAT32,
					       (enum penstock_cuda_layout)layout),
				&a, grid);
			assert_int_equal(emulate_wide_reads() - before,
				(uint64_t)grid.threads * grid.blocks_x * ROWS * kinds[kind].reads);
		}
	}
}

/* ---- division ---- */

static void finds_where_it_has_to_divide(void **state)
{
	(void)state;
	struct kernels_normalise a = {
		.mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
	kernels_normalise_prepare(&a);
	assert_int_equal(a.divide, 0);
	a.std[2] = FLT_MAX; /* its reciprocal is subnormal */
	kernels_normalise_prepare(&a);
	assert_int_equal(a.divide, 1);
	a.std[2] = 1;
	kernels_normalise_prepare(&a);
	assert_int_equal(a.divide, 0);
}

/* ---- noise ---- */

enum { NOISE_SIDE = 256, NOISE_VALUES = NOISE_SIDE * NOISE_SIDE * 3 };

static float *draw_noise(uint64_t position)
{
	_Alignas(16) struct penstock_cuda_row row = {.position = position,
		.epoch = 3,
		.flags = PENSTOCK_CUDA_ROW_ERASED,
		.erase_w = NOISE_SIDE,
		.erase_h = NOISE_SIDE,
		.blend = 1};
	static const uint8_t images[NOISE_VALUES];
	float *values = NULL;
	assert_int_equal(posix_memalign((void **)&values, 16, NOISE_VALUES * sizeof *values), 0);
	struct kernels_normalise a = {.images = images,
		.row = &row,
		.out = values,
		.rows = 1,
		.height = NOISE_SIDE,
		.width = NOISE_SIDE,
		.erase_random = 1,
		.std = {1, 1, 1},
		.key = {1, 2}};
	kernels_normalise_prepare(&a);
	emulate_launch(kernels_normalise_name(PENSTOCK_CUDA_FLOAT32, PENSTOCK_CUDA_NHWC), &a,
		kernels_normalise_grid(&a, PENSTOCK_CUDA_FLOAT32, PENSTOCK_CUDA_NHWC));
	return values;
}

/* Mean, variance, skewness, kurtosis; how `step` values apart go together. Bounds: 5 deviations of
 * each, of N independent draws. */
static void check_moments(const float *values, size_t first, size_t stride, size_t count)
{
	double sum[5] = {0};
	for (size_t i = 0; i < count; i++) {
		double v = (double)values[first + i * stride], power = 1;
		for (int k = 0; k < 5; k++, power *= v)
			sum[k] += power;
	}
	double n = (double)count;
	assert_true(fabs(sum[1] / n) < 5 * sqrt(1 / n));
	assert_true(fabs(sum[2] / n - 1) < 5 * sqrt(2 / n));
	assert_true(fabs(sum[3] / n) < 5 * sqrt(15 / n));
	assert_true(fabs(sum[4] / n - 3) < 5 * sqrt(96 / n));
}

static void draws_normal_noise(void **state)
{
	(void)state;
	float *values = draw_noise(5);
	check_moments(values, 0, 1, NOISE_VALUES);
	for (size_t c = 0; c < 3; c++)
		check_moments(values, c, 3, NOISE_VALUES / 3);
	static const double quantile[][2] = {{-2, 0.0227501}, {-1, 0.1586553}, {0, 0.5},
		{1, 0.8413447}, {2, 0.9772499}, {3, 0.9986501}};
	for (size_t q = 0; q < UTIL_COUNT(quantile); q++) {
		size_t below = 0;
		for (size_t i = 0; i < NOISE_VALUES; i++)
			below += (double)values[i] < quantile[q][0];
		double p = quantile[q][1], n = NOISE_VALUES;
		assert_true(fabs((double)below / n - p) < 5 * sqrt(p * (1 - p) / n));
	}
	for (size_t apart = 1; apart < 8; apart++) {
		double sum = 0;
		for (size_t i = apart; i < NOISE_VALUES; i++)
			sum += (double)values[i] * (double)values[i - apart];
		assert_true(fabs(sum / NOISE_VALUES) < 5 / sqrt(NOISE_VALUES));
	}
	free(values);
}

static void draws_other_noise_for_other_samples(void **state)
{
	(void)state;
	float *one = draw_noise(5), *other = draw_noise(6), *again = draw_noise(5);
	size_t same = 0;
	for (size_t i = 0; i < NOISE_VALUES; i++)
		same += one[i] == other[i];
	assert_true(same < 10);
	assert_memory_equal(one, again, NOISE_VALUES * sizeof *one);
	free(one);
	free(other);
	free(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_to_float16),
		cmocka_unit_test(rounds_to_bfloat16),
		cmocka_unit_test(normalises_as_numpy),
		cmocka_unit_test(knows_its_functions),
		cmocka_unit_test(finds_where_it_has_to_divide),
		cmocka_unit_test(equals_the_reference),
		cmocka_unit_test(tells_a_wrong_result),
		cmocka_unit_test(reads_rows_once),
		cmocka_unit_test(draws_normal_noise),
		cmocka_unit_test(draws_other_noise_for_other_samples),
	};
	return cmocka_run_group_tests_name("cuda.kernels", tests, NULL, NULL);
}
