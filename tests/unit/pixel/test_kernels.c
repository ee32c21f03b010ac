/* Every variant of the kernels against loops that could not be plainer: odd lengths, tails, the
 * ends of the range, guard bytes. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/kernels.h"
#include "pixel/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS_MAX = 200, COLUMNS_MAX = 160, GUARD = 64, GUARD_BYTE = 0x5a };

static uint64_t random_state;

static uint32_t random_next(void)
{
	random_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_mix(random_state) >> 32);
}

static void bytes_random(uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = random_next() % 4 ? (uint8_t)random_next() : 255;
}

/* Weights that add up to a little more than 1, so that the clip is needed. */
static void values_random(uint32_t *value, uint32_t taps)
{
	uint32_t left = (1u << WEIGHTS_BITS) + 40000;
	for (uint32_t t = 0; t < taps; t++) {
		value[t] = t + 1 < taps ? random_next() % (left + 1) : left;
		left -= value[t];
	}
}

static uint8_t plain_clip(uint64_t sum)
{
	sum = (sum + WEIGHTS_HALF) >> WEIGHTS_BITS;
	return (uint8_t)UTIL_MIN(sum, 255u);
}

static void guards_check(const uint8_t *end)
{
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(end[i], GUARD_BYTE);
}

static void test_turn(void **state)
{
	const struct kernels *k = *state;
	static _Alignas(64) uint8_t from[KERNELS_ROWS * COLUMNS_MAX];
	static _Alignas(64) uint8_t to[COLUMNS_MAX * KERNELS_ROWS + GUARD];
	for (size_t columns = 16; columns <= COLUMNS_MAX; columns += 16)
		for (size_t rows = 16; rows <= KERNELS_ROWS; rows += 16) {
			bytes_random(from, sizeof(from));
			memset(to, GUARD_BYTE, sizeof(to));
			k->turn(to, rows, from, COLUMNS_MAX, rows, columns);
			for (size_t c = 0; c < columns; c++)
				for (size_t r = 0; r < rows; r++)
					assert_int_equal(
						to[c * rows + r], from[r * COLUMNS_MAX + c]);
			guards_check(to + columns * rows);
		}
}

static void test_down(void **state)
{
	const struct kernels *k = *state;
	static _Alignas(64) uint8_t rows[KERNELS_TAPS][4 * WORDS_MAX];
	static _Alignas(64) uint8_t to[4 * WORDS_MAX + GUARD];
	bytes_random(rows[0], sizeof(rows));
	for (uint32_t taps = 1; taps <= KERNELS_TAPS; taps++)
		for (size_t words = 1; words < WORDS_MAX; words += 1 + words / 9) {
			const uint8_t *from[KERNELS_TAPS];
			uint32_t value[KERNELS_TAPS];
			for (uint32_t t = 0; t < taps; t++)
				from[t] = rows[(t + words) % KERNELS_TAPS];
			values_random(value, taps);
			memset(to, GUARD_BYTE, sizeof(to));
			k->down(to, from, value, taps, words);
			for (size_t i = 0; i < 4 * words; i++) {
				uint64_t sum = 0;
				for (uint32_t t = 0; t < taps; t++)
					sum += (uint64_t)from[t][i] * value[t];
				assert_int_equal(to[i], plain_clip(sum));
			}
			guards_check(to + 4 * words);
		}
}

static void test_down_in_steps(void **state)
{
	const struct kernels *k = *state;
	static _Alignas(64) uint8_t rows[20][4 * WORDS_MAX];
	static _Alignas(64) uint8_t to[4 * WORDS_MAX + GUARD];
	static _Alignas(64) uint32_t sums[4 * WORDS_MAX];
	bytes_random(rows[0], sizeof(rows));
	for (size_t words = 1; words < WORDS_MAX; words += 1 + words / 9) {
		uint32_t value[20];
		values_random(value, 20);
		memset(to, GUARD_BYTE, sizeof(to));
		for (size_t i = 0; i < 4 * words; i++)
			sums[i] = WEIGHTS_HALF;
		for (uint32_t t = 0; t < 20; t++)
			k->down_add(sums, rows[t], value[t], words);
		k->down_end(to, sums, words);
		for (size_t i = 0; i < 4 * words; i++) {
			uint64_t sum = 0;
			for (uint32_t t = 0; t < 20; t++)
				sum += (uint64_t)rows[t][i] * value[t];
			assert_int_equal(to[i], plain_clip(sum));
		}
		guards_check(to + 4 * words);
	}
}

static void test_across(void **state)
{
	const struct kernels *k = *state;
	enum { PIXELS = 40, OUTPUTS = 13 };
	static _Alignas(64) uint8_t from[PIXELS * KERNELS_PIXEL];
	static _Alignas(64) uint8_t to[OUTPUTS * KERNELS_PIXEL + GUARD];
	static uint32_t value[OUTPUTS * PIXELS];
	bytes_random(from, sizeof(from));
	for (uint32_t stride = 1; stride <= PIXELS; stride++) {
		uint32_t first[OUTPUTS];
		for (uint32_t i = 0; i < OUTPUTS; i++) {
			first[i] = random_next() % (PIXELS - stride + 1);
			values_random(value + (size_t)i * stride, stride);
		}
		memset(to, GUARD_BYTE, sizeof(to));
		k->across(to, from, first, value, stride, OUTPUTS);
		for (uint32_t b = 0; b < OUTPUTS * KERNELS_PIXEL; b++) {
			uint32_t i = b / KERNELS_PIXEL;
			uint64_t sum = 0;
			for (uint32_t t = 0; t < stride; t++)
				sum += (uint64_t)from[(first[i] + t) * KERNELS_PIXEL +
						      b % KERNELS_PIXEL] *
				       value[i * stride + t];
			assert_int_equal(to[b], plain_clip(sum));
		}
		guards_check(to + OUTPUTS * KERNELS_PIXEL);
	}
}

int main(void)
{
	int failed = 0;
	for (unsigned i = 0; kernels_at(i); i++) {
		void *kernels = (void *)(uintptr_t)kernels_at(i);
		const struct CMUnitTest tests[] = {
			cmocka_unit_test_prestate(test_turn, kernels),
			cmocka_unit_test_prestate(test_down, kernels),
			cmocka_unit_test_prestate(test_down_in_steps, kernels),
			cmocka_unit_test_prestate(test_across, kernels),
		};
		failed += cmocka_run_group_tests_name(kernels_at(i)->name, tests, NULL, NULL);
	}
	return failed != 0;
}
