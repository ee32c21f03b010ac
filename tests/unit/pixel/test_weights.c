/* Weight tables against Pillow's formulas written out, value by value: a wrong last bit shows in
 * few pictures, so bytes alone would not prove it. Windows, mirroring and alignment only move
 * values. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WINDOW_MAX = 400, GUARD_VALUE = 0x5a5a5a5a };

static struct weights table_new(void)
{
	struct weights w = {
		.first = malloc(WINDOW_MAX * sizeof(uint32_t)),
		.taps = malloc(WINDOW_MAX * sizeof(uint32_t)),
		.value = malloc((weights_room(WINDOW_MAX) + 1) * sizeof(uint32_t)),
	};
	assert_true(w.first && w.taps && w.value);
	w.value[weights_room(WINDOW_MAX)] = GUARD_VALUE;
	return w;
}

static void table_free(struct weights *w)
{
	assert_int_equal(w->value[weights_room(WINDOW_MAX)], GUARD_VALUE);
	free(w->first);
	free(w->taps);
	free(w->value);
}

/* What output `i` takes from source pixel `p`, 0 where nothing. */
static uint32_t table_at(const struct weights *w, uint32_t i, uint32_t p)
{
	uint32_t from = w->begin + w->first[i];
	if (p < from || p - from >= w->stride)
		return 0;
	return w->value[(size_t)i * w->stride + (p - from)];
}

/* precompute_coeffs and normalize_coeffs_8bpc for the output `at`. */
static void twin_output(uint32_t source, uint32_t result, uint32_t at, uint32_t *ret)
{
	double scale = (double)(float)source / (int)result, filterscale = scale < 1.0 ? 1.0 : scale;
	double support = 1.0 * filterscale, inverse = 1.0 / filterscale;
	double center = 0.0 + (at + 0.5) * scale, sum = 0.0;
	int from = UTIL_MAX((int)(center - support + 0.5), 0);
	int to = UTIL_MIN((int)(center + support + 0.5), (int)source);
	cleanup(free_ptr) double *k = calloc(source, sizeof(double));
	assert_non_null(k);
	for (int x = 0; x < to - from; x++) {
		double d = fabs((x + from - center + 0.5) * inverse);
		k[from + x] = d < 1.0 ? 1.0 - d : 0.0;
		sum += k[from + x];
	}
	for (uint32_t p = 0; p < source; p++)
		ret[p] = (uint32_t)(int)(0.5 + k[p] / sum * (1 << 22));
}

static void table_check(const struct weights *w, const struct weights_axis *axis, bool mirrored)
{
	cleanup(free_ptr) uint32_t *want = malloc(axis->source * sizeof(uint32_t));
	assert_non_null(want);
	assert_true(w->begin < w->end && w->end <= axis->source);
	assert_true((uint64_t)w->count * w->stride <= weights_room(WINDOW_MAX));
	for (uint32_t i = 0; i < w->count; i += 1 + w->count / 40) {
		uint32_t at = axis->window_at + (mirrored ? w->count - 1 - i : i);
		twin_output(axis->source, axis->result, at, want);
		for (uint32_t p = 0; p < axis->source; p++)
			if (table_at(w, i, p) != want[p])
				fail_msg("%u -> %u, output %u, pixel %u: %u, not %u", axis->source,
					axis->result, at, p, table_at(w, i, p), want[p]);
	}
}

static void test_values(void **state)
{
	static const uint32_t sides[] = {
		1, 2, 3, 5, 17, 64, 223, 224, 225, 375, 500, 1000, 4099, 65535};
	static const uint32_t results[] = {1, 2, 3, 7, 32, 224, 256, 341, 400};
	struct weights w = table_new();
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(sides); i++)
		for (unsigned j = 0; j < UTIL_COUNT(results); j++) {
			struct weights_axis axis = {
				.source = sides[i], .result = results[j], .window = results[j]};
			weights_make(&w, &axis, false);
			table_check(&w, &axis, false);
			for (uint32_t o = 1; o < w.count; o++)
				assert_true(w.first[o] >= w.first[o - 1]);
			weights_make(&w, &axis, true);
			weights_align(&w);
			table_check(&w, &axis, true);
			for (uint32_t o = 0; o < w.count; o++)
				assert_true(w.first[o] + w.stride <= w.end - w.begin);
		}
	table_free(&w);
}

static void test_windows(void **state)
{
	struct weights w = table_new();
	uint64_t random = 0;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct weights_axis axis;
		axis.source = 1 + (uint32_t)(hash_mix(++random) % 700);
		axis.result = 1 + (uint32_t)(hash_mix(++random) % 900);
		axis.window =
			1 + (uint32_t)(hash_mix(++random) % UTIL_MIN(axis.result, WINDOW_MAX));
		axis.window_at = (uint32_t)(hash_mix(++random) % (axis.result - axis.window + 1));
		weights_make(&w, &axis, i & 1);
		table_check(&w, &axis, i & 1);
	}
	table_free(&w);
}

/* Enlarging needs two source pixels at most, and an unchanged size one: resample.c counts on it. */
static void test_few_taps(void **state)
{
	struct weights w = table_new();
	(void)state;
	for (uint32_t source = 1; source <= WINDOW_MAX; source++)
		for (uint32_t result = source; result <= WINDOW_MAX; result += 1 + result / 9) {
			weights_make(&w,
				&(struct weights_axis){
					.source = source, .result = result, .window = result},
				false);
			assert_true(w.stride <= (source == result ? 1u : 2u));
		}
	table_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_few_taps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
