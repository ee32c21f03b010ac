/* Every variant of the kernels against the plainest loops: odd lengths, tails, the
 * ends of the range, weights of both signs, outputs near and far apart, guard bytes. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { PIXELS = 1500, OUTPUTS = 300, GUARD = 64, GUARD_BYTE = 0x5a };

static uint64_t random_state;

static uint32_t random_next(void)
{
	random_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_mix(random_state) >> 32);
}

static void bytes_random(uint8_t *bytes, size_t n)
{
	uint32_t kind = random_next() % 3;
	for (size_t i = 0; i < n; i++)
		bytes[i] = kind ? (uint8_t)(random_next() >> kind) : random_next() % 2 * 255;
}

/* Weights that add up to about 1, some below 0 or above 1, so that both clips are needed;
 * sometimes a single weight, or the extremes of a weight. */
static void values_random(int32_t *value, uint32_t taps)
{
	int32_t left = (1 << WEIGHTS_BITS) + (int32_t)(random_next() % 80000) - 40000;
	bool negative = random_next() % 2;
	for (uint32_t t = 0; t < taps; t++) {
		int32_t most = (1 << (WEIGHTS_BITS - 2)) / (int32_t)taps;
		value[t] = t + 1 < taps ? (int32_t)(random_next() % (3 * (uint32_t)most)) : left;
		if (negative && t + 1 < taps)
			value[t] -= 2 * most;
		left -= value[t];
	}
	uint32_t single = random_next() % (8 * taps);
	if (single >= taps)
		return;
	memset(value, 0, taps * sizeof(*value));
	value[single] = 1 << WEIGHTS_BITS;
}

static uint8_t plain_clip(int64_t sum)
{
	sum = (sum + WEIGHTS_HALF) >> WEIGHTS_BITS;
	return (uint8_t)(sum < 0 ? 0 : UTIL_MIN(sum, 255));
}

static uint8_t *row_new(size_t bytes)
{
	uint8_t *row = malloc(bytes);
	assert_non_null(row);
	bytes_random(row, bytes);
	return row;
}

static void guards_check(const uint8_t *end)
{
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(end[i], GUARD_BYTE);
}

static size_t grains(size_t bytes)
{
	return util_align(bytes, KERNELS_GRAIN);
}

static void test_down(void **state)
{
	const struct kernels *k = *state;
	static _Alignas(KERNELS_GRAIN) uint8_t to[OUTPUTS + 2 * GUARD];
	for (uint32_t taps = 1; taps <= WEIGHTS_FEW; taps++)
		for (size_t bytes = 1; bytes < OUTPUTS; bytes += 1 + bytes / 5) {
			uint8_t *rows[WEIGHTS_FEW];
			int32_t value[WEIGHTS_FEW];
			for (uint32_t t = 0; t < taps; t++)
				rows[t] = row_new(grains(bytes));
			values_random(value, taps);
			memset(to, GUARD_BYTE, sizeof(to));
			k->down(to, (const uint8_t *const *)rows, value, taps, bytes);
			for (size_t i = 0; i < bytes; i++) {
				int64_t sum = 0;
				for (uint32_t t = 0; t < taps; t++)
					sum += (int64_t)rows[t][i] * value[t];
				assert_int_equal(to[i], plain_clip(sum));
			}
			guards_check(to + grains(bytes));
			for (uint32_t t = 0; t < taps; t++)
				free(rows[t]);
		}
}

static void test_down_in_steps(void **state)
{
	const struct kernels *k = *state;
	enum { TAPS = 20 };
	for (size_t bytes = 1; bytes < OUTPUTS; bytes += 1 + bytes / 9) {
		cleanup(free_ptr) uint32_t *sums = malloc(bytes * sizeof(*sums));
		cleanup(free_ptr) uint8_t *to = malloc(bytes);
		uint8_t *rows[TAPS];
		int32_t value[TAPS];
		values_random(value, TAPS);
		for (size_t i = 0; i < bytes; i++)
			sums[i] = WEIGHTS_HALF;
		for (uint32_t t = 0; t < TAPS; t++) {
			rows[t] = row_new(bytes);
			k->down_add(sums, rows[t], value[t], bytes);
		}
		k->down_end(to, sums, bytes);
		for (size_t i = 0; i < bytes; i++) {
			int64_t sum = 0;
			for (uint32_t t = 0; t < TAPS; t++)
				sum += (int64_t)rows[t][i] * value[t];
			assert_int_equal(to[i], plain_clip(sum));
		}
		for (uint32_t t = 0; t < TAPS; t++)
			free(rows[t]);
	}
}

static void test_weave(void **state)
{
	const struct kernels *k = *state;
	for (size_t count = 1; count < OUTPUTS; count++) {
		uint8_t *from[3], to[3 * OUTPUTS + GUARD];
		for (int c = 0; c < 3; c++)
			from[c] = row_new(grains(count));
		memset(to, GUARD_BYTE, sizeof(to));
		k->weave(to, (const uint8_t *const *)from, count);
		for (size_t i = 0; i < 3 * count; i++)
			assert_int_equal(to[i], from[i % 3][i / 3]);
		guards_check(to + 3 * count);
		for (int c = 0; c < 3; c++)
			free(from[c]);
	}
}

/* Outputs of up to `most` taps, `step` x 1/16 pixels apart, in either direction. */
static void weights_random(struct weights *w, uint32_t count, uint32_t most, uint32_t step)
{
	w->count = count;
	w->most = most;
	w->stride = (uint32_t)util_align(most, WEIGHTS_QUAD);
	w->few = most <= WEIGHTS_FEW;
	bool mirrored = random_next() % 2;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = (mirrored ? count - 1 - i : i) * step / 16;
		w->taps[i] = i == count / 2 ? most : 1 + random_next() % most;
		w->first[i] = UTIL_MIN(place, PIXELS - w->taps[i]);
		int32_t *value = w->value + (size_t)i * w->stride;
		memset(value, 0, w->stride * sizeof(*value));
		values_random(value, w->taps[i]);
	}
}

static void outputs_check(const struct weights *w, uint8_t *const to[3], uint8_t *const from[3])
{
	for (int c = 0; c < 3; c++) {
		for (uint32_t i = 0; i < w->count; i++) {
			int64_t sum = 0;
			for (uint32_t t = 0; t < w->taps[i]; t++)
				sum += (int64_t)from[c][w->first[i] + t] *
				       w->value[(size_t)i * w->stride + t];
			if (to[c][i] != plain_clip(sum))
				fail_msg("output %u of %u, %u taps: %u, not %u", i, w->count,
					w->taps[i], to[c][i], plain_clip(sum));
		}
		guards_check(to[c] + util_align(w->count, KERNELS_OUTPUTS));
	}
}

struct across {
	struct weights weights;
	uint8_t *to[3], *from[3], *table;
};

static void across_init(struct across *a)
{
	*a = (struct across){
		.weights = {.first = malloc(OUTPUTS * sizeof(uint32_t)),
			.taps = malloc(OUTPUTS * sizeof(uint32_t)),
			.value = malloc((size_t)OUTPUTS * 200 * sizeof(int32_t))},
		.table = aligned_alloc(KERNELS_GRAIN, grains(OUTPUTS) * KERNELS_PACKED),
	};
	for (int c = 0; c < 3; c++) {
		a->to[c] = malloc(grains(OUTPUTS) + GUARD);
		a->from[c] = row_new(PIXELS + KERNELS_SLACK);
	}
	assert_true(a->weights.first && a->weights.taps && a->weights.value && a->table);
}

static void across_deinit(struct across *a)
{
	free(a->weights.first);
	free(a->weights.taps);
	free(a->weights.value);
	free(a->table);
	for (int c = 0; c < 3; c++) {
		free(a->to[c]);
		free(a->from[c]);
	}
}

static void across_many(const struct kernels *k, struct across *a)
{
	const struct weights *w = &a->weights;
	int32_t *value = malloc((size_t)w->count * 208 * sizeof(*value)), *to = value;
	for (uint32_t i = 0; i < w->count; i++) {
		size_t padded = util_align(w->taps[i], KERNELS_RUN);
		memset(to, 0, padded * sizeof(*to));
		memcpy(to, w->value + (size_t)i * w->stride, w->taps[i] * sizeof(*to));
		to += padded;
	}
	k->across_many(a->to, (const uint8_t *const *)a->from,
		&(struct kernels_many){.weights = w, .value = value});
	free(value);
}

/* Whether the kernel for few taps accepted the job. */
static bool across_run(const struct kernels *k, struct across *a, bool many)
{
	for (int c = 0; c < 3; c++)
		memset(a->to[c], GUARD_BYTE, grains(OUTPUTS) + GUARD);
	bool packed = !many && k->pack(&a->weights, a->table);
	if (packed)
		k->across(a->to, (const uint8_t *const *)a->from, &a->weights, a->table);
	else
		across_many(k, a);
	outputs_check(&a->weights, a->to, a->from);
	return packed;
}

static void test_across(void **state)
{
	const struct kernels *k = *state;
	struct across a;
	across_init(&a);
	unsigned packed = 0, far = 0;
	for (uint32_t count = 1; count <= OUTPUTS; count += 1 + count / 12)
		for (uint32_t most = 1; most <= WEIGHTS_FEW; most += 1 + most / 6) {
			static const uint32_t steps[] = {
				0, 3, 16, 20, 33, 48, 70, 100, 140, 190, 240, 256, 300};
			uint32_t step = steps[random_next() % UTIL_COUNT(steps)];
			weights_random(&a.weights, count, most, step);
			bool took = across_run(k, &a, false);
			packed += took;
			far += !took;
			/* The kernel must accept the scales that most images have. */
			assert_true(took || step > 48);
		}
	assert_true(packed > 100);
	/* These decline outputs that are too far from each other; the others take any. */
	bool declines = strcmp(k->name, "avx512-vnni") == 0 || strcmp(k->name, "neon") == 0;
	assert_int_equal(far > 0, declines);
	across_deinit(&a);
}

static void test_across_many(void **state)
{
	const struct kernels *k = *state;
	struct across a;
	across_init(&a);
	for (uint32_t most = 1; most <= 200; most += 1 + most / 4)
		for (uint32_t count = 1; count <= OUTPUTS; count += 1 + count) {
			weights_random(&a.weights, count, most, 8 * most);
			(void)across_run(k, &a, true);
		}
	across_deinit(&a);
}

int main(void)
{
	int failed = 0;
	for (unsigned i = 0; kernels_at(i); i++) {
		void *kernels = (void *)(uintptr_t)kernels_at(i);
		const struct CMUnitTest tests[] = {
			cmocka_unit_test_prestate(test_down, kernels),
			cmocka_unit_test_prestate(test_down_in_steps, kernels),
			cmocka_unit_test_prestate(test_weave, kernels),
			cmocka_unit_test_prestate(test_across, kernels),
			cmocka_unit_test_prestate(test_across_many, kernels),
		};
		failed += cmocka_run_group_tests_name(kernels_at(i)->name, tests, NULL, NULL);
	}
	return failed != 0;
}
