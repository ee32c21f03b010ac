/* size: see size.h. Pure except for the scratch and the sink. */
#include "augment/size.h"

#include "base/util.h"
#include "pixel/resize.h"

#include <assert.h>
#include <string.h>

enum { SIZE_PIXEL = 3 };

/* ---- OP_WINDOW ---- */

static void size_fill(uint8_t *to, size_t count, const uint8_t fill[SIZE_PIXEL])
{
	for (; count; count--, to += SIZE_PIXEL)
		memcpy(to, fill, SIZE_PIXEL);
}

/* The window's pixels [*ret_begin, *ret_end) are those of the image in its order. */
static void size_straight(const struct pad_axis *axis, uint32_t *ret_begin, uint32_t *ret_end)
{
	int64_t from = (int64_t)axis->place - axis->before - axis->more;
	int64_t begin = UTIL_MAX(-from, (int64_t)0);
	int64_t end = UTIL_MIN((int64_t)axis->side - from, (int64_t)axis->window);
	begin = UTIL_MIN(begin, (int64_t)axis->window);
	*ret_begin = (uint32_t)begin;
	*ret_end = (uint32_t)UTIL_MAX(begin, end);
}

/* Pixels [begin, end) of a row of the window, one by one. */
static void size_columns(
	const struct op *op, const uint8_t *row, uint8_t *to, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end; i++) {
		int32_t column = pad_source(&op->axis[0], i);
		memcpy(to + (size_t)SIZE_PIXEL * i,
			column < 0 ? op->fill : row + (size_t)SIZE_PIXEL * (uint32_t)column,
			SIZE_PIXEL);
	}
}

static void size_window(const struct op *op, const struct op_image *from, uint8_t *to)
{
	const struct pad_axis *x = &op->axis[0], *y = &op->axis[1];
	const size_t pitch = (size_t)SIZE_PIXEL * from->width;
	uint32_t begin, end;
	assert(x->side == from->width && y->side == from->height);
	size_straight(x, &begin, &end);
	uint32_t first = begin < end ? (uint32_t)pad_source(x, begin) : 0;
	for (uint32_t i = 0; i < y->window; i++, to += (size_t)SIZE_PIXEL * x->window) {
		int32_t line = pad_source(y, i);
		if (line < 0) {
			size_fill(to, x->window, op->fill);
			continue;
		}
		const uint8_t *row = from->pixels + pitch * (uint32_t)line;
		size_columns(op, row, to, 0, begin);
		memcpy(to + (size_t)SIZE_PIXEL * begin, row + (size_t)SIZE_PIXEL * first,
			(size_t)SIZE_PIXEL * (end - begin));
		size_columns(op, row, to, end, x->window);
	}
}

/* ---- OP_RESIZE ---- */

static void size_resize(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	const size_t pitch = (size_t)SIZE_PIXEL * from->width;
	assert(op->box.x + op->box.w <= from->width && op->box.y + op->box.h <= from->height);
	const struct pixel_resize resize = {
		.from = from->pixels + pitch * op->box.y + (size_t)SIZE_PIXEL * op->box.x,
		.from_stride = pitch,
		.from_size = {op->box.h, op->box.w},
		.to = to,
		.to_size = {op->height, op->width},
		.filter = op->filter};
	pixel_resize(apply->sink, &resize, apply->scratch);
}

uint64_t size_scratch(const struct op *op)
{
	return op->kind == OP_RESIZE ? pixel_resize_scratch(op->box.w) : 0;
}

void size_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	if (op->kind == OP_WINDOW)
		size_window(op, from, to);
	else
		size_resize(apply, op, from, to);
}
