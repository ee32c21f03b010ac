/* fetch_fixture: datasets of known bytes in a temporary folder, and a reader that submits, checks
 * and releases.
 *
 * Sample n of every dataset here has fixture_size(n) bytes, and byte i of it is fixture_byte(n, i),
 * so that any mix-up of samples, offsets or buffers is detected. */
#pragma once

#include "base/hash.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch.h"
#include "packed_shard.h"
#include "unit/source_fixture.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum {
	FIXTURE_LARGE = 17, /* this sample, and every 97th after it */
	FIXTURE_LARGE_BYTES = 600000,
};

struct fixture {
	char *root; /* removed with everything in it */
	struct dataset *dataset;
	uint64_t count, per_shard;
	bool large; /* it has large samples */
};

/* From nothing to 40 KB; some sizes are whole pages, or one byte more. */
static inline uint32_t fixture_size(const struct fixture *fixture, uint64_t number)
{
	static const uint32_t special[] = {0, 1, 4095, 4096, 4097, 8192 - 64, 8192};
	if (fixture->large && number % 97 == FIXTURE_LARGE)
		return FIXTURE_LARGE_BYTES + (uint32_t)number;
	if (number % 11 == 3)
		return special[number / 11 % UTIL_COUNT(special)];
	return (uint32_t)(hash_mix(number) % 40000);
}

static inline uint8_t fixture_byte(uint64_t number, uint32_t at)
{
	return (uint8_t)(hash_mix(number) >> (at % 7 * 8)) ^ (uint8_t)(at / 7 * 31);
}

static inline void fixture_fill(uint64_t number, uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = fixture_byte(number, i);
}

static inline void fixture_write_tar(
	const struct fixture *fixture, const char *path, uint64_t first, uint64_t count)
{
	struct fixture_tar tar = {0};
	for (uint64_t n = first; n < first + count; n++) {
		char name[32];
		uint32_t size = fixture_size(fixture, n);
		(void)snprintf(name, sizeof name, "%08llu.jpg", (unsigned long long)n);
		(void)fixture_tar_header(&tar, name, '0', size);
		fixture_fill(n, fixture_tar_raw(&tar, NULL, util_align(size, 512)), size);
	}
	fixture_tar_write(&tar, path);
}

static inline void fixture_open(struct fixture *fixture, const char *spec)
{
	struct fault fault = {""};
	struct dataset_options options = {.cache_dir = fixture_path(fixture->root, "cache")};
	if (dataset_open(spec, &options, &fixture->dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(dataset_count(fixture->dataset), fixture->count);
}

static inline void fixture_shard_path(
	const struct fixture *fixture, uint64_t shard, char path[FIXTURE_PATH])
{
	(void)snprintf(
		path, FIXTURE_PATH, "%s/data-%04llu.tar", fixture->root, (unsigned long long)shard);
}

static inline void fixture_file_path(
	const struct fixture *fixture, uint64_t number, char path[FIXTURE_PATH])
{
	(void)snprintf(path, FIXTURE_PATH, "%s/data/c%d/%08llu.jpg", fixture->root,
		number >= fixture->count / 2, (unsigned long long)number);
}

static inline void fixture_tars(
	struct fixture *fixture, uint64_t count, uint64_t per_shard, bool large)
{
	char path[FIXTURE_PATH];
	*fixture = (struct fixture){
		.root = fixture_folder(), .count = count, .per_shard = per_shard, .large = large};
	for (uint64_t first = 0; first < count; first += per_shard) {
		fixture_shard_path(fixture, first / per_shard, path);
		fixture_write_tar(fixture, path, first, UTIL_MIN(per_shard, count - first));
	}
	fixture_open(fixture, fixture_path(fixture->root, "data-*.tar"));
}

static inline void fixture_write_file(const struct fixture *fixture, uint64_t number, uint32_t size)
{
	char path[FIXTURE_PATH];
	uint8_t *bytes = malloc(size + 1);
	assert_non_null(bytes);
	fixture_file_path(fixture, number, path);
	fixture_fill(number, bytes, size);
	fixture_write(path, bytes, size);
	free(bytes);
}

static inline void fixture_images(struct fixture *fixture, uint64_t count, bool large)
{
	*fixture = (struct fixture){.root = fixture_folder(), .count = count, .large = large};
	fixture_file(fixture->root, "data/c0/none", "");
	fixture_file(fixture->root, "data/c1/none", "");
	for (uint64_t n = 0; n < count; n++)
		fixture_write_file(fixture, n, fixture_size(fixture, n));
	fixture_open(fixture, fixture_path(fixture->root, "data"));
}

/* Shards of samples that are packed together, up to `group` of them, by these methods in turn;
 * labels are not known. */
static inline void fixture_packed_by(struct fixture *fixture, uint64_t count, unsigned group,
	bool large, const enum packed_method *methods, unsigned methods_count)
{
	struct packed_shard shard;
	uint8_t *plain = malloc((size_t)group * (FIXTURE_LARGE_BYTES + count + 8192));
	assert_non_null(plain);
	*fixture = (struct fixture){
		.root = fixture_folder(), .count = count, .per_shard = count, .large = large};
	char *path = fixture_path(fixture->root, "data.tfrecord");
	assert_true(packed_shard_begin(&shard, path, NULL));
	for (uint64_t n = 0, round = 0; n < count; round++) {
		uint32_t sizes[64];
		size_t used = 0;
		unsigned in = 0;
		for (; in < group && n < count; in++, n++) {
			sizes[in] = fixture_size(fixture, n);
			fixture_fill(n, plain + used, sizes[in]);
			used += sizes[in];
		}
		assert_true(packed_shard_group(
			&shard, methods[round % methods_count], plain, sizes, in, 0));
	}
	assert_true(packed_shard_end(&shard));
	free(plain);
	fixture_open(fixture, path);
}

/* By all methods that pack samples together. */
static inline void fixture_packed(
	struct fixture *fixture, uint64_t count, unsigned group, bool large)
{
	static const enum packed_method methods[] = {
		PACKED_DEFLATE, PACKED_SNAPPY, PACKED_NONE, PACKED_GZIP};
	fixture_packed_by(fixture, count, group, large, methods, UTIL_COUNT(methods));
}

static inline void fixture_free(struct fixture *fixture)
{
	dataset_free(fixture->dataset);
	fixture_remove(fixture->root);
}

/* A set of items that are submitted and taken together. */
struct reader {
	struct fetch *fetch;
	struct fetch_reader who;
	const struct fixture *fixture;
	struct reader_item *items;
	uint64_t count;
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct fetch_item *first, **last; /* the completed items, in order */
	uint64_t outcome[FETCH_OUTCOMES], negative; /* of those taken */
};

struct reader_item {
	struct fetch_item item; /* first */
	struct reader *reader;
	struct fault fault;
};

static inline void reader_done(struct fetch_item *item)
{
	struct reader *reader = ((struct reader_item *)item)->reader;
	pthread_mutex_lock(&reader->lock);
	item->next = NULL;
	*reader->last = item;
	reader->last = &item->next;
	pthread_cond_signal(&reader->some);
	pthread_mutex_unlock(&reader->lock);
}

/* Item i is sample i modulo the dataset's count, urgency 0. */
static inline void reader_init(
	struct reader *reader, struct fetch *fetch, const struct fixture *fixture, uint64_t count)
{
	*reader = (struct reader){.fetch = fetch, .fixture = fixture, .count = count};
	fetch_reader_init(&reader->who);
	reader->items = calloc(count, sizeof *reader->items);
	assert_non_null(reader->items);
	reader->last = &reader->first;
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->some, NULL);
	for (uint64_t i = 0; i < count; i++) {
		struct reader_item *item = &reader->items[i];
		item->reader = reader;
		item->item = (struct fetch_item){
			.reader = &reader->who,
			.dataset = fixture->dataset,
			.number = i % fixture->count,
			.done = reader_done,
			.fault = &item->fault,
		};
	}
}

static inline void reader_deinit(struct reader *reader)
{
	fetch_reader_deinit(&reader->who);
	pthread_cond_destroy(&reader->some);
	pthread_mutex_destroy(&reader->lock);
	free(reader->items);
}

/* Shuffles the items; the same seed gives the same order. */
static inline void reader_shuffle(struct reader *reader, uint64_t seed)
{
	for (uint64_t i = reader->count; i > 1; i--) {
		uint64_t j = hash_mix(seed + i) % i;
		uint64_t number = reader->items[j].item.number;
		reader->items[j].item.number = reader->items[i - 1].item.number;
		reader->items[i - 1].item.number = number;
	}
}

/* Items [from, to), all at once. */
static inline void reader_submit(struct reader *reader, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		reader->items[i].item.next = i + 1 < to ? &reader->items[i + 1].item : NULL;
	fetch_submit(reader->fetch, &reader->items[from].item);
}

/* The next completion; NULL when none came for `ms`. */
static inline struct fetch_item *reader_one(struct reader *reader, unsigned ms)
{
	struct timespec until;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&reader->lock);
	while (!reader->first)
		if (pthread_cond_timedwait(&reader->some, &reader->lock, &until) != 0)
			break;
	struct fetch_item *item = reader->first;
	if (item) {
		reader->first = item->next;
		if (!reader->first)
			reader->last = &reader->first;
	}
	pthread_mutex_unlock(&reader->lock);
	return item;
}

/* The bytes of an item, which the caller frees. */
static inline uint8_t *reader_bytes(const struct fetch_item *item)
{
	struct fault fault = {""};
	uint8_t *bytes = malloc(item->unpacked + 1u);
	assert_non_null(bytes);
	if (item->packed.method == PACKED_NONE) {
		assert_int_equal(item->unpacked, item->size);
		memcpy(bytes, item->data, item->size);
		return bytes;
	}
	struct unpack *unpack = unpack_new();
	assert_int_equal(item->size, item->packed.stored);
	if (unpack_slice(unpack, &item->packed, item->unpacked, item->data, bytes, &fault) < 0)
		fail_msg("sample %llu: %s", (unsigned long long)item->number, fault.text);
	unpack_free(unpack);
	return bytes;
}

/* The bytes must be the sample's, and 64 more must be readable. */
static inline void reader_check(const struct reader *reader, const struct fetch_item *item)
{
	const struct fixture *fixture = reader->fixture;
	volatile uint8_t sink = 0;
	uint8_t *bytes = reader_bytes(item);
	assert_int_equal(item->unpacked, fixture_size(fixture, item->number));
	for (uint32_t i = 0; i < item->unpacked; i++)
		if (bytes[i] != fixture_byte(item->number, i))
			fail_msg("sample %llu, byte %u of %u", (unsigned long long)item->number, i,
				item->unpacked);
	free(bytes);
	for (uint32_t i = 0; i < 64; i++)
		sink = sink ^ item->data[item->size + i];
	bool folder = dataset_kind(fixture->dataset) == DATASET_FOLDER;
	assert_int_equal(item->label, folder ? item->number >= fixture->count / 2 : -1);
}

static inline void reader_finish(struct reader *reader, struct fetch_item *item)
{
	if (item->result == FETCH_OK)
		reader_check(reader, item);
	else if (item->result != -ECANCELED)
		assert_true(item->fault->text[0] != 0);
	if (item->result < 0)
		reader->negative++;
	else
		reader->outcome[item->result]++;
	fetch_release(reader->fetch, item);
	assert_null(item->data);
	fetch_release(reader->fetch, item);
}

/* Takes `count` completions; checks, counts and releases each. */
static inline void reader_take(struct reader *reader, uint64_t count)
{
	while (count-- > 0) {
		struct fetch_item *item = reader_one(reader, 60000);
		if (!item)
			fail_msg("no completion for a minute, %llu to come",
				(unsigned long long)count + 1);
		reader_finish(reader, item);
	}
}

/* All items, submitted at once and taken. */
static inline void reader_all(struct reader *reader)
{
	reader_submit(reader, 0, reader->count);
	reader_take(reader, reader->count);
	assert_null(reader_one(reader, 0));
}

/* How many lanes tests have that do not choose. */
static inline unsigned fixture_lanes(void)
{
	const char *lanes = getenv("PENSTOCK_TEST_LANES");
	return lanes ? (unsigned)strtoul(lanes, NULL, 10) : 1;
}

/* NULL, with a printed message, if this machine does not have the engine. */
static inline struct fetch *fixture_fetch(const struct fetch_options *options)
{
	struct fetch *fetch = NULL;
	struct fault fault = {""};
	int rc = fetch_new(options, &fetch, &fault);
	if (rc < 0 && options->engine == FETCH_URING) {
		print_message("skipped for io_uring: %s\n", fault.text);
		return NULL;
	}
	if (rc < 0)
		fail_msg("%s", fault.text);
	return fetch;
}

static const enum fetch_engine fixture_engines[] = {FETCH_URING, FETCH_PREAD};

static inline struct fetch *fixture_engine(const struct fetch_options *options, size_t engine)
{
	struct fetch_options own = *options;
	own.engine = fixture_engines[engine];
	if (!own.lanes)
		own.lanes = fixture_lanes();
	return fixture_fetch(&own);
}

/* Runs a statement for each engine that this machine has, with a fetch of these options that is
 * freed afterwards. */
#define each_engine(fetch, options)                                                 \
	for (size_t engine_ = 0; engine_ < UTIL_COUNT(fixture_engines); engine_++)  \
		for (struct fetch *fetch = fixture_engine(options, engine_); fetch; \
			fetch_free(fetch), fetch = NULL)
