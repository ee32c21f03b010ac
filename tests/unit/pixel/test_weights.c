/* Weight tables against Pillow's formulas written out, value by value: a wrong last bit shows in
 * few images, so comparing bytes would not prove it. Windows and mirroring only move values. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "unit/pixel/twin.h"

enum { WINDOW_MAX = 400, GUARD_VALUE = 0x5a5a5a5a };

static struct weights table_new(void)
{
	struct weights w = {
		.first = malloc(WINDOW_MAX * sizeof(uint32_t)),
		.taps = malloc(WINDOW_MAX * sizeof(uint32_t)),
		.value = malloc((weights_room(WINDOW_MAX) + 1) * sizeof(int32_t)),
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

static void axis_fail(const struct weights_axis *axis, uint32_t at, const char *what)
{
	fail_msg("filter %d, [%a, %a) of %u -> %u, output %u: %s", axis->filter, (double)axis->from,
		(double)axis->to, axis->source, axis->result, at, what);
}

/* The weight of source pixel `p` in output i; 0 where it has none. */
static int32_t table_at(const struct weights *w, uint32_t i, uint32_t p, const int32_t *room)
{
	uint32_t from = w->begin + w->first[i];
	if (p < from || p - from >= w->taps[i])
		return 0;
	return w->few ? w->value[(size_t)i * w->stride + (p - from)] : room[p - from];
}

/* All values of output i, from the table or one by one. The table may omit zeros. */
static void output_check(const struct weights *w, const struct weights_axis *axis, uint32_t i,
	uint32_t at, int32_t *room)
{
	struct twin_output want = twin_output_new(axis, at);
	uint32_t from = (uint32_t)want.from, to = from + (uint32_t)want.taps;
	double sum = w->few ? 0 : weights_sum(w, i);
	if (!w->few)
		weights_output(w, i, room);
	if (w->begin + w->first[i] < from || w->begin + w->first[i] + w->taps[i] > to)
		axis_fail(axis, at, "other pixels");
	for (uint32_t p = from; p < to; p++)
		if (table_at(w, i, p, room) != want.value[p - from])
			axis_fail(axis, at, "other values");
	for (uint32_t t = 0; t < w->taps[i] && !w->few; t++)
		assert_int_equal(weights_tap(w, i, t, sum), room[t]);
	for (uint32_t t = w->taps[i]; t < w->stride && w->few; t++)
		assert_int_equal(w->value[(size_t)i * w->stride + t], 0);
	free(want.value);
}

static void table_check(struct weights *w, const struct weights_axis *axis, bool mirrored)
{
	static int32_t room[WEIGHTS_SOURCE_MAX];
	uint32_t begin, end;
	weights_make(w, axis, mirrored);
	weights_reach(axis, &begin, &end);
	assert_true(begin <= w->begin && w->begin < w->end && w->end <= end);
	assert_true(end <= axis->source && w->begin - begin <= 2 && end - w->end <= 2);
	assert_int_equal(w->few, w->most <= WEIGHTS_FEW);
	assert_true(w->stride >= w->most && w->stride % WEIGHTS_QUAD == 0);
	for (uint32_t i = 0; i < w->count; i += 1 + w->count / 40)
		output_check(w, axis, i, axis->window_at + (mirrored ? w->count - 1 - i : i), room);
	for (uint32_t i = 1; i < w->count && !mirrored; i++)
		assert_true(w->first[i] >= w->first[i - 1]);
}

static void test_values(void **state)
{
	static const uint32_t sides[] = {
		1, 2, 3, 5, 17, 64, 223, 224, 225, 375, 500, 1000, 4099, 65535};
	static const uint32_t results[] = {1, 2, 3, 7, 32, 224, 256, 341, 400};
	struct weights w = table_new();
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(sides); i++)
		for (unsigned j = 0; j < UTIL_COUNT(results); j++)
			for (int f = 0; f < WEIGHTS_FILTERS; f++) {
				struct weights_axis axis = {.source = sides[i],
					.result = results[j],
					.window = results[j],
					.filter = (enum weights_filter)f};
				table_check(&w, &axis, (i + j) % 2);
			}
	table_free(&w);
}

static uint64_t random_state;

static uint32_t random_below(uint64_t bound)
{
	return (uint32_t)(hash_mix(++random_state) % bound);
}

/* Fractional parts of a source, windows of the result. */
static void test_windows(void **state)
{
	struct weights w = table_new();
	(void)state;
	for (int i = 0; i < 6000; i++) {
		struct weights_axis axis = {.filter = (enum weights_filter)(i % WEIGHTS_FILTERS)};
		axis.source = 1 + random_below(700);
		axis.result = 1 + random_below(900);
		axis.window = 1 + random_below(UTIL_MIN(axis.result, (uint32_t)WINDOW_MAX));
		axis.window_at = random_below(axis.result - axis.window + 1);
		if (i % 3) {
			uint32_t grain = i % 2 ? 1 : 1000, whole = axis.source * grain;
			uint32_t from = random_below(whole);
			uint32_t to = from + 1 + random_below(whole - from);
			axis.from = (float)from / (float)grain;
			axis.to = (float)to / (float)grain;
		}
		table_check(&w, &axis, i & 1);
	}
	table_free(&w);
}

/* Enlarging needs two source pixels, or three where rounding demands it; an unchanged size needs
 * one. */
static void test_few_taps(void **state)
{
	struct weights w = table_new();
	(void)state;
	for (uint32_t source = 1; source <= WINDOW_MAX; source++)
		for (uint32_t result = source; result <= WINDOW_MAX; result += 1 + result / 9) {
			struct weights_axis axis = {
				.source = source, .result = result, .window = result};
			weights_make(&w, &axis, false);
			assert_true(w.most <= (source == result ? 1u : 3u));
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
