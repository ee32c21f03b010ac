/* Items of LitData that are compressed: how much they may unpack to, and that the build of an index
 * can be stopped meanwhile. What the samples are is compared with LitData by tests/containers, and
 * any damage is tried by fuzz.litdata. */
#include "dataset_fixture.h"

#include "base/util.h"
#include "unpack/unpack.h"

#include <sys/stat.h>

#define IMAGE "\xff\xd8\xff and more"

enum { IMAGE_SIZE = sizeof IMAGE - 1, ZSTD_BLOCK = 128 << 10, MIB = 1 << 20, ROOM = 1 << 17 };

/* A chunk of one item: zeros, and an image. */
static struct {
	uint8_t at[ROOM];
	size_t size;
} made;

static void put(const void *bytes, size_t size)
{
	assert_true(size <= sizeof made.at - made.size);
	memcpy(made.at + made.size, bytes, size);
	made.size += size;
}

static void put32(uint32_t value)
{
	put(&value, 4);
}

static void put_block(unsigned type, uint32_t size, bool last, const void *bytes)
{
	const uint32_t head = size << 3 | type << 1 | last;
	put(&head, 3);
	put(bytes, type == 1 ? 1 : size);
}

/* The bytes that a frame with so many zeros is stored in, without noise. */
static uint32_t stored_of(uint32_t zeros)
{
	const uint32_t blocks = (zeros + ZSTD_BLOCK - 1) / ZSTD_BLOCK;
	return 6 + (3 + 8) + 4 * blocks + (3 + IMAGE_SIZE);
}

/* A frame whose zeros are runs, and before them `noise` bytes that are stored as they are. */
static void put_frame(uint32_t zeros, uint32_t noise)
{
	static const uint8_t other[ZSTD_BLOCK];
	put("\x28\xb5\x2f\xfd\0\x38", 6);
	const uint32_t sizes[] = {zeros + noise, IMAGE_SIZE};
	put_block(0, sizeof sizes, false, sizes);
	if (noise)
		put_block(0, noise, false, other);
	for (uint32_t left = zeros, size; left; left -= size) {
		size = UTIL_MIN(left, (uint32_t)ZSTD_BLOCK);
		put_block(1, size, false, "");
	}
	put_block(0, IMAGE_SIZE, true, IMAGE);
}

static void describe(const char *level)
{
	char json[1024];
	static const char leaf[] =
		"{\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}";
	(void)snprintf(json, sizeof json,
		"{\"chunks\": [{\"filename\": \"chunk-0-0.bin\"}], \"config\": {\"data_format\": "
		"[\"bytes\", \"jpeg\"], \"data_spec\": \"[1, {\\\"type\\\": \\\"builtins.dict\\\", "
		"\\\"context\\\": \\\"[\\\\\\\"pad\\\\\\\", \\\\\\\"image\\\\\\\"]\\\", "
		"\\\"children_spec\\\": [%s, %s]}]\", \"compression\": \"zstd\", "
		"\"compression_level\": \"%s\", \"encryption\": null, \"item_loader\": "
		"\"PyTreeLoader\"}}",
		leaf, leaf, level);
	(void)mkdir(in("d"), 0755);
	fixture_file(root, "d/index.json", json);
	fixture_write(in("d/chunk-0-0.bin"), made.at, made.size);
}

static void make_sample(uint32_t zeros, uint32_t noise)
{
	made.size = 0;
	put32(1);
	put32(12);
	put32(0);
	put_frame(zeros, noise);
	memcpy(made.at + 8, &(uint32_t){(uint32_t)made.size}, 4);
	describe("sample");
}

/* The same in a group of one item, whose size is told. */
static void make_batch(uint32_t zeros)
{
	const uint32_t whole = 8 + zeros + IMAGE_SIZE, head[] = {1, 1, 1, 1};
	const uint32_t frame[] = {0, 1, 56, 0, stored_of(zeros), whole};
	made.size = 0;
	put("LDFZ01\0", 8);
	put(head, sizeof head);
	put32(0);
	put32(whole);
	put(frame, sizeof frame);
	put_frame(zeros, 0);
	describe("batch");
}

/* The most zeros that an item may have, by what its frame is stored in. */
static uint32_t zeros_most(void)
{
	uint32_t zeros = 0, before;
	do {
		before = zeros;
		zeros = 1024 * stored_of(zeros) + 16 * MIB - 8 - IMAGE_SIZE;
	} while (zeros != before);
	return zeros;
}

static void good(void)
{
	struct dataset *dataset = open_good("d/chunk-0-0.bin");
	struct sample sample;
	char data[64] = "";
	assert_int_equal(dataset_count(dataset), 1);
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), 0);
	assert_int_equal(sample.size, IMAGE_SIZE);
	if (dataset_read(dataset, &sample, data, sizeof data, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(data, IMAGE);
	dataset_free(dataset);
}

static void refused(void)
{
	expect_fault("d/chunk-0-0.bin", -EINVAL, "compressed items: it unpacks to more than ");
	assert_non_null(strstr(fault.text, "chunk-0-0.bin: byte "));
	assert_non_null(strstr(fault.text, "1024 times its own size and 16 MiB"));
}

static void test_ratio(void **state)
{
	const uint32_t most = zeros_most();
	if (unpack_refused(PACKED_ZSTD))
		skip();
	make_sample(most, 0);
	good();
	make_sample(most + 1, 0);
	refused();
	make_sample(UINT32_MAX / 4, 0);
	refused();
	make_batch(most);
	good();
	make_batch(most + 1);
	refused();
}

static int stop(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	*(unsigned *)context += 1;
	return 1;
}

/* An item of many bytes, which is no fault: the build is asked to stop before it is over. */
static void test_stopped(void **state)
{
	unsigned asked = 0;
	const struct dataset_options options = {
		.cache_dir = cache, .progress = stop, .progress_context = &asked};
	struct dataset *dataset = NULL;
	if (unpack_refused(PACKED_ZSTD))
		skip();
	make_sample(70 * MIB, 60000);
	assert_int_equal(
		dataset_open(in("d/chunk-0-0.bin"), &options, &dataset, &fault), -ECANCELED);
	assert_int_equal(asked, 1);
	assert_non_null(strstr(fault.text, "stopped while indexing, after 0 samples"));
	good();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ratio, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
