/* cases: see cases.h. Buffers have guard bytes on both sides; what lies behind the last row has to
 * stay as it was. */
#include "cuda/cases.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DTYPES = 3,
	LAYOUTS = 2,
	WIDTHS = 70,
	SPARE = 2, /* rows after the last, in which nothing may be written */
	GUARD = 64,
	BYTES = 256,
	UNTOUCHED = 0xa5,
};

struct cases {
	const struct cases_runner *runner;
	struct kernels_normalise a;
	uint64_t random;
	unsigned launches;
	bool differed;
};

static uint64_t cases_random(struct cases *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

static uint32_t cases_below(struct cases *t, uint32_t bound)
{
	return (uint32_t)((cases_random(t) >> 32) * bound >> 32);
}

static void *cases_room(size_t bytes)
{
	void *room = NULL;
	if (posix_memalign(&room, 64, (bytes + 63) / 64 * 64)) {
		(void)fprintf(stderr, "cases: no memory\n");
		exit(1);
	}
	memset(room, UNTOUCHED, bytes);
	return room;
}

/* ---- rows ---- */

/* A range within `side`: often from its beginning, to its end, empty or all of it. */
static void cases_range(struct cases *t, uint32_t side, uint16_t *ret_begin, uint16_t *ret_length)
{
	uint32_t begin = cases_below(t, 3) ? cases_below(t, side) : 0;
	uint32_t most = side - begin;
	*ret_begin = (uint16_t)begin;
	*ret_length = (uint16_t)(cases_below(t, 4) ? cases_below(t, most + 1) : most);
}

static void cases_draw_mix(struct cases *t, struct penstock_cuda_row *row)
{
	row->flags |= PENSTOCK_CUDA_ROW_MIXED;
	row->partner = cases_below(t, t->a.rows);
	row->weight = (float)cases_below(t, 1000) / 1000;
	row->partner_weight = 1 - row->weight;
	if (cases_below(t, 2)) {
		cases_range(t, t->a.width, &row->cut_x, &row->cut_w);
		cases_range(t, t->a.height, &row->cut_y, &row->cut_h);
	} else {
		row->blend = row->weight;
		row->partner_blend = row->partner_weight;
	}
}

static void cases_draw_row(struct cases *t, uint32_t flags, struct penstock_cuda_row *ret_row)
{
	struct penstock_cuda_row row = {.position = cases_random(t) >> 16,
		.epoch = (uint32_t)cases_random(t),
		.blend = 1,
		.weight = 1};
	row.flags = flags & (PENSTOCK_CUDA_ROW_FLIPPED | PENSTOCK_CUDA_ROW_ERASED);
	cases_range(t, t->a.width, &row.erase_x, &row.erase_w);
	cases_range(t, t->a.height, &row.erase_y, &row.erase_h);
	if (flags & PENSTOCK_CUDA_ROW_MIXED)
		cases_draw_mix(t, &row);
	*ret_row = row;
}

/* Flags of rows: none; exactly one; any. */
static void cases_draw_rows(struct cases *t, struct penstock_cuda_row *rows)
{
	uint32_t kind = cases_below(t, 5);
	for (uint32_t n = 0; n < t->a.rows + SPARE; n++) {
		uint32_t any = cases_below(t, 8);
		uint32_t flags = kind == 0 ? 0 : kind <= 3 ? any & 1u << (kind - 1) : any;
		cases_draw_row(t, flags, &rows[n]);
		if (n >= t->a.rows)
			rows[n].partner = n;
	}
}

static void cases_draw_images(struct cases *t, uint8_t *images, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		images[i] = (uint8_t)(cases_random(t) >> 32);
}

/* ---- normalizing ---- */

static bool cases_near(float got, float expected, enum penstock_cuda_dtype dtype)
{
	static const double step[DTYPES] = {0, 0x1p-10, 0x1p-7};
	double size = fabs((double)expected);
	return fabs((double)got - (double)expected) <=
	       CASES_NOISE * (1 + size) + step[dtype] * fmax(size, 0x1p-14);
}

static void cases_tell(struct cases *t, const char *name, const char *what)
{
	(void)fprintf(stderr, "cases: %s, %u rows of %u x %u, %s: %s\n", name, t->a.rows,
		t->a.width, t->a.height, t->a.erase_random ? "noise" : "no noise", what);
	t->differed = true;
}

struct cases_compared {
	const void *got, *expected;
	enum penstock_cuda_dtype dtype;
	enum penstock_cuda_layout layout;
};

static void cases_compare_value(struct cases *t, const struct cases_compared *c, size_t index,
	bool noise, const char *where)
{
	size_t size = reference_size(c->dtype);
	if (memcmp((const char *)c->got + index * size, (const char *)c->expected + index * size,
		    size) == 0)
		return;
	float got = reference_read(c->got, index, c->dtype);
	float expected = reference_read(c->expected, index, c->dtype);
	if (noise && cases_near(got, expected, c->dtype))
		return;
	char what[160];
	(void)snprintf(what, sizeof what, "%s: expected %.9g, got %.9g", where, (double)expected,
		(double)got);
	cases_tell(t, kernels_normalise_name(c->dtype, c->layout), what);
}

static void cases_compare_row(struct cases *t, const struct cases_compared *c, uint32_t row)
{
	size_t before = (size_t)row * t->a.height * t->a.width * 3;
	for (uint32_t y = 0; y < t->a.height; y++)
		for (uint32_t x = 0; x < t->a.width && !t->differed; x++) {
			float value[3];
			bool noise = t->a.erase_random && reference_pixel(&t->a, row, x, y, value);
			char where[64];
			(void)snprintf(where, sizeof where, "row %u, pixel %u,%u", row, x, y);
			for (uint32_t k = 0; k < 3; k++)
				cases_compare_value(t, c,
					before + reference_index(&t->a, c->layout, x, y, k), noise,
					where);
		}
}

static void cases_compare(struct cases *t, const struct cases_compared *c, size_t row_bytes)
{
	size_t written = t->a.rows * row_bytes, all = written + SPARE * row_bytes + GUARD;
	const uint8_t *got = c->got;
	if (memcmp(got, c->expected, written) != 0)
		for (uint32_t row = 0; row < t->a.rows && !t->differed; row++)
			cases_compare_row(t, c, row);
	for (size_t i = written; i < all && !t->differed; i++)
		if (got[i] != UNTOUCHED)
			cases_tell(t, kernels_normalise_name(c->dtype, c->layout),
				"bytes after the last row were written");
}

static void cases_launch_normalise(
	struct cases *t, enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout)
{
	size_t values = (size_t)t->a.height * t->a.width * 3;
	size_t row_bytes = values * reference_size(dtype);
	size_t room = (t->a.rows + SPARE) * row_bytes + GUARD;
	void *got = cases_room(room), *expected = cases_room(room);
	t->a.out = got;
	struct cases_launch launch = {.name = kernels_normalise_name(dtype, layout),
		.grid = kernels_normalise_grid(&t->a, dtype, layout),
		.normalise = &t->a,
		.input_bytes = t->a.rows * values,
		.row_bytes = t->a.rows * sizeof *t->a.row,
		.out_bytes = room};
	t->runner->run(t->runner->context, &launch);
	t->a.out = expected;
	reference_normalise(&t->a, dtype, layout);
	const struct cases_compared compared = {got, expected, dtype, layout};
	cases_compare(t, &compared, row_bytes);
	t->launches++;
	free(got);
	free(expected);
}

/* The six functions with these arguments and rows. */
static void cases_all_types(struct cases *t)
{
	kernels_normalise_prepare(&t->a);
	for (int dtype = 0; dtype < DTYPES; dtype++)
		for (int layout = 0; layout < LAYOUTS && !t->differed; layout++)
			cases_launch_normalise(t, (enum penstock_cuda_dtype)dtype,
				(enum penstock_cuda_layout)layout);
}

/* A batch of random bytes and rows. */
static void cases_batch(struct cases *t, uint32_t rows, uint32_t width, uint32_t height)
{
	t->a.rows = rows;
	t->a.width = width;
	t->a.height = height;
	size_t bytes = (size_t)rows * width * height * 3;
	uint8_t *images = cases_room(bytes);
	struct penstock_cuda_row *list = cases_room((rows + SPARE) * sizeof *list);
	cases_draw_images(t, images, bytes);
	cases_draw_rows(t, list);
	t->a.images = images;
	t->a.row = list;
	cases_all_types(t);
	free(images);
	free(list);
}

static void cases_defaults(struct cases *t)
{
	t->a = (struct kernels_normalise){.mean = {0.485f, 0.456f, 0.406f},
		.std = {0.229f, 0.224f, 0.225f},
		.erase_value = {0, 1.5f, -0.1f},
		.key = {0x89abcdef, 0x01234567}};
}

/* Every byte in every channel; width 256 is what the fast paths take, 255 what they do not. */
static void cases_bytes(struct cases *t, uint32_t width)
{
	t->a.rows = 1;
	t->a.width = width;
	t->a.height = 2;
	uint8_t images[2 * BYTES * 3];
	struct penstock_cuda_row row = {.blend = 1, .weight = 1};
	for (uint32_t i = 0; i < 2 * width; i++)
		for (uint32_t c = 0; c < 3; c++)
			images[i * 3 + c] = (uint8_t)(i + 85 * c);
	uint8_t *copy = cases_room(sizeof images);
	memcpy(copy, images, sizeof images);
	t->a.images = copy;
	t->a.row = &row;
	cases_all_types(t);
	free(copy);
}

static void cases_colors(struct cases *t)
{
	static const float chosen[][2] = {{0, 1}, {0.5f, 0.5f}, {0.485f, 0.229f}, {1, 1.0f / 255},
		{0, FLT_MIN}, {0, FLT_MAX}, {0, 3e-38f}, {1e-30f, 1e-3f}, {-3, 1e30f}, {1e20f, 7},
		{FLT_MAX, 1}, {0.25f, 0x1.fffffep-1f}, {1.0f / 255, 3.0f}, {128.0f / 255, 1e-6f}};
	for (size_t i = 0; i < sizeof chosen / sizeof chosen[0] && !t->differed; i++) {
		for (int c = 0; c < 3; c++) {
			t->a.mean[c] = chosen[i][0];
			t->a.std[c] = chosen[i][1];
		}
		cases_bytes(t, BYTES);
	}
	for (unsigned i = 0; i < 60 && !t->differed; i++) {
		for (int c = 0; c < 3; c++) {
			t->a.mean[c] = (float)cases_below(t, 1u << 24) * 0x1p-24f;
			t->a.std[c] = (float)(cases_below(t, 1u << 24) + 1) * 0x1p-24f;
		}
		cases_bytes(t, BYTES - i % 2);
	}
	cases_defaults(t);
}

static void cases_sizes(struct cases *t)
{
	static const uint32_t heights[] = {1, 2, 3, 7, 8, 33};
	for (uint32_t width = 1; width <= WIDTHS; width += t->runner->every)
		for (size_t i = 0; i < sizeof heights / sizeof heights[0] && !t->differed; i++) {
			t->a.erase_random = cases_below(t, 4) == 0;
			cases_batch(t, 1 + cases_below(t, 5), width, heights[i]);
		}
}

static void cases_large(struct cases *t)
{
	static const uint32_t sides[][3] = {{5, 224, 224}, {2, 384, 384}, {3, 1024, 3},
		{3, 3, 1024}, {2, 299, 299}, {1, 300, 300}, {1, 1, 4096}, {1, 4096, 1},
		{KERNELS_GRID_MOST + 7, 1, 1}, {2, 256, 300}};
	for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
		for (uint32_t noise = 0; noise < 2 && !t->differed; noise++) {
			t->a.erase_random = noise;
			cases_batch(t, sides[i][0], sides[i][1], sides[i][2]);
		}
}

/* All of an image that needs more than 16 bits to number its pixels is noise. */
static void cases_noise(struct cases *t)
{
	struct penstock_cuda_row rows[] = {{.position = 0x123456789abc,
		.epoch = 77,
		.flags = PENSTOCK_CUDA_ROW_ERASED,
		.erase_w = 320,
		.erase_h = 256,
		.blend = 1,
		.weight = 1}};
	t->a.rows = 1;
	t->a.width = 320;
	t->a.height = 256;
	t->a.erase_random = 1;
	uint8_t *images = cases_room((size_t)320 * 256 * 3);
	t->a.images = images;
	t->a.row = rows;
	cases_all_types(t);
	free(images);
}

/* ---- labels ---- */

static void cases_targets_once(struct cases *t, uint32_t rows, uint32_t classes, float smoothing)
{
	size_t room = (size_t)(rows + SPARE) * classes * sizeof(float) + GUARD;
	float *got = cases_room(room), *expected = cases_room(room);
	int64_t *labels = cases_room(rows * sizeof *labels);
	struct penstock_cuda_row *list = cases_room((rows + SPARE) * sizeof *list);
	t->a.rows = rows;
	t->a.width = t->a.height = 8;
	cases_draw_rows(t, list);
	for (uint32_t n = 0; n < rows; n++)
		labels[n] = (int64_t)cases_below(t, classes + 2) - 1; /* -1 and `classes` too */
	labels[0] = cases_below(t, 2) ? INT64_MIN : (int64_t)1 << 32;
	struct kernels_targets a = {labels, list, got, rows, classes, smoothing};
	struct cases_launch launch = {.name = "penstock_targets",
		.grid = kernels_targets_grid(&a),
		.targets = &a,
		.input_bytes = rows * sizeof *labels,
		.row_bytes = rows * sizeof *list,
		.out_bytes = room};
	t->runner->run(t->runner->context, &launch);
	a.out = expected;
	reference_targets(&a);
	if (memcmp(got, expected, room) != 0)
		cases_tell(t, launch.name, "differs");
	t->launches++;
	free(got);
	free(expected);
	free(labels);
	free(list);
}

static void cases_targets(struct cases *t)
{
	static const uint32_t classes[] = {1, 2, 10, 127, 128, 129, 1000};
	static const float smoothing[] = {0, 0.1f, 1};
	for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
		for (size_t j = 0; j < sizeof smoothing / sizeof smoothing[0] && !t->differed; j++)
			for (uint32_t rows = 1; rows < 40; rows += 19)
				cases_targets_once(t, rows, classes[i], smoothing[j]);
	cases_targets_once(t, KERNELS_GRID_MOST + 3, 2, 0.1f);
}

unsigned cases_all(const struct cases_runner *runner)
{
	struct cases t = {.runner = runner, .random = 0x9e3779b97f4a7c15};
	static void (*const parts[])(struct cases *) = {
		cases_colors, cases_sizes, cases_large, cases_noise, cases_targets};
	cases_defaults(&t);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !t.differed; i++)
		parts[i](&t);
	return t.differed ? 0 : t.launches;
}
