/* opened_tail: what is written is read again, and everything else that a peer may send is
 * refused. */
#include "proto/opened_tail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct opened_tail made(uint32_t groups, uint32_t fields, uint32_t cuts)
{
	struct opened_tail tail = {.groups = groups, .fields = fields, .cuts = cuts};
	for (uint32_t i = 0; i < groups; i++)
		tail.group[i] = (struct wire_group){.views = i + 1, .height = 7, .width = 9};
	for (uint32_t i = 0; i < fields; i++)
		tail.field[i] =
			(struct wire_field){.max_bytes = 100 + i, .name = {(char)('a' + i)}};
	for (uint32_t i = 0; i < cuts; i++)
		tail.cut[i] = (struct wire_cut){.position = i * 10, .global = 5};
	return tail;
}

/* Reads exactly these bytes, with none after them. */
static bool reads(const uint8_t *bytes, size_t size, struct opened_tail *ret)
{
	uint8_t *exact = malloc(size ? size : 1);
	assert_non_null(exact);
	memcpy(exact, bytes, size);
	bool good = opened_tail_read(exact, size, ret);
	free(exact);
	return good;
}

static void test_same(void **state)
{
	static const uint32_t counts[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 3, 4},
		{SLOTS_GROUPS_MAX, SLOTS_FIELDS_MAX, WIRE_CUTS_MAX}};
	uint8_t bytes[OPENED_TAIL_BYTES];
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct opened_tail tail = made(counts[i][0], counts[i][1], counts[i][2]), again;
		size_t size = opened_tail_write(&tail, bytes);
		assert_true(size > 0 && size <= OPENED_TAIL_BYTES);
		assert_true(reads(bytes, size, &again));
		assert_memory_equal(&tail, &again, sizeof tail);
		for (size_t cut = 1; cut < size; cut++)
			assert_false(reads(bytes, cut, &again));
	}
}

static void test_nothing(void **state)
{
	struct opened_tail tail = made(0, 0, 0), again = made(1, 1, 1);
	uint8_t bytes[OPENED_TAIL_BYTES] = {0};
	assert_int_equal(opened_tail_write(&tail, bytes), 0);
	assert_true(reads(bytes, 0, &again));
	assert_memory_equal(&tail, &again, sizeof tail);
	/* A tail that counts nothing must not be sent. */
	assert_false(reads(bytes, sizeof(struct wire_opened_tail), &again));
}

static void test_refused(void **state)
{
	struct opened_tail tail = made(1, 1, 1), again;
	uint8_t bytes[OPENED_TAIL_BYTES + 1] = {0}, wrong[OPENED_TAIL_BYTES + 1];
	size_t size = opened_tail_write(&tail, bytes);
	assert_false(reads(bytes, size + 1, &again));
	const size_t field = sizeof(struct wire_opened_tail) + sizeof(struct wire_group);
	const struct {
		size_t at;
		uint64_t value;
		size_t bytes;
	} changes[] = {
		{offsetof(struct wire_opened_tail, groups), SLOTS_GROUPS_MAX + 1, 4},
		{offsetof(struct wire_opened_tail, fields), SLOTS_FIELDS_MAX + 1, 4},
		{offsetof(struct wire_opened_tail, fields), UINT32_MAX, 4},
		{offsetof(struct wire_opened_tail, cuts), WIRE_CUTS_MAX + 1, 4},
		{offsetof(struct wire_opened_tail, cuts), 0, 4},
		{field + offsetof(struct wire_field, max_bytes), 0, 8},
		{field + offsetof(struct wire_field, max_bytes), UINT64_C(1) << 32, 8},
		{field + offsetof(struct wire_field, name), 0, 1},
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		memcpy(wrong, bytes, size);
		memcpy(wrong + changes[i].at, &changes[i].value, changes[i].bytes);
		assert_false(reads(wrong, size, &again));
	}
	const size_t names[] = {sizeof(struct wire_opened_tail) + offsetof(struct wire_group, name),
		field + offsetof(struct wire_field, name)};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		memcpy(wrong, bytes, size);
		memset(wrong + names[i], 'x', WIRE_NAME);
		assert_false(reads(wrong, size, &again));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
