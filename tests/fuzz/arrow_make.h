/* arrow_make: chunks of LitData whose rows are stored as Arrow, made of choices: columns of several
 * types, inside of a struct or not, with nulls, in batches of any size, as a file or a stream, and
 * with buffers that are compressed or not; and damage to any of it. Written after Schema.fbs and
 * Message.fbs, not after the reader. */
#pragma once

#include "base/util.h"
#include "fuzz/items_make.h"

enum { ARROW_LABELS = 5, ARROW_TABLE = 8 };

/* How the rows are stored. */
struct arrow_layout {
	bool nested; /* the image is image/bytes */
	bool label_first;
	bool wide; /* the image is large_binary */
	bool note, list; /* columns after those */
	bool stream; /* otherwise a file */
	bool packed;
	uint8_t label; /* int64, int32, uint8, bool, float64 (which the image is taken without) */
};

static inline void arrow_align(struct items *items, size_t to)
{
	while (items->size % to != 0)
		items->file[items->size++] = 0;
}

static inline void arrow_put(struct items *items, uint64_t value, unsigned bytes)
{
	memcpy(items->file + items->size, &value, bytes);
	items->size += bytes;
}

/* A table of `count` fields of 8 bytes; absent are those that are not in `mask`. All of a message
 * is aligned to its begin, which the caller aligns to 8. */
static inline size_t arrow_table(struct items *items, unsigned count, unsigned mask)
{
	while ((items->size + 4 + 2 * (size_t)count) % 8 != 0)
		items->file[items->size++] = 0;
	const size_t vtable = items->size, table = vtable + 4 + 2 * (size_t)count;
	arrow_put(items, 4 + 2 * count, 2);
	arrow_put(items, ARROW_TABLE + 8 * count, 2);
	for (unsigned i = 0; i < count; i++)
		arrow_put(items, mask >> i & 1 ? ARROW_TABLE + 8 * i : 0, 2);
	arrow_put(items, table - vtable, 4);
	arrow_put(items, 0, 4);
	memset(items->file + items->size, 0, 8 * (size_t)count);
	items->size += 8 * (size_t)count;
	return table;
}

static inline void arrow_field(
	struct items *items, size_t table, unsigned field, uint64_t value, unsigned bytes)
{
	memcpy(items->file + table + ARROW_TABLE + 8 * (size_t)field, &value, bytes);
}

/* Makes a field lead to what comes next. */
static inline void arrow_link(struct items *items, size_t table, unsigned field)
{
	const size_t at = table + ARROW_TABLE + 8 * (size_t)field;
	items_u32(items, at, (uint32_t)(items->size - at));
}

/* The same for a table, which comes after its vtable. */
static inline size_t arrow_below(
	struct items *items, size_t table, unsigned field, unsigned count, unsigned mask)
{
	const size_t at = table + ARROW_TABLE + 8 * (size_t)field;
	const size_t below = arrow_table(items, count, mask);
	items_u32(items, at, (uint32_t)(below - at));
	return below;
}

/* One field; returns its table. `inside`: how many fields it has, to which the caller leads from
 * *ret_inside on. */
static inline size_t arrow_column(struct items *items, size_t link, const char *name, unsigned type,
	uint64_t first, uint64_t second, unsigned inside, size_t *ret_inside)
{
	const size_t table = arrow_table(items, 6, inside ? 0x2d : 0x0d);
	items_u32(items, link, (uint32_t)(table - link));
	arrow_field(items, table, 2, type, 1);
	arrow_link(items, table, 0);
	arrow_put(items, strlen(name), 4);
	memcpy(items->file + items->size, name, strlen(name) + 1);
	items->size += strlen(name) + 1;
	const size_t of = arrow_below(items, table, 3, 2, 3);
	arrow_field(items, of, 0, first, 4);
	arrow_field(items, of, 1, second, 4);
	if (inside) {
		arrow_align(items, 4);
		arrow_link(items, table, 5);
		arrow_put(items, inside, 4);
		*ret_inside = items->size;
		memset(items->file + items->size, 0, 4 * (size_t)inside);
		items->size += 4 * (size_t)inside;
	}
	return table;
}

/* The head of a message; returns the place of the size. */
static inline size_t arrow_message(struct items *items, unsigned kind, size_t *ret_table)
{
	arrow_put(items, UINT32_MAX, 4);
	const size_t size = items->size;
	arrow_put(items, 0, 4);
	const size_t root = items->size;
	arrow_put(items, 0, 4);
	*ret_table = arrow_table(items, 4, 0x0f);
	items_u32(items, root, (uint32_t)(*ret_table - root));
	arrow_field(items, *ret_table, 0, 4, 2);
	arrow_field(items, *ret_table, 1, kind, 1);
	return size;
}

static inline void arrow_message_end(struct items *items, size_t size)
{
	while ((items->size - size - 4) % 8 != 0)
		items->file[items->size++] = 0;
	items_u32(items, size, (uint32_t)(items->size - size - 4));
}

static inline void arrow_schema(struct items *items, const struct arrow_layout *layout)
{
	static const uint8_t types[ARROW_LABELS][3] = {
		{2, 64, 1}, {2, 32, 1}, {2, 8, 0}, {6, 0, 0}, {3, 2, 0}};
	const uint8_t *label = types[layout->label];
	const unsigned count = 2U + layout->note + layout->list;
	size_t table, inside = 0, below = 0;
	const size_t size = arrow_message(items, 1, &table);
	const size_t schema = arrow_below(items, table, 2, 2, 2);
	arrow_link(items, schema, 1);
	arrow_put(items, count, 4);
	const size_t links = items->size;
	memset(items->file + items->size, 0, 4 * (size_t)count);
	items->size += 4 * (size_t)count;
	const size_t label_link = links + (layout->label_first ? 0 : 4);
	const size_t image_link = links + (layout->label_first ? 4 : 0);
	arrow_column(items, label_link, "label", label[0], label[1], label[2], 0, NULL);
	if (layout->nested)
		arrow_column(items, image_link, "image", 13, 0, 0, 1, &inside);
	arrow_column(items, layout->nested ? inside : image_link,
		layout->nested ? "bytes" : "image", layout->wide ? 19 : 4, 0, 0, 0, NULL);
	if (layout->note)
		arrow_column(items, links + 8, "note", 5, 0, 0, 0, NULL);
	if (layout->list) {
		arrow_column(
			items, links + 8 + 4 * (size_t)layout->note, "list", 12, 0, 0, 1, &below);
		arrow_column(items, below, "item", 2, 16, 1, 0, NULL);
	}
	arrow_message_end(items, size);
}

/* One batch that is being made. */
struct arrow_batch {
	const struct arrow_layout *layout;
	size_t nodes, buffers, body; /* the next node and buffer; where the body begins */
};

/* Puts a buffer, compressed by a Zstandard frame with one block that is stored as it is, if the
 * batch is; or marked as not compressed. Returns where its bytes are, or the frame. */
static inline size_t arrow_buffer(
	struct items *items, struct arrow_batch *batch, const void *bytes, size_t size)
{
	const bool packed = batch->layout->packed && size;
	const bool frame = packed && recipe_byte(&items->recipe) % 2;
	arrow_align(items, 8);
	while ((items->size - batch->body) % 8 != 0)
		items->file[items->size++] = 0;
	const size_t begin = items->size;
	if (packed)
		arrow_put(items, frame ? size : UINT64_MAX, 8);
	const size_t at = items->size;
	if (frame) {
		arrow_put(items, 0xfd2fb528, 4);
		arrow_put(items, 0xa0, 1);
		arrow_put(items, size, 4);
		arrow_put(items, size << 3 | 1, 3);
	}
	memcpy(items->file + items->size, bytes, size);
	items->size += size;
	const uint64_t place[] = {begin - batch->body, items->size - begin};
	memcpy(items->file + batch->buffers, place, sizeof place);
	batch->buffers += sizeof place;
	return packed && !frame ? at | (size_t)1 << 40 : at | (size_t)frame << 41;
}

static inline void arrow_node(
	struct items *items, struct arrow_batch *batch, uint64_t rows, uint64_t nulls)
{
	const uint64_t node[] = {rows, nulls};
	memcpy(items->file + batch->nodes, node, sizeof node);
	batch->nodes += sizeof node;
}

static inline void arrow_labels(struct items *items, struct arrow_batch *batch, uint32_t rows)
{
	static const uint8_t bytes[ARROW_LABELS] = {8, 4, 1, 0, 8};
	const uint8_t each = bytes[batch->layout->label];
	uint8_t values[ITEMS * 8] = {0};
	for (uint32_t i = 0; i < rows; i++) {
		struct shard_place *sample = &items->sample[items->count - rows + i];
		const uint64_t label = each == 8   ? recipe_number(&items->recipe, 2)
				       : each == 4 ? recipe_number(&items->recipe, 2)
				       : each == 1 ? recipe_byte(&items->recipe)
						   : recipe_byte(&items->recipe) & 1;
		const double number = (double)label;
		sample->label = (int64_t)label;
		if (!each)
			values[i / 8] |= (uint8_t)(label << i % 8);
		else if (batch->layout->label == 4)
			memcpy(values + (size_t)i * 8, &number, 8);
		else
			memcpy(values + (size_t)i * each, &label, each);
	}
	arrow_node(items, batch, rows, 0);
	arrow_buffer(items, batch, "", 0);
	arrow_buffer(items, batch, values, each ? (size_t)rows * each : (rows + 7) / 8);
}

/* Values of `most` bytes at most, which are images if they are samples. */
static inline void arrow_values(
	struct items *items, struct arrow_batch *batch, uint32_t rows, bool samples, bool wide)
{
	static uint8_t values[ITEMS * ITEM_IMAGE];
	uint64_t offsets[ITEMS + 1] = {0};
	uint32_t narrow[ITEMS + 1] = {0};
	memset(values, 0x5a, sizeof values);
	for (uint32_t i = 0; i < rows; i++) {
		const uint32_t size = (samples ? 3 : 0) + recipe_byte(&items->recipe) % 90;
		if (samples)
			memcpy(values + offsets[i], "\xff\xd8\xff", 3);
		offsets[i + 1] = offsets[i] + size;
		narrow[i + 1] = (uint32_t)offsets[i + 1];
	}
	/* Which rows have no note. */
	const uint64_t valid = recipe_byte(&items->recipe);
	const bool nulls = !samples && valid % 2;
	arrow_node(items, batch, rows, nulls);
	arrow_buffer(items, batch, &valid, nulls ? (rows + 7) / 8 : 0);
	arrow_buffer(items, batch, wide ? (void *)offsets : (void *)narrow,
		(wide ? 8 : 4) * (size_t)(rows + 1));
	const size_t at = arrow_buffer(items, batch, values, offsets[rows]);
	for (uint32_t i = 0; samples && i < rows; i++) {
		struct shard_place *sample = &items->sample[items->count - rows + i];
		sample->offset = (at & UINT32_MAX) + (at >> 41 ? 0 : offsets[i]);
		sample->size = (uint32_t)(offsets[i + 1] - offsets[i]);
	}
}

static inline void arrow_images(struct items *items, struct arrow_batch *batch, uint32_t rows)
{
	if (batch->layout->nested) {
		arrow_node(items, batch, rows, 0);
		arrow_buffer(items, batch, "", 0);
	}
	arrow_values(items, batch, rows, true, batch->layout->wide);
}

static inline void arrow_batch(
	struct items *items, const struct arrow_layout *layout, uint32_t rows)
{
	struct arrow_batch batch = {.layout = layout};
	const uint32_t nodes = 2U + layout->nested + layout->note + 2U * layout->list;
	const uint32_t buffers = 5U + layout->nested + 3U * layout->note + 4U * layout->list;
	size_t table;
	const size_t size = arrow_message(items, 3, &table);
	const size_t head = arrow_below(items, table, 2, 4, layout->packed ? 0x0f : 0x07);
	arrow_field(items, head, 0, rows, 8);
	if (layout->packed) {
		const size_t compression = arrow_below(items, head, 3, 2, 3);
		arrow_field(items, compression, 0, 1, 1);
	}
	for (unsigned i = 1; i < 3; i++) {
		arrow_align(items, 8);
		arrow_put(items, 0, 4);
		arrow_link(items, head, i);
		arrow_put(items, i == 1 ? nodes : buffers, 4);
		*(i == 1 ? &batch.nodes : &batch.buffers) = items->size;
		memset(items->file + items->size, 0, 16 * (size_t)(i == 1 ? nodes : buffers));
		items->size += 16 * (size_t)(i == 1 ? nodes : buffers);
	}
	arrow_message_end(items, size);
	batch.body = items->size;
	if (layout->label_first)
		arrow_labels(items, &batch, rows);
	arrow_images(items, &batch, rows);
	if (!layout->label_first)
		arrow_labels(items, &batch, rows);
	if (layout->note)
		arrow_values(items, &batch, rows, false, false);
	if (layout->list) {
		arrow_node(items, &batch, rows, 0);
		arrow_buffer(items, &batch, "", 0);
		uint32_t offsets[ITEMS + 1];
		for (uint32_t i = 0; i <= rows; i++)
			offsets[i] = 2 * i;
		arrow_buffer(items, &batch, offsets, 4 * (size_t)(rows + 1));
		arrow_node(items, &batch, 2 * (uint64_t)rows, 0);
		arrow_buffer(items, &batch, "", 0);
		static const uint16_t numbers[2 * ITEMS] = {7, 8, 9};
		arrow_buffer(items, &batch, numbers, 4 * (size_t)rows);
	}
	while ((items->size - batch.body) % 8 != 0)
		items->file[items->size++] = 0;
	arrow_field(items, table, 3, items->size - batch.body, 8);
}

/* Makes a whole chunk. */
static inline void arrow_make(struct items *items, const struct arrow_layout *layout)
{
	/* The table of offsets and the messages are aligned by an odd number of rows. */
	const uint32_t count = 1 + recipe_byte(&items->recipe) % (ITEMS - 1);
	items->count = 0;
	items->size = 8 + 4 * (size_t)count;
	for (uint32_t i = 0; i <= count; i++)
		items_u32(items, 4 + 4 * (size_t)i, (uint32_t)items->size);
	items_u32(items, 0, count);
	arrow_align(items, 8);
	const size_t begin = items->size;
	if (!layout->stream) {
		memcpy(items->file + items->size, "ARROW1\0", 8);
		items->size += 8;
	}
	arrow_schema(items, layout);
	while (items->count < count) {
		const uint32_t left = count - items->count;
		const uint32_t most = 9U + recipe_byte(&items->recipe) % 32;
		const uint32_t rows = UTIL_MIN(left, most);
		items->count += rows;
		arrow_batch(items, layout, rows);
	}
	arrow_put(items, 0xffffffff, 8);
	if (!layout->stream) {
		memcpy(items->file + items->size, "\0\0\0\0ARROW1", 10);
		items->size += 10;
	}
	arrow_put(items, items->size - begin, 4);
	memcpy(items->file + items->size, "LDARW01", 8);
	items->size += 8;
}

/* Changes bytes and numbers of the messages, or cuts what the last 12 bytes follow. */
static inline void arrow_damage(struct items *items)
{
	static const uint32_t lies[] = {
		0, 1, 4, 8, 0x7fffffff, 0xffffffff, 0xfffffffc, 0xfffffff0, 0x80000000};
	for (int left = 1 + recipe_byte(&items->faults) % 3; left; left--) {
		const uint8_t how = recipe_byte(&items->faults);
		size_t at = recipe_number(&items->faults, 2);
		items->damaged = true;
		if (how < 64) {
			items->file[at % items->size] ^=
				(uint8_t)(1 + recipe_byte(&items->faults) % 255);
		} else if (how < 160) {
			at = at * 4 % (items->size - 8);
			items_u32(items, at, lies[how % UTIL_COUNT(lies)]);
		} else if (how < 220) {
			at = at * 2 % (items->size - 8);
			memcpy(items->file + at, &(uint16_t){recipe_byte(&items->faults)}, 2);
		} else if (items->size > 64) {
			at = 20 + at % (items->size - 40);
			uint8_t end[12];
			memcpy(end, items->file + items->size - 12, 12);
			memcpy(items->file + at, end, 12);
			items->size = at + 12;
		}
	}
}
