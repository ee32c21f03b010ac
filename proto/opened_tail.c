/* opened_tail: see opened_tail.h. */
#include "proto/opened_tail.h"

#include <string.h>

static size_t tail_bytes(uint32_t groups, uint32_t fields, uint32_t cuts)
{
	return sizeof(struct wire_opened_tail) + groups * sizeof(struct wire_group) +
	       fields * sizeof(struct wire_field) + cuts * sizeof(struct wire_cut);
}

/* Copies `size` bytes and returns what follows them in the message. */
static uint8_t *tail_put(uint8_t *at, const void *data, size_t size)
{
	memcpy(at, data, size);
	return at + size;
}

size_t opened_tail_write(const struct opened_tail *tail, uint8_t bytes[OPENED_TAIL_BYTES])
{
	const struct wire_opened_tail counts = {
		.groups = tail->groups, .fields = tail->fields, .cuts = tail->cuts};
	if (!tail->groups && !tail->fields && !tail->cuts)
		return 0;
	uint8_t *at = tail_put(bytes, &counts, sizeof counts);
	at = tail_put(at, tail->group, tail->groups * sizeof tail->group[0]);
	at = tail_put(at, tail->field, tail->fields * sizeof tail->field[0]);
	(void)tail_put(at, tail->cut, tail->cuts * sizeof tail->cut[0]);
	return tail_bytes(tail->groups, tail->fields, tail->cuts);
}

static bool tail_name_ends(const char name[WIRE_NAME])
{
	return memchr(name, 0, WIRE_NAME) != NULL;
}

static bool tail_is_sound(const struct opened_tail *tail)
{
	for (uint32_t i = 0; i < tail->groups; i++)
		if (!tail_name_ends(tail->group[i].name))
			return false;
	for (uint32_t i = 0; i < tail->fields; i++)
		if (!tail_name_ends(tail->field[i].name) || !tail->field[i].name[0] ||
			tail->field[i].max_bytes == 0 || tail->field[i].max_bytes > UINT32_MAX)
			return false;
	return true;
}

bool opened_tail_read(const uint8_t *bytes, size_t size, struct opened_tail *ret)
{
	struct opened_tail tail = {.groups = 0};
	struct wire_opened_tail counts;
	if (size == 0) {
		*ret = tail;
		return true;
	}
	if (size < sizeof counts)
		return false;
	memcpy(&counts, bytes, sizeof counts);
	if (counts.groups > SLOTS_GROUPS_MAX || counts.fields > SLOTS_FIELDS_MAX ||
		counts.cuts > WIRE_CUTS_MAX || !(counts.groups | counts.fields | counts.cuts) ||
		size != tail_bytes(counts.groups, counts.fields, counts.cuts))
		return false;
	tail.groups = counts.groups;
	tail.fields = counts.fields;
	tail.cuts = counts.cuts;
	const uint8_t *at = bytes + sizeof counts;
	memcpy(tail.group, at, tail.groups * sizeof tail.group[0]);
	at += tail.groups * sizeof tail.group[0];
	memcpy(tail.field, at, tail.fields * sizeof tail.field[0]);
	at += tail.fields * sizeof tail.field[0];
	memcpy(tail.cut, at, tail.cuts * sizeof tail.cut[0]);
	if (!tail_is_sound(&tail))
		return false;
	*ret = tail;
	return true;
}
