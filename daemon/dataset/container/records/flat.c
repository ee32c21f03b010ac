/* flat: see flat.h. */
#include "dataset/container/records/flat.h"

#include "dataset/container/records/records.h"

enum { VTABLE_HEAD = 4 };

/* Whether `size` bytes at `at` are in the buffer and aligned. */
static bool within(struct flat *flat, uint64_t at, uint64_t size, uint32_t align)
{
	flat->bad |= at > flat->size || size > flat->size - at || at % align != 0;
	return !flat->bad;
}

static uint64_t number_at(const struct flat *flat, uint32_t at, uint32_t size)
{
	uint64_t value = 0;
	for (uint32_t i = 0; i < size; i++)
		value |= (uint64_t)flat->bytes[at + i] << 8 * i;
	return value;
}

/* Follows the distance that is stored at `from`. */
static uint32_t follow(struct flat *flat, uint64_t from)
{
	if (!within(flat, from, 4, 4))
		return 0;
	const uint64_t to = from + number_at(flat, (uint32_t)from, 4);
	/* A distance that leads nowhere, or back: it is signed nowhere but to a vtable. */
	flat->bad |= to - from < 4;
	return within(flat, to, 4, 4) ? (uint32_t)to : 0;
}

static struct flat_table table_at(struct flat *flat, uint32_t at)
{
	struct flat_table table = {.at = at};
	if (!within(flat, at, 4, 4))
		return table;
	const int64_t vtable = (int64_t)at - (int32_t)(uint32_t)number_at(flat, at, 4);
	flat->bad |= vtable < 0;
	if (!within(flat, (uint64_t)vtable, VTABLE_HEAD, 2))
		return table;
	table.vtable = (uint32_t)vtable;
	table.vtable_size = (uint16_t)number_at(flat, table.vtable, 2);
	table.size = (uint16_t)number_at(flat, table.vtable + 2, 2);
	flat->bad |= table.vtable_size < VTABLE_HEAD || table.vtable_size % 2 || table.size < 4;
	if (!within(flat, table.vtable, table.vtable_size, 2) || !within(flat, at, table.size, 4))
		table.vtable_size = 0;
	return table;
}

/* The place of a field, or 0. */
static uint32_t field_at(
	struct flat *flat, const struct flat_table *table, unsigned field, uint32_t size)
{
	const uint32_t slot = VTABLE_HEAD + 2 * field;
	if (flat->bad || slot + 2 > table->vtable_size)
		return 0;
	const uint32_t in = (uint32_t)number_at(flat, table->vtable + slot, 2);
	if (!in)
		return 0;
	flat->bad |= in < 4 || in + size > table->size;
	return within(flat, (uint64_t)table->at + in, size, size) ? table->at + in : 0;
}

struct flat_table flat_root(struct flat *flat)
{
	const uint32_t at = follow(flat, 0);
	return flat->bad ? (struct flat_table){0} : table_at(flat, at);
}

uint64_t flat_number(struct flat *flat, const struct flat_table *table, unsigned field,
	uint32_t size, uint64_t none)
{
	const uint32_t at = field_at(flat, table, field, size);
	return at ? number_at(flat, at, size) : none;
}

bool flat_child(
	struct flat *flat, const struct flat_table *table, unsigned field, struct flat_table *ret)
{
	const uint32_t at = field_at(flat, table, field, 4);
	const uint32_t to = at ? follow(flat, at) : 0;
	*ret = to ? table_at(flat, to) : (struct flat_table){0};
	return to && !flat->bad;
}

struct flat_vector flat_vector(
	struct flat *flat, const struct flat_table *table, unsigned field, uint32_t each)
{
	const uint32_t from = field_at(flat, table, field, 4);
	const uint32_t at = from ? follow(flat, from) : 0;
	const uint64_t count = at ? number_at(flat, at, 4) : 0;
	const uint32_t align = each > 8 ? 8 : each;
	if (!count || !within(flat, (uint64_t)at + 4, count * each, align))
		return (struct flat_vector){0};
	return (struct flat_vector){at + 4, (uint32_t)count};
}

struct flat_table flat_element(struct flat *flat, const struct flat_vector *vector, uint32_t index)
{
	const uint32_t at = follow(flat, (uint64_t)vector->at + 4 * (uint64_t)index);
	return flat->bad ? (struct flat_table){0} : table_at(flat, at);
}
