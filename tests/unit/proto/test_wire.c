/* wire, slots: the layouts, field by field. They are the contract with clients that were
 * compiled elsewhere and are not rebuilt with the daemon. A change of a layout needs a change of
 * this table and a new version. */
#include "proto/slots.h"
#include "proto/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct place {
	const char *name;
	size_t is, wanted;
};

#define AT(type, field, offset)                                        \
	{                                                              \
#type "." #field, offsetof(struct type, field), offset \
	}
#define SIZE(type, bytes)                         \
	{                                         \
#type, sizeof(struct type), bytes \
	}

static const struct place wire_places[] = {
	SIZE(wire_head, 16),
	AT(wire_head, type, 0),
	AT(wire_head, bytes, 4),
	AT(wire_head, request, 8),
	AT(wire_head, stream, 12),
	SIZE(wire_hello, 40),
	AT(wire_hello, magic, 16),
	AT(wire_hello, version_min, 24),
	AT(wire_hello, version_max, 28),
	AT(wire_hello, features, 32),
	SIZE(wire_welcome, 48),
	AT(wire_welcome, magic, 16),
	AT(wire_welcome, version, 24),
	AT(wire_welcome, pid, 28),
	AT(wire_welcome, features, 32),
	AT(wire_welcome, text_bytes, 40),
	SIZE(wire_open, 24),
	AT(wire_open, text_bytes, 16),
	SIZE(wire_opened, 160),
	AT(wire_opened, samples, 16),
	AT(wire_opened, epoch_samples, 24),
	AT(wire_opened, batches, 32),
	AT(wire_opened, fingerprint, 40),
	AT(wire_opened, order, 48),
	AT(wire_opened, transform, 56),
	AT(wire_opened, seed, 64),
	AT(wire_opened, epoch, 72),
	AT(wire_opened, batch, 80),
	AT(wire_opened, batch_size, 88),
	AT(wire_opened, height, 92),
	AT(wire_opened, width, 96),
	AT(wire_opened, channels, 100),
	AT(wire_opened, pixel_type, 104),
	AT(wire_opened, pixel_layout, 108),
	AT(wire_opened, label_type, 112),
	AT(wire_opened, label_width, 116),
	AT(wire_opened, rank, 120),
	AT(wire_opened, world_size, 124),
	AT(wire_opened, classes, 128),
	AT(wire_opened, shuffle, 132),
	AT(wire_opened, train, 136),
	AT(wire_opened, slots, 140),
	AT(wire_opened, position, 144),
	AT(wire_opened, views, 152),
	SIZE(wire_opened_tail, 16),
	AT(wire_opened_tail, fields, 4),
	AT(wire_opened_tail, cuts, 8),
	SIZE(wire_cut, 16),
	AT(wire_cut, global, 8),
	SIZE(wire_group, 80),
	AT(wire_group, height, 4),
	AT(wire_group, width, 8),
	AT(wire_group, name, 16),
	SIZE(wire_field, 80),
	AT(wire_field, name, 16),
	SIZE(wire_extent, 40),
	AT(wire_extent, extent, 16),
	AT(wire_extent, slot_count, 20),
	AT(wire_extent, slot_stride, 24),
	AT(wire_extent, bytes, 32),
	SIZE(wire_withdrawn, 24),
	AT(wire_withdrawn, extent, 16),
	SIZE(wire_batch, 64),
	AT(wire_batch, extent, 16),
	AT(wire_batch, slot, 20),
	AT(wire_batch, serial, 24),
	AT(wire_batch, epoch, 32),
	AT(wire_batch, batch, 40),
	AT(wire_batch, position, 48),
	AT(wire_batch, count, 56),
	AT(wire_batch, flags, 60),
	SIZE(wire_release, 32),
	AT(wire_release, extent, 16),
	AT(wire_release, slot, 20),
	AT(wire_release, serial, 24),
	SIZE(wire_close, 16),
	SIZE(wire_stop, 16),
	SIZE(wire_end, 32),
	AT(wire_end, epochs, 16),
	AT(wire_end, batches, 24),
	SIZE(wire_error, 24),
	AT(wire_error, code, 16),
	AT(wire_error, text_bytes, 20),
	SIZE(wire_query, 32),
	AT(wire_query, kind, 16),
	AT(wire_query, argument, 24),
	SIZE(wire_answer, 32),
	AT(wire_answer, total_bytes, 16),
	AT(wire_answer, text_bytes, 24),
};

static const struct place slots_places[] = {
	SIZE(slots_record, 64),
	AT(slots_record, index, 0),
	AT(slots_record, label, 8),
	AT(slots_record, crop_x, 16),
	AT(slots_record, crop_y, 20),
	AT(slots_record, crop_w, 24),
	AT(slots_record, crop_h, 28),
	AT(slots_record, src_w, 32),
	AT(slots_record, src_h, 36),
	AT(slots_record, flags, 40),
	AT(slots_record, view, 44),
	AT(slots_record, position, 48),
	SIZE(slots_head, 144),
	AT(slots_head, magic, 0),
	AT(slots_head, version, 8),
	AT(slots_head, head_bytes, 12),
	AT(slots_head, serial, 16),
	AT(slots_head, epoch, 24),
	AT(slots_head, batch, 32),
	AT(slots_head, position, 40),
	AT(slots_head, count, 48),
	AT(slots_head, batch_size, 52),
	AT(slots_head, height, 56),
	AT(slots_head, width, 60),
	AT(slots_head, channels, 64),
	AT(slots_head, pixel_type, 68),
	AT(slots_head, pixel_layout, 72),
	AT(slots_head, label_type, 76),
	AT(slots_head, label_width, 80),
	AT(slots_head, record_bytes, 84),
	AT(slots_head, row_bytes, 88),
	AT(slots_head, images_offset, 96),
	AT(slots_head, labels_offset, 104),
	AT(slots_head, records_offset, 112),
	AT(slots_head, ready_ns, 120),
	AT(slots_head, views, 128),
	AT(slots_head, groups, 132),
	AT(slots_head, fields_offset, 136),
	SIZE(slots_group, 32),
	AT(slots_group, views, 4),
	AT(slots_group, height, 8),
	AT(slots_group, width, 12),
	AT(slots_group, row_bytes, 16),
	AT(slots_group, images_offset, 24),
	SIZE(slots_field, 32),
	AT(slots_field, data_offset, 8),
	AT(slots_field, lengths_offset, 16),
};

static void check(const struct place *place, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (place[i].is != place[i].wanted)
			fail_msg("%s is %zu, the contract says %zu", place[i].name, place[i].is,
				place[i].wanted);
	}
}

static void test_layout(void **state)
{
	(void)state;
	check(wire_places, sizeof wire_places / sizeof *wire_places);
	check(slots_places, sizeof slots_places / sizeof *slots_places);
}

static void test_numbers(void **state)
{
	(void)state;
	uint64_t wire_magic = WIRE_MAGIC, slots_magic = SLOTS_MAGIC;
	assert_memory_equal(
		&wire_magic, "PENSTOCK", 8); /* on little-endian machines, which both ends are */
	assert_memory_equal(&slots_magic, "PENSLOTS", 8);
	assert_int_equal(WIRE_HELLO, 1);
	assert_int_equal(WIRE_OPEN, 2);
	assert_int_equal(WIRE_RELEASE, 3);
	assert_int_equal(WIRE_CLOSE, 4);
	assert_int_equal(WIRE_QUERY, 5);
	assert_int_equal(WIRE_STOP, 6);
	assert_int_equal(WIRE_WELCOME, 101);
	assert_int_equal(WIRE_OPENED, 102);
	assert_int_equal(WIRE_EXTENT, 103);
	assert_int_equal(WIRE_WITHDRAWN, 104);
	assert_int_equal(WIRE_BATCH, 105);
	assert_int_equal(WIRE_END, 106);
	assert_int_equal(WIRE_ERROR, 107);
	assert_int_equal(WIRE_ANSWER, 108);
	assert_int_equal(WIRE_QUERY_STATUS, 1);
	assert_int_equal(WIRE_QUERY_CONFIG, 6);
	assert_int_equal(WIRE_QUERY_SAMPLES, 7);
	assert_int_equal(WIRE_BATCH_LAST, 1);
	assert_int_equal(WIRE_MESSAGE_MAX, 65536);
	/* The longest inline answer has to fit a message. */
	assert_true(WIRE_INLINE_MAX + sizeof(struct wire_answer) <= WIRE_MESSAGE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout), cmocka_unit_test(test_numbers)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
