/* pad: see pad.h. Pure functions. */
#include "pixel/pad.h"

#include "base/util.h"
#include "pixel/draw.h"

#include <assert.h>
#include <string.h>

enum { PAD_PIXEL = 3 };

uint32_t pad_side(const struct pad_axis *axis)
{
	return axis->side + axis->before + axis->after + 2 * axis->more;
}

struct pad_axis pad_center(uint32_t size, uint32_t side)
{
	uint32_t missing = side < size ? size - side : 0;
	/* int(round(spare / 2.0)): Python rounds halves to even. */
	uint32_t place = side > size ? (uint32_t)draw_round((double)(side - size) / 2.0) : 0;
	return (struct pad_axis){.side = side,
		.before = missing / 2,
		.after = missing - missing / 2,
		.place = place,
		.window = size};
}

struct pad_axis pad_random(
	enum pixel_padding_mode mode, uint32_t size, uint32_t side, uint32_t before, uint32_t after)
{
	struct pad_axis axis = {
		.mode = mode, .side = side, .before = before, .after = after, .window = size};
	uint32_t padded = pad_side(&axis);
	axis.more = padded < size ? size - padded : 0;
	return axis;
}

bool pad_is_inside(const struct pad_axis *axis)
{
	uint64_t from = (uint64_t)axis->before + axis->more;
	return axis->place >= from && axis->place - from + axis->window <= (uint64_t)axis->side;
}

/* `at` modulo `period`, never negative. */
static int64_t pad_cycle(int64_t at, int64_t period)
{
	int64_t rest = at % period;
	return rest < 0 ? rest + period : rest;
}

/* The source of a pixel that may be outside `side`; -1: none. A single pixel mirrors to itself. */
static int64_t pad_fold(enum pixel_padding_mode mode, int64_t at, int64_t side)
{
	if (at >= 0 && at < side)
		return at;
	if (mode == PIXEL_PAD_CONSTANT)
		return -1;
	if (mode == PIXEL_PAD_EDGE || side == 1)
		return at < 0 ? 0 : side - 1;
	/* A reflection does not repeat the outermost pixels. */
	int64_t shared = mode == PIXEL_PAD_REFLECT ? 1 : 0;
	int64_t period = 2 * (side - shared), place = pad_cycle(at, period);
	return place < side ? place : period - 1 + shared - place;
}

int32_t pad_source(const struct pad_axis *axis, uint32_t i)
{
	int64_t at = (int64_t)axis->place + (axis->mirrored ? axis->window - 1 - i : i);
	int64_t once = (int64_t)axis->side + axis->before + axis->after;
	at = pad_fold(axis->mode, at - axis->more, once);
	return at < 0 ? -1 : (int32_t)pad_fold(axis->mode, at - axis->before, axis->side);
}

/* The first and the last source pixel that is needed; false: none. */
static bool pad_reach(const struct pad_axis *axis, int32_t *ret_low, int32_t *ret_high)
{
	int32_t low = INT32_MAX, high = -1;
	for (uint32_t i = 0; i < axis->window; i++) {
		int32_t source = pad_source(axis, i);
		if (source < 0)
			continue;
		low = UTIL_MIN(low, source);
		high = UTIL_MAX(high, source);
	}
	*ret_low = low;
	*ret_high = high;
	return high >= 0;
}

/* Whether `count` pixels from `at` on are neighbors, in this order (`step` 1) or in reverse. */
static bool pad_is_run(const struct pad_axis *axis, uint32_t at, uint32_t count, int32_t step)
{
	if (at + count > axis->window)
		return false;
	int32_t first = pad_source(axis, at);
	for (uint32_t i = 1; i < count; i++)
		if (pad_source(axis, at + i) != first + step * (int32_t)i)
			return false;
	return true;
}

struct pad_run pad_run(const struct pad_axis *axis)
{
	int32_t low, high;
	if (!pad_reach(axis, &low, &high))
		return (struct pad_run){.count = 1, .none = true};
	struct pad_run run = {.low = (uint32_t)low, .count = (uint32_t)(high - low + 1)};
	for (; run.at < axis->window; run.at++) {
		int32_t source = pad_source(axis, run.at);
		if (source == low && pad_is_run(axis, run.at, run.count, 1))
			return run;
		run.falling = source == high && pad_is_run(axis, run.at, run.count, -1);
		if (run.falling)
			return run;
	}
	assert(!"a window's pixels move by one at a time");
	return run;
}

/* For each pixel of the window outside the run: the position in the run of the pixel that it
 * copies. */
enum { PAD_NOWHERE = UINT16_MAX };

static void pad_places(const struct pad_axis *axis, const struct pad_run *run, uint16_t *ret)
{
	for (uint32_t i = 0; i < axis->window; i++) {
		int32_t source = pad_source(axis, i);
		uint32_t within = (uint32_t)source - run->low;
		uint32_t place = run->at + (run->falling ? run->count - 1 - within : within);
		ret[i] = source < 0 ? PAD_NOWHERE : (uint16_t)place;
	}
}

static uint32_t pad_run_end(const struct pad_run *run)
{
	return run->none ? 0 : run->at + run->count;
}

/* Pixels [begin, end) of a row. */
static void pad_row(
	uint8_t *row, const uint16_t *places, uint32_t begin, uint32_t end, const uint8_t fill[3])
{
	for (uint32_t i = begin; i < end; i++) {
		const uint8_t *from =
			places[i] == PAD_NOWHERE ? fill : row + (size_t)PAD_PIXEL * places[i];
		memcpy(row + (size_t)PAD_PIXEL * i, from, PAD_PIXEL);
	}
}

void pad_fill(
	const struct pad_axis *x, const struct pad_axis *y, const uint8_t fill[3], uint8_t *out)
{
	uint16_t columns[PAD_WINDOW_MAX], rows[PAD_WINDOW_MAX], nowhere[PAD_WINDOW_MAX];
	struct pad_run across = pad_run(x), down = pad_run(y);
	size_t row_bytes = (size_t)PAD_PIXEL * x->window;
	uint32_t end = pad_run_end(&down);
	assert(x->window <= PAD_WINDOW_MAX && y->window <= PAD_WINDOW_MAX);
	pad_places(x, &across, columns);
	pad_places(y, &down, rows);
	memset(nowhere, UINT8_MAX, sizeof(nowhere));
	for (uint32_t i = down.at; i < end; i++) {
		pad_row(out + i * row_bytes, columns, 0, across.at, fill);
		pad_row(out + i * row_bytes, columns, pad_run_end(&across), x->window, fill);
	}
	for (uint32_t i = 0; i < y->window; i++) {
		if (rows[i] == PAD_NOWHERE)
			pad_row(out + i * row_bytes, nowhere, 0, x->window, fill);
		else if (i < down.at || i >= end)
			memcpy(out + i * row_bytes, out + rows[i] * row_bytes, row_bytes);
	}
}
