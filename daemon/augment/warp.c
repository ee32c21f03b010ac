/* warp: see warp.h. On a worker's thread; pure but for the scratch.
 *
 * What Pillow computes is in libImaging/Geometry.c, and which of its ways is taken decides pixels:
 *
 *   NEAREST, no shear     x and y by themselves, each a sum of steps in double (ImagingScaleAffine)
 *   NEAREST, AFFINE       whole numbers of 16.16 bits, where all corners fit (affine_fixed)
 *                         otherwise sums of steps in double
 *   everything else       the place of each pixel from the matrix, in double
 *
 * The first two are what RandAugment and its kin consist of, nearly half of their operations: of
 * each row the part that lies within the source is found by dividing once, and the loop over it
 * asks nothing. Everything else decides pixel by pixel. What lies outside is `fill`; nothing is
 * blended with it. */
#include "augment/warp.h"

#include "augment/kernels.h"
#include "base/util.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

enum { WARP_PIXEL = 3, WARP_FRACTION = 16, WARP_ONE = 1 << WARP_FRACTION };

/* One op on its way. */
struct warp {
	const struct augment_kernels *kernels;
	const struct op *op;
	const uint8_t *from;
	uint8_t *to;
	uint32_t width, height;
	size_t row; /* bytes */
};

static uint8_t *warp_to(const struct warp *warp, uint32_t x, uint32_t y)
{
	return warp->to + warp->row * y + (size_t)WARP_PIXEL * x;
}

static const uint8_t *warp_from(const struct warp *warp, uint32_t x, uint32_t y)
{
	return warp->from + warp->row * y + (size_t)WARP_PIXEL * x;
}

/* Pixels [x0, x1) of row y. */
static void warp_fill(const struct warp *warp, uint32_t y, uint32_t x0, uint32_t x1)
{
	const uint8_t *fill = warp->op->fill;
	uint8_t *to = warp_to(warp, x0, y);
	size_t count = x1 - x0;
	if (fill[0] == fill[1] && fill[1] == fill[2]) {
		memset(to, fill[0], count * WARP_PIXEL);
		return;
	}
	for (; count; count--, to += WARP_PIXEL)
		memcpy(to, fill, WARP_PIXEL);
}

/* --- a row's way through the source --- */

/* A coordinate along a row: at + step x, 16 bits behind the point. 64 bits do not wrap as Pillow's
 * 32 do; what does lies outside either way. */
struct warp_line {
	int64_t at, step;
};

static int64_t warp_at(const struct warp_line *line, uint32_t x)
{
	return line->at + line->step * x;
}

static bool warp_reaches(const struct warp_line *line, uint32_t begin, uint32_t end, uint32_t side)
{
	int64_t last = (int64_t)(side - 1) << WARP_FRACTION;
	return warp_at(line, begin) >= last || warp_at(line, end - 1) >= last;
}

/* Outputs [begin, end) of row y, all within the source. Kernels read a byte behind each pixel,
 * which the image's last one does not have: a row that could come by it goes pixel by pixel. */
static void warp_walk(const struct warp *warp, uint32_t y, uint32_t begin, uint32_t end,
	const struct warp_line lines[2])
{
	const struct warp_line *across = &lines[0], *down = &lines[1];
	uint8_t *to = warp_to(warp, begin, y);
	if (begin == end)
		return;
	struct augment_walk walk = {.from = warp->from,
		.row = (uint32_t)warp->row,
		.x = (int32_t)warp_at(across, begin),
		.y = (int32_t)warp_at(down, begin),
		.dx = (int32_t)across->step,
		.dy = (int32_t)down->step};
	if (across->step == WARP_ONE && down->step == 0)
		memcpy(to,
			warp_from(warp, (uint32_t)walk.x >> WARP_FRACTION,
				(uint32_t)walk.y >> WARP_FRACTION),
			(size_t)WARP_PIXEL * (end - begin));
	else if (warp_reaches(across, begin, end, warp->width) &&
		 warp_reaches(down, begin, end, warp->height))
		augment_kernels_c.walk(to, &walk, end - begin);
	else
		warp->kernels->walk(to, &walk, end - begin);
}

static int64_t warp_middle(uint32_t pixel)
{
	return ((int64_t)pixel << WARP_FRACTION) + WARP_ONE / 2;
}

/* --- transposing --- */

static void warp_mirror(const struct warp *warp)
{
	struct warp_line lines[2] = {{warp_middle(warp->width - 1), -WARP_ONE}, {0, 0}};
	for (uint32_t y = 0; y < warp->height; y++) {
		lines[1].at = warp_middle(y);
		warp_walk(warp, y, 0, warp->width, lines);
	}
}

static void warp_upside_down(const struct warp *warp)
{
	for (uint32_t y = 0; y < warp->height; y++)
		memcpy(warp_to(warp, 0, y), warp_from(warp, 0, warp->height - 1 - y), warp->row);
}

/* Counter-clockwise. */
static void warp_quarters(const struct warp *warp, unsigned quarters)
{
	uint32_t right = warp->width - 1, bottom = warp->height - 1;
	assert(quarters <= 3 && (quarters % 2 == 0 || right == bottom));
	for (uint32_t y = 0; y <= bottom; y++) {
		const struct warp_line turned[][2] = {
			{{warp_middle(0), WARP_ONE}, {warp_middle(y), 0}},
			{{warp_middle(right - y), 0}, {warp_middle(0), WARP_ONE}},
			{{warp_middle(right), -WARP_ONE}, {warp_middle(bottom - y), 0}},
			{{warp_middle(y), 0}, {warp_middle(bottom), -WARP_ONE}},
		};
		warp_walk(warp, y, 0, warp->width, turned[quarters]);
	}
}

/* --- nearest, x and y by themselves --- */

/* Which source pixel `at` lies in, or -1: also where it is no number. */
static int32_t warp_nearest(double at, uint32_t side)
{
	return at >= 0 && at < side ? (int32_t)at : -1;
}

/* Outputs [begin, end) of a row lie within the source. */
struct warp_span {
	uint32_t begin, end;
	bool straight; /* each a pixel further than the one before */
};

static struct warp_span warp_columns(const struct warp *warp, uint32_t *column)
{
	const double *m = warp->op->matrix;
	struct warp_span span = {.straight = true};
	double at = m[2] + m[0] * 0.5;
	for (uint32_t x = 0; x < warp->width; x++, at += m[0]) {
		int32_t from = warp_nearest(at, warp->width);
		if (from < 0)
			continue;
		if (span.begin == span.end)
			span.begin = x;
		else
			span.straight &= (uint32_t)from == column[x - 1] + 1;
		span.end = x + 1;
		column[x] = (uint32_t)from;
	}
	return span;
}

static void warp_scale_row(const struct warp *warp, const struct warp_span *span,
	const uint32_t *column, uint32_t y, uint32_t from_y)
{
	const uint8_t *from = warp_from(warp, 0, from_y);
	uint8_t *to = warp_to(warp, span->begin, y);
	uint32_t count = span->end - span->begin;
	warp_fill(warp, y, 0, span->begin);
	warp_fill(warp, y, span->end, warp->width);
	if (span->straight && count) {
		memcpy(to, from + (size_t)WARP_PIXEL * column[span->begin],
			(size_t)WARP_PIXEL * count);
		return;
	}
	for (uint32_t x = span->begin; x < span->end; x++, to += WARP_PIXEL)
		memcpy(to, from + (size_t)WARP_PIXEL * column[x], WARP_PIXEL);
}

static void warp_scale(const struct warp *warp, uint32_t *column)
{
	const double *m = warp->op->matrix;
	struct warp_span span = warp_columns(warp, column);
	double at = m[5] + m[4] * 0.5;
	for (uint32_t y = 0; y < warp->height; y++, at += m[4]) {
		int32_t from_y = warp_nearest(at, warp->height);
		if (from_y < 0)
			warp_fill(warp, y, 0, warp->width);
		else
			warp_scale_row(warp, &span, column, y, (uint32_t)from_y);
	}
}

/* --- nearest, in fixed point --- */

/* A corner of the target lies within what 16.16 bits can hold. */
static bool warp_corner_fits(const double *m, uint32_t x, uint32_t y)
{
	return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 &&
	       fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

static bool warp_fits(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	uint32_t w = warp->width, h = warp->height;
	return warp_corner_fits(m, 0, 0) && warp_corner_fits(m, w, h) &&
	       warp_corner_fits(m, 0, h) && warp_corner_fits(m, w, 0);
}

/* Of what fits: at most 2^32. */
static int64_t warp_fix(double value)
{
	return (int64_t)floor(value * WARP_ONE + 0.5);
}

static int64_t warp_floor(int64_t a, int64_t b)
{
	int64_t quotient = a / b;
	return quotient - (a % b < 0); /* b > 0 */
}

/* Cuts the span to where 0 <= at + step x < side pixels. */
static void warp_cut(struct warp_span *span, const struct warp_line *line, uint32_t side)
{
	int64_t begin = 0, end = INT64_MAX, at = line->at, step = line->step;
	int64_t limit = (int64_t)side << WARP_FRACTION;
	if (step > 0) {
		begin = -warp_floor(at, step);
		end = -warp_floor(at - limit, step);
	} else if (step < 0) {
		begin = warp_floor(at - limit, -step) + 1;
		end = warp_floor(at, -step) + 1;
	} else if (at < 0 || at >= limit) {
		end = 0;
	}
	begin = UTIL_MAX(begin, (int64_t)span->begin);
	end = UTIL_MIN(end, (int64_t)span->end);
	*span = end > begin ? (struct warp_span){.begin = (uint32_t)begin, .end = (uint32_t)end}
			    : (struct warp_span){0};
}

static void warp_fixed(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	struct warp_line lines[2] = {
		{warp_fix(m[2] + m[0] * 0.5 + m[1] * 0.5), warp_fix(m[0])},
		{warp_fix(m[5] + m[3] * 0.5 + m[4] * 0.5), warp_fix(m[3])},
	};
	int64_t x_down = warp_fix(m[1]), y_down = warp_fix(m[4]);
	for (uint32_t y = 0; y < warp->height; y++) {
		struct warp_span span = {.end = warp->width};
		warp_cut(&span, &lines[0], warp->width);
		warp_cut(&span, &lines[1], warp->height);
		warp_fill(warp, y, 0, span.begin);
		warp_fill(warp, y, span.end, warp->width);
		warp_walk(warp, y, span.begin, span.end, lines);
		lines[0].at += x_down;
		lines[1].at += y_down;
	}
}

/* --- nearest, where those do not fit --- */

static void warp_summed(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	double row_x = m[2] + m[1] * 0.5 + m[0] * 0.5, row_y = m[5] + m[4] * 0.5 + m[3] * 0.5;
	for (uint32_t y = 0; y < warp->height; y++, row_x += m[1], row_y += m[4]) {
		double at_x = row_x, at_y = row_y;
		for (uint32_t x = 0; x < warp->width; x++, at_x += m[0], at_y += m[3]) {
			int32_t from_x = warp_nearest(at_x, warp->width);
			int32_t from_y = warp_nearest(at_y, warp->height);
			const uint8_t *from =
				from_x < 0 || from_y < 0
					? warp->op->fill
					: warp_from(warp, (uint32_t)from_x, (uint32_t)from_y);
			memcpy(warp_to(warp, x, y), from, WARP_PIXEL);
		}
	}
}

/* --- any filter, each pixel's place by itself --- */

/* A place in the source. Not outside is also what is no number: Pillow goes on with it, and what it
 * makes of it is black. */
struct warp_place {
	double x, y;
};

static bool warp_outside(const struct warp *warp, struct warp_place at)
{
	return at.x < 0 || at.x >= warp->width || at.y < 0 || at.y >= warp->height;
}

static struct warp_place warp_affine_place(const double *m, double x, double y)
{
	return (struct warp_place){m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
}

static struct warp_place warp_perspective_place(const double *m, double x, double y)
{
	double share = m[6] * x + m[7] * y + 1;
	struct warp_place at = warp_affine_place(m, x, y);
	return (struct warp_place){at.x / share, at.y / share};
}

/* Pixels around a place: `taps` of them from the first on, those beyond an edge being the edge's;
 * and how far it is from the second to the third, or the first to the second of two. */
struct warp_taps {
	size_t offset[4];
	double part;
};

static void warp_taps(double at, unsigned taps, uint32_t side, size_t stride, struct warp_taps *ret)
{
	double middle = at - 0.5; /* -0.5 and more */
	int32_t first = middle < 0 ? -1 : (int32_t)middle, from = first - (int32_t)(taps / 2 - 1);
	ret->part = middle - first;
	for (unsigned i = 0; i < taps; i++) {
		int32_t place = UTIL_MIN(UTIL_MAX(from + (int32_t)i, 0), (int32_t)side - 1);
		ret->offset[i] = (size_t)place * stride;
	}
}

static double warp_linear(const double v[2], double part)
{
	return v[0] + (v[1] - v[0]) * part;
}

static double warp_cubic(const double v[4], double part)
{
	double p2 = -v[0] + v[2];
	double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
	double p4 = -v[0] + v[1] - v[2] + v[3];
	return v[1] + part * (p2 + part * (p3 + part * p4));
}

static void warp_bilinear(const struct warp *warp, struct warp_place at, uint8_t *to)
{
	struct warp_taps x, y;
	warp_taps(at.x, 2, warp->width, WARP_PIXEL, &x);
	warp_taps(at.y, 2, warp->height, warp->row, &y);
	for (unsigned c = 0; c < WARP_PIXEL; c++) {
		double down[2];
		for (unsigned i = 0; i < 2; i++) {
			const uint8_t *from = warp->from + y.offset[i] + c;
			double across[2] = {from[x.offset[0]], from[x.offset[1]]};
			down[i] = warp_linear(across, x.part);
		}
		to[c] = (uint8_t)warp_linear(down, y.part);
	}
}

static void warp_bicubic(const struct warp *warp, struct warp_place at, uint8_t *to)
{
	struct warp_taps x, y;
	warp_taps(at.x, 4, warp->width, WARP_PIXEL, &x);
	warp_taps(at.y, 4, warp->height, warp->row, &y);
	for (unsigned c = 0; c < WARP_PIXEL; c++) {
		double down[4];
		for (unsigned i = 0; i < 4; i++) {
			const uint8_t *from = warp->from + y.offset[i] + c;
			double across[4] = {from[x.offset[0]], from[x.offset[1]], from[x.offset[2]],
				from[x.offset[3]]};
			down[i] = warp_cubic(across, x.part);
		}
		double value = warp_cubic(down, y.part);
		to[c] = (uint8_t)UTIL_MIN(UTIL_MAX(value, 0.0), 255.0);
	}
}

static void warp_pixel(const struct warp *warp, struct warp_place at, uint8_t *to)
{
	enum weights_filter filter = warp->op->filter;
	bool number = at.x == at.x && at.y == at.y;
	if (warp_outside(warp, at) || (!number && filter == WEIGHTS_NEAREST))
		memcpy(to, warp->op->fill, WARP_PIXEL);
	else if (!number)
		memset(to, 0, WARP_PIXEL);
	else if (filter == WEIGHTS_BILINEAR)
		warp_bilinear(warp, at, to);
	else if (filter == WEIGHTS_BICUBIC)
		warp_bicubic(warp, at, to);
	else
		memcpy(to, warp_from(warp, (uint32_t)at.x, (uint32_t)at.y), WARP_PIXEL);
}

typedef struct warp_place warp_place_fn(const double *matrix, double x, double y);

static void warp_each(const struct warp *warp, warp_place_fn *place)
{
	for (uint32_t y = 0; y < warp->height; y++)
		for (uint32_t x = 0; x < warp->width; x++)
			warp_pixel(warp, place(warp->op->matrix, x + 0.5, y + 0.5),
				warp_to(warp, x, y));
}

/* --- */

static void warp_affine(const struct warp *warp, void *scratch)
{
	const double *m = warp->op->matrix;
	if (warp->op->filter != WEIGHTS_NEAREST)
		warp_each(warp, warp_affine_place);
	else if (m[1] == 0 && m[3] == 0)
		warp_scale(warp, scratch);
	else if (warp_fits(warp))
		warp_fixed(warp);
	else
		warp_summed(warp);
}

uint64_t warp_scratch(uint32_t side)
{
	return sizeof(uint32_t) * side; /* warp_scale's columns */
}

void warp_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	const struct warp warp = {.kernels = apply->kernels,
		.op = op,
		.from = from->pixels,
		.to = to,
		.width = from->width,
		.height = from->height,
		.row = (size_t)WARP_PIXEL * from->width};
	switch (op->kind) {
	case OP_FLIP_HORIZONTAL:
		warp_mirror(&warp);
		break;
	case OP_FLIP_VERTICAL:
		warp_upside_down(&warp);
		break;
	case OP_ROTATE_QUARTERS:
		warp_quarters(&warp, (unsigned)op->amount);
		break;
	case OP_AFFINE:
		warp_affine(&warp, apply->scratch);
		break;
	case OP_PERSPECTIVE:
		warp_each(&warp, warp_perspective_place);
		break;
	default:
		assert(!"an op that moves pixels");
	}
}
