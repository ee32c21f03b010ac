/* parquet_make: Parquet files in memory, of every layout that penstock reads, with the values that
 * they must give, and with one lie where a test wants one. For tests.
 *
 * A row has an image (a structure {bytes, path} or binary), a label (int64; or a list of them), and
 * a caption, which every third row lacks. It is written column by column, page by page. */
#pragma once

#include "fuzz/number.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { MADE_ROOM = 256 << 10, MADE_VALUE = 64, MADE_DISTINCT = 4, MADE_ROWS = 64 };

/* Numbers that the file gets wrong. Each is written where its name says, at `lie_at`, the number of
 * times that it was written before. */
enum made_lie {
	LIE_NONE,
	LIE_FOOTER_SIZE,
	LIE_SCHEMA_COUNT,
	LIE_SCHEMA_CHILDREN,
	LIE_SCHEMA_TYPE,
	LIE_GROUPS,
	LIE_ROWS,
	LIE_GROUP_ROWS,
	LIE_CHUNK_TYPE,
	LIE_CHUNK_CODEC,
	LIE_CHUNK_VALUES,
	LIE_CHUNK_SIZE,
	LIE_CHUNK_OFFSET,
	LIE_PAGE_TYPE,
	LIE_PAGE_WHOLE,
	LIE_PAGE_STORED,
	LIE_PAGE_VALUES,
	LIE_PAGE_ENCODING,
	LIE_LEVELS_ENCODING,
	LIE_LEVELS_SIZE,
	LIE_LEVEL,
	LIE_VALUE_SIZE,
	LIE_INDEX_WIDTH,
	LIE_INDEX,
	LIE_LABEL,
	LIES,
};

struct made_plan {
	unsigned rows, group_rows, page_rows; /* at least 1 each; rows at most MADE_ROWS */
	uint8_t codec; /* of parquet.thrift: 0, 1 (Snappy) or 2 (gzip) */
	uint8_t version; /* of the data pages: 1 or 2 */
	bool dictionary, binary, list, skipped; /* skipped: with fields that readers pass over */
	enum made_lie lie;
	unsigned lie_at;
	int64_t lie_value;
	bool bomb; /* data pages unpack to one byte more than they say */
	uint8_t chunk; /* 1: column chunks are in another file; 8: they are encrypted; 0: neither */
	const char *image; /* the name of the column; NULL: "image" */
};

struct made {
	const struct made_plan *plan;
	unsigned lie_left;
	bool lied;
	size_t size;
	uint8_t bytes[MADE_ROOM];
};

/* Bytes that are put together before they are put into the file. */
struct made_part {
	size_t size;
	uint8_t bytes[32 << 10];
};

static inline int64_t made_told(struct made *made, enum made_lie what, int64_t honest)
{
	if (made->plan->lie != what || made->lied)
		return honest;
	if (made->lie_left) {
		made->lie_left--;
		return honest;
	}
	made->lied = true;
	return made->plan->lie_value;
}

/* ---- what the rows have ---- */

static inline uint32_t made_image(const struct made_plan *plan, unsigned row, uint8_t *bytes)
{
	const unsigned which = plan->dictionary ? row % MADE_DISTINCT : row;
	const uint32_t size = which * 7 % 40;
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(which * 31 + i / 4);
	return size;
}

static inline uint32_t made_path(const struct made_plan *plan, unsigned row, uint8_t *bytes)
{
	const unsigned which = plan->dictionary ? row % MADE_DISTINCT : row;
	return (uint32_t)snprintf((char *)bytes, MADE_VALUE, "d/%u.jpg", which);
}

static inline bool made_captioned(unsigned row)
{
	return row % 3 != 0;
}

static inline uint32_t made_caption(const struct made_plan *plan, unsigned row, uint8_t *bytes)
{
	const unsigned which = plan->dictionary ? row % MADE_DISTINCT : row;
	return (uint32_t)snprintf((char *)bytes, MADE_VALUE, "caption %u", which);
}

static inline unsigned made_label(unsigned row)
{
	return row % MADE_DISTINCT;
}

/* ---- bytes ---- */

static inline void part_put(struct made_part *part, const void *bytes, size_t size)
{
	if (size > sizeof part->bytes - part->size)
		size = sizeof part->bytes - part->size;
	memcpy(part->bytes + part->size, bytes, size);
	part->size += size;
}

static inline void part_byte(struct made_part *part, unsigned byte)
{
	const uint8_t one = (uint8_t)byte;
	part_put(part, &one, 1);
}

static inline void part_little(struct made_part *part, uint64_t value, unsigned bytes)
{
	uint8_t number[8];
	part_put(part, number, number_little(number, value, bytes));
}

static inline void part_varint(struct made_part *part, uint64_t value)
{
	uint8_t number[NUMBER_VARINT_MAX];
	part_put(part, number, number_varint(number, value));
}

static inline void part_zigzag(struct made_part *part, int64_t value)
{
	part_varint(part, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static inline void made_flush(struct made *made, const struct made_part *part)
{
	const size_t left = MADE_ROOM - made->size, size = part->size < left ? part->size : left;
	memcpy(made->bytes + made->size, part->bytes, size);
	made->size += size;
}

/* ---- Thrift's compact protocol ---- */

enum { T_TRUE = 1, T_FALSE = 2, T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };

/* The header of field `id` after field *last. */
static inline void t_field(struct made_part *part, int *last, int id, int type)
{
	if (id > *last && id - *last < 16) {
		part_byte(part, (unsigned)((id - *last) << 4 | type));
	} else {
		part_byte(part, (unsigned)type);
		part_zigzag(part, id);
	}
	*last = id;
}

static inline void t_number(struct made_part *part, int *last, int id, int type, int64_t value)
{
	t_field(part, last, id, type);
	part_zigzag(part, value);
}

static inline void t_text(struct made_part *part, int *last, int id, const char *text)
{
	t_field(part, last, id, T_BINARY);
	part_varint(part, strlen(text));
	part_put(part, text, strlen(text));
}

static inline void t_list(struct made_part *part, int *last, int id, int type, uint64_t count)
{
	t_field(part, last, id, T_LIST);
	if (count < 15) {
		part_byte(part, (unsigned)(count << 4 | (unsigned)type));
	} else {
		part_byte(part, 0xf0u | (unsigned)type);
		part_varint(part, count);
	}
}

/* Fields that no reader knows: a map, a list of lists, a structure, a double, a set, a number. */
static inline void t_unknown(struct made_part *part, int *last)
{
	static const uint8_t map[] = {2, 0x85, 1, 'a', 2, 1, 'b', 4},
			     lists[] = {0x29, 0x15, 2, 0x15, 4};
	static const uint8_t fields[] = {0x15, 2, 0x11, 0x1c, 0, 0}, one[8] = {0},
			     set[] = {0x31, 1, 2, 1};
	t_field(part, last, 100, 11);
	part_put(part, map, sizeof map);
	t_field(part, last, 101, T_LIST);
	part_put(part, lists, sizeof lists);
	t_field(part, last, 102, T_STRUCT);
	part_put(part, fields, sizeof fields);
	t_field(part, last, 103, 7);
	part_put(part, one, sizeof one);
	t_field(part, last, 104, 10);
	part_put(part, set, sizeof set);
	t_number(part, last, 105, 4, -7);
}

/* ---- columns ---- */

enum { MADE_BYTES, MADE_PATH, MADE_LABEL, MADE_CAPTION, MADE_COLUMNS };
enum { MADE_INT64 = 2, MADE_BINARY = 6 };

static inline bool made_has(const struct made_plan *plan, int column)
{
	return column != MADE_PATH || !plan->binary;
}

/* The highest definition level. */
static inline unsigned made_definition(const struct made_plan *plan, int column)
{
	if (column == MADE_LABEL)
		return plan->list ? 3 : 0;
	return column == MADE_CAPTION ? 1 : plan->binary ? 0 : 2;
}

static inline void made_value(struct made *made, struct made_part *part, int column, unsigned row)
{
	uint8_t bytes[MADE_VALUE];
	uint32_t size = 0;
	if (column == MADE_LABEL) {
		part_little(part, (uint64_t)made_told(made, LIE_LABEL, made_label(row)), 8);
		return;
	}
	if (column == MADE_BYTES)
		size = made_image(made->plan, row, bytes);
	else if (column == MADE_PATH)
		size = made_path(made->plan, row, bytes);
	else
		size = made_caption(made->plan, row, bytes);
	part_little(part, (uint64_t)made_told(made, LIE_VALUE_SIZE, size), 4);
	part_put(part, bytes, size);
}

/* The entries of the rows from `from` on: a label that is a list has two, but that of every third
 * row is empty. */
static inline unsigned made_entries(const struct made_plan *plan, int column, unsigned row)
{
	return column == MADE_LABEL && plan->list && row % 3 ? 2 : 1;
}

static inline bool made_present(const struct made_plan *plan, int column, unsigned row)
{
	return column == MADE_CAPTION               ? made_captioned(row)
	       : column == MADE_LABEL && plan->list ? row % 3 != 0
						    : true;
}

/* Levels as one run for each entry. */
static inline void made_levels(struct made *made, struct made_part *part, int column, bool repeated,
	unsigned from, unsigned to)
{
	const unsigned most = made_definition(made->plan, column);
	for (unsigned row = from; row < to; row++) {
		for (unsigned k = 0; k < made_entries(made->plan, column, row); k++) {
			const bool present = made_present(made->plan, column, row);
			const unsigned absent = column == MADE_LABEL ? 1 : 0;
			const unsigned level = repeated ? k != 0 : present ? most : absent;
			part_varint(part, 2);
			part_byte(part, (unsigned)made_told(made, LIE_LEVEL, level));
		}
	}
}

/* Dictionary indexes: bit-packed, in groups of eight. */
static inline void made_indexes(
	struct made *made, struct made_part *part, const unsigned *index, unsigned count)
{
	const unsigned groups = (count + 7) / 8;
	part_byte(part, (unsigned)made_told(made, LIE_INDEX_WIDTH, 2));
	if (!count)
		return;
	part_varint(part, groups << 1 | 1);
	for (unsigned i = 0; i < groups * 8; i += 4) {
		unsigned byte = 0;
		for (unsigned k = 0; k < 4 && i + k < count; k++)
			byte |= (index[i + k] & 3) << 2 * k;
		part_byte(part, (unsigned)made_told(made, LIE_INDEX, byte));
	}
}

static inline void made_values(
	struct made *made, struct made_part *part, int column, unsigned from, unsigned to)
{
	unsigned index[2 * MADE_ROWS], count = 0;
	for (unsigned row = from; row < to; row++) {
		const unsigned entries = made_entries(made->plan, column, row);
		for (unsigned k = 0; made_present(made->plan, column, row) && k < entries; k++) {
			index[count++] = (row + k) % MADE_DISTINCT;
			if (!made->plan->dictionary)
				made_value(made, part, column,
					column == MADE_LABEL ? (row + k) % MADE_DISTINCT : row);
		}
	}
	if (made->plan->dictionary)
		made_indexes(made, part, index, count);
}

/* ---- pages ---- */

static inline void made_pack(struct made_part *to, const uint8_t *bytes, size_t size, uint8_t codec)
{
	if (codec == 1) {
		/* One literal for each 60 bytes. */
		part_varint(to, size);
		for (size_t at = 0; at < size; at += 60) {
			const size_t n = size - at < 60 ? size - at : 60;
			part_byte(to, (unsigned)(n - 1) << 2);
			part_put(to, bytes + at, n);
		}
	} else if (codec == 2) {
		z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
			.avail_in = (uInt)size,
			.next_out = to->bytes + to->size,
			.avail_out = (uInt)(sizeof to->bytes - to->size)};
		(void)deflateInit2(&z, 1, Z_DEFLATED, 31, 1, Z_DEFAULT_STRATEGY);
		(void)deflate(&z, Z_FINISH);
		to->size += z.total_out;
		(void)deflateEnd(&z);
	} else {
		part_put(to, bytes, size);
	}
}

static inline void made_header(struct made *made, int type, size_t whole, size_t stored,
	unsigned values, int encoding, const size_t levels[2])
{
	static const int fields[] = {5, 6, 7, 8};
	struct made_part part = {.size = 0};
	int last = 0, inner = 0;
	t_number(&part, &last, 1, T_I32, made_told(made, LIE_PAGE_TYPE, type));
	t_number(&part, &last, 2, T_I32, made_told(made, LIE_PAGE_WHOLE, (int64_t)whole));
	t_number(&part, &last, 3, T_I32, made_told(made, LIE_PAGE_STORED, (int64_t)stored));
	t_field(&part, &last, fields[type], T_STRUCT);
	t_number(&part, &inner, 1, T_I32, made_told(made, LIE_PAGE_VALUES, values));
	if (type == 3) {
		t_number(&part, &inner, 2, T_I32, 0);
		t_number(&part, &inner, 3, T_I32, values);
		t_number(&part, &inner, 4, T_I32, made_told(made, LIE_PAGE_ENCODING, encoding));
		t_number(&part, &inner, 5, T_I32,
			made_told(made, LIE_LEVELS_SIZE, (int64_t)levels[1]));
		t_number(&part, &inner, 6, T_I32, (int64_t)levels[0]);
	} else {
		t_number(&part, &inner, 2, T_I32, made_told(made, LIE_PAGE_ENCODING, encoding));
	}
	if (type == 0) {
		t_number(&part, &inner, 3, T_I32, made_told(made, LIE_LEVELS_ENCODING, 3));
		t_number(&part, &inner, 4, T_I32, 3);
	}
	if (made->plan->skipped)
		t_unknown(&part, &inner);
	part_byte(&part, 0);
	if (made->plan->skipped)
		t_unknown(&part, &last);
	part_byte(&part, 0);
	made_flush(made, &part);
}

static inline void made_page(struct made *made, int column, unsigned from, unsigned to)
{
	struct made_part levels[2] = {{.size = 0}, {.size = 0}}, plain = {.size = 0};
	struct made_part stored = {.size = 0};
	const struct made_plan *plan = made->plan;
	const bool second = plan->version == 2;
	unsigned entries = 0;
	for (unsigned row = from; row < to; row++)
		entries += made_entries(plan, column, row);
	if (column == MADE_LABEL && plan->list)
		made_levels(made, &levels[0], column, true, from, to);
	if (made_definition(plan, column))
		made_levels(made, &levels[1], column, false, from, to);
	for (int i = 0; i < 2; i++) {
		if (!second && levels[i].size)
			part_little(&plain,
				(uint64_t)made_told(made, LIE_LEVELS_SIZE, (int64_t)levels[i].size),
				4);
		part_put(second ? &stored : &plain, levels[i].bytes, levels[i].size);
	}
	const size_t apart = stored.size;
	made_values(made, &plain, column, from, to);
	const size_t whole = apart + plain.size;
	if (plan->bomb)
		part_byte(&plain, 0);
	made_pack(&stored, plain.bytes, plain.size, plan->codec);
	made_header(made, second ? 3 : 0, whole, stored.size, entries, plan->dictionary ? 8 : 0,
		(const size_t[2]){levels[0].size, levels[1].size});
	made_flush(made, &stored);
}

static inline void made_dictionary(struct made *made, int column)
{
	struct made_part plain = {.size = 0}, stored = {.size = 0};
	for (unsigned i = 0; i < MADE_DISTINCT; i++)
		made_value(made, &plain, column, i);
	made_pack(&stored, plain.bytes, plain.size, made->plan->codec);
	made_header(made, 2, plain.size, stored.size, MADE_DISTINCT, 0, NULL);
	made_flush(made, &stored);
}

/* ---- the file ---- */

static inline void made_element(struct made *made, struct made_part *part, const char *name,
	int type, int repetition, unsigned children, int converted)
{
	int last = 0;
	if (type >= 0)
		t_number(part, &last, 1, T_I32, made_told(made, LIE_SCHEMA_TYPE, type));
	t_number(part, &last, 3, T_I32, repetition);
	t_text(part, &last, 4, name);
	if (children)
		t_number(part, &last, 5, T_I32, made_told(made, LIE_SCHEMA_CHILDREN, children));
	if (converted >= 0)
		t_number(part, &last, 6, T_I32, converted);
	if (made->plan->skipped)
		t_unknown(part, &last);
	part_byte(part, 0);
}

static inline void made_schema(struct made *made, struct made_part *part, int *last)
{
	const struct made_plan *plan = made->plan;
	const char *image = plan->image ? plan->image : "image";
	const unsigned count = 4 + (plan->binary ? 0 : 2) + (plan->list ? 2 : 0);
	t_list(part, last, 2, T_STRUCT, (uint64_t)made_told(made, LIE_SCHEMA_COUNT, count));
	made_element(made, part, "schema", -1, 0, 3, -1);
	made_element(made, part, image, plan->binary ? MADE_BINARY : -1, !plan->binary,
		plan->binary ? 0 : 2, -1);
	if (!plan->binary) {
		made_element(made, part, "bytes", MADE_BINARY, 1, 0, -1);
		made_element(made, part, "path", MADE_BINARY, 1, 0, 0);
	}
	if (plan->list) {
		made_element(made, part, "label", -1, 1, 1, 3);
		made_element(made, part, "list", -1, 2, 1, -1);
		made_element(made, part, "element", MADE_INT64, 1, 0, -1);
	} else {
		made_element(made, part, "label", MADE_INT64, 0, 0, -1);
	}
	made_element(made, part, "caption", MADE_BINARY, 1, 0, 0);
}

static inline void made_chunk(
	struct made *made, struct made_part *footer, int column, unsigned from, unsigned to)
{
	const uint64_t at = made->size;
	const int type = column == MADE_LABEL ? MADE_INT64 : MADE_BINARY;
	unsigned values = 0;
	int last = 0, inner = 0;
	if (made->plan->dictionary)
		made_dictionary(made, column);
	const uint64_t pages = made->size;
	for (unsigned row = from; row < to; row += made->plan->page_rows) {
		const unsigned end = row + made->plan->page_rows;
		made_page(made, column, row, end < to ? end : to);
	}
	for (unsigned row = from; row < to; row++)
		values += made_entries(made->plan, column, row);
	if (made->plan->chunk == 1)
		t_text(footer, &last, 1, "other.parquet");
	t_number(footer, &last, 2, T_I64, (int64_t)at);
	t_field(footer, &last, 3, T_STRUCT);
	t_number(footer, &inner, 1, T_I32, made_told(made, LIE_CHUNK_TYPE, type));
	t_number(footer, &inner, 4, T_I32, made_told(made, LIE_CHUNK_CODEC, made->plan->codec));
	t_number(footer, &inner, 5, T_I64, made_told(made, LIE_CHUNK_VALUES, values));
	t_number(footer, &inner, 7, T_I64,
		made_told(made, LIE_CHUNK_SIZE, (int64_t)(made->size - at)));
	t_number(footer, &inner, 9, T_I64, made_told(made, LIE_CHUNK_OFFSET, (int64_t)pages));
	if (made->plan->dictionary)
		t_number(footer, &inner, 11, T_I64, (int64_t)at);
	if (made->plan->skipped)
		t_unknown(footer, &inner);
	part_byte(footer, 0);
	if (made->plan->chunk == 8) {
		t_field(footer, &last, 8, T_STRUCT);
		part_byte(footer, 0);
	}
	part_byte(footer, 0);
}

static inline void made_group(
	struct made *made, struct made_part *footer, unsigned from, unsigned to)
{
	int last = 0;
	t_list(footer, &last, 1, T_STRUCT, made->plan->binary ? 3 : 4);
	for (int column = 0; column < MADE_COLUMNS; column++)
		if (made_has(made->plan, column))
			made_chunk(made, footer, column, from, to);
	t_number(footer, &last, 2, T_I64, 1000);
	t_number(footer, &last, 3, T_I64, made_told(made, LIE_GROUP_ROWS, to - from));
	part_byte(footer, 0);
}

/* Makes the file. Its names of classes are "a" to "d". */
static inline void made_file(struct made *made, const struct made_plan *plan)
{
	static struct made_part footer, groups;
	int last = 0, pair = 0;
	made->plan = plan;
	made->lie_left = plan->lie_at;
	made->lied = false;
	memcpy(made->bytes, "PAR1", 4);
	made->size = 4;
	footer.size = groups.size = 0;
	for (unsigned row = 0; row < plan->rows; row += plan->group_rows) {
		const unsigned end = row + plan->group_rows;
		made_group(made, &groups, row, end < plan->rows ? end : plan->rows);
	}
	const unsigned count = (plan->rows + plan->group_rows - 1) / plan->group_rows;
	t_number(&footer, &last, 1, T_I32, 2);
	made_schema(made, &footer, &last);
	t_number(&footer, &last, 3, T_I64, made_told(made, LIE_ROWS, plan->rows));
	t_list(&footer, &last, 4, T_STRUCT, (uint64_t)made_told(made, LIE_GROUPS, count));
	part_put(&footer, groups.bytes, groups.size);
	t_list(&footer, &last, 5, T_STRUCT, 1);
	t_text(&footer, &pair, 1, "huggingface");
	t_text(&footer, &pair, 2,
		"{\"info\": {\"features\": {\"label\": {\"names\": [\"a\", \"b\", \"c\", \"d\"], "
		"\"_type\": \"ClassLabel\"}}}}");
	part_byte(&footer, 0);
	if (plan->skipped)
		t_unknown(&footer, &last);
	part_byte(&footer, 0);
	const int64_t size = made_told(made, LIE_FOOTER_SIZE, (int64_t)footer.size);
	part_little(&footer, (uint64_t)size, 4);
	part_put(&footer, "PAR1", 4);
	made_flush(made, &footer);
}
