/* Geometric ops: each kernel of `walk`, `bilinear` and `bicubic` against plain C, between
 * guards, with the image's end at the end of readable memory; every path of a transform against
 * Pillow's steps, pixel by pixel, with odd sizes and absurd matrices; transposes; golden hashes
 * of Pillow's bytes (warp_golden.py). */
#include "augment/kernels/kernels.h"
#include "augment/warp.h"
#include "base/hash.h"
#include "base/util.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

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

/* Between -1 and 1. */
static double random_unit(void)
{
	return (double)(int64_t)random_next() * 0x1p-63;
}

/* --- images between guards, so that a sanitizer sees a byte too far --- */

static struct op_image image_new(uint32_t width, uint32_t height)
{
	struct op_image image = {malloc((size_t)3 * width * height), width, height};
	assert_non_null(image.pixels);
	for (size_t i = 0; i < (size_t)3 * width * height; i++)
		image.pixels[i] = (uint8_t)random_next();
	return image;
}

static uint8_t *guarded_new(size_t bytes)
{
	uint8_t *memory = malloc(bytes + 2 * (size_t)GUARD);
	assert_non_null(memory);
	memset(memory, GUARD_BYTE, bytes + 2 * (size_t)GUARD);
	return memory + GUARD;
}

static void guarded_free(uint8_t *memory, size_t bytes)
{
	for (size_t i = 1; i <= GUARD; i++) {
		assert_int_equal(memory[-(ptrdiff_t)i], GUARD_BYTE);
		assert_int_equal(memory[bytes + i - 1], GUARD_BYTE);
	}
	free(memory - GUARD);
}

/* --- kernels --- */

static struct augment_walk walk_random(const struct op_image *image, uint32_t count)
{
	int32_t across = (int32_t)(image->width << 16), down = (int32_t)(image->height << 16);
	struct augment_walk walk = {.from = image->pixels, .row = 3 * image->width};
	/* From one place in the image to another, except its last row. */
	int32_t x = (int32_t)random_below((uint32_t)across);
	int32_t y = (int32_t)random_below((uint32_t)down - 65536);
	int32_t to_x = (int32_t)random_below((uint32_t)across);
	int32_t to_y = (int32_t)random_below((uint32_t)down - 65536);
	walk.x = x;
	walk.y = y;
	walk.dx = (to_x - x) / (int32_t)count;
	walk.dy = (to_y - y) / (int32_t)count;
	return walk;
}

static void test_walk(void **state)
{
	static const uint32_t sizes[][2] = {
		{1, 2}, {2, 2}, {7, 5}, {224, 224}, {4096, 3}, {3, 4096}};
	(void)state;
	for (unsigned k = 0; augment_kernels_at(k); k++)
		for (uint32_t i = 0; i < 600; i++) {
			const uint32_t *size = sizes[i % UTIL_COUNT(sizes)];
			struct op_image image = image_new(size[0], size[1]);
			uint32_t count = 1 + random_below(i % 7 ? 40 : 400);
			struct augment_walk walk = walk_random(&image, count);
			uint8_t *got = guarded_new((size_t)3 * count);
			uint8_t *want = guarded_new((size_t)3 * count);
			augment_kernels_at(k)->walk(got, &walk, count);
			augment_kernels_c.walk(want, &walk, count);
			assert_memory_equal(got, want, (size_t)3 * count);
			for (uint32_t p = 0; p < count; p++) {
				uint32_t x = (uint32_t)(walk.x + (int32_t)p * walk.dx) >> 16;
				uint32_t y = (uint32_t)(walk.y + (int32_t)p * walk.dy) >> 16;
				assert_memory_equal(want + (size_t)3 * p,
					image.pixels + 3 * ((size_t)y * image.width + x), 3);
			}
			guarded_free(got, (size_t)3 * count);
			guarded_free(want, (size_t)3 * count);
			free(image.pixels);
		}
}

/* --- the reference: Pillow's steps, pixel by pixel --- */

static bool twin_inside(double at, uint32_t side)
{
	return at >= 0 && at < side;
}

static const uint8_t *twin_at(const struct op_image *from, int64_t x, int64_t y)
{
	x = UTIL_MIN(UTIL_MAX(x, (int64_t)0), (int64_t)from->width - 1);
	y = UTIL_MIN(UTIL_MAX(y, (int64_t)0), (int64_t)from->height - 1);
	return from->pixels + 3 * ((size_t)y * from->width + (size_t)x);
}

/* x and y of the source for output (x, y), for matrices that NEAREST treats separately; false:
 * outside. */
static bool twin_nearest(
	const struct op *op, const struct op_image *from, uint32_t x, uint32_t y, int64_t ret[2])
{
	const double *m = op->matrix;
	double sums[2] = {m[2] + m[1] * 0.5 + m[0] * 0.5, m[5] + m[4] * 0.5 + m[3] * 0.5};
	const uint32_t sides[2] = {from->width, from->height};
	bool scaled = m[1] == 0 && m[3] == 0, fixed = true;
	for (unsigned corner = 0; corner < 4; corner++) {
		double w = corner & 1 ? from->width : 0, h = corner & 2 ? from->height : 0;
		fixed &= fabs(w * m[0] + h * m[1] + m[2]) < 32768 &&
			 fabs(w * m[3] + h * m[4] + m[5]) < 32768;
	}
	if (scaled) {
		sums[0] = m[2] + m[0] * 0.5;
		sums[1] = m[5] + m[4] * 0.5;
	}
	for (unsigned axis = 0; axis < 2; axis++) {
		const double *n = m + 3 * (size_t)axis;
		if (!scaled && fixed) {
			double start = n[2] + n[0] * 0.5 + n[1] * 0.5;
			ret[axis] = ((int64_t)floor(start * 65536 + 0.5) +
					    (int64_t)floor(n[1] * 65536 + 0.5) * y +
					    (int64_t)floor(n[0] * 65536 + 0.5) * x) >>
				    16;
		} else {
			double at = sums[axis];
			for (uint32_t i = 0; i < y; i++)
				at += scaled && axis == 0 ? 0 : n[1];
			for (uint32_t i = 0; i < x; i++)
				at += scaled && axis == 1 ? 0 : n[0];
			ret[axis] = twin_inside(at, sides[axis]) ? (int64_t)at : -1;
		}
	}
	return ret[0] >= 0 && ret[0] < sides[0] && ret[1] >= 0 && ret[1] < sides[1];
}

static double twin_cubic(double a, double b, double c, double d, double t)
{
	return b + t * ((-a + c) + t * ((2 * (a - b) + c - d) + t * (-a + b - c + d)));
}

static double twin_row(const struct op_image *from, unsigned channel, const int64_t at[2],
	unsigned taps, double part)
{
	double v[4];
	for (unsigned i = 0; i < taps; i++)
		v[i] = twin_at(from, at[0] + i, at[1])[channel];
	return taps == 2 ? v[0] + (v[1] - v[0]) * part : twin_cubic(v[0], v[1], v[2], v[3], part);
}

static void twin_filter(
	const struct op *op, const struct op_image *from, double x, double y, uint8_t ret[3])
{
	unsigned taps = op->filter == WEIGHTS_BILINEAR ? 2 : 4;
	double fx = floor(x - 0.5), fy = floor(y - 0.5), px = x - 0.5 - fx, py = y - 0.5 - fy;
	for (unsigned c = 0; c < 3; c++) {
		double v[4];
		for (unsigned i = 0; i < taps; i++) {
			int64_t at[2] = {(int64_t)fx - (taps == 4), (int64_t)fy - (taps == 4) + i};
			v[i] = twin_row(from, c, at, taps, px);
		}
		double value = taps == 2 ? v[0] + (v[1] - v[0]) * py
					 : twin_cubic(v[0], v[1], v[2], v[3], py);
		ret[c] = (uint8_t)fmin(fmax(value, 0), 255);
	}
}

static void twin_pixel(
	const struct op *op, const struct op_image *from, uint32_t x, uint32_t y, uint8_t ret[3])
{
	const double *m = op->matrix;
	double u = x + 0.5, v = y + 0.5, at[2];
	int64_t place[2];
	memcpy(ret, op->fill, 3);
	if (op->kind == OP_AFFINE && op->filter == WEIGHTS_NEAREST) {
		if (twin_nearest(op, from, x, y, place))
			memcpy(ret, twin_at(from, place[0], place[1]), 3);
		return;
	}
	double share = op->kind == OP_PERSPECTIVE ? m[6] * u + m[7] * v + 1 : 1;
	at[0] = (m[0] * u + m[1] * v + m[2]) / share;
	at[1] = (m[3] * u + m[4] * v + m[5]) / share;
	bool number = !isnan(at[0]) && !isnan(at[1]);
	if (twin_inside(at[0], from->width) && twin_inside(at[1], from->height)) {
		if (op->filter == WEIGHTS_NEAREST)
			memcpy(ret, twin_at(from, (int64_t)at[0], (int64_t)at[1]), 3);
		else
			twin_filter(op, from, at[0], at[1], ret);
	} else if (!number && op->filter != WEIGHTS_NEAREST &&
		   (isnan(at[0]) || twin_inside(at[0], from->width)) &&
		   (isnan(at[1]) || twin_inside(at[1], from->height))) {
		memset(ret, 0, 3);
	}
}

/* --- filtering kernels --- */

/* An image whose last byte is the last one of its page; the page after it cannot be read. */
struct fenced {
	struct op_image image;
	uint8_t *pages;
	size_t bytes;
};

static struct fenced fenced_new(uint32_t width, uint32_t height)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)3 * width * height;
	struct fenced fenced = {.bytes = (bytes + page - 1) / page * page};
	fenced.pages = mmap(NULL, fenced.bytes + page, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(fenced.pages != MAP_FAILED);
	assert_int_equal(mprotect(fenced.pages + fenced.bytes, page, PROT_NONE), 0);
	fenced.image = (struct op_image){fenced.pages + fenced.bytes - bytes, width, height};
	for (size_t i = 0; i < bytes; i++)
		fenced.image.pixels[i] = (uint8_t)(random_below(4) ? random_next() : 255);
	return fenced;
}

static void fenced_free(const struct fenced *fenced)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	assert_int_equal(munmap(fenced->pages, fenced->bytes + page), 0);
}

/* A translation that keeps the middle in place. */
static void matrix_centre(double *m, const struct op_image *image)
{
	double x = image->width * 0.5, y = image->height * 0.5;
	m[2] += x - m[0] * x - m[1] * y;
	m[5] += y - m[3] * x - m[4] * y;
}

enum {
	MATRIX_TURN,
	MATRIX_SHEAR_X,
	MATRIX_SHEAR_Y,
	MATRIX_SHIFT,
	MATRIX_WHOLE,
	MATRIX_NEAR,
	MATRIX_FLAT,
	MATRIX_VIEW,
	MATRIX_ODD,
	MATRICES
};

/* Matrices that recipes give, and singular, huge and NaN ones. */
static void matrix_random(double *m, unsigned kind, const struct op_image *image)
{
	static const double beyond[] = {0, -0.0, 1, -1, 0.5, 1e-300, 1e9, -1e9, 1e300, -1e300,
		2147483648.0, 5e-324, INFINITY, -INFINITY, NAN};
	double angle = random_unit() * 4, width = image->width, height = image->height;
	memcpy(m, (double[OP_MATRIX]){1, 0, 0, 0, 1, 0}, OP_MATRIX * sizeof(*m));
	if (kind == MATRIX_TURN) {
		m[0] = m[4] = cos(angle);
		m[1] = sin(angle);
		m[3] = -m[1];
	} else if (kind == MATRIX_SHEAR_X) {
		m[1] = random_unit();
	} else if (kind == MATRIX_SHEAR_Y) {
		m[3] = random_unit();
	} else if (kind == MATRIX_SHIFT) {
		m[2] = random_unit() * width;
		m[5] = random_unit() * height;
	} else if (kind == MATRIX_WHOLE) {
		m[2] = floor(random_unit() * width);
		m[5] = floor(random_unit() * height);
	} else if (kind == MATRIX_NEAR) { /* around places where a tap, a part or the image ends */
		m[2] = ((double)random_below(5) - 2) / 2 + random_unit() * 0x1p-50;
		m[5] = ((double)random_below(5) - 2) / 2 + random_unit() * 0x1p-50;
	} else if (kind ==
		   /* Singular: all outputs come from one line or one place, often the last. */
		   MATRIX_FLAT) {
		m[0] = random_below(2);
		m[4] = 0;
		m[2] = m[0] > 0 ? 0 : width - random_unit() * random_unit() * 2;
		m[5] = height - fabs(random_unit()) * 2;
	} else if (kind == MATRIX_VIEW) {
		for (unsigned i = 0; i < OP_MATRIX; i++)
			m[i] += random_unit() * (i < 6 ? 0.3 : 1 / (width + height));
	} else {
		for (unsigned i = 0; i < OP_MATRIX; i++)
			if (random_below(3))
				m[i] = beyond[random_below(UTIL_COUNT(beyond))];
	}
	if (kind <= MATRIX_SHEAR_Y && random_below(2))
		matrix_centre(m, image);
}

typedef void filter_fn(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);

/* The kernel of `kernels` that the op uses. */
static filter_fn *filter_of(const struct augment_kernels *kernels, const struct op *op)
{
	return op->filter == WEIGHTS_BILINEAR ? kernels->bilinear : kernels->bicubic;
}

/* Part of a row. */
static void check_filter(const struct op *op, const struct op_image *image)
{
	const struct augment_warp warp = {.from = image->pixels,
		.width = image->width,
		.height = image->height,
		.matrix = op->matrix,
		.perspective = op->kind == OP_PERSPECTIVE,
		.fill = {op->fill[0], op->fill[1], op->fill[2]}};
	uint32_t y = random_below(image->height), x = random_below(image->width) / 2;
	uint32_t count = image->width - x - random_below(image->width - x);
	size_t bytes = (size_t)3 * count;
	uint8_t *want = guarded_new(bytes);
	for (uint32_t i = 0; i < count; i++)
		twin_pixel(op, image, x + i, y, want + (size_t)3 * i);
	for (unsigned k = 0; augment_kernels_at(k); k++) {
		uint8_t *got = guarded_new(bytes);
		filter_of(augment_kernels_at(k), op)(got, &warp, x, y, count);
		if (memcmp(got, want, bytes) != 0)
			fail_msg("%s, filter %d, %u x %u, row %u from %u",
				augment_kernels_at(k)->name, (int)op->filter, image->width,
				image->height, y, x);
		guarded_free(got, bytes);
	}
	guarded_free(want, bytes);
}

static void test_filters(void **state)
{
	static const uint32_t of[][2] = {{1, 1}, {1, 2}, {2, 1}, {1, 31}, {31, 1}, {2, 2}, {3, 3},
		{4, 4}, {5, 4}, {8, 9}, {9, 8}, {17, 16}, {223, 225}, {224, 224}, {4096, 1},
		{1, 4096}, {4096, 2}};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(of); i++) {
		struct fenced fenced = fenced_new(of[i][0], of[i][1]);
		for (unsigned turn = 0; turn < MATRICES * 80; turn++) {
			struct op op = {.kind = turn / MATRICES % 3 ? OP_AFFINE : OP_PERSPECTIVE,
				.filter = turn / MATRICES % 2 ? WEIGHTS_BILINEAR : WEIGHTS_BICUBIC,
				.fill = {(uint8_t)random_next(), (uint8_t)random_next(), 9}};
			matrix_random(op.matrix, turn % MATRICES, &fenced.image);
			check_filter(&op, &fenced.image);
		}
		fenced_free(&fenced);
	}
}

/* --- whole images --- */

static struct apply apply_new(unsigned kernels, uint32_t side)
{
	struct apply apply = {.kernels = augment_kernels_at(kernels)};
	apply.scratch = malloc(warp_scratch(side));
	assert_non_null(apply.scratch);
	return apply;
}

static void check_op(const struct op *op, const struct op_image *from)
{
	size_t bytes = (size_t)3 * from->width * from->height;
	uint8_t *want = guarded_new(bytes);
	for (uint32_t y = 0; y < from->height; y++)
		for (uint32_t x = 0; x < from->width; x++)
			twin_pixel(op, from, x, y, want + 3 * ((size_t)y * from->width + x));
	for (unsigned k = 0; augment_kernels_at(k); k++) {
		struct apply apply = apply_new(k, UTIL_MAX(from->width, from->height));
		uint8_t *got = guarded_new(bytes);
		warp_apply(&apply, op, from, got);
		assert_memory_equal(got, want, bytes);
		guarded_free(got, bytes);
		free(apply.scratch);
	}
	guarded_free(want, bytes);
}

static const uint32_t sizes[][2] = {
	{1, 1}, {1, 9}, {9, 1}, {2, 2}, {5, 3}, {17, 16}, {33, 40}, {1, 300}, {300, 1}, {64, 64}};

static const double odd[] = {0, -0.0, 1, -1, 0.5, 2, 1e-9, 1e9, -1e9, 1e300, 32768, -32768, 65536,
	1.0 / 65536, 17, -17, INFINITY, -INFINITY, NAN};

static double random_entry(unsigned kind, unsigned entry, const struct op_image *image)
{
	bool diagonal = entry % 4 == 0, shift = entry % 3 == 2;
	double size = entry < 3 ? image->width : image->height;
	if (entry >= 6)
		return kind == 2 ? odd[random_below(UTIL_COUNT(odd))] : random_unit() / size;
	switch (kind) {
	case 0: /* matrices that recipes give */
		return shift ? random_unit() * size / 2 : diagonal + random_unit() / 2;
	case 1: /* only scaling, also by halves, or a shift by whole pixels */
		if (!diagonal && !shift)
			return 0;
		return shift ? (double)random_below(9) - 4 : (random_below(9) + 1) / 4.0;
	case 2:
		return odd[random_below(UTIL_COUNT(odd))];
	case 3: /* far away, where the fixed point ends */
		return random_unit() * (shift ? 70000 : 40);
	default: /* exactly on the edges */
		return (double)random_below(5) / 2 - 1;
	}
}

static void test_transforms(void **state)
{
	static const enum weights_filter filters[] = {
		WEIGHTS_NEAREST, WEIGHTS_BILINEAR, WEIGHTS_BICUBIC};
	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		const uint32_t *size = sizes[i % UTIL_COUNT(sizes)];
		struct op_image image = image_new(size[0], size[1]);
		struct op op = {.kind = random_below(3) ? OP_AFFINE : OP_PERSPECTIVE,
			.filter = filters[random_below(3)],
			.fill = {(uint8_t)random_next(), (uint8_t)random_next(), 9}};
		unsigned kind = random_below(5);
		for (unsigned entry = 0; entry < OP_MATRIX; entry++)
			op.matrix[entry] = random_entry(kind, entry, &image);
		check_op(&op, &image);
		free(image.pixels);
	}
}

/* Images of training size, with each filter and for each reason to skip it. */
static void test_filtered_images(void **state)
{
	static const uint32_t of[][2] = {
		{1, 1}, {2, 2}, {1, 7}, {7, 1}, {64, 64}, {223, 225}, {4096, 1}};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(of); i++) {
		struct fenced fenced = fenced_new(of[i][0], of[i][1]);
		for (unsigned turn = 0; turn < MATRICES * 2; turn++) {
			struct op op = {
				.kind = turn % MATRICES == MATRIX_VIEW ? OP_PERSPECTIVE : OP_AFFINE,
				.filter = turn / MATRICES ? WEIGHTS_BILINEAR : WEIGHTS_BICUBIC,
				.fill = {7, 7, (uint8_t)random_next()}};
			matrix_random(op.matrix, turn % MATRICES, &fenced.image);
			check_op(&op, &fenced.image);
		}
		fenced_free(&fenced);
	}
}

/* Each quarter turn and each flip, recognized by where the image's corners go. */
static void test_transposes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(sizes); i++)
		for (unsigned turn = 0; turn < 6; turn++) {
			uint32_t w = sizes[i][0], h = sizes[i][1];
			struct op op = {.kind = turn < 4    ? OP_ROTATE_QUARTERS
						: turn == 4 ? OP_FLIP_HORIZONTAL
							    : OP_FLIP_VERTICAL,
				.amount = turn};
			if (turn < 4 && turn % 2 && w != h)
				continue;
			struct op_image image = image_new(w, h);
			size_t bytes = (size_t)3 * w * h;
			for (unsigned k = 0; augment_kernels_at(k); k++) {
				struct apply apply = apply_new(k, UTIL_MAX(w, h));
				uint8_t *got = guarded_new(bytes);
				warp_apply(&apply, &op, &image, got);
				for (uint32_t y = 0; y < h; y++)
					for (uint32_t x = 0; x < w; x++) {
						const uint32_t to[6][2] = {{x, y}, {y, w - 1 - x},
							{w - 1 - x, h - 1 - y}, {h - 1 - y, x},
							{w - 1 - x, y}, {x, h - 1 - y}};
						const uint32_t *at = to[turn];
						assert_memory_equal(
							got + 3 * ((size_t)at[1] * w + at[0]),
							image.pixels + 3 * ((size_t)y * w + x), 3);
					}
				guarded_free(got, bytes);
				free(apply.scratch);
			}
			free(image.pixels);
		}
}

#include "unit/augment/warp_golden.h"

/* The image of warp_golden.py. */
static struct op_image golden_image(uint32_t width, uint32_t height)
{
	struct op_image image = image_new(width, height);
	uint32_t number = 1;
	for (size_t i = 0; i < (size_t)3 * width * height; i++) {
		number = number * 1664525 + 1013904223;
		image.pixels[i] = (uint8_t)(number >> 24);
	}
	return image;
}

/* FNV-1a of 64 bits. */
static uint64_t golden_hash(const uint8_t *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

static void test_golden(void **state)
{
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(warp_golden); i++) {
		const struct warp_golden *golden = &warp_golden[i];
		struct op op = {
			.kind = golden->kind, .filter = golden->filter, .fill = {200, 100, 50}};
		memcpy(op.matrix, golden->matrix, sizeof(op.matrix));
		struct op_image image = golden_image(golden->width, golden->height);
		size_t bytes = (size_t)3 * image.width * image.height;
		for (unsigned k = 0; augment_kernels_at(k); k++) {
			struct apply apply = apply_new(k, UTIL_MAX(image.width, image.height));
			uint8_t *got = guarded_new(bytes);
			warp_apply(&apply, &op, &image, got);
			if (golden_hash(got, bytes) != golden->hash)
				fail_msg("golden %u, kernels %s", i, augment_kernels_at(k)->name);
			guarded_free(got, bytes);
			free(apply.scratch);
		}
		free(image.pixels);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_transforms),
		cmocka_unit_test(test_filtered_images),
		cmocka_unit_test(test_transposes),
		cmocka_unit_test(test_golden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
