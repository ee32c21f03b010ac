/* Parquet: what damaged and lying files get: a sentence with the file and the place. What sound
 * files give is compared with `datasets` (tests/containers/parquet) and with what they were made of
 * (tests/fuzz/fuzz_parquet.c). */
#include "fuzz/parquet_make.h"
#include "fuzz/shard.h"
#include "unit/source_fixture.h"

#include "base/util.h"
#include "dataset/container/parquet/features.h"

static struct shard shard;
static struct made made;

static int index_bytes(const void *bytes, size_t size)
{
	static const struct field_list fields = {
		.count = 1, .at = {{.name = "caption", .max = 64}}};
	shard = (struct shard){.container = &container_parquet,
		.name = "test.parquet",
		.bytes = bytes,
		.size = size,
		.asked = DATASET_LABELS_AUTO,
		.fields = &fields};
	return shard_index(&shard);
}

static void refuse(const void *bytes, size_t size, const char *part)
{
	assert_int_equal(index_bytes(bytes, size), -EINVAL);
	if (!strstr(shard.fault.text, "test.parquet") || !strstr(shard.fault.text, part))
		fail_msg("\"%s\" does not say \"%s\"", shard.fault.text, part);
}

static struct made_plan plan_of(uint8_t codec, uint8_t version, bool dictionary)
{
	return (struct made_plan){.rows = 12,
		.group_rows = 8,
		.page_rows = 3,
		.codec = codec,
		.version = version,
		.dictionary = dictionary};
}

/* Makes the file with one lie; it must be refused. */
static void lie(
	struct made_plan plan, enum made_lie what, unsigned at, int64_t value, const char *part)
{
	plan.lie = what;
	plan.lie_at = at;
	plan.lie_value = value;
	made_file(&made, &plan);
	assert_true(made.lied);
	refuse(made.bytes, made.size, part);
}

static void test_sound(void **state)
{
	for (unsigned i = 0; i < 3 * 2 * 2; i++) {
		const struct made_plan plan = plan_of(i % 3, i / 3 % 2 + 1, i / 6);
		made_file(&made, &plan);
		if (index_bytes(made.bytes, made.size) < 0)
			fail_msg("%u: %s", i, shard.fault.text);
		assert_int_equal(shard.head.samples, plan.rows);
		assert_int_equal(shard.head.classes, 4);
		assert_int_equal(shard.head.source, DATASET_LABELS_COLUMN);
	}
}

static void test_cut(void **state)
{
	const struct made_plan plan = plan_of(1, 1, true);
	made_file(&made, &plan);
	for (size_t size = 0; size < made.size; size++)
		refuse(made.bytes, size, "copy it again from where it came from");
	/* The end is there, and what is before it is not. */
	for (size_t cut = 1; cut < 200; cut++) {
		static uint8_t bytes[MADE_ROOM];
		memcpy(bytes, made.bytes, 8);
		memcpy(bytes + 8, made.bytes + 8 + cut, made.size - 8 - cut);
		refuse(bytes, made.size - cut, "again from where it came from");
	}
}

static void test_ends(void **state)
{
	static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:77\n";
	const struct made_plan plan = plan_of(0, 1, false);
	refuse(pointer, sizeof pointer - 1, "git lfs pull");
	refuse("PK\3\4 and more of a ZIP", 23, "it is not a Parquet file");
	made_file(&made, &plan);
	memcpy(made.bytes + made.size - 4, "PARE", 4);
	refuse(made.bytes, made.size, "is encrypted, and penstock has no keys");
	memcpy(made.bytes + made.size - 4, "PAR2", 4);
	refuse(made.bytes, made.size, "with which a Parquet file ends");
	lie(plan, LIE_FOOTER_SIZE, 0, 0, "the footer should have 0 bytes");
	lie(plan, LIE_FOOTER_SIZE, 0, INT32_MAX, "the footer should have 2147483647 bytes");
	lie(plan, LIE_FOOTER_SIZE, 0, 40, "the footer of this Parquet file is damaged");
}

static void test_footer(void **state)
{
	struct made_plan plan = plan_of(0, 1, false);
	lie(plan, LIE_SCHEMA_COUNT, 0, INT64_MAX, "a list has more elements than bytes are left");
	lie(plan, LIE_SCHEMA_COUNT, 0, 0, "it has no columns, or more than 10000");
	lie(plan, LIE_SCHEMA_CHILDREN, 0, 4, "a structure has fewer columns than it says");
	lie(plan, LIE_SCHEMA_CHILDREN, 0, 2, "a column belongs to no structure");
	lie(plan, LIE_SCHEMA_CHILDREN, 1, -1, "a column has an impossible description");
	lie(plan, LIE_SCHEMA_TYPE, 0, 9, "a column has an impossible description");
	lie(plan, LIE_SCHEMA_TYPE, 0, 1, "no column holds images");
	lie(plan, LIE_GROUPS, 0, INT64_MAX, "a list has more elements than bytes are left");
	lie(plan, LIE_GROUPS, 0, 1, "is damaged");
	lie(plan, LIE_ROWS, 0, 13, "its row groups have 12 rows together");
	lie(plan, LIE_ROWS, 0, -1, "a count, size or offset is negative");
	lie(plan, LIE_ROWS, 0, INT64_MAX, "which its");
	lie(plan, LIE_GROUP_ROWS, 0, 9, "column image.bytes has 8 values in a row group of 9 rows");
	lie(plan, LIE_GROUP_ROWS, 0, 13, "or too many rows");
	lie(plan, LIE_CHUNK_TYPE, 0, 1, "describes column image.bytes of row group 0");
	lie(plan, LIE_CHUNK_CODEC, 0, 5, "is compressed with LZ4 (codec 5)");
	lie(plan, LIE_CHUNK_CODEC, 2, 77, "is compressed with unknown (codec 77)");
	lie(plan, LIE_CHUNK_VALUES, 3, 7, "column caption has 7 values");
	lie(plan, LIE_CHUNK_SIZE, 0, INT64_MAX, "but the footer begins at byte");
	lie(plan, LIE_CHUNK_SIZE, 4, 60, "a page of column image.bytes is damaged");
	lie(plan, LIE_CHUNK_OFFSET, 0, 1 << 20, "from byte 1048576 on");
	lie(plan, LIE_CHUNK_OFFSET, 0, -4, "a count, size or offset is negative");
	plan.chunk = 1;
	made_file(&made, &plan);
	refuse(made.bytes, made.size, "is in another file, which penstock does not open");
	plan.chunk = 8;
	made_file(&made, &plan);
	refuse(made.bytes, made.size, "column image.bytes is encrypted");
}

static void test_nested(void **state)
{
	static uint8_t bytes[4 + 1000 + 8] = "PAR1";
	/* Structures in structures: field 1 of type 12. */
	memset(bytes + 4, 0x1c, 1000);
	memcpy(bytes + 1004, "\xe8\3\0\0PAR1", 8);
	refuse(bytes, sizeof bytes, "it is nested too deeply");
	/* A list of 2^34 lists. */
	memcpy(bytes + 4, "\x19\xf9\x80\x80\x80\x80\x40", 7);
	refuse(bytes, sizeof bytes, "a list has more elements than bytes are left");
	/* A text of 2^34 bytes, and a number that never ends. */
	memcpy(bytes + 4, "\x68\x80\x80\x80\x80\x40", 6);
	refuse(bytes, sizeof bytes, "a text is longer than the bytes that are left");
	memset(bytes + 5, 0xff, 20);
	refuse(bytes, sizeof bytes, "a number has more than 64 bits");
	bytes[4] = 0x1e;
	refuse(bytes, sizeof bytes, "a type that does not exist");
}

static void test_pages(void **state)
{
	for (uint8_t version = 1; version <= 2; version++) {
		const struct made_plan plan = plan_of(0, version, false);
		lie(plan, LIE_PAGE_TYPE, 0, 1, "column image.bytes ends with 3 values missing");
		lie(plan, LIE_PAGE_TYPE, 0, 9, "it is of no type that exists");
		lie(plan, LIE_PAGE_TYPE, 0, 2, "it is of no type that exists");
		lie(plan, LIE_PAGE_STORED, 0, 5000, "the page ends beyond the chunk of its column");
		lie(plan, LIE_PAGE_STORED, 0, -1, "a size or count is negative");
		lie(plan, LIE_PAGE_WHOLE, 1, 5000,
			"it is not compressed, but its two sizes differ");
		lie(plan, LIE_PAGE_VALUES, 0, 9, "has more values than the footer says");
		lie(plan, LIE_PAGE_VALUES, 0, 4, "its values end too early");
		lie(plan, LIE_PAGE_VALUES, 0, 2, "with 1 values missing");
		lie(plan, LIE_PAGE_ENCODING, 0, 5, "encoded as DELTA_BINARY_PACKED (5)");
		lie(plan, LIE_PAGE_ENCODING, 0, 99, "encoded as an unknown encoding (99)");
		lie(plan, LIE_PAGE_ENCODING, 0, 8, "it needs a dictionary, and none comes before");
		lie(plan, LIE_LEVELS_SIZE, 0, 5000, "its levels are longer than the page");
		lie(plan, LIE_LEVEL, 1, 3, "a level is above the highest of its column");
		lie(plan, LIE_LEVEL, 1, 1, "row 1 has only the place of its image (d/1.jpg)");
		lie(plan, LIE_VALUE_SIZE, 1, 5000,
			"a value is longer than the bytes that are left");
		lie(plan, LIE_LABEL, 1, 4, "column label: the file names 4 classes, found class 4");
		lie(plan, LIE_LABEL, 1, -2, "column label: expected a class from 0");
		lie(plan, LIE_LABEL, 1, -1, "has no label, but the samples before it have one");
	}
	lie(plan_of(0, 1, false), LIE_LEVELS_ENCODING, 0, 4, "are encoded as BIT_PACKED");
}

static void test_dictionaries(void **state)
{
	const struct made_plan plan = plan_of(0, 1, true);
	lie(plan, LIE_INDEX_WIDTH, 0, 8, "names entry 36 of a dictionary of 4");
	lie(plan, LIE_INDEX_WIDTH, 0, 33, "have more than 32 bits");
	/* The first page's number of values is that of the dictionary. */
	lie(plan, LIE_PAGE_VALUES, 0, 2, "of a dictionary of 2");
	lie(plan, LIE_PAGE_VALUES, 0, INT32_MAX, "has 2147483647 entries, but at most 1048576");
	lie(plan, LIE_PAGE_ENCODING, 0, 8, "a dictionary is not plain");
	lie(plan, LIE_VALUE_SIZE, 0, 5000, "a value is longer than the bytes that are left");
}

/* Compressed pages that unpack to more or to less than they say. */
static void test_bombs(void **state)
{
	for (uint8_t version = 1; version <= 2; version++) {
		lie(plan_of(2, version, false), LIE_PAGE_WHOLE, 0, 20, "a page of column image");
		lie(plan_of(2, version, false), LIE_PAGE_WHOLE, 0, 5000, "but its container says");
		lie(plan_of(1, version, false), LIE_PAGE_WHOLE, 0, 20, "a page of column image");
		lie(plan_of(1, version, false), LIE_PAGE_WHOLE, 0, INT32_MAX, "a page of column");
	}
	/* All values are there, and more follows. */
	for (unsigned i = 0; i < 2 * 2; i++) {
		struct made_plan plan = plan_of(1 + i % 2, i / 2 + 1, true);
		plan.bomb = true;
		made_file(&made, &plan);
		refuse(made.bytes, made.size, i % 2 ? "unpack to more than the" : "Snappy");
	}
}

/* ---- files of one column that take long to read ---- */

/* Makes a file with the column `caption`, the same pages as the chunk of each of its row groups,
 * which have `rows` rows. */
static void pages_make(const struct made_part *pages, unsigned groups, unsigned rows, uint8_t codec)
{
	static const struct made_plan plan = {.rows = 1};
	static struct made_part footer;
	int last = 0;
	made = (struct made){.plan = &plan, .size = 4};
	memcpy(made.bytes, "PAR1", 4);
	made_flush(&made, pages);
	const uint64_t end = made.size;
	footer.size = 0;
	t_list(&footer, &last, 2, T_STRUCT, 2);
	made_element(&made, &footer, "schema", -1, 0, 1, -1);
	made_element(&made, &footer, "caption", MADE_BINARY, 0, 0, -1);
	t_number(&footer, &last, 3, T_I64, (int64_t)groups * rows);
	t_list(&footer, &last, 4, T_STRUCT, groups);
	for (unsigned i = 0; i < groups; i++) {
		int group = 0, chunk = 0, data = 0;
		t_list(&footer, &group, 1, T_STRUCT, 1);
		t_number(&footer, &chunk, 2, T_I64, 0);
		t_field(&footer, &chunk, 3, T_STRUCT);
		t_number(&footer, &data, 1, T_I32, MADE_BINARY);
		t_number(&footer, &data, 4, T_I32, codec);
		t_number(&footer, &data, 5, T_I64, rows);
		t_number(&footer, &data, 7, T_I64, (int64_t)end - 4);
		t_number(&footer, &data, 9, T_I64, 4);
		part_put(&footer, "\0\0", 2);
		t_number(&footer, &group, 3, T_I64, rows);
		part_byte(&footer, 0);
	}
	part_byte(&footer, 0);
	const size_t size = footer.size;
	part_little(&footer, size, 4);
	part_put(&footer, "PAR1", 4);
	made_flush(&made, &footer);
}

static void pages_refuse(const struct made_part *pages, unsigned groups, unsigned rows,
	uint8_t codec, const char *part)
{
	pages_make(pages, groups, rows, codec);
	refuse(made.bytes, made.size, part);
}

static void page_put(struct made_part *to, int type, size_t whole, unsigned values, int encoding,
	const void *bytes, size_t size)
{
	int last = 0, inner = 0;
	t_number(to, &last, 1, T_I32, type);
	t_number(to, &last, 2, T_I32, (int64_t)whole);
	t_number(to, &last, 3, T_I32, (int64_t)size);
	t_field(to, &last, type == 0 ? 5 : 7, T_STRUCT);
	t_number(to, &inner, 1, T_I32, values);
	t_number(to, &inner, 2, T_I32, encoding);
	part_put(to, "\0\0", 2);
	part_put(to, bytes, size);
}

static void test_long(void **state)
{
	static struct made_part pages;
	/* Row groups with the same chunk. */
	pages.size = 0;
	page_put(&pages, 0, 8, 1, 0, "\4\0\0\0abcd", 8);
	pages_refuse(&pages, 2, 1, 0, "so that they overlap");
	/* Runs of no values, of both kinds. */
	for (unsigned kind = 0; kind < 2; kind++) {
		const uint8_t indexes[] = {0, (uint8_t)kind, 4};
		pages.size = 0;
		page_put(&pages, 2, 8, 1, 0, "\4\0\0\0abcd", 8);
		page_put(&pages, 0, sizeof indexes, 2, 8, indexes, sizeof indexes);
		pages_refuse(&pages, 1, 2, 0, "a run has no values");
	}
	/* More entries than bytes. */
	lie(plan_of(0, 1, true), LIE_PAGE_VALUES, 0, 1000, "more entries than bytes");
	/* Pages without values, which say that they unpack to 6 GiB. */
	pages.size = 0;
	for (int i = 0; i < 3; i++)
		page_put(&pages, 0, INT32_MAX, 0, 0, "1234567890123456789", 19);
	pages_refuse(&pages, 1, 1, 2, "unpack to more than 4294967296 bytes");
}

/* A dictionary of one image, and one run that gives it to all rows. */
static void rows_make(unsigned rows)
{
	static struct made_part pages, run;
	run.size = pages.size = 0;
	part_byte(&run, 1);
	part_varint(&run, (uint64_t)rows << 1);
	part_byte(&run, 0);
	page_put(&pages, 2, 8, 1, 0, "\4\0\0\0abcd", 8);
	page_put(&pages, 0, run.size, rows, 8, run.bytes, run.size);
	pages_make(&pages, 1, rows, 0);
}

/* Many rows for few bytes: an index is not much larger than its file allows. */
static void test_rows(void **state)
{
	rows_make(1 << 16);
	const unsigned most = (1 << 16) + (unsigned)made.size / 16;
	rows_make(most);
	assert_int_equal(most, (1 << 16) + made.size / 16);
	if (index_bytes(made.bytes, made.size) < 0)
		fail_msg("%s", shard.fault.text);
	assert_int_equal(shard.head.samples, most);
	rows_make(most + 1);
	refuse(made.bytes, made.size, "bytes cannot hold: it is damaged");
}

/* A page of Zstandard, whose blocks are runs: an image of zeros, and one more. */
static void zeros_make(unsigned zeros)
{
	static struct made_part pages, frame;
	const uint32_t head = zeros, next = 4;
	frame.size = pages.size = 0;
	part_put(&frame, "\x28\xb5\x2f\xfd\0\x38", 6);
	part_little(&frame, 4 << 3, 3);
	part_put(&frame, &head, 4);
	for (unsigned left = zeros, size; left; left -= size) {
		size = UTIL_MIN(left, 128u << 10);
		part_little(&frame, size << 3 | 1 << 1, 3);
		part_byte(&frame, 0);
	}
	part_little(&frame, 8 << 3 | 1, 3);
	part_put(&frame, &next, 4);
	part_put(&frame, "abcd", 4);
	page_put(&pages, 0, (size_t)zeros + 12, 2, 0, frame.bytes, frame.size);
	pages_make(&pages, 1, 2, 6);
}

/* A sample of many bytes for few: the index would ask for gigabytes of work. */
static void test_ratio(void **state)
{
	if (unpack_refused(PACKED_ZSTD))
		skip();
	zeros_make(16 << 20);
	if (index_bytes(made.bytes, made.size) < 0)
		fail_msg("%s", shard.fault.text);
	assert_int_equal(shard.head.samples, 2);
	zeros_make(20 << 20);
	refuse(made.bytes, made.size, "row 0 of column caption needs 20971520 bytes that ");
	assert_non_null(strstr(shard.fault.text, "more than 1024 times as many and 16 MiB"));
}

/* Notes that would take gigabytes of memory. */
static void test_notes(void **state)
{
	struct features features;
	struct fault fault;
	const size_t size = 3 << 20;
	char *text = malloc(size + 1);
	assert_non_null(text);
	text[0] = '[';
	for (size_t i = 1; i < size; i += 3)
		memcpy(text + i, i + 3 < size ? "[]," : "[]]", 3);
	text[size] = 0;
	assert_int_equal(features_read(&features, text, size, "test.parquet", &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "test.parquet: the notes of `datasets`"));
	assert_non_null(strstr(fault.text, "more than 1048576 values"));
	features_deinit(&features);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sound),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_footer),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_dictionaries),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_ratio),
		cmocka_unit_test(test_notes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
