/* Rows that LitData stores as Arrow: fields of them, and what damaged messages are refused with.
 * What the samples are is compared with LitData by tests/containers, and any damage is tried by
 * fuzz.litdata. */
#include "fuzz/arrow_make.h"

/* Its variables of this file have names that the header above uses in functions. */
#include "dataset_fixture.h"

#include <sys/stat.h>

static struct items made;

/* Where the parts of the chunk are, by what arrow_make writes: fields of tables have 8 bytes. */
static size_t begin; /* of the schema's message */

static uint32_t at32(size_t at)
{
	uint32_t value;
	memcpy(&value, made.file + at, 4);
	return value;
}

/* The place of field `field` of a table. */
static size_t slot(size_t table, unsigned field)
{
	return table + ARROW_TABLE + 8 * (size_t)field;
}

/* Where the distance at `at` leads. */
static size_t led(size_t at)
{
	return at + at32(at);
}

static size_t header(size_t message)
{
	return led(slot(led(message + 8), 2));
}

static size_t field(unsigned number)
{
	return led(led(slot(header(begin), 1)) + 4 + 4 * (size_t)number);
}

static size_t batch(void)
{
	return begin + 8 + at32(begin + 4);
}

static void make(const struct arrow_layout *layout)
{
	/* Two rows, whose images have 8 and 7 bytes, and of whose notes the second may be null. */
	static const uint8_t choices[] = {1, 0, 5, 4, 0, 1, 0, 3, 3, 1};
	made.recipe = (struct recipe){choices, sizeof choices, 0};
	made.text_size = 0;
	arrow_make(&made, layout);
	assert_int_equal(made.count, 2);
	begin = 16 + (layout->stream ? 0 : 8);
	assert_int_equal(at32(begin), UINT32_MAX);
}

static void keep(void)
{
	static const char json[] =
		"{\"chunks\": [{\"filename\": \"chunk-0-0.bin\"}], \"config\": {\"data_format\": "
		"[\"bytes\"], \"data_spec\": \"[1, {\\\"type\\\": null, \\\"context\\\": null, "
		"\\\"children_spec\\\": []}]\", \"encryption\": null, \"item_loader\": "
		"\"PyTreeLoader\"}}";
	(void)mkdir(in("d"), 0755);
	fixture_file(root, "d/index.json", json);
	fixture_write(in("d/chunk-0-0.bin"), made.file, made.size);
}

static void refused(const char *part)
{
	keep();
	expect_fault("d/chunk-0-0.bin", -EINVAL, part);
	if (!strstr(fault.text, "d/chunk-0-0.bin: "))
		fail_msg("\"%s\" does not name the chunk", fault.text);
}

static void test_sound(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		const struct arrow_layout layout = {
			.nested = i & 1, .stream = i & 2, .note = true, .list = true};
		make(&layout);
		keep();
		struct dataset *dataset = open_good("d/chunk-0-0.bin");
		assert_int_equal(dataset_count(dataset), 2);
		dataset_free(dataset);
	}
}

/* The bytes of a text are a field; bits and lists are not. */
static void test_fields(void **state)
{
	struct field_list fields = {.count = 1, .at = {{.name = "note", .max = 64, .empty = true}}};
	const struct dataset_options options = {.cache_dir = cache, .fields = &fields};
	const struct arrow_layout layout = {.note = true, .label = 3};
	struct dataset *dataset = NULL;
	char data[64];
	uint32_t size;
	bool longer;
	make(&layout);
	keep();
	if (dataset_open(in("d/chunk-0-0.bin"), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(
		dataset_field_read(dataset, 0, &fields, 0, data, &size, &longer, &fault), 0);
	assert_int_equal(dataset_field_read(dataset, 1, &fields, 0, data, &size, &longer, &fault),
		DATASET_E_NONE);
	dataset_free(dataset);
	(void)strcpy(fields.at[0].name, "label");
	assert_int_equal(dataset_open(in("d/chunk-0-0.bin"), &options, &dataset, &fault), -EINVAL);
	assert_non_null(strstr(fault.text,
		"the column label (fields) holds values of type bool, expected bytes, a text or a "
		"number"));
}

static void test_messages(void **state)
{
	const struct arrow_layout layout = {.note = true};
	static const char damaged[] = "a field of the schema is damaged";
	make(&layout);
	items_u32(&made, begin, 7);
	refused("no message of Arrow begins here");
	make(&layout);
	items_u32(&made, begin + 4, 1 << 19);
	refused("a message is longer than the bytes that it has");
	make(&layout); /* the root leads to itself, and back */
	items_u32(&made, begin + 8, 0);
	refused("a message is not one of Arrow");
	items_u32(&made, begin + 8, (uint32_t)-8);
	refused("a message is not one of Arrow");
	make(&layout); /* a list of fields that is in itself */
	items_u32(&made, led(slot(header(begin), 1)) + 4, (uint32_t)-4);
	refused(damaged);
	items_u32(&made, led(slot(header(begin), 1)) + 4, 0);
	refused(damaged);
	items_u32(&made, led(slot(header(begin), 1)) + 4, 3);
	refused(damaged);
	make(&layout); /* more fields than the message has bytes for */
	items_u32(&made, led(slot(header(begin), 1)), 0x40000001);
	refused("its schema has no columns");
	make(&layout); /* the vtable of a field is elsewhere */
	items_u32(&made, field(0), 0x7ffffff0);
	refused(damaged);
	make(&layout);
	made.file[slot(field(0), 2)] = 23;
	refused("have a column of a dictionary or of another type");
	make(&layout);
	made.file[slot(field(0), 2)] = 12;
	refused(damaged);
	make(&layout);
	items_u32(&made, slot(led(slot(field(1), 3)), 0), 24);
	refused(damaged);
}

/* A struct whose field is the struct itself would have no end. */
static void test_depth(void **state)
{
	const struct arrow_layout layout = {.nested = true};
	make(&layout);
	const size_t inside = led(slot(field(0), 5)) + 4;
	items_u32(&made, inside, (uint32_t)(field(0) - inside));
	refused("a field of the schema is damaged");
}

static void test_batches(void **state)
{
	const struct arrow_layout layout = {.note = true};
	const struct arrow_layout packed = {.packed = true};
	make(&layout);
	items_u32(&made, slot(header(batch()), 0), 1);
	refused("a column has another number of rows than its batch");
	items_u32(&made, slot(header(batch()), 0), 3);
	refused("it has more rows than the chunk says");
	items_u32(&made, slot(header(batch()), 0), 0);
	refused("a column has another number of rows than its batch");
	make(&layout); /* the nodes */
	items_u32(&made, led(slot(header(batch()), 1)), 2);
	refused("a batch does not have the columns and buffers that the schema says");
	make(&layout); /* nulls */
	items_u32(&made, led(slot(header(batch()), 1)) + 4 + 8, 3);
	refused("a column has another number of rows than its batch");
	items_u32(&made, led(slot(header(batch()), 1)) + 4 + 8, 1);
	refused("a buffer is shorter than its rows need");
	make(&layout); /* a buffer behind the body, and one that is not aligned */
	items_u32(&made, led(slot(header(batch()), 2)) + 4 + 16, 1 << 20);
	refused("a buffer is not in the body of its message");
	items_u32(&made, led(slot(header(batch()), 2)) + 4 + 16, 4);
	refused("a buffer is not in the body of its message");
	make(&layout); /* the body */
	items_u32(&made, slot(led(batch() + 8), 3), 1 << 20);
	refused("the body of a message is longer than the file");
	make(&layout); /* a dictionary */
	made.file[slot(led(batch() + 8), 1)] = 2;
	refused("a message has no rows");
	make(&layout); /* the batch is missing */
	items_u32(&made, batch() + 4, 0);
	refused("it has fewer rows than the chunk says");
	make(&packed);
	made.file[slot(led(slot(header(batch()), 3)), 0)] = 0;
	refused("are compressed with LZ4 or another codec");
}

/* The bytes of values are behind the offsets of the first column, the images. */
static void test_offsets(void **state)
{
	const struct arrow_layout layout = {.note = false};
	make(&layout);
	const size_t body = batch() + 8 + at32(batch() + 4);
	const size_t offsets = body + at32(led(slot(header(batch()), 2)) + 4 + 16);
	const uint32_t end = at32(offsets + 8);
	items_u32(&made, offsets + 8, 0x7fffffff);
	refused("a buffer is shorter than its rows need");
	items_u32(&made, offsets + 8, end);
	items_u32(&made, offsets + 4, end + 1);
	refused("a buffer is shorter than its rows need");
	items_u32(&made, offsets + 4, 0xffffffff);
	refused("a buffer is shorter than its rows need");
	items_u32(&made, offsets + 4, end - 1);
	items_u32(&made, offsets + 8, 1);
	refused("a value ends before it begins");
}

/* Cut anywhere: the end says that Arrow is before it, if it is still there. */
static void test_cut(void **state)
{
	const struct arrow_layout layout = {.note = true};
	make(&layout);
	const size_t whole = made.size;
	for (size_t cut = 8; cut < whole - begin; cut += 40) {
		make(&layout);
		memmove(made.file + whole - 12 - cut, made.file + whole - 12, 12);
		made.size = whole - cut;
		items_u32(&made, made.size - 12,
			(uint32_t)UTIL_MIN(at32(made.size - 12) - cut, made.size - 12));
		keep();
		struct dataset *dataset = NULL;
		int rc = open_labels("d/chunk-0-0.bin", DATASET_LABELS_AUTO, &dataset);
		/* What is cut off first is what follows the last message. */
		if (rc == 0)
			assert_true(cut <= 16);
		else
			assert_int_equal(rc, -EINVAL);
		dataset_free(dataset);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_batches, setup, teardown),
		cmocka_unit_test_setup_teardown(test_offsets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
