/* Samples come in their order whatever the threads, however small the window; broken ones among
 * them; and stopping in the middle leaves nothing. */
#include "unit/decode/images.h"
#include "unit/source_fixture.h"

#include "client/cli/pack/pipeline.h"

#include <dirent.h>

enum { SAMPLES = 120, SECOND_NS = 1000000000 };

struct set_up {
	char *folder;
	struct dataset *dataset;
	struct permit work, decoders;
	int index_fd; /* of the dataset's index */
};

/* The only file in the folder of indexes, for writing. */
static int open_index(const char *folder)
{
	const struct dirent *entry;
	int fd = -1;
	DIR *cache = opendir(folder);
	assert_non_null(cache);
	while ((entry = readdir(cache)))
		if (entry->d_name[0] != '.')
			fd = openat(dirfd(cache), entry->d_name, O_RDWR | O_CLOEXEC);
	(void)closedir(cache);
	return fd;
}

/* Of many sizes; every seventh is no image, and one is larger than the small window. */
static int make_set_up(void **state)
{
	static struct set_up set;
	struct dataset_options options = {.cache_dir = NULL};
	struct fault fault = {{0}};
	set = (struct set_up){.folder = fixture_folder()};
	assert_int_equal(mkdir(fixture_path(set.folder, "images"), 0700), 0);
	for (unsigned i = 0; i < SAMPLES; i++) {
		char name[32];
		struct jpeg_kind kind = {.width = 16 + i * 37 % 200,
			.height = 16 + i * 53 % 150,
			.components = 3,
			.progressive = i % 3 == 0};
		if (i == 50)
			kind = (struct jpeg_kind){
				.width = 900, .height = 900, .components = 3, .quality = 99};
		struct bytes image = make_jpeg(&kind);
		(void)snprintf(name, sizeof name, "images/%04u.jpg", i);
		fixture_write(fixture_path(set.folder, name),
			i % 7 == 3 ? (const void *)"text" : image.data,
			i % 7 == 3 ? 4 : image.size);
		free(image.data);
	}
	options.cache_dir = fixture_path(set.folder, "cache");
	if (dataset_open(fixture_path(set.folder, "images"), &options, &set.dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	set.index_fd = open_index(fixture_path(set.folder, "cache"));
	permit_init(&set.work, 32 << 20);
	permit_init(&set.decoders, 32 << 20);
	*state = &set;
	return 0;
}

static int drop_set_up(void **state)
{
	struct set_up *set = *state;
	(void)close(set->index_fd);
	permit_deinit(&set->work);
	permit_deinit(&set->decoders);
	dataset_free(set->dataset);
	fixture_remove(set->folder);
	return 0;
}

static struct pipeline *start(
	struct set_up *set, unsigned threads, uint64_t window_bytes, uint64_t first)
{
	struct pipeline_options options = {
		.image = {.interval = {.mcus = 12}, .verify = true},
		.memory = {&set->work, &set->decoders},
		.window_bytes = window_bytes,
		.threads = threads,
		.first = first,
	};
	struct pipeline *pipeline = NULL;
	assert_int_equal(pipeline_new(set->dataset, &options, &pipeline, NULL), 0);
	return pipeline;
}

static bool next(struct pipeline *pipeline, struct pipeline_item *item)
{
	struct fault fault = {{0}};
	int r;
	do
		r = pipeline_next(pipeline, SECOND_NS, item, &fault);
	while (r == PIPELINE_E_WAIT);
	if (r < 0)
		fail_msg("%s", fault.text);
	return r == PIPELINE_ITEM;
}

static void check_run(struct set_up *set, unsigned threads, uint64_t window_bytes, uint64_t first)
{
	struct pipeline *pipeline = start(set, threads, window_bytes, first);
	struct pipeline_item item;
	uint64_t expected = first;
	for (; next(pipeline, &item); expected++) {
		char name[32];
		(void)snprintf(name, sizeof name, "%04u.jpg", (unsigned)expected);
		assert_int_equal(item.number, expected);
		assert_string_equal(item.name, name);
		assert_int_equal(item.label, -1);
		if (expected % 7 == 3)
			assert_string_equal(item.broken, "not-image");
		else if (expected == 50 && window_bytes < (1 << 20))
			assert_string_equal(item.broken, "too-large");
		else
			assert_true(!item.broken && item.image->choices);
		pipeline_done(pipeline);
	}
	assert_int_equal(expected, SAMPLES);
	pipeline_free(pipeline);
}

static void test_order(void **state)
{
	static const unsigned threads[] = {1, 2, 3, 8};
	static const uint64_t windows[] = {60000, 200000, 64 << 20};
	for (size_t t = 0; t < UTIL_COUNT(threads); t++)
		for (size_t w = 0; w < UTIL_COUNT(windows); w++)
			check_run(*state, threads[t], windows[w], 0);
	check_run(*state, 4, 64 << 20, 77);
	check_run(*state, 4, 64 << 20, SAMPLES);
}

static void test_stopped(void **state)
{
	for (unsigned n = 0; n < 12; n++) {
		struct pipeline *pipeline = start(*state, 4, n % 2 ? 60000 : 1 << 20, 0);
		struct pipeline_item item;
		for (unsigned i = 0; i < n * 3; i++) {
			assert_true(next(pipeline, &item));
			if (i + 1 < n * 3)
				pipeline_done(pipeline);
		}
		pipeline_free(pipeline);
	}
}

/* What the machine is at fault for ends the run, with a sentence: here an index cut under it. */
static void test_fault(void **state)
{
	struct set_up *set = *state;
	struct fault fault = {{0}};
	struct pipeline_item item;
	assert_int_equal(set->index_fd >= 0 ? ftruncate(set->index_fd, 4096) : -1, 0);
	struct pipeline *pipeline = start(set, 3, 1 << 20, 0);
	int r;
	while ((r = pipeline_next(pipeline, SECOND_NS, &item, &fault)) >= 0)
		if (r == PIPELINE_ITEM)
			pipeline_done(pipeline);
		else
			assert_int_equal(r, PIPELINE_E_WAIT);
	assert_true(fault.text[0]);
	pipeline_free(pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_fault),
	};
	return cmocka_run_group_tests(tests, make_set_up, drop_set_up);
}
