/* The resampler against a plain twin that holds the whole image, step by step as Pillow's
 * documentation and its Resample.c describe it; every variant of the kernels, thousands of
 * geometries, guard bytes, golden hashes. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/kernels.h"
#include "pixel/pixel.h"
#include "pixel/resample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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

/* --- the twin --- */

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

/* All weights of one axis, as Pillow keeps them: `stride` for each output. */
struct twin_table {
	uint32_t outputs;
	size_t stride;
	int *from, *taps;
	int64_t *value;
};

/* One output: doubles, normalised, then fixed point. */
static void twin_output(struct twin_table *t, double *weight, uint32_t source, uint32_t at)
{
	double scale = (double)source / t->outputs, support = fmax(scale, 1.0);
	double center = (at + 0.5) * scale, inverse = 1.0 / support, sum = 0.0;
	int from = (int)(center - support + 0.5), to = (int)(center + support + 0.5);
	from = from < 0 ? 0 : from;
	to = to > (int)source ? (int)source : to;
	for (int i = from; i < to; i++) {
		double distance = fabs((i - center + 0.5) * inverse);
		weight[i - from] = distance < 1.0 ? 1.0 - distance : 0.0;
		sum += weight[i - from];
	}
	for (int i = 0; i < to - from; i++)
		t->value[at * t->stride + (size_t)i] = (int64_t)(0.5 + weight[i] / sum * 4194304.0);
	t->from[at] = from;
	t->taps[at] = to - from;
}

static struct twin_table twin_table_new(uint32_t source, uint32_t outputs)
{
	size_t stride = 2 * (size_t)ceil(fmax((double)source / outputs, 1.0)) + 1;
	struct twin_table t = {
		.outputs = outputs,
		.stride = stride,
		.from = malloc(outputs * sizeof(int)),
		.taps = malloc(outputs * sizeof(int)),
		.value = malloc(outputs * stride * sizeof(int64_t)),
	};
	cleanup(free_ptr) double *weight = malloc(stride * sizeof(double));
	assert_true(t.from && t.taps && t.value && weight);
	for (uint32_t at = 0; at < outputs; at++)
		twin_output(&t, weight, source, at);
	return t;
}

static void twin_table_free(struct twin_table *t)
{
	free(t->from);
	free(t->taps);
	free(t->value);
}

/* One pass over a line of pixels that lie `step` bytes apart. */
static void twin_line(
	const struct twin_table *t, const uint8_t *from, size_t step, uint8_t *to, size_t to_step)
{
	for (uint32_t at = 0; at < t->outputs; at++)
		for (size_t c = 0; c < 3; c++) {
			int64_t sum = 1 << 21;
			for (int i = 0; i < t->taps[at]; i++)
				sum += from[(size_t)(t->from[at] + i) * step + c] *
				       t->value[at * t->stride + (size_t)i];
			sum >>= 22;
			to[at * to_step + c] = (uint8_t)(sum > 255 ? 255 : sum);
		}
}

static struct picture twin_across(const struct picture *in, uint32_t w)
{
	struct picture out = picture_new(w, in->h);
	struct twin_table t = twin_table_new(in->w, w);
	for (uint32_t y = 0; y < in->h; y++)
		twin_line(&t, picture_at(in, 0, y), 3, picture_at(&out, 0, y), 3);
	twin_table_free(&t);
	return out;
}

static struct picture twin_down(const struct picture *in, uint32_t h)
{
	struct picture out = picture_new(in->w, h);
	struct twin_table t = twin_table_new(in->h, h);
	for (uint32_t x = 0; x < in->w; x++)
		twin_line(&t, picture_at(in, x, 0), 3 * (size_t)in->w, picture_at(&out, x, 0),
			3 * (size_t)in->w);
	twin_table_free(&t);
	return out;
}

static struct picture twin_copy(const struct picture *in)
{
	struct picture out = picture_new(in->w, in->h);
	memcpy(out.rgb, in->rgb, 3 * (size_t)in->w * in->h);
	return out;
}

/* Image.resize((w, h), BILINEAR) of Pillow 13. */
static struct picture twin_resize(const struct picture *in, uint32_t w, uint32_t h)
{
	int64_t lower = (int64_t)in->h - h, narrower = (int64_t)in->w - w;
	bool vertical_first = lower > 0 && lower > 2 * narrower;
	struct picture between, out;
	if (vertical_first) {
		between = h == in->h ? twin_copy(in) : twin_down(in, h);
		out = w == in->w ? twin_copy(&between) : twin_across(&between, w);
	} else {
		between = w == in->w ? twin_copy(in) : twin_across(in, w);
		out = h == in->h ? twin_copy(&between) : twin_down(&between, h);
	}
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

/* Feeds exactly the region, each row from memory of its exact size and the slack promised. */
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
	struct picture whole = twin_resize(in, job.x.result, job.y.result);
	for (uint32_t y = 0; y < job.y.window; y++)
		for (uint32_t x = 0; x < job.x.window; x++) {
			uint32_t from = job.x.window_at + (job.flip ? job.x.window - 1 - x : x);
			const uint8_t *want = picture_at(&whole, from, job.y.window_at + y);
			const uint8_t *got = g.out + 3 * ((size_t)y * job.x.window + x);
			if (memcmp(want, got, 3) != 0)
				fail_msg("%u x %u -> %u x %u, window %u,%u %u x %u, flip %d: pixel "
					 "%u,%u is %u %u %u, not %u %u %u",
					in->w, in->h, job.x.result, job.y.result, job.x.window_at,
					job.y.window_at, job.x.window, job.y.window, job.flip, x, y,
					got[0], got[1], got[2], want[0], want[1], want[2]);
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
		axis.source = result; /* a pass that is left out */
	return axis;
}

/* Sides of a few pixels are as likely as long ones. */
static uint32_t side_random(uint32_t most)
{
	return random_between(1, random_below(3) ? most : 5);
}

static void test_random_geometries(void **state)
{
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	random_state = 1;
	for (int i = 0; i < 1500; i++) {
		struct resample_job job = {
			.x = axis_random(side_random(90), side_random(60)),
			.y = axis_random(side_random(90), side_random(60)),
			.flip = random_below(2) != 0,
		};
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
		{4097, 8200, 2, 2}, /* vertical first, wider than a block */
		{64, 1000, 64, 7},
		{300, 299, 299, 300},
		{224, 448, 224, 224},
		{37, 33, 37, 32}, /* least that is vertical first */
		{3, 700, 3, 600},
	};
	const struct kernels *kernels = *state;
	struct resample *r = resample_with(kernels->name);
	random_state = 2;
	for (unsigned i = 0; i < UTIL_COUNT(sizes); i++) {
		struct resample_job job = {
			.x = axis_whole(sizes[i][0], sizes[i][2]),
			.y = axis_whole(sizes[i][1], sizes[i][3]),
			.flip = i % 2 != 0,
		};
		job.y.window = UTIL_MIN(job.y.window, (uint32_t)MAX_WINDOW);
		struct picture in = picture_random(job.x.source, job.y.source);
		job_check(r, &job, &in);
		free(in.rgb);
	}
	resample_free(r);
}

/* Both sides of the rule that says which pass is first, for every width around the result's. */
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

/* The bytes of one fixed job, so that a change in twin and code at once is seen too. */
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

/* What one job leaves behind must not show in the next. */
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
	assert_non_null(strstr(fault.text, "expected c, avx2 or avx512"));
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
