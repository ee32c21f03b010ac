/* warp: see warp.h. Runs on a worker's thread; pure except for the scratch.
 *
 * Pillow's code is in libImaging/Geometry.c. It has several ways, and the way it takes affects
 * pixels:
 *
 *   NEAREST, no shear     x and y separately, each a sum of steps in double (ImagingScaleAffine)
 *   NEAREST, AFFINE       16.16 fixed point if all corners fit (affine_fixed), otherwise sums of
 *                         steps in double
 *   everything else       the position of each pixel from the matrix, in double; the kernels filter
 *                         row by row
 *
 * RandAugment and similar policies use the first two for nearly half of their operations. For
 * these, one division finds the part of each row that is inside the source, and the loop over
 * that part checks nothing. The other ways check each pixel, or a few pixels at a time. Pixels
 * from outside the source get `fill`; nothing is blended with it. */
#include "augment/warp.h"

#include "augment/kernels/kernels.h"
#include "base/util.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { WARP_PIXEL = 3, WARP_FRACTION = 16, WARP_ONE = 1 << WARP_FRACTION };

/* The op in progress. */
struct warp {
	const struct augment_kernels *kernels;
	const struct op *op;
	const uint8_t *from;
	uint8_t *to;
	uint32_t width, height; /* of the source */
	struct pixel_size size; /* of the result */
	size_t row, to_row; /* bytes of a row of each */
};

static uint8_t *warp_to(const struct warp *warp, uint32_t x, uint32_t y)
{
	return warp->to + warp->to_row * y + (size_t)WARP_PIXEL * x;
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

/* ---- the path of a row through the source ---- */

/* A coordinate along a row: at + step x, with 16 fraction bits. 64 bits do not wrap around as
 * Pillow's 32 do; a coordinate that wraps is outside either way. */
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

/* Outputs [begin, end) of row y, all inside the source. Kernels read one byte after each pixel,
 * which the image's last pixel does not have: a row that may reach it goes pixel by pixel. */
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
	else if (warp->row >= AUGMENT_WALK_ROW ||
		 (warp_reaches(across, begin, end, warp->width) &&
			 warp_reaches(down, begin, end, warp->height)))
		augment_kernels_c.walk(to, &walk, end - begin);
	else
		warp->kernels->walk(to, &walk, end - begin);
}

static int64_t warp_middle(uint32_t pixel)
{
	return ((int64_t)pixel << WARP_FRACTION) + WARP_ONE / 2;
}

/* ---- transposing ---- */

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

/* Counterclockwise. */
static void warp_quarters(const struct warp *warp, unsigned quarters)
{
	uint32_t right = warp->width - 1, bottom = warp->height - 1;
	assert(quarters <= 3 && (quarters % 2 == 0 || (warp->size.width == warp->height &&
							      warp->size.height == warp->width)));
	for (uint32_t y = 0; y < warp->size.height; y++) {
		const struct warp_line turned[][2] = {
			{{warp_middle(0), WARP_ONE}, {warp_middle(y), 0}},
			{{warp_middle(right - y), 0}, {warp_middle(0), WARP_ONE}},
			{{warp_middle(right), -WARP_ONE}, {warp_middle(bottom - y), 0}},
			{{warp_middle(y), 0}, {warp_middle(bottom), -WARP_ONE}},
		};
		warp_walk(warp, y, 0, warp->size.width, turned[quarters]);
	}
}

/* ---- nearest, x and y separately ---- */

/* The source pixel that contains `at`; -1: outside, or not a number. */
static int32_t warp_nearest(double at, uint32_t side)
{
	return at >= 0 && at < side ? (int32_t)at : -1;
}

/* Outputs [begin, end) of a row are inside the source. */
struct warp_span {
	uint32_t begin, end;
	bool straight; /* each source pixel follows the one before */
};

static struct warp_span warp_columns(const struct warp *warp, uint32_t *column)
{
	const double *m = warp->op->matrix;
	struct warp_span span = {.straight = true};
	double at = m[2] + m[0] * 0.5;
	for (uint32_t x = 0; x < warp->size.width; x++, at += m[0]) {
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
	warp_fill(warp, y, span->end, warp->size.width);
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
	for (uint32_t y = 0; y < warp->size.height; y++, at += m[4]) {
		int32_t from_y = warp_nearest(at, warp->height);
		if (from_y < 0)
			warp_fill(warp, y, 0, warp->size.width);
		else
			warp_scale_row(warp, &span, column, y, (uint32_t)from_y);
	}
}

/* ---- nearest, in fixed point ---- */

/* Whether a corner of the target fits 16.16 fixed point. */
static bool warp_corner_fits(const double *m, uint32_t x, uint32_t y)
{
	return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 &&
	       fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

static bool warp_fits(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	uint32_t w = warp->size.width, h = warp->size.height;
	return warp_corner_fits(m, 0, 0) && warp_corner_fits(m, w, h) &&
	       warp_corner_fits(m, 0, h) && warp_corner_fits(m, w, 0);
}

/* Of a value that fits: at most 2^32. */
static int64_t warp_fix(double value)
{
	return (int64_t)floor(value * WARP_ONE + 0.5);
}

static int64_t warp_floor(int64_t a, int64_t b)
{
	int64_t quotient = a / b;
	return quotient - (a % b < 0); /* b > 0 */
}

/* Limits the span to where 0 <= at + step x < side pixels. */
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
	for (uint32_t y = 0; y < warp->size.height; y++) {
		struct warp_span span = {.end = warp->size.width};
		warp_cut(&span, &lines[0], warp->width);
		warp_cut(&span, &lines[1], warp->height);
		warp_fill(warp, y, 0, span.begin);
		warp_fill(warp, y, span.end, warp->size.width);
		warp_walk(warp, y, span.begin, span.end, lines);
		lines[0].at += x_down;
		lines[1].at += y_down;
	}
}

/* ---- nearest, if fixed point does not fit ---- */

/* The source pixel at a position, or the fill. */
static const uint8_t *warp_pixel(const struct warp *warp, double at_x, double at_y)
{
	int32_t x = warp_nearest(at_x, warp->width), y = warp_nearest(at_y, warp->height);
	return x < 0 || y < 0 ? warp->op->fill : warp_from(warp, (uint32_t)x, (uint32_t)y);
}

static void warp_summed(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	double row_x = m[2] + m[1] * 0.5 + m[0] * 0.5, row_y = m[5] + m[4] * 0.5 + m[3] * 0.5;
	for (uint32_t y = 0; y < warp->size.height; y++, row_x += m[1], row_y += m[4]) {
		double at_x = row_x, at_y = row_y;
		for (uint32_t x = 0; x < warp->size.width; x++, at_x += m[0], at_y += m[3]) {
			memcpy(warp_to(warp, x, y), warp_pixel(warp, at_x, at_y), WARP_PIXEL);
		}
	}
}

/* ---- each position from the matrix ---- */

static struct augment_warp warp_for_kernels(const struct warp *warp)
{
	const uint8_t *fill = warp->op->fill;
	return (struct augment_warp){.from = warp->from,
		.width = warp->width,
		.height = warp->height,
		.matrix = warp->op->matrix,
		.perspective = warp->op->kind == OP_PERSPECTIVE,
		.fill = {fill[0], fill[1], fill[2]}};
}

static void warp_filtered(const struct warp *warp)
{
	const struct augment_warp told = warp_for_kernels(warp);
	bool bilinear = warp->op->filter == WEIGHTS_BILINEAR;
	for (uint32_t y = 0; y < warp->size.height; y++)
		(bilinear ? warp->kernels->bilinear : warp->kernels->bicubic)(
			warp_to(warp, 0, y), &told, 0, y, warp->size.width);
}

static void warp_perspective_nearest(const struct warp *warp)
{
	const double *m = warp->op->matrix;
	for (uint32_t y = 0; y < warp->size.height; y++)
		for (uint32_t x = 0; x < warp->size.width; x++) {
			double u = x + 0.5, v = y + 0.5, share = m[6] * u + m[7] * v + 1;
			double at_x = (m[0] * u + m[1] * v + m[2]) / share;
			double at_y = (m[3] * u + m[4] * v + m[5]) / share;
			memcpy(warp_to(warp, x, y), warp_pixel(warp, at_x, at_y), WARP_PIXEL);
		}
}

/* Shifts by whole pixels, which are most of the shifts that policies make, need no filter: all
 * sums and fractions are exact. */
static bool warp_is_shift(const double *m)
{
	double far = 1 << WARP_FRACTION;
	return m[0] == 1 && m[1] == 0 && m[3] == 0 && m[4] == 1 && fabs(m[2]) < far &&
	       fabs(m[5]) < far && m[2] == floor(m[2]) && m[5] == floor(m[5]);
}

static void warp_affine(const struct warp *warp, void *scratch)
{
	const double *m = warp->op->matrix;
	if (warp->op->filter != WEIGHTS_NEAREST && !warp_is_shift(m))
		warp_filtered(warp);
	else if (m[1] == 0 && m[3] == 0)
		warp_scale(warp, scratch);
	else if (warp_fits(warp))
		warp_fixed(warp);
	else
		warp_summed(warp);
}

uint64_t warp_scratch(uint32_t width)
{
	return sizeof(uint32_t) * width; /* the columns of warp_scale */
}

void warp_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	const struct pixel_size size = op_size(op, (struct pixel_size){from->height, from->width});
	const struct warp warp = {.kernels = apply->kernels,
		.op = op,
		.from = from->pixels,
		.to = to,
		.width = from->width,
		.height = from->height,
		.size = size,
		.row = (size_t)WARP_PIXEL * from->width,
		.to_row = (size_t)WARP_PIXEL * size.width};
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
		if (op->filter == WEIGHTS_NEAREST)
			warp_perspective_nearest(&warp);
		else
			warp_filtered(&warp);
		break;
	default:
		assert(!"an op that moves pixels");
	}
}
