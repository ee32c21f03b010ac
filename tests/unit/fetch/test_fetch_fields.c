/* fetch: fields beside images, from tars and folders, buffered and direct, with both engines: the
 * bytes of each, one read for the members of a sample, samples without a field, long ones, files
 * that change, and that streams with other fields of one folder get theirs. */
#include "unit/fetch/fetch_fixture.h"

#include "base/host/ledger.h"
#include "dataset/fields.h"
#include "fetch/fetch_op.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { SAMPLES = 90, FIELDS = 2, LIMIT = 100, EACH = 1 + FIELDS };

static const struct field_list list = {
	FIELDS, {{"txt", .max = LIMIT}, {"json", .max = LIMIT, .cut = true}}};

/* Every 10th sample has no txt; the json of every 7th is longer than the limit. */
static bool has(uint64_t number, uint32_t field)
{
	return field != 0 || number % 10 != 3;
}

static size_t text_of(uint64_t number, uint32_t field, char text[LIMIT * 2])
{
	size_t size = (number * 7 + field * 13) % LIMIT;
	if (field == 1 && number % 7 == 0)
		size = LIMIT + 1 + number % 50;
	for (size_t i = 0; i < size; i++)
		text[i] = (char)('a' + (number + field + i) % 26);
	return size;
}

static void tar_field(struct fixture_tar *tar, uint64_t number, uint32_t field)
{
	char name[32], text[LIMIT * 2];
	if (!has(number, field))
		return;
	size_t size = text_of(number, field, text);
	(void)snprintf(
		name, sizeof name, "%08llu.%s", (unsigned long long)number, list.at[field].name);
	(void)fixture_tar_header(tar, name, '0', size);
	fixture_tar_data(tar, text, size);
}

/* The json is in front of the image, the txt after it. */
static void make_tar(struct fixture *fixture)
{
	*fixture =
		(struct fixture){.root = fixture_folder(), .count = SAMPLES, .per_shard = SAMPLES};
	struct fixture_tar tar = {0};
	for (uint64_t n = 0; n < SAMPLES; n++) {
		char name[32];
		uint32_t size = fixture_size(fixture, n);
		tar_field(&tar, n, 1);
		(void)snprintf(name, sizeof name, "%08llu.png", (unsigned long long)n);
		(void)fixture_tar_header(&tar, name, '0', size);
		fixture_fill(n, fixture_tar_raw(&tar, NULL, util_align(size, 512)), size);
		tar_field(&tar, n, 0);
	}
	fixture_tar_write(&tar, fixture_path(fixture->root, "data.tar"));
	struct fault fault = {""};
	struct dataset_options options = {.cache_dir = fixture_path(fixture->root, "cache"),
		.labels = DATASET_LABELS_NONE,
		.fields = &list};
	if (dataset_open(fixture_path(fixture->root, "data.tar"), &options, &fixture->dataset,
		    &fault) < 0)
		fail_msg("%s", fault.text);
}

static void field_file(
	const struct fixture *fixture, uint64_t number, const char *name, char path[FIXTURE_PATH])
{
	fixture_file_path(fixture, number, path);
	assert_true(field_path(path, name, path, FIXTURE_PATH));
}

static void make_folder(struct fixture *fixture)
{
	fixture_images(fixture, SAMPLES, false);
	for (uint64_t n = 0; n < SAMPLES; n++)
		for (uint32_t f = 0; f < FIELDS; f++) {
			char path[FIXTURE_PATH], text[LIMIT * 2];
			field_file(fixture, n, list.at[f].name, path);
			if (has(n, f))
				fixture_write(path, text, text_of(n, f, text));
		}
}

/* Items of each sample: its image, then its fields. */
static void fields_init(struct reader *reader, struct fetch *fetch, const struct fixture *fixture)
{
	reader_init(reader, fetch, fixture, SAMPLES * EACH);
	for (uint64_t i = 0; i < reader->count; i++) {
		struct fetch_item *item = &reader->items[i].item;
		item->number = i / EACH;
		item->fields_follow = i % EACH == 0;
		if (i % EACH == 0)
			continue;
		item->place = (uint32_t)(i % EACH) - 1;
		item->field = fetch_field(fetch, list.at[item->place].name, LIMIT);
		assert_non_null(item->field);
		item->fault = NULL;
	}
}

/* Takes one completion and checks it. Returns its outcome. */
static int take_one(struct reader *reader)
{
	struct fetch_item *item = reader_one(reader, 60000);
	assert_non_null(item);
	int result = item->result;
	if (!item->field) {
		reader_finish(reader, item);
		return result;
	}
	char text[LIMIT * 2];
	size_t size = text_of(item->number, item->place, text);
	assert_int_equal(result, has(item->number, item->place) ? FETCH_OK : FETCH_E_FIELD_MISSING);
	if (result == FETCH_OK) {
		assert_int_equal(item->size, UTIL_MIN(size, (size_t)LIMIT));
		assert_memory_equal(item->data, text, item->size);
		assert_int_equal(item->longer, size > LIMIT);
	}
	fetch_release(reader->fetch, item);
	return result;
}

static void read_rounds(struct fetch *fetch, const struct fixture *fixture)
{
	for (int round = 0; round < 2; round++) {
		struct reader reader;
		fields_init(&reader, fetch, fixture);
		reader_submit(&reader, 0, reader.count);
		for (uint64_t i = 0; i < reader.count; i++)
			(void)take_one(&reader);
		reader_deinit(&reader);
	}
	struct fetch_stats stats;
	fetch_stats_read(fetch, &stats);
	assert_int_equal(stats.samples, 2 * SAMPLES);
	assert_int_equal(stats.arena_used, 0);
	assert_int_equal(stats.inflight, 0);
}

static void read_all_ways(const struct fixture *fixture)
{
	for (int way = 0; way < 4; way++) {
		struct ledger ledger;
		struct fetch_options options = {.engine = FETCH_AUTO,
			.io = way & 1 ? FETCH_IO_DIRECT : FETCH_IO_BUFFERED,
			.arena_bytes = 8 << 20,
			.index_bytes = 1 << 18};
		ledger_init(&ledger, 64 << 20);
		if (way & 2) {
			options.ledger = &ledger;
			options.cache = FETCH_CACHE_ON;
		}
		each_engine (fetch, &options) {
			fetch_expect(fetch, fixture->dataset);
			read_rounds(fetch, fixture);
		}
		ledger_deinit(&ledger);
	}
}

static void test_tar(void **state)
{
	struct fixture fixture;
	make_tar(&fixture);
	read_all_ways(&fixture);
	fixture_free(&fixture);
}

static void test_folder(void **state)
{
	struct fixture fixture;
	make_folder(&fixture);
	read_all_ways(&fixture);
	fixture_free(&fixture);
}

/* One sample at a time: its image and its fields are read together, whatever their order. */
static void test_one_read(void **state)
{
	struct fixture fixture;
	make_tar(&fixture);
	struct fetch_options options = {.engine = FETCH_AUTO,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 8 << 20,
		.index_bytes = 1 << 18};
	each_engine (fetch, &options) {
		struct reader reader;
		struct fetch_stats stats;
		fields_init(&reader, fetch, &fixture);
		for (uint64_t n = 0; n < 20; n++) {
			reader_submit(&reader, n * EACH, n * EACH + EACH);
			for (int i = 0; i < EACH; i++)
				(void)take_one(&reader);
		}
		fetch_stats_read(fetch, &stats);
		assert_int_equal(stats.reads, 20);
		assert_int_equal(stats.merged, 20 * FIELDS - 2); /* two samples have no txt */
		reader_deinit(&reader);
	}
	fixture_free(&fixture);
}

/* Two streams read other fields of one folder through one dataset. */
static void test_shared_folder(void **state)
{
	struct fixture fixture;
	make_folder(&fixture);
	struct fetch_options options = {.engine = FETCH_PREAD,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18};
	struct fetch *fetch = fixture_fetch(&options);
	const struct fetch_field *txt = fetch_field(fetch, "txt", LIMIT);
	const struct fetch_field *json = fetch_field(fetch, "json", LIMIT);
	const struct fetch_field *less = fetch_field(fetch, "json", 5);
	assert_ptr_equal(txt, fetch_field(fetch, "txt", LIMIT));
	assert_ptr_not_equal(json, less);
	struct reader reader;
	reader_init(&reader, fetch, &fixture, 3);
	const struct fetch_field *const each[] = {txt, json, less};
	for (int i = 0; i < 3; i++) {
		reader.items[i].item.number = 5;
		reader.items[i].item.field = each[i];
	}
	reader_submit(&reader, 0, 3);
	char text[LIMIT * 2];
	for (int i = 0; i < 3; i++) {
		struct fetch_item *item = reader_one(&reader, 60000);
		assert_int_equal(item->result, FETCH_OK);
		size_t size = text_of(5, item->field == txt ? 0 : 1, text);
		assert_int_equal(item->size, item->field == less ? 5 : size);
		assert_memory_equal(item->data, text, item->size);
		fetch_release(fetch, item);
	}
	reader_deinit(&reader);
	fetch_free(fetch);
	fixture_free(&fixture);
}

/* --- files of a folder that are not what they should be --- */

static _Atomic int writes_left;
static char written[FIXTURE_PATH];

/* A program that writes the file between its opening and its reading. */
static int write_between(struct fetch_op *op)
{
	if (op->kind != FETCH_OP_FILE || op->stage != FETCH_OP_READ || !op->unsized ||
		writes_left == 0)
		return 0;
	writes_left--;
	struct timespec times[2] = {{.tv_sec = writes_left}, {.tv_sec = writes_left}};
	assert_int_equal(utimensat(AT_FDCWD, written, times, 0), 0);
	return 0;
}

static int outcome_of(struct fetch *fetch, const struct fixture *fixture, uint64_t number)
{
	struct reader reader;
	reader_init(&reader, fetch, fixture, 1);
	reader.items[0].item.number = number;
	reader.items[0].item.field = fetch_field(fetch, "txt", LIMIT);
	reader.items[0].item.fault = NULL;
	reader_submit(&reader, 0, 1);
	struct fetch_item *item = reader_one(&reader, 60000);
	int result = item->result;
	assert_false(item->resized);
	fetch_release(fetch, item);
	reader_deinit(&reader);
	return result;
}

static void test_odd_files(void **state)
{
	struct fixture fixture;
	char path[FIXTURE_PATH];
	fixture_images(&fixture, 8, false);
	field_file(&fixture, 0, "txt", path);
	assert_int_equal(mkdir(path, 0700), 0);
	field_file(&fixture, 1, "txt", path);
	assert_int_equal(mkfifo(path, 0600), 0);
	field_file(&fixture, 2, "txt", path);
	assert_int_equal(symlink("nowhere", path), 0);
	field_file(&fixture, 3, "txt", path);
	assert_int_equal(symlink(path, path), 0);
	field_file(&fixture, 4, "txt", path);
	fixture_write(path, "text", 4);
	(void)snprintf(written, sizeof written, "%s", path);
	struct fetch_options options = {.engine = FETCH_AUTO,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18};
	each_engine (fetch, &options) {
		assert_int_equal(outcome_of(fetch, &fixture, 0), FETCH_E_CHANGED);
		assert_int_equal(outcome_of(fetch, &fixture, 1), FETCH_E_CHANGED);
		assert_int_equal(outcome_of(fetch, &fixture, 2), FETCH_E_FIELD_MISSING);
		assert_int_equal(outcome_of(fetch, &fixture, 3), FETCH_E_IO);
		assert_int_equal(outcome_of(fetch, &fixture, 5), FETCH_E_FIELD_MISSING);
		fetch_hook_set(write_between);
		writes_left = 2;
		assert_int_equal(outcome_of(fetch, &fixture, 4), FETCH_OK);
		writes_left = 100;
		assert_int_equal(outcome_of(fetch, &fixture, 4), FETCH_E_CHANGED);
		assert_true(writes_left > 80);
		fetch_hook_set(NULL);
	}
	fixture_free(&fixture);
}

int main(void)
{
	(void)alarm(120);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tar),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_one_read),
		cmocka_unit_test(test_shared_folder),
		cmocka_unit_test(test_odd_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
