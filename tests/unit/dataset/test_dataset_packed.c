/* dataset: samples and fields that are stored packed. All ways to their bytes give the same;
 * streams that are damaged, too long or cut have a sentence; a forged index cannot make a read
 * leave the shard. */
#include "packed_shard.h"

#include "unit/dataset/dataset_fixture.h"

#include "base/store.h"
#include "base/whole.h"
#include "dataset/dimensions.h"
#include "dataset/sidecar.h"

#include <sys/mman.h>

enum { GROUP = 5, SIZE = 3000 };

static uint8_t plain[GROUP * SIZE];
static uint32_t sizes[GROUP];

static void plain_fill(void)
{
	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = (uint8_t)(i * 7 + (i >> 9));
	for (uint32_t i = 0; i < GROUP; i++)
		sizes[i] = SIZE;
}

static struct dataset *open_fields(const struct field_list *fields)
{
	struct dataset *dataset = NULL;
	struct dataset_options options = {.cache_dir = cache, .fields = fields};
	if (dataset_open(in("a.tfrecord"), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

static void expect_all(const struct dataset *dataset, uint64_t number, const uint8_t *bytes)
{
	struct sample sample;
	uint8_t got[SIZE + PACKED_HEADER];
	uint64_t offset = 1;
	int unwritten = 0, file = memfd_create("copy", MFD_CLOEXEC);
	assert_int_equal(dataset_sample(dataset, number, &sample, &fault), 0);
	assert_int_equal(dataset_read(dataset, &sample, got, sizeof got, &fault), 0);
	assert_memory_equal(got, bytes, sample.size);
	assert_int_equal(dataset_copy(dataset, &sample, file, &unwritten, &fault), 0);
	assert_int_equal(lseek(file, 0, SEEK_END), sample.size);
	assert_int_equal(whole_read(file, got, sample.size, 0), sample.size);
	assert_memory_equal(got, bytes, sample.size);
	int fd = dataset_sample_open(dataset, &sample, &offset, &fault);
	assert_true(fd >= 0);
	memset(got, 0, sizeof got);
	assert_int_equal(whole_read(fd, got, sample.size, offset), sample.size);
	assert_memory_equal(got, bytes, sample.size);
	(void)close(fd);
	(void)close(file);
}

static void test_all_ways(void **state)
{
	struct packed_shard shard;
	plain_fill();
	assert_true(packed_shard_begin(&shard, in("a.tfrecord"), NULL));
	for (int method = PACKED_NONE; method <= PACKED_SNAPPY; method++)
		assert_true(packed_shard_group(
			&shard, (enum packed_method)method, plain, sizes, GROUP, 3));
	struct index_record pixels = {.size = PACKED_HEADER + 30 * 20 * 3};
	pixels.packed = (struct packed){.method = PACKED_PLANES,
		.stored = 30 * 20 * 3,
		.whole = pixels.size,
		.channels = 3,
		.width = 30,
		.height = 20};
	assert_true(packed_shard_put(&shard, plain, pixels.packed.stored, &pixels.offset));
	assert_true(packed_shard_add(&shard, pixels, 3));
	assert_true(packed_shard_end(&shard));
	struct dataset *dataset = open_fields(NULL);
	const unsigned samples = 4 * GROUP + 1;
	assert_int_equal(dataset_count(dataset), samples);
	assert_true(dataset_packed(dataset));
	for (unsigned i = 0; i + 1 < samples; i++) {
		struct sample sample;
		assert_int_equal(dataset_sample(dataset, i, &sample, &fault), 0);
		assert_int_equal(sample.label, i % 3);
		assert_int_equal(sample.position, i * SIZE);
		expect_all(dataset, i, plain + i % GROUP * SIZE);
	}
	uint8_t image[PACKED_HEADER + 30 * 20 * 3];
	memcpy(image, "P6    30    20  255\n", PACKED_HEADER);
	for (size_t i = 0; i < 30 * 20 * 3; i++)
		image[PACKED_HEADER + i] = plain[i % 3 * 600 + i / 3];
	expect_all(dataset, samples - 1, image);
	dataset_free(dataset);
}

static void expect_bad(const struct dataset *dataset, uint64_t number, int result, const char *text)
{
	struct sample sample;
	uint8_t got[4 * SIZE];
	int unwritten = 0, file = memfd_create("copy", MFD_CLOEXEC);
	assert_int_equal(dataset_sample(dataset, number, &sample, &fault), 0);
	for (int way = 0; way < 2; way++) {
		fault.text[0] = 0;
		assert_int_equal(way ? dataset_copy(dataset, &sample, file, &unwritten, &fault)
				     : dataset_read(dataset, &sample, got, sizeof got, &fault),
			result);
		if (!strstr(fault.text, text) || !strstr(fault.text, sample.name))
			fail_msg("\"%s\" does not say \"%s\"", fault.text, text);
		assert_int_equal(unwritten, 0);
	}
	(void)close(file);
}

/* One sample for each thing that can be wrong with packed bytes. */
static void test_bad(void **state)
{
	static uint8_t packed[2 * SIZE];
	struct packed_shard shard;
	struct index_record record = {.size = SIZE};
	plain_fill();
	const uint32_t stored =
		packed_shard_pack(PACKED_DEFLATE, plain, SIZE, packed, sizeof packed);
	assert_true(packed_shard_begin(&shard, in("a.tfrecord"), NULL));
	assert_true(packed_shard_put(&shard, packed, stored, &record.offset));
	record.packed = (struct packed){.method = PACKED_DEFLATE, .stored = stored, .whole = SIZE};
	assert_true(packed_shard_add(&shard, record, 0));
	struct index_record bad = record;
	bad.size = bad.packed.whole = SIZE - 1;
	assert_true(packed_shard_add(&shard, bad, 0));
	bad.size = bad.packed.whole = SIZE + 1;
	assert_true(packed_shard_add(&shard, bad, 0));
	bad = record;
	bad.packed.stored -= 20;
	assert_true(packed_shard_add(&shard, bad, 0));
	bad = record;
	bad.packed.checked = 1;
	assert_true(packed_shard_add(&shard, bad, 0));
	bad = record;
	bad.packed.method = PACKED_GZIP;
	assert_true(packed_shard_add(&shard, bad, 0));
	assert_true(packed_shard_end(&shard));
	struct dataset *dataset = open_fields(NULL);
	expect_all(dataset, 0, plain);
	expect_bad(dataset, 1, -EPROTO, "damaged or a bomb");
	expect_bad(dataset, 2, -EPROTO, "its container says 3001");
	expect_bad(dataset, 3, -EPROTO, "in the middle of the stream");
	expect_bad(dataset, 4, -EPROTO, "checksum");
	expect_bad(dataset, 5, -EPROTO, "gzip");
	/* The shard is cut, and then gone. */
	struct sample sample;
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), 0);
	assert_int_equal(truncate(in("a.tfrecord"), 100), 0);
	uint8_t got[SIZE];
	assert_int_equal(dataset_read(dataset, &sample, got, sizeof got, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "changed after the dataset was opened"));
	assert_int_equal(unlink(in("a.tfrecord")), 0);
	assert_int_equal(dataset_read(dataset, &sample, got, sizeof got, &fault), -ESTALE);
	dataset_free(dataset);
}

/* Indexes are not trusted. */
static void test_forged(void **state)
{
	static const struct packed forged[] = {
		{.method = PACKED_METHODS, .stored = 10, .whole = SIZE},
		{.method = PACKED_DEFLATE, .stored = UINT32_MAX, .whole = SIZE},
		{.method = PACKED_DEFLATE, .stored = 10, .whole = SIZE, .inner = 1},
		{.method = PACKED_DEFLATE, .stored = 10, .whole = SIZE, .inner = UINT32_MAX},
		{.method = PACKED_NONE, .stored = 10},
		{.method = PACKED_PIXELS, .stored = 10, .whole = SIZE, .width = 1, .height = 1},
		{.method = PACKED_PLANES,
			.stored = SIZE - PACKED_HEADER,
			.whole = SIZE,
			.channels = 4,
			.width = 5,
			.height = 149},
	};
	struct packed_shard shard;
	plain_fill();
	assert_true(packed_shard_begin(&shard, in("a.tfrecord"), NULL));
	for (size_t i = 0; i < UTIL_COUNT(forged); i++) {
		struct index_record record = {.size = SIZE, .packed = forged[i]};
		assert_true(packed_shard_put(&shard, plain, SIZE, &record.offset));
		assert_true(packed_shard_add(&shard, record, 0));
	}
	assert_true(packed_shard_end(&shard));
	struct dataset *dataset = open_fields(NULL);
	for (size_t i = 0; i < UTIL_COUNT(forged); i++) {
		struct sample sample;
		assert_int_equal(dataset_sample(dataset, i, &sample, &fault), -EIO);
		assert_non_null(strstr(fault.text, "delete the index"));
	}
	dataset_free(dataset);
}

/* The head of an index says that nothing is packed, but its records do: streams would have nothing
 * to unpack with. */
static void test_forged_head(void **state)
{
	struct packed_shard shard;
	struct sample sample;
	const uint32_t size = SIZE;
	plain_fill();
	assert_true(packed_shard_begin(&shard, in("a.tfrecord"), NULL));
	assert_true(packed_shard_group(&shard, PACKED_SNAPPY, plain, &size, 1, 0));
	shard.writer.head.packed = 0;
	assert_true(packed_shard_end(&shard));
	struct dataset *dataset = open_fields(NULL);
	assert_false(dataset_packed(dataset));
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), -EIO);
	assert_non_null(strstr(fault.text, "delete the index"));
	dataset_free(dataset);
}

static void expect_field(const struct dataset *dataset, struct field_list *fields, uint32_t max,
	int result, const void *bytes, uint32_t size)
{
	uint8_t got[SIZE];
	uint32_t got_size = 0;
	bool longer = false;
	fields->at[0].max = max;
	fault.text[0] = 0;
	assert_int_equal(
		dataset_field_read(dataset, 0, fields, 0, got, &got_size, &longer, &fault), result);
	if (result) {
		assert_non_null(strstr(fault.text, "its field txt"));
		return;
	}
	assert_int_equal(got_size, UTIL_MIN(size, max));
	assert_memory_equal(got, bytes, got_size);
	assert_int_equal(longer, size > max);
}

/* Moves the index to where those of datasets with fields are. */
static void move_index(const struct field_list *fields)
{
	char suffix[64];
	(void)snprintf(suffix, sizeof suffix, ".fields-%016llx.idx",
		(unsigned long long)field_list_hash(fields));
	assert_int_equal(store_folder_make(cache), 0);
	char *path = store_cache_path(cache, in("a.tfrecord"), suffix);
	assert_non_null(path);
	assert_int_equal(rename(in("a.tfrecord.idx"), path), 0);
	free(path);
}

static void test_fields(void **state)
{
	static uint8_t packed[2 * SIZE];
	struct field_list fields = {.count = 1, .at = {{.name = "txt", .max = SIZE}}};
	plain_fill();
	for (int bad = 0; bad < 2; bad++) {
		struct packed_shard shard;
		struct index_record record = {.size = 16};
		const uint32_t stored =
			packed_shard_pack(PACKED_SNAPPY, plain, SIZE, packed, sizeof packed);
		assert_true(packed_shard_begin(&shard, in("a.tfrecord"), &fields));
		struct index_field *field = &shard.writer.field[0];
		*field = (struct index_field){.size = SIZE - 7, .present = 1};
		assert_true(packed_shard_put(&shard, packed, stored, &field->offset));
		field->packed = (struct packed){.method = PACKED_SNAPPY,
			.stored = stored,
			.inner = 7,
			.whole = SIZE,
			.checked = 1,
			.crc = (uint32_t)crc32(0, plain + 7, SIZE - 7) ^ (uint32_t)bad};
		assert_true(packed_shard_add(&shard, record, 0));
		assert_true(packed_shard_end(&shard));
		move_index(&fields);
		struct dataset *dataset = open_fields(&fields);
		assert_true(dataset_packed(dataset));
		expect_field(dataset, &fields, SIZE, bad ? -EPROTO : 0, plain + 7, SIZE - 7);
		expect_field(dataset, &fields, 1, 0, plain + 7, SIZE - 7);
		expect_field(dataset, &fields, 1000, 0, plain + 7, SIZE - 7);
		dataset_free(dataset);
		fields.at[0].max = SIZE;
	}
}

/* ---- sizes of images ---- */

static struct dimension found[GROUP + 1];

static void take(void *context, uint64_t first, const struct dimension *sizes_of, size_t count)
{
	(void)context;
	memcpy(found + first, sizes_of, count * sizeof *sizes_of);
}

/* As the real one, where the image is "width height". */
static int measure(
	int fd, uint64_t offset, uint32_t size, uint32_t *ret_width, uint32_t *ret_height)
{
	char text[32] = "";
	assert_int_equal(whole_read(fd, text, UTIL_MIN(size, 31u), offset), UTIL_MIN(size, 31u));
	assert_int_equal(sscanf(text, "%u %u", ret_width, ret_height), 2);
	return 0;
}

static void test_dimensions(void **state)
{
	struct packed_shard shard;
	uint8_t text[GROUP * 16];
	uint32_t each[GROUP];
	for (uint32_t i = 0; i < GROUP; i++) {
		each[i] = 16;
		(void)snprintf((char *)text + i * 16, 16, "%-7u %-6u", i + 1, 10 * i + 1);
	}
	assert_true(packed_shard_begin(&shard, in("a.tfrecord"), NULL));
	shard.unchecked = true;
	assert_true(packed_shard_group(&shard, PACKED_GZIP, text, each, GROUP, 0));
	/* The last one does not unpack: it has no size, as an image that is damaged. */
	struct index_record bad = {.size = 16};
	bad.packed = (struct packed){.method = PACKED_GZIP, .stored = 16, .whole = 16};
	assert_true(packed_shard_put(&shard, text, 16, &bad.offset));
	assert_true(packed_shard_add(&shard, bad, 0));
	assert_true(packed_shard_end(&shard));
	struct dataset *dataset = open_fields(NULL);
	const struct dimensions_job job = {.dataset = dataset, .measure = measure, .take = take};
	uint64_t unreadable = 0;
	char notice[512];
	if (dimensions_walk(&job, &unreadable, notice, sizeof notice, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(unreadable, 1);
	for (uint32_t i = 0; i < GROUP; i++) {
		assert_int_equal(found[i].width, i + 1);
		assert_int_equal(found[i].height, 10 * i + 1);
	}
	dataset_free(dataset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged_head, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dimensions, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
