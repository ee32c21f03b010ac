/* Every table of kernels against its twin in plain C: all 2^24 colors, all turns of the hue, all
 * lengths up to a few vectors, odd factors, in place and not, guard bytes. */
#include "base/hash.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "augment/kernels/kernels.h"

enum { BYTES = 1200, GUARD = 64, GUARD_BYTE = 0x5a, COLOURS = 1 << 24, PART = 1 << 18 };

static const struct augment_kernels *const c = &augment_kernels_c;
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

static float amount_random(void)
{
	static const float amounts[] = {0, 1, 0.5f, 2, -0.5f, 1e-6f, 0.99999994f, 1.0000001f, -40,
		1000, 1e9f, -1e9f, 3e38f};
	uint32_t word = random_next();
	return word % 2 ? amounts[word / 2 % UTIL_COUNT(amounts)]
			: (float)(word % 20001) / 10000.0f;
}

/* A kernel's output, between guards. */
struct target {
	uint8_t bytes[GUARD + 3 * BYTES + GUARD];
};

static uint8_t *target_begin(struct target *target)
{
	memset(target->bytes, GUARD_BYTE, sizeof(target->bytes));
	return target->bytes + GUARD;
}

static void target_check(const struct target *target, const uint8_t *wanted, size_t bytes)
{
	assert_memory_equal(target->bytes + GUARD, wanted, bytes);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(target->bytes[i], GUARD_BYTE);
		assert_int_equal(target->bytes[GUARD + bytes + i], GUARD_BYTE);
	}
}

/* A kernel from pixels to pixels, with parameters that the test draws once. */
struct call {
	unsigned kind;
	float amount;
	uint8_t level, mask, table[3][AUGMENT_LEVELS];
	uint32_t least;
};

enum { CALL_BLEND, CALL_FOLD, CALL_MAP, CALL_GREY, CALL_SATURATE, CALL_HUE, CALLS };

static void call_run(const struct augment_kernels *k, const struct call *call, uint8_t *to,
	const uint8_t *from, size_t pixels)
{
	switch (call->kind) {
	case CALL_BLEND:
		k->blend(to, from, 3 * pixels, call->level, call->amount);
		break;
	case CALL_FOLD:
		k->fold(to, from, 3 * pixels, call->least, call->mask);
		break;
	case CALL_MAP:
		k->map(to, from, pixels, call->table);
		break;
	case CALL_GREY:
		k->gray(to, from, pixels);
		break;
	case CALL_SATURATE:
		k->saturate(to, from, pixels, call->amount);
		break;
	default:
		k->hue(to, from, pixels, call->level);
	}
}

static struct call call_random(unsigned kind)
{
	struct call call = {.kind = kind,
		.amount = amount_random(),
		.level = (uint8_t)random_next(),
		.mask = (uint8_t)random_next(),
		.least = random_next() % 257};
	bytes_random(call.table[0], sizeof(call.table));
	return call;
}

static void test_pixels(void **state)
{
	const struct augment_kernels *k = *state;
	static uint8_t from[3 * BYTES], wanted[3 * BYTES];
	static struct target target;
	for (size_t pixels = 1; pixels <= BYTES; pixels += 1 + pixels / 150)
		for (unsigned kind = 0; kind < CALLS; kind++) {
			struct call call = call_random(kind);
			bytes_random(from, 3 * pixels);
			call_run(c, &call, wanted, from, pixels);
			uint8_t *to = target_begin(&target);
			call_run(k, &call, to, from, pixels);
			target_check(&target, wanted, 3 * pixels);
			memcpy(to, from, 3 * pixels);
			call_run(k, &call, to, to, pixels);
			target_check(&target, wanted, 3 * pixels);
		}
}

static void test_looks(void **state)
{
	const struct augment_kernels *k = *state;
	for (size_t pixels = 1; pixels <= BYTES; pixels++) {
		cleanup(free_ptr) uint8_t *from = malloc(3 * pixels);
		uint8_t extreme[4][3];
		assert_non_null(from);
		bytes_random(from, 3 * pixels);
		assert_int_equal(k->light(from, pixels), c->light(from, pixels));
		c->extremes(from, pixels, extreme[0], extreme[1]);
		k->extremes(from, pixels, extreme[2], extreme[3]);
		assert_memory_equal(extreme[0], extreme[2], 6);
	}
}

/* 255 everywhere: the largest sum that an image of 4096 x 4096 can have. */
static void test_light_of_white(void **state)
{
	const struct augment_kernels *k = *state;
	size_t pixels = (size_t)4096 * 4096;
	cleanup(free_ptr) uint8_t *from = malloc(3 * pixels);
	assert_non_null(from);
	memset(from, 255, 3 * pixels);
	assert_int_equal(k->light(from, pixels), 255 * pixels);
}

static void test_sharpen(void **state)
{
	const struct augment_kernels *k = *state;
	static uint8_t rows[3][BYTES + 6], wanted[BYTES];
	static struct target target;
	const uint8_t *const from[3] = {rows[0], rows[1], rows[2]};
	for (size_t bytes = 3; bytes <= BYTES; bytes += 3) {
		bytes_random(rows[0], sizeof(rows));
		float amount = amount_random();
		c->sharpen(wanted, from, bytes, amount);
		k->sharpen(target_begin(&target), from, bytes, amount);
		target_check(&target, wanted, bytes);
	}
}

static void test_blur(void **state)
{
	const struct augment_kernels *k = *state;
	enum { TAPS = 31 };
	static uint8_t rows[TAPS][BYTES], wanted[BYTES];
	static float lines[2][BYTES], line[BYTES + 3 * TAPS];
	static struct target target;
	for (size_t bytes = 3; bytes <= BYTES; bytes += 3 * (1 + bytes / 30)) {
		uint32_t taps = 1 + 2 * (random_next() % (TAPS / 2 + 1));
		const uint8_t *from[TAPS];
		float weight[TAPS];
		for (uint32_t t = 0; t < taps; t++) {
			from[t] = rows[t];
			weight[t] = 1.0f / (float)taps;
		}
		bytes_random(rows[0], sizeof(rows));
		c->blur_down(lines[0], from, weight, taps, bytes);
		k->blur_down(lines[1], from, weight, taps, bytes);
		assert_memory_equal(lines[0], lines[1], bytes * sizeof(float));
		for (size_t i = 0; i < UTIL_COUNT(line); i++)
			line[i] = (float)(random_next() % 65281) / 256.0f;
		c->blur_across(wanted, line, weight, taps, bytes);
		k->blur_across(target_begin(&target), line, weight, taps, bytes);
		target_check(&target, wanted, bytes);
	}
}

static void test_box(void **state)
{
	const struct augment_kernels *k = *state;
	static uint8_t rows[4][BYTES], wanted[BYTES];
	static uint32_t sums[2][BYTES];
	static struct target target;
	const uint8_t *const from[4] = {rows[0], rows[1], rows[2], rows[3]};
	for (size_t bytes = 3; bytes <= BYTES; bytes += 3) {
		bytes_random(rows[0], sizeof(rows));
		for (size_t i = 0; i < bytes; i++)
			sums[0][i] = sums[1][i] = 255 + random_next() % 512;
		const struct augment_box box = {.radius = random_next() % 9,
			.weight = random_next() % (1u << 22),
			.edge_weight = random_next() % (1u << 21)};
		c->box_down(wanted, sums[0], from, &box, bytes);
		k->box_down(target_begin(&target), sums[1], from, &box, bytes);
		target_check(&target, wanted, bytes);
		assert_memory_equal(sums[0], sums[1], bytes * sizeof(uint32_t));
		c->box_across(wanted, sums[0], rows[0], (uint32_t)bytes / 3, &box);
		k->box_across(target_begin(&target), sums[1], rows[0], (uint32_t)bytes / 3, &box);
		target_check(&target, wanted, bytes);
	}
}

/* Compares all tables at once, since the C version is slow. */
static void all_equal(const struct call *call, const uint8_t *from, size_t pixels)
{
	static uint8_t wanted[3 * PART], got[3 * PART];
	call_run(c, call, wanted, from, pixels);
	for (unsigned i = 1; augment_kernels_at(i); i++) {
		call_run(augment_kernels_at(i), call, got, from, pixels);
		for (size_t n = 0; memcmp(wanted, got, 3 * pixels) != 0 && n < 3 * pixels; n++)
			if (wanted[n] != got[n])
				fail_msg("%s, kind %u, turn %u, color %02x%02x%02x, channel %zu: "
					 "%u, C %u",
					augment_kernels_at(i)->name, call->kind, call->level,
					from[n / 3 * 3], from[n / 3 * 3 + 1], from[n / 3 * 3 + 2],
					n % 3, got[n], wanted[n]);
	}
}

static void test_all_colors(void **state)
{
	(void)state;
	static uint8_t from[3 * PART];
	static const struct call calls[] = {{.kind = CALL_HUE}, {.kind = CALL_HUE, .level = 77},
		{.kind = CALL_SATURATE, .amount = 1.37f}, {.kind = CALL_GREY}};
	for (uint32_t first = 0; first < COLOURS; first += PART) {
		for (uint32_t i = 0; i < PART; i++)
			for (int channel = 0; channel < 3; channel++)
				from[3 * i + (uint32_t)channel] =
					(uint8_t)((first + i) >> (16 - 8 * channel));
		for (size_t i = 0; i < UTIL_COUNT(calls); i++)
			all_equal(&calls[i], from, PART);
	}
}

/* All pairs of maximum and minimum, and so all pairs of s and v, with all h. */
static void test_all_turns(void **state)
{
	(void)state;
	static uint8_t from[3 * 65536];
	size_t pixels = 0;
	for (unsigned most = 0; most < 256; most++)
		for (unsigned least = 0; least <= most; least++, pixels++) {
			from[3 * pixels] = (uint8_t)most;
			from[3 * pixels + 1] = from[3 * pixels + 2] = (uint8_t)least;
		}
	for (unsigned turn = 0; turn < 256; turn++)
		all_equal(&(struct call){.kind = CALL_HUE, .level = (uint8_t)turn}, from, pixels);
}

int main(void)
{
	int failed = 0;
	for (unsigned i = 0; augment_kernels_at(i); i++) {
		void *kernels = (void *)(uintptr_t)augment_kernels_at(i);
		const struct CMUnitTest tests[] = {
			cmocka_unit_test_prestate(test_pixels, kernels),
			cmocka_unit_test_prestate(test_looks, kernels),
			cmocka_unit_test_prestate(test_light_of_white, kernels),
			cmocka_unit_test_prestate(test_sharpen, kernels),
			cmocka_unit_test_prestate(test_blur, kernels),
			cmocka_unit_test_prestate(test_box, kernels),
		};
		failed +=
			cmocka_run_group_tests_name(augment_kernels_at(i)->name, tests, NULL, NULL);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_colors),
		cmocka_unit_test(test_all_turns),
	};
	return (failed + cmocka_run_group_tests(tests, NULL, NULL)) != 0;
}
