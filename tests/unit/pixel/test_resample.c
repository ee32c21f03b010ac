/* The resampler against a plain reference that holds the whole image and follows Pillow's
 * documentation and Resample.c step by step; every variant of the kernels, thousands of
 * geometries, guard bytes, golden hashes. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/kernels.h"
#include "pixel/pixel.h"
#include "pixel/resample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "unit/pixel/twin.h"
#include "unit/sparse.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, MAX_WINDOW = 300 };

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state += 0x9e3779b97f4a7c15u;
	return hash_mix(random_state);
}

static uint32_t random_below(uint32_t bound)
{
	return (uint32_t)(random_next() % bound);
}

static uint32_t random_between(uint32_t low, uint32_t high)
{
	return low + random_below(high - low + 1);
}

/* --- the reference --- */

struct picture {
	uint32_t w, h;
	uint8_t *rgb;
};

static struct picture picture_new(uint32_t w, uint32_t h)
{
	struct picture p = {w, h, malloc(3 * (size_t)w * h)};
	assert_non_null(p.rgb);
	return p;
}

static uint8_t *picture_at(const struct picture *p, uint32_t x, uint32_t y)
{
	return p->rgb + 3 * ((size_t)y * p->w + x);
}

/* One pass over a line of pixels that are `step` bytes apart: its output `at`. */
static void twin_pixel(const struct twin_output *t, const uint8_t *from, size_t step, uint8_t *to)
{
	for (size_t c = 0; c < 3; c++) {
		int64_t sum = 1 << 21;
		for (int i = 0; i < t->taps; i++)
			sum += from[(size_t)(t->from + i) * step + c] * t->value[i];
		sum >>= 22;
		to[c] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
	}
}

static struct picture twin_across(const struct picture *in, const struct weights_axis *axis)
{
	struct picture out = picture_new(axis->result, in->h);
	for (uint32_t x = 0; x < out.w; x++) {
		struct twin_output t = twin_output_new(axis, x);
		for (uint32_t y = 0; y < in->h; y++)
			twin_pixel(&t, picture_at(in, 0, y), 3, picture_at(&out, x, y));
		free(t.value);
	}
	return out;
}

static struct picture twin_down(const struct picture *in, const struct weights_axis *axis)
{
	struct picture out = picture_new(in->w, axis->result);
	for (uint32_t y = 0; y < out.h; y++) {
		struct twin_output t = twin_output_new(axis, y);
		for (uint32_t x = 0; x < in->w; x++)
			twin_pixel(&t, picture_at(in, x, 0), 3 * (size_t)in->w,
				picture_at(&out, x, y));
		free(t.value);
	}
	return out;
}

/* Image.resize of Pillow 13. Its order of passes depends on the whole source, with or without a
 * box. */
static struct picture twin_resize(
	const struct picture *in, const struct weights_axis *x, const struct weights_axis *y)
{
	int64_t lower = (int64_t)in->h - y->result, narrower = (int64_t)in->w - x->result;
	bool vertical_first = lower > 0 && lower > 2 * narrower;
	struct picture between = vertical_first ? twin_down(in, y) : twin_across(in, x);
	struct picture out = vertical_first ? twin_across(&between, x) : twin_down(&between, y);
	free(between.rgb);
	return out;
}

/* --- the comparison --- */

static struct picture picture_random(uint32_t w, uint32_t h)
{
	struct picture p = picture_new(w, h);
	unsigned kind = random_below(3);
	uint64_t noise = 0;
	for (size_t i = 0; i < 3 * (size_t)w * h; i++, noise >>= 8) {
		if (i % 8 == 0)
			noise = random_next();
		p.rgb[i] = (uint8_t)(kind == 0 ? noise : kind == 1 ? (noise & 1) * 255 : 255);
	}
	return p;
}

struct guarded {
	uint8_t *memory, *out;
	size_t bytes;
};

static struct guarded guarded_new(size_t bytes)
{
	struct guarded g = {.memory = malloc(bytes + 2 * GUARD), .bytes = bytes};
	assert_non_null(g.memory);
	memset(g.memory, GUARD_BYTE, bytes + 2 * GUARD);
	g.out = g.memory + GUARD;
	return g;
}

static void guarded_check(const struct guarded *g)
{
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(g->memory[i], GUARD_BYTE);
		assert_int_equal(g->out[g->bytes + i], GUARD_BYTE);
	}
}

/* Feeds exactly the region, each row from memory of its exact size plus the promised slack. */
static void resample_run(
	struct resample *r, const struct resample_job *job, const struct picture *in)
{
	struct resample_region region;
	resample_begin(r, job, &region);
	assert_true(region.x0 < region.x1 && region.x1 <= in->w);
	assert_true(region.y0 < region.y1 && region.y1 <= in->h);
	size_t width = region.x1 - region.x0;
	for (uint32_t y = region.y0; y < region.y1; y++) {
		assert_int_equal(resample_missing(r), region.y1 - y);
		uint8_t *row[3];
		for (size_t c = 0; c < 3; c++) {
			row[c] = malloc(width + PIXEL_ROW_SLACK);
			assert_non_null(row[c]);
			for (size_t x = 0; x < width; x++)
				row[c][x] = picture_at(in, region.x0, y)[3 * x + c];
		}
		resample_row(r, (const uint8_t *const *)row);
		for (size_t c = 0; c < 3; c++)
			free(row[c]);
	}
	assert_int_equal(resample_missing(r), 0);
}

static void job_check(
	struct resample *r, const struct resample_job *wanted, const struct picture *in)
{
	struct resample_job job = *wanted;
	struct guarded g = guarded_new(3 * (size_t)job.x.window * job.y.window);
	job.out = g.out;
	resample_run(r, &job, in);
	guarded_check(&g);
	struct picture whole = twin_resize(in, &job.x, &job.y);
	for (uint32_t y = 0; y < job.y.window; y++)
		for (uint32_t x = 0; x < job.x.window; x++) {
			uint32_t from = job.x.window_at + (job.flip ? job.x.window - 1 - x : x);
			const uint8_t *want = picture_at(&whole, from, job.y.window_at + y);
			const uint8_t *got = g.out + 3 * ((size_t)y * job.x.window + x);
			if (memcmp(want, got, 3) != 0)
				fail_msg("filter %d, %u x %u -> %u x %u, window %u,%u %u x %u, "
					 "flip %d: pixel %u,%u is %u %u %u, not %u %u %u",
					job.x.filter, in->w, in->h, job.x.result, job.y.result,
					job.x.window_at, job.y.window_at, job.x.window,
					job.y.window, job.flip, x, y, got[0], got[1], got[2],
					want[0], want[1], want[2]);
		}
	free(whole.rgb);
	free(g.memory);
}

static struct resample *resample_with(const char *kernels)
{
	struct fault fault = {""};
	struct resample *r = NULL;
	assert_int_equal(setenv("PENSTOCK_KERNELS", kernels, 1), 0);
	assert_int_equal(resample_new(MAX_WINDOW, &r, &fault), 0);
	return r;
}

static struct weights_axis axis_whole(uint32_t source, uint32_t result)
{
	return (struct weights_axis){.source = source, .result = result, .window = result};
}

static struct weights_axis axis_random(uint32_t source, uint32_t result)
{
	struct weights_axis axis = axis_whole(source, result);
	if (random_below(2)) {
		axis.window = random_between(1, result);
		axis.window_at = random_below(result - axis.window + 1);
	}
	if (random_below(8) == 0)
		axis.source = result; /* a pass that is skipped */
	return axis;
}

/* Sides of a few pixels are as likely as long ones. */
static uint32_t side_random(uint32_t most)
{
	return random_between(1, random_below(3) ? most : 5);
}

/* Half of the time, a part of the source that begins and ends anywhere inside a pixel. */
static void axis_part(struct weights_axis *axis, enum weights_filter filter)
{
	axis->filter = filter;
	if (random_below(2))
		return;
	uint32_t grain = random_below(2) ? 1 : 1024, whole = axis->source * grain;
	uint32_t from = random_below(whole), to = random_between(from + 1, whole);
	axis->from = (float)from / (float)grain;
	axis->to = (float)to / (float)grain;
}

static void test_random_geometries(void **state)
{
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	random_state = 1;
	for (uint32_t i = 0; i < 3000; i += sparse()) {
		struct resample_job job = {
			.x = axis_random(side_random(90), side_random(60)),
			.y = axis_random(side_random(90), side_random(60)),
			.flip = random_below(2) != 0,
		};
		enum weights_filter filter = (enum weights_filter)random_below(WEIGHTS_FILTERS);
		axis_part(&job.x, filter);
		axis_part(&job.y, filter);
		struct picture in = picture_random(job.x.source, job.y.source);
		job_check(r, &job, &in);
		free(in.rgb);
	}
	resample_free(r);
}

static void test_extreme_geometries(void **state)
{
	static const uint32_t sizes[][4] = {
		/* source, result */
		{1, 1, 1, 1},
		{1, 1, 300, 300},
		{2, 1, 1, 2},
		{1, 2000, 64, 3},
		{2000, 1, 3, 64},
		{1, 65535, 1, 1},
		{65535, 1, 1, 1},
		{65535, 2, 100, 300},
		{2, 65535, 300, 100},
		{4096, 40, 60, 50},
		{4097, 40, 60, 50},
		{5000, 3, 300, 300},
		{2100, 4300, 2, 2}, /* vertical first, by sums */
		{1000, 2300, 290, 200}, /* vertical first, by a large ring */
		{64, 1000, 64, 7},
		{300, 299, 299, 300},
		{224, 448, 224, 224},
		{37, 33, 37, 32}, /* the smallest case that is vertical first */
		{3, 700, 3, 600},
		/* Outputs far from each other: by 4.5 pixels, 8, 12, 15.5 and 16.5. */
		{1003, 60, 223, 50},
		{1601, 70, 200, 60},
		{2689, 80, 224, 70},
		{1550, 90, 100, 80},
		{1650, 40, 100, 30},
	};
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	random_state = 2;
	for (unsigned i = 0; i < 2 * UTIL_COUNT(sizes); i++) {
		const uint32_t *size = sizes[i / 2];
		struct resample_job job = {
			.x = axis_whole(size[0], size[2]),
			.y = axis_whole(size[1], size[3]),
			.flip = i % 2 != 0,
		};
		/* Bilinear mostly, and sometimes each of the other filters. */
		job.x.filter = job.y.filter =
			(enum weights_filter)(i % 2 * (1 + i / 2 % (WEIGHTS_FILTERS - 1)));
		job.y.window = UTIL_MIN(job.y.window, (uint32_t)MAX_WINDOW);
		struct picture in = picture_random(job.x.source, job.y.source);
		job_check(r, &job, &in);
		free(in.rgb);
	}
	resample_free(r);
}

/* Both sides of the rule for which pass is first, for every width around the result's width. */
static void test_order_of_passes(void **state)
{
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	random_state = 3;
	for (uint32_t w = 10; w <= 26; w++)
		for (uint32_t h = 14; h <= 44; h++) {
			struct resample_job job = {.x = axis_whole(w, 16), .y = axis_whole(h, 16)};
			struct picture in = picture_random(w, h);
			job_check(r, &job, &in);
			free(in.rgb);
		}
	resample_free(r);
}

/* The bytes of one fixed job, so that the test also sees a change that reference and code share. */
static void test_golden(void **state)
{
	static const struct {
		uint32_t w, h, ow, oh;
		uint64_t hash;
	} golden[] = {
		{350, 270, 224, 224, 0x44de82c033a9e4fd},
		{100, 80, 224, 224, 0x3325d1af8c3543b4},
		{230, 450, 224, 224, 0x68c7f9bff58ab858},
		{2500, 1900, 224, 224, 0x3f56cd3674db83bc},
	};
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	for (unsigned i = 0; i < UTIL_COUNT(golden); i++) {
		random_state = i;
		struct picture in = picture_new(golden[i].w, golden[i].h);
		for (size_t b = 0; b < 3 * (size_t)in.w * in.h; b++)
			in.rgb[b] = (uint8_t)random_next();
		cleanup(free_ptr) uint8_t *out = malloc(3 * (size_t)224 * 224);
		struct resample_job job = {
			.x = axis_whole(in.w, golden[i].ow),
			.y = axis_whole(in.h, golden[i].oh),
			.out = out,
		};
		resample_run(r, &job, &in);
		uint64_t hash = hash_mix(hash_bytes(HASH_SEED, out, 3 * (size_t)224 * 224));
		if (hash != golden[i].hash)
			fail_msg("golden %u: 0x%016llx", i, (unsigned long long)hash);
		free(in.rgb);
	}
	resample_free(r);
}

/* Data of one job must not show in the next. */
static void test_reuse(void **state)
{
	(void)state;
	struct resample *r = resample_with("c");
	random_state = 4;
	for (int i = 0; i < 60; i++) {
		uint32_t w = side_random(400), h = side_random(400), size = random_between(1, 120);
		struct resample_job job = {.x = axis_whole(w, size), .y = axis_whole(h, size)};
		struct picture in = picture_random(w, h);
		job_check(r, &job, &in);
		free(in.rgb);
	}
	resample_free(r);
}

static void test_bad_kernels(void **state)
{
	(void)state;
	struct fault fault = {""};
	struct resample *r = NULL;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "sse9", 1), 0);
	assert_int_equal(resample_new(8, &r, &fault), -22);
	assert_null(r);
	assert_non_null(strstr(fault.text, "sse9"));
	assert_non_null(strstr(fault.text, "expected c, avx2, avx512, avx512-vnni or neon"));
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(resample_new(8, &r, &fault), 0);
	resample_free(r);
	resample_free(NULL);
}

int main(void)
{
	int failed = 0;
	for (unsigned i = 0; kernels_at(i); i++) {
		void *kernels = (void *)(uintptr_t)kernels_at(i);
		const struct CMUnitTest tests[] = {
			cmocka_unit_test_prestate(test_random_geometries, kernels),
			cmocka_unit_test_prestate(test_extreme_geometries, kernels),
			cmocka_unit_test_prestate(test_order_of_passes, kernels),
			cmocka_unit_test_prestate(test_golden, kernels),
		};
		failed += cmocka_run_group_tests_name(kernels_at(i)->name, tests, NULL, NULL);
	}
	const struct CMUnitTest once[] = {
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_bad_kernels),
	};
	failed += cmocka_run_group_tests_name("once", once, NULL, NULL);
	return failed != 0;
}
