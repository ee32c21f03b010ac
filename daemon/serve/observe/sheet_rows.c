/* sheet_rows: a few rows of a stream's newest batch, copied for the page.
 *
 * This runs between two turns of the event loop. A slot that is READY or LEASED stays so until
 * it returns, since only the loop changes slots, and workers write into FILLING slots only. So a
 * batch is never torn. A trainer that may write into its own slots (pin_memory) may do so
 * meanwhile: then the page shows that trainer's pixels. Nothing that is read from a slot is
 * trusted: sizes and counts are the daemon's, and a label is checked before it is looked up. */
#include "serve/observe/observe.h"

#include "base/util.h"
#include "http/sheet_png.h"
#include "proto/utf8.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <math.h>
#include <string.h>

enum { SHEET_CHANNELS = 3 };

/* The group at this place in the status; NULL: there is none, or it has no stream. */
static const struct group *sheet_group(const struct server *server, uint32_t place)
{
	list_each (g, &server->groups, struct group, node)
		if (!g->closing && place-- == 0)
			return g->stream ? g : NULL;
	return NULL;
}

/* The newest complete slot, or -1. */
static int sheet_slot(const struct tally *tally)
{
	int newest = -1;
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if ((tally->state[slot] == SLOT_READY || tally->state[slot] == SLOT_LEASED) &&
			(newest < 0 || tally->serial[slot] > tally->serial[newest]))
			newest = (int)slot;
	return newest;
}

static uint32_t sheet_length(uint32_t pixels, uint32_t step)
{
	return (pixels + step - 1) / step;
}

/* The smallest step at which that many rows fit into HTTP_SHEET_BYTES. */
static uint32_t sheet_step(const struct extent_shape *shape, uint32_t rows)
{
	uint32_t step = 1;
	while ((uint64_t)rows * sheet_length(shape->height, step) *
			sheet_length(shape->width, step) * SHEET_CHANNELS >
		HTTP_SHEET_BYTES)
		step++;
	return step;
}

/* Copies one line of a row of plain bytes; returns the end of what was written. */
static uint8_t *sheet_line(const uint8_t *from, uint32_t width, uint32_t step, uint8_t *to)
{
	size_t bytes = (size_t)width * SHEET_CHANNELS;
	if (step == 1)
		return (uint8_t *)memcpy(to, from, bytes) + bytes;
	for (size_t x = 0; x < bytes; x += (size_t)step * SHEET_CHANNELS, to += SHEET_CHANNELS)
		memcpy(to, from + x, SHEET_CHANNELS);
	return to;
}

/* IEEE 754 binary16. */
static float sheet_half(uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	float fraction = (float)(bits & 1023), sign = bits & 0x8000 ? -1.0F : 1.0F;
	if (exponent == 0)
		return sign * ldexpf(fraction, -24);
	return exponent == 31 ? sign * INFINITY : sign * ldexpf(1024 + fraction, exponent - 25);
}

/* A normalized value. */
static float sheet_float(enum shape_dtype dtype, const uint8_t *at)
{
	uint16_t half;
	uint32_t bits;
	float value;
	if (dtype == SHAPE_FLOAT32)
		return memcpy(&value, at, sizeof value), value;
	memcpy(&half, at, sizeof half);
	if (dtype == SHAPE_FLOAT16)
		return sheet_half(half);
	bits = (uint32_t)half << 16;
	return memcpy(&value, &bits, sizeof value), value;
}

/* One value of any row, as the byte that it was made from. */
static uint8_t sheet_byte(
	const struct shape *shape, const uint8_t *row, size_t number, uint32_t channel)
{
	if (shape->dtype == SHAPE_UINT8)
		return row[number];
	size_t bytes = slots_pixel_bytes(shape->dtype + 1);
	float value = sheet_float(shape->dtype, row + bytes * number);
	value = value * (float)shape->std.value[channel] + (float)shape->mean.value[channel];
	/* An erased pixel may have any value; NaN is not above 0. */
	return value > 0 ? (uint8_t)lrintf(UTIL_MIN(value, 1.0F) * 255) : 0;
}

static uint8_t *sheet_values(const struct shape *shape, const struct extent_shape *size,
	const uint8_t *row, uint32_t y, uint32_t step, uint8_t *to)
{
	bool planar = shape->layout == SHAPE_NCHW;
	size_t apart = planar ? (size_t)size->height * size->width : 1;
	for (uint32_t x = 0; x < size->width; x += step)
		for (uint32_t channel = 0; channel < SHEET_CHANNELS; channel++) {
			size_t pixel = (size_t)y * size->width + x;
			size_t number = pixel * (planar ? 1 : SHEET_CHANNELS) + channel * apart;
			*to++ = sheet_byte(shape, row, number, channel);
		}
	return to;
}

static void sheet_pixels(const struct extent *extent, const struct shape *shape, uint32_t slot,
	struct http_sheet *sheet)
{
	bool plain = shape->dtype == SHAPE_UINT8 && shape->layout == SHAPE_NHWC;
	const size_t line = (size_t)sheet->width * SHEET_CHANNELS;
	for (uint32_t i = 0; i < sheet->rows; i++) {
		const struct extent_shape size = extent_row_shape(extent, slot, i);
		const size_t bytes = (size_t)size.width * SHEET_CHANNELS;
		const uint8_t *row = extent_image(extent, slot, i);
		uint8_t *to = sheet->pixels + i * line * sheet->height;
		/* An image that is smaller than the largest is at the top left. */
		memset(to, 0, line * sheet->height);
		for (uint32_t y = 0; y < size.height; y += sheet->step, to += line)
			if (plain)
				(void)sheet_line(row + y * bytes, size.width, sheet->step, to);
			else
				(void)sheet_values(shape, &size, row, y, sheet->step, to);
	}
}

static void sheet_row(const struct dataset *dataset, const struct slots_record *record,
	struct http_sheet_row *row)
{
	*row = (struct http_sheet_row){.index = __atomic_load_n(&record->index, __ATOMIC_RELAXED),
		.label = __atomic_load_n(&record->label, __ATOMIC_RELAXED),
		.flags = __atomic_load_n(&record->flags, __ATOMIC_RELAXED)};
	if (row->label < 0 || (uint64_t)row->label >= dataset_classes(dataset))
		return;
	const char *name = dataset_class_name(dataset, (uint32_t)row->label);
	memcpy(row->class_name, name, utf8_cut(name, sizeof row->class_name - 1));
}

/* The largest height and width of a slot's images. */
static struct extent_shape sheet_largest(const struct extent *extent, uint32_t slot)
{
	struct extent_shape largest = extent->shape[slot];
	for (uint32_t i = 0; i < extent->layout.groups; i++) {
		largest.height = UTIL_MAX(largest.height, extent->group[i].height);
		largest.width = UTIL_MAX(largest.width, extent->group[i].width);
	}
	return largest;
}

struct http_sheet *sheet_copy(const struct server *server, uint32_t place)
{
	const struct group *group = sheet_group(server, place);
	int slot = group ? sheet_slot(stream_tally(group->stream)) : -1;
	if (slot < 0)
		return NULL;
	const struct extent *extent = stream_extent(group->stream);
	const struct stream_batch *batch = stream_batch(group->stream, (uint32_t)slot);
	const struct extent_shape size = sheet_largest(extent, (uint32_t)slot);
	uint32_t all = batch->count * extent->layout.views;
	uint32_t rows = UTIL_MIN(all, (uint32_t)HTTP_SHEET_ROWS);
	uint32_t step = sheet_step(&size, rows);
	struct http_sheet *sheet = http_sheet_new(
		rows, sheet_length(size.height, step), sheet_length(size.width, step));
	if (!sheet)
		return NULL;
	sheet->stream = place;
	sheet->step = step;
	sheet->batch_rows = all;
	sheet->epoch = batch->epoch;
	sheet->batch = batch->batch;
	sheet_pixels(extent, &group->spec.shape, (uint32_t)slot, sheet);
	for (uint32_t row = 0; row < rows; row++)
		sheet_row(stream_dataset(group->stream),
			extent_records(extent, (uint32_t)slot) + row, &sheet->row[row]);
	return sheet;
}
