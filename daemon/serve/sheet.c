/* sheet: a few rows of a stream's newest batch, copied for whoever looks at the page.
 *
 * Event loop, between two of its turns: a slot that is READY or LEASED stays so until this has
 * returned, since only the loop changes slots, and workers write into FILLING ones alone. So a
 * batch is never torn. Where a trainer may write into its own slots (pin_memory) it may do so
 * meanwhile: what it gets to see then are its own pixels, and nothing read from there is believed
 * (sizes and counts are the daemon's, a label is looked at before it is looked up). */
#include "serve/serve_impl.h"

#include "base/util.h"
#include "http/sheet.h"

#include <string.h>

/* The group that is at this place in /status, where it has a stream. */
static const struct group *sheet_group(const struct server *server, uint32_t place)
{
	for (const struct group *g = server->groups; g; g = g->next)
		if (!g->closing && place-- == 0)
			return g->stream ? g : NULL;
	return NULL;
}

/* The newest complete one, or -1. */
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

/* The smallest at which so many rows are within HTTP_SHEET_BYTES. */
static uint32_t sheet_step(const struct slots_head *layout, uint32_t rows)
{
	uint32_t step = 1;
	while ((uint64_t)rows * sheet_length(layout->height, step) *
			sheet_length(layout->width, step) * layout->channels >
		HTTP_SHEET_BYTES)
		step++;
	return step;
}

/* One line of a row; the end of what was written. */
static uint8_t *sheet_line(
	const uint8_t *from, const struct slots_head *layout, uint32_t step, uint8_t *to)
{
	size_t bytes = (size_t)layout->width * layout->channels;
	if (step == 1)
		return (uint8_t *)memcpy(to, from, bytes) + bytes;
	for (size_t x = 0; x < bytes; x += (size_t)step * layout->channels, to += layout->channels)
		memcpy(to, from + x, layout->channels);
	return to;
}

static void sheet_pixels(const struct extent *extent, uint32_t slot, struct http_sheet *sheet)
{
	const struct slots_head *layout = &extent->layout;
	size_t bytes = (size_t)layout->width * layout->channels;
	uint8_t *to = sheet->pixels;
	for (uint32_t row = 0; row < sheet->rows; row++)
		for (uint32_t y = 0; y < layout->height; y += sheet->step)
			to = sheet_line(extent_image(extent, slot, row) + y * bytes, layout,
				sheet->step, to);
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
	memcpy(row->class_name, name, util_cut(name, sizeof row->class_name - 1));
}

struct http_sheet *sheet_copy(const struct server *server, uint32_t place)
{
	const struct group *group = sheet_group(server, place);
	int slot = group ? sheet_slot(stream_tally(group->stream)) : -1;
	if (slot < 0)
		return NULL;
	const struct extent *extent = stream_extent(group->stream);
	const struct stream_batch *batch = stream_batch(group->stream, (uint32_t)slot);
	const struct slots_head *layout = &extent->layout;
	uint32_t rows = UTIL_MIN(batch->count, (uint32_t)HTTP_SHEET_ROWS);
	uint32_t step = sheet_step(layout, rows);
	struct http_sheet *sheet = http_sheet_new(
		rows, sheet_length(layout->height, step), sheet_length(layout->width, step));
	if (!sheet)
		return NULL;
	sheet->stream = place;
	sheet->step = step;
	sheet->batch_rows = batch->count;
	sheet->epoch = batch->epoch;
	sheet->batch = batch->batch;
	sheet_pixels(extent, (uint32_t)slot, sheet);
	for (uint32_t row = 0; row < rows; row++)
		sheet_row(stream_dataset(group->stream),
			extent_records(extent, (uint32_t)slot) + row, &sheet->row[row]);
	return sheet;
}
