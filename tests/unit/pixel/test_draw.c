/* Training draws: agreement with libm, distributions by chi-square with fixed seeds, bounds for
 * odd sources, golden values. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/draw.h"
#include "proto/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const double LOG_RATIO = 0.28768207245178092744; /* log(4/3) */
static const double SCALE[2] = {DRAW_SCALE_MIN, DRAW_SCALE_MAX};
static const double RATIO[2] = {DRAW_RATIO_MIN, DRAW_RATIO_MAX};

static void test_round(void **state)
{
	static const struct {
		double x;
		uint64_t want;
	} cases[] = {{0, 0}, {0.49999999999999994, 0}, {0.5, 0}, {0.75, 1}, {1, 1}, {1.5, 2},
		{2.5, 2}, {3.5, 4}, {4.5, 4}, {1e6 + 0.5, 1000000}, {0x1p52 + 1, (1ull << 52) + 1}};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(draw_round(cases[i].x), cases[i].want);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(draw_round(i / 8.0), (uint64_t)nearbyint(i / 8.0));
}

/* torchvision's code in libm's arithmetic; the last bit of exp may move a side by one pixel,
 * once in many millions. */
static struct draw_box twin_crop(const struct pixel_key *key, const double scale[2],
	const double allowed[2], uint32_t src_w, uint32_t src_h)
{
	for (uint32_t attempt = 0; attempt < 10; attempt++) {
		struct philox r = philox_draw(
			key->seed, key->epoch, key->position, PHILOX_RESIZED_CROP, attempt);
		double area = (double)src_w * src_h *
			      (scale[0] + ldexp(r.word[0], -32) * (scale[1] - scale[0]));
		double low = log(allowed[0]), high = log(allowed[1]);
		double ratio = exp(low + ldexp(r.word[1], -32) * (high - low));
		double w = nearbyint(sqrt(area * ratio)), h = nearbyint(sqrt(area / ratio));
		if (w < 1 || w > src_w || h < 1 || h > src_h)
			continue;
		return (struct draw_box){
			.x = (uint32_t)((uint64_t)r.word[3] * (uint64_t)(src_w - w + 1) >> 32),
			.y = (uint32_t)((uint64_t)r.word[2] * (uint64_t)(src_h - h + 1) >> 32),
			.w = (uint32_t)w,
			.h = (uint32_t)h};
	}
	double ratio = (double)src_w / src_h, w = src_w, h = src_h;
	if (ratio < allowed[0])
		h = fmax(nearbyint(w / allowed[0]), 1);
	else if (ratio > allowed[1])
		w = fmax(nearbyint(h * allowed[1]), 1);
	return (struct draw_box){
		(uint32_t)(src_w - w) / 2, (uint32_t)(src_h - h) / 2, (uint32_t)w, (uint32_t)h};
}

static void twin_check(const double scale[2], const double ratio[2])
{
	static const uint32_t sides[] = {1, 2, 3, 7, 50, 224, 375, 500, 2000, 65535};
	for (unsigned i = 0; i < UTIL_COUNT(sides); i++)
		for (unsigned j = 0; j < UTIL_COUNT(sides); j++)
			for (uint32_t p = 0; p < 300; p++) {
				struct pixel_key key = {
					.seed = 3, .epoch = i, .position = p * 977 + j};
				struct draw_box got = draw_resized_crop(
					&key, 0, scale, ratio, sides[i], sides[j]);
				struct draw_box want =
					twin_crop(&key, scale, ratio, sides[i], sides[j]);
				assert_memory_equal(&got, &want, sizeof(got));
				assert_true(got.w >= 1 && got.x + got.w <= sides[i]);
				assert_true(got.h >= 1 && got.y + got.h <= sides[j]);
			}
}

static void test_twin(void **state)
{
	static const double scale[][2] = {{0.35, 1}, {0, 0.001}, {1, 1}, {0.25, 0.25}};
	static const double ratio[][2] = {{1, 1}, {0.01, 100}, {3, 4}, {0.01, 0.011}};
	(void)state;
	twin_check(SCALE, RATIO);
	for (unsigned i = 0; i < UTIL_COUNT(scale); i++)
		for (unsigned j = 0; j < UTIL_COUNT(ratio); j++)
			twin_check(scale[i], ratio[j]);
}

/* If no box can fit, the ten attempts end in the central crop. */
static void test_central(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < 50; p++) {
		struct pixel_key key = {.seed = 9, .position = p};
		struct draw_box tall = draw_resized_crop(&key, 0, SCALE, RATIO, 3, 1000);
		struct draw_box wide = draw_resized_crop(&key, 0, SCALE, RATIO, 1000, 3);
		assert_memory_equal(&tall, (&(struct draw_box){0, 498, 3, 4}), sizeof(tall));
		assert_memory_equal(&wide, (&(struct draw_box){498, 0, 4, 3}), sizeof(wide));
	}
}

enum { BINS = 20, DRAWS = 200000 };

struct histogram {
	uint32_t bin[BINS];
	uint32_t count;
};

static void histogram_add(struct histogram *h, double unit)
{
	assert_true(unit >= 0.0 && unit <= 1.0);
	h->bin[UTIL_MIN((int)(unit * BINS), BINS - 1)]++;
	h->count++;
}

/* Chi-square with 19 degrees of freedom: above 50.8 in one of 10,000 uniform samples. */
static void histogram_check(const struct histogram *h, const char *what)
{
	double expected = (double)h->count / BINS, sum = 0;
	assert_true(h->count > DRAWS / 2);
	for (int i = 0; i < BINS; i++)
		sum += (h->bin[i] - expected) * (h->bin[i] - expected) / expected;
	if (sum > 50.8)
		fail_msg("%s: chi-square %.1f", what, sum);
}

/* Below 0.74 of a square's area every ratio fits, so accepted areas are uniform there. */
static void test_distribution(void **state)
{
	enum { SIDE = 40000 };
	struct histogram area = {{0}, 0}, ratio = {{0}, 0}, x = {{0}, 0}, y = {{0}, 0};
	uint32_t flips = 0;
	(void)state;
	for (uint32_t p = 0; p < DRAWS; p++) {
		struct pixel_key key = {.seed = 77, .position = p, .epoch = 1};
		struct draw_box box = draw_resized_crop(&key, 0, SCALE, RATIO, SIDE, SIDE);
		double part = (double)box.w * box.h / ((double)SIDE * SIDE);
		flips += draw_flip(&key, PHILOX_HORIZONTAL_FLIP, 0.5);
		histogram_add(&x, (box.x + 0.5) / (SIDE - box.w + 1.0));
		histogram_add(&y, (box.y + 0.5) / (SIDE - box.h + 1.0));
		if (part < 0.0801 || part > 0.74)
			continue;
		histogram_add(&area, (part - 0.0801) / (0.74 - 0.0801));
		double log_ratio = log((double)box.w / box.h);
		histogram_add(&ratio, UTIL_MIN(UTIL_MAX((log_ratio / LOG_RATIO + 1) / 2, 0), 1));
	}
	histogram_check(&area, "area");
	histogram_check(&ratio, "ratio");
	histogram_check(&x, "column");
	histogram_check(&y, "row");
	/* Four standard deviations of a fair coin. */
	assert_true(fabs(flips - DRAWS / 2.0) < 4 * sqrt(DRAWS) / 2);
}

/* Other bounds, within which every ratio fits a square. */
static void test_distribution_of_others(void **state)
{
	enum { SIDE = 40000 };
	static const double scale[2] = {0.35, 0.45}, ratio[2] = {0.5, 2};
	struct histogram area = {{0}, 0}, shape = {{0}, 0};
	(void)state;
	for (uint32_t p = 0; p < DRAWS; p++) {
		struct pixel_key key = {.seed = 78, .position = p};
		struct draw_box box = draw_resized_crop(&key, 0, scale, ratio, SIDE, SIDE);
		double part = (double)box.w * box.h / ((double)SIDE * SIDE);
		double log_ratio = log((double)box.w / box.h);
		histogram_add(&area, UTIL_MIN(UTIL_MAX((part - 0.35) / 0.1, 0), 1));
		histogram_add(&shape, UTIL_MIN(UTIL_MAX((log_ratio / log(2) + 1) / 2, 0), 1));
	}
	histogram_check(&area, "area");
	histogram_check(&shape, "ratio");
}

/* Flips occur with the given probability, including never and always; the two directions are
 * independent. */
static void test_flips(void **state)
{
	static const double chances[] = {0, 0.1, 0.5, 0.9, 1};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(chances); i++) {
		uint32_t across = 0, down = 0, both = 0;
		double p = chances[i];
		for (uint32_t n = 0; n < DRAWS; n++) {
			struct pixel_key key = {.seed = 79, .position = n};
			bool a = draw_flip(&key, PHILOX_HORIZONTAL_FLIP, p);
			bool d = draw_flip(&key, PHILOX_VERTICAL_FLIP, p);
			across += a;
			down += d;
			both += a && d;
		}
		double room = 4 * sqrt(DRAWS * p * (1 - p)), pairs = DRAWS * p * p;
		assert_true(fabs(across - DRAWS * p) <= room);
		assert_true(fabs(down - DRAWS * p) <= room);
		assert_true(fabs(both - pairs) <= 4 * sqrt(pairs * (1 - p * p)));
	}
}

/* The promise "same seed, same bytes": these values may never change. */
static void test_golden(void **state)
{
	static const struct {
		struct pixel_key key;
		struct draw_box box;
		bool flip;
	} golden[] = {
		{{.seed = 0, .position = 0, .epoch = 0}, {166, 21, 286, 235}, true},
		{{.seed = 0, .position = 1, .epoch = 0}, {23, 23, 300, 352}, true},
		{{.seed = 1, .position = 0, .epoch = 0}, {149, 37, 308, 279}, true},
		{{.seed = 0, .position = 0, .epoch = 1}, {78, 5, 389, 365}, false},
		{{.seed = 0xfedcba9876543210u, .position = 0xabcdef012345u, .epoch = 89},
			{24, 22, 319, 253}, true},
	};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(golden); i++) {
		struct draw_box box = draw_resized_crop(&golden[i].key, 0, SCALE, RATIO, 500, 375);
		bool flip = draw_flip(&golden[i].key, PHILOX_HORIZONTAL_FLIP, 0.5);
		if (memcmp(&box, &golden[i].box, sizeof(box)) != 0 || flip != golden[i].flip)
			fail_msg("golden %u: {%u, %u, %u, %u}, %d", i, box.x, box.y, box.w, box.h,
				flip);
	}
	uint64_t hash = HASH_SEED;
	for (uint32_t p = 0; p < 10000; p++) {
		struct pixel_key key = {.seed = 42, .position = p, .epoch = p % 90};
		struct draw_box box =
			draw_resized_crop(&key, 0, SCALE, RATIO, 300 + p % 400, 300 + p % 177);
		hash = hash_bytes(hash, &box, sizeof(box));
		hash = hash_u64(hash, draw_flip(&key, PHILOX_HORIZONTAL_FLIP, 0.5));
	}
	if (hash_mix(hash) != 0x9eb2435137c9ce1b)
		fail_msg("golden hash: 0x%016llx", (unsigned long long)hash_mix(hash));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_twin),
		cmocka_unit_test(test_central),
		cmocka_unit_test(test_distribution),
		cmocka_unit_test(test_distribution_of_others),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_golden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
