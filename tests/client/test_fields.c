/* Fields against a daemon that serves them, rightly or not: what of OPENED's tail, of a slot's
 * table and of its lengths the library refuses, and what a program gets that asks wrongly. */
#include "client/fake.h"
#include "penstock/penstock.h"
#include "proto/opened_tail.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 7, FIELD = 0, HELD = 2 };

/* A large image leaves the fields room at its end. */
static const struct fake_shape shape = {
	.batch_size = 4, .side = 32, .slots = 4, .batches = 3, .first_serial = 1};

/* What is wrong with the stream; the rest is right. */
struct wrong {
	const char *sentence; /* of the failure, at opening or at the first batch */
	void (*tail)(struct opened_tail *tail);
	void (*table)(struct slots_head *head, struct slots_field *field, uint64_t stride);
	uint32_t length; /* of the second sample; 0: as it should be */
	size_t cut; /* bytes that OPENED lacks at its end */
};

static struct opened_tail good_tail(void)
{
	struct opened_tail tail = {.fields = 1};
	tail.field[0].max_bytes = MAX;
	(void)strcpy(tail.field[0].name, "txt");
	return tail;
}

/* Puts table, data and lengths into the slot's images, which no test here looks at. */
static void put_fields(const struct fake_memory *memory, uint32_t slot, const struct wrong *wrong)
{
	struct slots_head *head = fake_slot(memory, slot);
	uint8_t *bytes = (uint8_t *)head;
	head->fields_offset = head->images_offset;
	struct slots_field *field = (struct slots_field *)(void *)(bytes + head->fields_offset);
	*field = (struct slots_field){.max_bytes = MAX,
		.data_offset = head->images_offset + 64,
		.lengths_offset = head->images_offset + 128};
	for (uint32_t i = 0; i < shape.batch_size; i++) {
		uint32_t length = i == 1 && wrong->length ? wrong->length : i;
		memcpy(bytes + field->lengths_offset + i * sizeof length, &length, sizeof length);
		memcpy(bytes + field->data_offset + (size_t)i * 8, "abcdefg", MAX);
	}
	if (wrong->table)
		wrong->table(head, field, memory->stride);
}

static void serve(int fd, const void *argument)
{
	const struct wrong *wrong = argument;
	fake_welcome_with(fd, WIRE_FEATURE_GROUPS | WIRE_FEATURE_FIELDS);
	const struct conn_message *message = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(message, &shape, 0);
	struct opened_tail tail = good_tail();
	uint8_t bytes[OPENED_TAIL_BYTES];
	if (wrong->tail)
		wrong->tail(&tail);
	size_t size = opened_tail_write(&tail, bytes);
	fake_send(fd, &opened.head, sizeof opened, bytes, size - wrong->cut, -1);
	struct fake_memory memory = fake_send_memory(fd, &shape);
	for (uint32_t i = 0; i < HELD; i++) {
		struct wire_batch batch = fake_fill(&shape, &memory, i, i);
		put_fields(&memory, i, wrong);
		fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
	}
	while (fake_receive(fd))
		continue;
}

static void expect_field(const struct penstock_stream *stream, const struct penstock_batch *batch,
	uint32_t field, uint32_t sample, int result, const char *sentence)
{
	const void *bytes = NULL;
	size_t size = 99;
	assert_int_equal(penstock_batch_field(stream, batch, field, sample, &bytes, &size), result);
	if (result < 0) {
		assert_null(bytes);
		assert_int_equal(size, 99);
		if (!strstr(penstock_error(), sentence))
			fail_msg("\"%s\" does not say \"%s\"", penstock_error(), sentence);
		return;
	}
	assert_int_equal(size, sample);
	assert_memory_equal(bytes, "abcdefg", size);
	assert_int_equal((uintptr_t)bytes % 8, 0);
}

static void test_good(void **state)
{
	(void)state;
	const struct wrong nothing = {.sentence = ""};
	struct fake fake;
	fake_start(&fake, serve, &nothing);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	struct penstock_field field;
	assert_int_equal(penstock_stream_fields(stream), 1);
	assert_int_equal(penstock_stream_field(stream, 0, &field), 0);
	assert_string_equal(field.name, "txt");
	assert_int_equal(field.max_bytes, MAX);
	assert_int_equal(penstock_stream_field(stream, 1, &field), -EINVAL);
	struct penstock_batch batch[HELD], other = {0};
	for (int i = 0; i < HELD; i++)
		assert_int_equal(penstock_stream_next(stream, &batch[i], 10000), 0);
	for (int i = 0; i < HELD; i++)
		for (uint32_t sample = 0; sample < shape.batch_size; sample++)
			expect_field(stream, &batch[i], FIELD, sample, 0, "");
	expect_field(stream, &batch[0], 1, 0, -EINVAL, "field 1 does not exist");
	expect_field(stream, &batch[0], UINT32_MAX, 0, -EINVAL, "does not exist");
	expect_field(
		stream, &batch[0], FIELD, shape.batch_size, -EINVAL, "sample 4 does not exist");
	expect_field(stream, &batch[0], FIELD, UINT32_MAX, -EINVAL, "does not exist");
	expect_field(stream, &other, FIELD, 0, -EINVAL, "not held");
	struct penstock_batch kept = batch[0];
	assert_int_equal(penstock_batch_release(stream, &batch[0]), 0);
	expect_field(stream, &batch[0], FIELD, 0, -EINVAL, "not held");
	expect_field(stream, &kept, FIELD, 0, -EINVAL, "not held");
	expect_field(stream, &batch[1], FIELD, 1, 0, "");
	fake_close(&fake, stream);
}

/* A stream without fields. */
static void test_none(void **state)
{
	(void)state;
	struct fake fake;
	fake_start(&fake, fake_serve_well, &shape);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	struct penstock_batch batch;
	assert_int_equal(penstock_stream_fields(stream), 0);
	assert_int_equal(penstock_stream_next(stream, &batch, 10000), 0);
	expect_field(stream, &batch, 0, 0, -EINVAL, "options.fields names them");
	fake_close(&fake, stream);
}

/* ---- a broken daemon ---- */

static void tail_many(struct opened_tail *tail)
{
	tail->groups = 1;
	tail->group[0] = (struct wire_group){.views = 1, .height = 32, .width = 32};
}

static void tail_cuts(struct opened_tail *tail)
{
	tail->cuts = 1;
	tail->cut[0] = (struct wire_cut){.position = 0, .global = 4};
}

static void tail_empty(struct opened_tail *tail)
{
	tail->field[0].max_bytes = 0;
}

static void tail_huge(struct opened_tail *tail)
{
	tail->field[0].max_bytes = UINT64_MAX;
}

static void tail_nameless(struct opened_tail *tail)
{
	tail->field[0].name[0] = 0;
}

static void tail_endless(struct opened_tail *tail)
{
	memset(tail->field[0].name, 'x', WIRE_NAME);
}

#define TABLE(name, change)                                                                   \
	static void name(struct slots_head *head, struct slots_field *field, uint64_t stride) \
	{                                                                                     \
		(void)head, (void)field, (void)stride;                                        \
		change;                                                                       \
	}

TABLE(table_none, head->fields_offset = 0)
TABLE(table_odd, head->fields_offset += 4)
TABLE(table_out, head->fields_offset = stride)
TABLE(table_far, head->fields_offset = UINT64_MAX - 63)
TABLE(table_larger, field->max_bytes++)
TABLE(data_in_head, field->data_offset = 64)
TABLE(data_odd, field->data_offset += 8)
TABLE(data_out, field->data_offset = stride)
TABLE(data_far, field->data_offset = UINT64_MAX - 63)
TABLE(lengths_odd, field->lengths_offset += 4)
TABLE(lengths_out, field->lengths_offset = stride)
TABLE(lengths_far, field->lengths_offset = UINT64_MAX - 63)

static void expect_broken(const struct wrong *wrong)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch;
	fake_start(&fake, serve, wrong);
	struct penstock_options options = fake_options(&fake);
	options.reconnect_ms = 0;
	int result = penstock_stream_open(&options, &stream);
	if (result == 0)
		result = penstock_stream_next(stream, &batch, 10000);
	assert_int_equal(result, -EPROTO);
	if (!strstr(penstock_error(), wrong->sentence))
		fail_msg("\"%s\" does not say \"%s\"", penstock_error(), wrong->sentence);
	penstock_stream_close(stream);
	(void)fake_stop(&fake);
}

static void test_broken(void **state)
{
	(void)state;
	static const struct wrong wrongs[] = {
		{.sentence = "malformed OPENED", .cut = 1},
		{.sentence = "malformed OPENED", .cut = sizeof(struct wire_field)},
		{.sentence = "malformed OPENED", .tail = tail_cuts},
		{.sentence = "malformed OPENED", .tail = tail_empty},
		{.sentence = "malformed OPENED", .tail = tail_huge},
		{.sentence = "malformed OPENED", .tail = tail_nameless},
		{.sentence = "malformed OPENED", .tail = tail_endless},
		{.sentence = "its shape is not that of the stream", .tail = tail_many},
		{.sentence = "lead out of the slot", .table = table_none},
		{.sentence = "lead out of the slot", .table = table_odd},
		{.sentence = "lead out of the slot", .table = table_out},
		{.sentence = "lead out of the slot", .table = table_far},
		{.sentence = "lead out of the slot", .table = table_larger},
		{.sentence = "lead out of the slot", .table = data_in_head},
		{.sentence = "lead out of the slot", .table = data_odd},
		{.sentence = "lead out of the slot", .table = data_out},
		{.sentence = "lead out of the slot", .table = data_far},
		{.sentence = "lead out of the slot", .table = lengths_odd},
		{.sentence = "lead out of the slot", .table = lengths_out},
		{.sentence = "lead out of the slot", .table = lengths_far},
	};
	for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
		expect_broken(&wrongs[i]);
}

/* A length that is impossible is noticed when it is used. */
static void test_length(void **state)
{
	(void)state;
	const uint32_t lengths[] = {MAX + 1, UINT32_MAX};
	for (int i = 0; i < 2; i++) {
		const struct wrong wrong = {.length = lengths[i]};
		struct fake fake;
		fake_start(&fake, serve, &wrong);
		struct penstock_options options = fake_options(&fake);
		struct penstock_stream *stream = fake_open_stream(&options);
		struct penstock_batch batch;
		assert_int_equal(penstock_stream_next(stream, &batch, 10000), 0);
		expect_field(stream, &batch, FIELD, 0, 0, "");
		expect_field(stream, &batch, FIELD, 1, -EPROTO, "beyond the 7 that it may have");
		expect_field(stream, &batch, FIELD, 2, 0, "");
		fake_close(&fake, stream);
	}
}

/* ---- a stream that is opened again, with other fields ---- */

/* One batch is an epoch, so that the stream may be opened again after it. */
static const struct fake_shape again = {
	.batch_size = 4, .side = 32, .slots = 4, .batches = 1, .first_serial = 1};

static void serve_more_later(int fd, const void *argument)
{
	static int connections;
	const struct wrong good = {.sentence = ""};
	(void)argument;
	fake_welcome_with(fd, WIRE_FEATURE_GROUPS | WIRE_FEATURE_FIELDS);
	const struct conn_message *message = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(message, &again, fake_resume(message, &again));
	struct opened_tail tail = good_tail();
	uint8_t bytes[OPENED_TAIL_BYTES];
	if (connections++) {
		tail.fields = 2;
		tail.field[1] = tail.field[0];
	}
	size_t size = opened_tail_write(&tail, bytes);
	fake_send(fd, &opened.head, sizeof opened, bytes, size, -1);
	struct fake_memory memory = fake_send_memory(fd, &again);
	struct wire_batch batch = fake_fill(&again, &memory, 3, 0);
	put_fields(&memory, 3, &good);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
	while (fake_receive(fd))
		continue;
}

/* The batch that is held is still read by its own layout. */
static void test_again(void **state)
{
	(void)state;
	struct fake fake;
	fake_start(&fake, serve_more_later, NULL);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	struct penstock_batch batch;
	assert_int_equal(penstock_stream_next(stream, &batch, 10000), 0);
	assert_true(batch.flags & PENSTOCK_LAST);
	assert_int_equal(penstock_stream_set_indices(stream, NULL), -ESTALE);
	if (!strstr(penstock_error(), "its fields differ"))
		fail_msg("\"%s\" does not say what differs", penstock_error());
	assert_int_equal(penstock_stream_fields(stream), 1);
	expect_field(stream, &batch, FIELD, 2, 0, "");
	expect_field(stream, &batch, 1, 2, -EINVAL, "field 1 does not exist");
	penstock_stream_close(stream);
	(void)fake_stop(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
