/* The rectangle of RandomErasing: torchvision's formulas in libm's arithmetic, independent draws
 * for views and steps, the share of erased images, golden values; and the noise's distribution. */
#include "proto/erase.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const double SCALE[2] = {ERASE_SCALE_MIN, ERASE_SCALE_MAX};
static const double RATIO[2] = {ERASE_RATIO_MIN, ERASE_RATIO_MAX};

static struct erase_key key_of(uint64_t position, uint32_t view, uint32_t same)
{
	return (struct erase_key){.seed = 7,
		.position = position,
		.epoch = 1,
		.operation = PHILOX_ERASING,
		.step = view << 12 | same << 8};
}

/* torchvision.transforms.RandomErasing.get_params with draws from Philox. */
static bool twin_box(
	const struct erase_key *key, uint32_t width, uint32_t height, struct erase_box *ret)
{
	for (uint32_t attempt = 1; attempt <= 10; attempt++) {
		struct philox r = philox_draw(
			key->seed, key->epoch, key->position, key->operation, key->step + attempt);
		double area = (double)width * height *
			      (SCALE[0] + ldexp(r.word[0], -32) * (SCALE[1] - SCALE[0]));
		double low = log(RATIO[0]), high = log(RATIO[1]);
		double ratio = exp(low + ldexp(r.word[1], -32) * (high - low));
		double h = nearbyint(sqrt(area * ratio)), w = nearbyint(sqrt(area / ratio));
		if (!(h < height && w < width))
			continue;
		*ret = (struct erase_box){
			.x = (uint32_t)((uint64_t)r.word[3] * (uint64_t)(width - w + 1) >> 32),
			.y = (uint32_t)((uint64_t)r.word[2] * (uint64_t)(height - h + 1) >> 32),
			.w = (uint32_t)w,
			.h = (uint32_t)h,
		};
		return ret->w && ret->h;
	}
	return false;
}

static void test_boxes(void **state)
{
	static const uint32_t sides[][2] = {
		{1, 1}, {2, 2}, {1, 50}, {50, 1}, {3, 224}, {224, 224}, {160, 97}, {2048, 2048}};
	unsigned erased = 0;
	(void)state;
	for (unsigned i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		for (uint64_t p = 0; p < 3000; p++) {
			struct erase_key key = key_of(p, p & 3, (uint32_t)p % 5);
			struct erase_box got = {0}, want = {0};
			bool is = erase_box(&key, SCALE, RATIO, sides[i][0], sides[i][1], &got);
			assert_int_equal(is, twin_box(&key, sides[i][0], sides[i][1], &want));
			if (!is)
				continue;
			erased++;
			assert_memory_equal(&got, &want, sizeof(got));
			assert_true(got.w >= 1 && got.x + got.w <= sides[i][0]);
			assert_true(got.h >= 1 && got.y + got.h <= sides[i][1]);
		}
	assert_true(erased > 9000);
}

/* Views, steps of one kind, and operations have independent draws. */
static void test_apart(void **state)
{
	struct erase_box box[4];
	struct erase_key key[4] = {
		key_of(9, 0, 0), key_of(9, 1, 0), key_of(9, 0, 1), key_of(9, 0, 0)};
	(void)state;
	key[3].operation = PHILOX_BATCH_ERASE;
	for (int i = 0; i < 4; i++) {
		assert_true(erase_box(&key[i], SCALE, RATIO, 224, 224, &box[i]));
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(&box[i], &box[k], sizeof(box[i]));
	}
}

static void test_happens(void **state)
{
	unsigned count = 0;
	(void)state;
	for (uint64_t p = 0; p < 40000; p++) {
		struct erase_key key = key_of(p, 0, 0);
		count += erase_happens(&key, 0.25);
		assert_false(erase_happens(&key, 0));
		assert_true(erase_happens(&key, 1));
	}
	/* 10,000, plus or minus four standard deviations of 87. */
	assert_in_range(count, 9650, 10350);
}

/* Moments of a normal distribution, and no two channels, pixels or views are equal. */
static void test_noise(void **state)
{
	enum { PIXELS = 70000 };
	double sum[4] = {0}, cross = 0;
	(void)state;
	for (uint32_t pixel = 0; pixel < PIXELS; pixel++) {
		struct erase_noise noise = {.seed = 3, .position = 12, .epoch = 1, .view = 2};
		float value[3], other[3];
		erase_noise(&noise, pixel, value);
		noise.view = 3;
		erase_noise(&noise, pixel, other);
		assert_memory_not_equal(value, other, sizeof(value));
		for (int c = 0; c < 3; c++) {
			double v = (double)value[c];
			assert_true(fabs(v) < 7);
			for (int power = 0; power < 4; power++)
				sum[power] += pow(v, power + 1);
		}
		cross += (double)value[0] * (double)value[1] + (double)value[1] * (double)value[2];
	}
	double n = 3.0 * PIXELS;
	assert_true(fabs(sum[0] / n) < 0.01);
	assert_true(fabs(sum[1] / n - 1) < 0.015);
	assert_true(fabs(sum[2] / n) < 0.04);
	assert_true(fabs(sum[3] / n - 3) < 0.1);
	assert_true(fabs(cross / PIXELS) < 0.03);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_happens),
		cmocka_unit_test(test_noise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
