/* object: reads through the cache and a server that a thread of this test stands in for: which
 * bytes arrive, what is requested for them, and what happens to readers that share a request. */
#include "remote/object.h"

#include "base/hash.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/cache/disk_internal.h"
#include "remote/objects.h"
#include "unit/folder_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* The server. Its objects are "s3://b/OBJECT-SIZE", and their bytes a function of the place. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	pthread_t thread;
	struct list_head requests;
	bool held, ending; /* held: requests wait */
	unsigned waiting, count; /* requests: held back; ever begun */
	uint64_t bytes; /* of bodies */
	const char *etag;
	uint64_t size_lie; /* added to the sizes it tells in answers to GET */
	int64_t modified_s;
	atomic_bool begin_held; /* the transport does not yet know of requests that are begun */
	atomic_uint beginning; /* requests that wait for that */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};

static uint8_t byte_at(unsigned object, uint64_t offset)
{
	return (uint8_t)(hash_mix(offset / 8 + object * UINT64_C(1000003)) >> (offset % 8 * 8));
}

static void parse(const char *url, unsigned *object, unsigned long long *size)
{
	assert_int_equal(sscanf(url, "s3://b/%u-%llu", object, size), 2);
}

static void serve(struct client_request *request)
{
	unsigned object;
	unsigned long long size;
	parse(request->url, &object, &size);
	request->status = 206;
	request->answer.size = size + (request->method == CLIENT_GET ? server.size_lie : 0);
	request->answer.modified_s = server.modified_s;
	(void)snprintf(request->answer.etag, sizeof request->answer.etag, "%s", server.etag);
	for (uint64_t i = 0; request->method == CLIENT_GET && i < request->size; i++)
		request->buffer[i] = byte_at(object, request->offset + i);
	request->received = request->size;
}

static void *serve_all(void *context)
{
	(void)pthread_mutex_lock(&server.lock);
	while (!server.ending) {
		struct client_request *request =
			server.held ? NULL
				    : list_take(&server.requests, struct client_request, own.node);
		if (!request) {
			(void)pthread_cond_wait(&server.turn, &server.lock);
			continue;
		}
		server.waiting--;
		server.bytes += request->size;
		(void)pthread_mutex_unlock(&server.lock);
		serve(request);
		request->done(request);
		(void)pthread_mutex_lock(&server.lock);
	}
	(void)pthread_mutex_unlock(&server.lock);
	return NULL;
}

static void transport_begin(void *context, struct client_request *request)
{
	atomic_fetch_add(&server.beginning, 1);
	while (atomic_load(&server.begin_held))
		(void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	atomic_fetch_sub(&server.beginning, 1);
	(void)pthread_mutex_lock(&server.lock);
	list_append(&server.requests, &request->own.node);
	server.waiting++;
	server.count++;
	(void)pthread_cond_signal(&server.turn);
	(void)pthread_mutex_unlock(&server.lock);
}

static void transport_cancel(void *context, struct client_request *request)
{
	bool found = false;
	(void)pthread_mutex_lock(&server.lock);
	list_each_removable (one, &server.requests, struct client_request, own.node)
		if (one == request) {
			list_remove(&server.requests, &one->own.node);
			server.waiting--;
			found = true;
		}
	(void)pthread_mutex_unlock(&server.lock);
	if (!found)
		return;
	request->result = -ECANCELED;
	request->done(request);
}

static int transport_perform(void *context, struct client_request *request, struct fault *fault)
{
	serve(request);
	return 0;
}

static void hold(bool held)
{
	(void)pthread_mutex_lock(&server.lock);
	server.held = held;
	(void)pthread_cond_signal(&server.turn);
	(void)pthread_mutex_unlock(&server.lock);
}

static void wait_waiting(unsigned count)
{
	for (bool reached = false; !reached;) {
		(void)pthread_mutex_lock(&server.lock);
		reached = server.waiting == count;
		(void)pthread_mutex_unlock(&server.lock);
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static uint64_t bytes_take(void)
{
	(void)pthread_mutex_lock(&server.lock);
	const uint64_t bytes = server.bytes;
	server.bytes = 0;
	server.count = 0;
	(void)pthread_mutex_unlock(&server.lock);
	return bytes;
}

static char *folder;
static struct objects *objects;

static void start(uint64_t cache)
{
	static const struct objects_transport transport = {
		.begin = transport_begin, .cancel = transport_cancel, .perform = transport_perform};
	struct disk *disk = NULL;
	struct fault fault;
	if (cache)
		assert_int_equal(disk_open(folder, cache, &disk, &fault), 0);
	assert_int_equal(objects_new(disk, &transport, &objects), 0);
	server.ending = server.held = false;
	assert_int_equal(pthread_create(&server.thread, NULL, serve_all, NULL), 0);
}

/* As remote_stop: the client's thread has ended before the objects do. */
static void stop(void)
{
	objects_ending(objects);
	(void)pthread_mutex_lock(&server.lock);
	server.ending = true;
	(void)pthread_cond_signal(&server.turn);
	(void)pthread_mutex_unlock(&server.lock);
	(void)pthread_join(server.thread, NULL);
	objects_end(objects);
	objects_free(objects);
	objects = NULL;
}

static int setup(void **state)
{
	server.etag = "\"a\"";
	server.size_lie = 0;
	server.modified_s = -1;
	(void)bytes_take();
	folder = fixture_folder();
	return 0;
}

static int teardown(void **state)
{
	fixture_remove(folder);
	return 0;
}

static struct remote_object *open_object(unsigned number, uint64_t size)
{
	char url[64];
	struct remote_object *object;
	(void)snprintf(url, sizeof url, "s3://b/%u-%llu", number, (unsigned long long)size);
	assert_int_equal(objects_open(objects, url, &object, NULL), 0);
	return object;
}

static void check(const uint8_t *bytes, unsigned number, uint64_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != byte_at(number, offset + i))
			fail_msg("byte %zu of object %u from %llu on is wrong", i, number,
				(unsigned long long)offset);
}

static void read_check(struct remote_object *object, unsigned number, uint64_t offset, size_t size)
{
	static uint8_t buffer[20 * MIB];
	struct fault fault;
	int fd;
	if (remote_object_local(object, offset, size, &fd))
		assert_int_equal(whole_read(fd, buffer, size, offset), size);
	else
		assert_int_equal(remote_object_read(object, buffer, size, offset, &fault), 0);
	check(buffer, number, offset, size);
}

/* Until what was fetched is written. */
static void settle(void)
{
	while (atomic_load(&objects->staged))
		(void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void test_exact(void **state)
{
	start(0);
	struct remote_object *object = open_object(1, 5 * MIB + 3);
	assert_int_equal(remote_object_size(object), 5 * MIB + 3);
	assert_string_equal(remote_object_etag(object), "\"a\"");
	assert_true(remote_object_stamp(object) > 0);
	struct remote_object *again = open_object(1, 5 * MIB + 3);
	assert_ptr_equal(object, again);
	remote_object_unref(again);
	read_check(object, 1, 70000, 1);
	read_check(object, 1, 65530, 100000);
	read_check(object, 1, 5 * MIB, 3);
	assert_int_equal(server.count, 3);
	assert_int_equal(bytes_take(), 100004);
	read_check(object, 1, 0, 5 * MIB + 3);
	assert_int_equal(bytes_take(), 5 * MIB + 3);
	uint8_t byte;
	struct fault fault;
	assert_int_equal(remote_object_read(object, &byte, 1, 5 * MIB + 3, &fault), -ENODATA);
	assert_non_null(strstr(fault.text, "s3://b/1-5242883: it has 5242883 bytes"));
	assert_int_equal(remote_object_read(object, &byte, 0, 0, &fault), 0);
	remote_object_unref(object);
	stop();
}

struct waited {
	struct remote_read read;
	uint8_t bytes[300000];
	atomic_bool done;
};

static void waited_done(struct remote_read *read)
{
	atomic_store(&((struct waited *)read)->done, true);
}

static void waited_begin(
	struct waited *waited, struct remote_object *object, uint64_t offset, uint32_t size)
{
	waited->read = (struct remote_read){.object = object,
		.buffer = waited->bytes,
		.offset = offset,
		.size = size,
		.done = waited_done};
	atomic_store(&waited->done, false);
	remote_object_begin(&waited->read);
}

static int waited_end(struct waited *waited)
{
	while (!atomic_load(&waited->done))
		(void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	return waited->read.result;
}

/* `cache`: blocks that are stored, else exact ranges. */
static void share(uint64_t cache)
{
	static struct waited a, b, c;
	start(cache);
	struct remote_object *object = open_object(2, 4 * MIB);
	hold(true);
	waited_begin(&a, object, 100000, 200000);
	wait_waiting(1);
	waited_begin(&b, object, 120000, 50000);
	waited_begin(&c, object, 290000, 5000);
	(void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	hold(false);
	assert_int_equal(waited_end(&a), 0);
	assert_int_equal(waited_end(&b), 0);
	assert_int_equal(waited_end(&c), 0);
	assert_int_equal(server.count, 1);
	check(a.bytes, 2, 100000, 200000);
	check(b.bytes, 2, 120000, 50000);
	check(c.bytes, 2, 290000, 5000);

	/* The reader whose request it is cancels. */
	hold(true);
	waited_begin(&a, object, 1100000, 200000);
	wait_waiting(1);
	waited_begin(&b, object, 1120000, 50000);
	waited_begin(&c, object, 1200000, 50000);
	(void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	remote_object_cancel(&a.read);
	assert_int_equal(waited_end(&a), -ECANCELED);
	remote_object_cancel(&c.read);
	assert_int_equal(waited_end(&c), -ECANCELED);
	assert_false(atomic_load(&b.done));
	hold(false);
	assert_int_equal(waited_end(&b), 0);
	check(b.bytes, 2, 1120000, 50000);
	/* All cancel, twice. */
	hold(true);
	waited_begin(&a, object, 2100000, 200000);
	wait_waiting(1);
	waited_begin(&b, object, 2120000, 50000);
	(void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	remote_object_cancel(&b.read);
	remote_object_cancel(&a.read);
	assert_int_equal(waited_end(&a), -ECANCELED);
	assert_int_equal(waited_end(&b), -ECANCELED);
	remote_object_cancel(&a.read);
	wait_waiting(0);
	hold(false);
	read_check(object, 2, 2100000, 200000);
	settle();
	remote_object_unref(object);
	stop();
}

static void test_share(void **state)
{
	share(0);
}

static void test_share_stored(void **state)
{
	share(16 * MIB);
}

/* A read is canceled after its flight was made and before the transport has the request: the
 * transport must not hear of the cancellation first, and the read ends. */
static void test_cancel_early(void **state)
{
	static struct waited a, b;
	start(16 * MIB);
	struct remote_object *object = open_object(2, 4 * MIB);
	hold(true);
	atomic_store(&server.begin_held, true);
	waited_begin(&a, object, 100000, 200000);
	while (!atomic_load(&server.beginning))
		(void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	waited_begin(&b, object, 120000, 50000);
	(void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	remote_object_cancel(&b.read);
	remote_object_cancel(&a.read);
	assert_int_equal(waited_end(&b), -ECANCELED);
	atomic_store(&server.begin_held, false);
	assert_int_equal(waited_end(&a), -ECANCELED);
	/* Nothing is left of the request. */
	wait_waiting(0);
	hold(false);
	read_check(object, 2, 100000, 200000);
	settle();
	remote_object_unref(object);
	stop();
}

static void test_cached(void **state)
{
	int fd;
	start(16 * MIB);
	struct remote_object *object = open_object(3, 3 * MIB + 100);
	read_check(object, 3, 70000, 10);
	assert_int_equal(bytes_take(), DISK_BLOCK);
	settle();
	assert_true(remote_object_local(object, DISK_BLOCK, DISK_BLOCK, &fd));
	assert_false(remote_object_local(object, DISK_BLOCK, DISK_BLOCK + 1, &fd));
	/* What is missing around it, with one request on each side. */
	read_check(object, 3, 60000, 80000);
	assert_int_equal(server.count, 2);
	assert_int_equal(bytes_take(), 2 * DISK_BLOCK);
	read_check(object, 3, 0, 3 * MIB + 100);
	assert_int_equal(bytes_take(), 3 * MIB + 100 - 3 * DISK_BLOCK);
	settle();
	remote_object_unref(object);
	stop();

	/* Warm: each block is verified once, and then read locally. */
	start(16 * MIB);
	object = open_object(3, 3 * MIB + 100);
	assert_false(remote_object_local(object, 0, 100, &fd));
	read_check(object, 3, 0, 3 * MIB + 100);
	assert_true(remote_object_local(object, 0, 3 * MIB + 100, &fd));
	assert_int_equal(bytes_take(), 0);
	remote_object_unref(object);
	stop();

	/* A flipped bit costs one block. */
	start(16 * MIB);
	object = open_object(3, 3 * MIB + 100);
	read_check(object, 3, 0, 1);
	assert_true(remote_object_local(object, 0, 1, &fd));
	const uint8_t wrong = (uint8_t)~byte_at(3, 200000);
	assert_int_equal(pwrite(fd, &wrong, 1, 200000), 1);
	read_check(object, 3, 0, 3 * MIB + 100);
	assert_int_equal(bytes_take(), DISK_BLOCK);
	struct remote_stats stats = {0};
	objects_stats_read(objects, &stats);
	assert_int_equal(stats.cache_broken_blocks, 1);
	assert_int_equal(stats.miss_bytes, DISK_BLOCK);
	settle();
	read_check(object, 3, 190000, 20000);
	assert_int_equal(bytes_take(), 0);
	remote_object_unref(object);

	/* Another version. */
	server.etag = "\"b\"";
	object = open_object(3, 3 * MIB + 100);
	read_check(object, 3, 0, 3 * MIB);
	assert_int_equal(bytes_take(), 3 * MIB);
	settle();
	remote_object_unref(object);
	stop();
}

static void test_replaced(void **state)
{
	uint8_t byte;
	struct fault fault;
	start(0);
	server.etag = "W/\"weak\"";
	struct remote_object *object = open_object(4, MIB);
	read_check(object, 4, 0, 10);
	server.etag = "W/\"other\"";
	assert_int_equal(remote_object_read(object, &byte, 1, 0, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "it was replaced while it was read"));
	server.etag = "W/\"weak\"";
	server.size_lie = 1;
	assert_int_equal(remote_object_read(object, &byte, 1, 0, &fault), -ESTALE);
	server.size_lie = 0;
	remote_object_unref(object);
	/* A server without ETags tells when an object was changed. */
	server.etag = "";
	server.modified_s = 1000;
	object = open_object(5, MIB);
	read_check(object, 5, 0, 10);
	server.modified_s = 1001;
	assert_int_equal(remote_object_read(object, &byte, 1, 0, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "it was replaced while it was read"));
	remote_object_unref(object);
	stop();
}

/* Writing fails: readers do not notice. */
static void test_full_disk(void **state)
{
	struct rlimit before, limit;
	(void)signal(SIGXFSZ, SIG_IGN);
	start(16 * MIB);
	struct remote_object *object = open_object(5, 4 * MIB);
	read_check(object, 5, 0, DISK_BLOCK);
	settle();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){MIB, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	read_check(object, 5, 2 * MIB, MIB);
	settle();
	assert_true(disk_stopped(objects->disk));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	(void)bytes_take();
	read_check(object, 5, 2 * MIB, 1000);
	assert_int_equal(bytes_take(), 1000);
	read_check(object, 5, 0, DISK_BLOCK);
	assert_int_equal(bytes_take(), 0);
	remote_object_unref(object);
	stop();
}

enum { SHARDS = 4, SHARD = 8 * MIB, SAMPLE = 110000 };

static uint64_t random_state = 88172645463325252;

static uint64_t random_below(uint64_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

/* Reads every sample once, in a fresh random order; the bytes that were fetched for it. */
static uint64_t epoch(struct remote_object *const *shards)
{
	enum { PER = SHARD / SAMPLE, COUNT = SHARDS * PER };
	unsigned order[COUNT];
	for (unsigned i = 0; i < COUNT; i++)
		order[i] = i;
	for (unsigned i = COUNT - 1; i; i--) {
		const unsigned j = (unsigned)random_below(i + 1), one = order[i];
		order[i] = order[j];
		order[j] = one;
	}
	for (unsigned i = 0; i < COUNT; i++)
		read_check(shards[order[i] / PER], order[i] / PER,
			(uint64_t)(order[i] % PER) * SAMPLE, SAMPLE);
	return bytes_take();
}

static uint64_t folder_bytes(void)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote", folder);
	DIR *stream = opendir(path);
	uint64_t sum = 0;
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		struct stat status;
		if (strcmp(entry->d_name, "..") != 0 &&
			fstatat(dirfd(stream), entry->d_name, &status, 0) == 0)
			sum += (uint64_t)status.st_blocks * 512;
	}
	if (stream)
		(void)closedir(stream);
	return sum;
}

/* Belady's optimum for a fresh permutation each epoch is 1 - share. */
static void belady(double share, double most)
{
	const uint64_t size = (uint64_t)SHARDS * SHARD;
	const uint64_t cache = (uint64_t)((double)size * share);
	struct remote_object *shards[SHARDS];
	start(cache);
	for (unsigned i = 0; i < SHARDS; i++)
		shards[i] = open_object(i, SHARD);
	(void)epoch(shards);
	for (int i = 0; i < 3; i++) {
		const uint64_t bytes = epoch(shards);
		if ((double)bytes > most * (double)size)
			fail_msg("an epoch fetched %.3f of the dataset",
				(double)bytes / (double)size);
		assert_true(folder_bytes() <= cache);
	}
	for (unsigned i = 0; i < SHARDS; i++)
		remote_object_unref(shards[i]);
	stop();
	fixture_remove(folder);
	folder = fixture_folder();
}

static void test_belady(void **state)
{
	belady(0.5, 0.52);
	belady(0.25, 0.77);
}

static void test_stream(void **state)
{
	static uint8_t bytes[MIB];
	struct remote_stream *stream;
	struct fault fault;
	const uint64_t size = 11 * MIB + 77;
	for (int cached = 0; cached < 2; cached++) {
		start(cached ? 64 * MIB : 0);
		struct remote_object *object = open_object(6, size);
		assert_int_equal(remote_stream_open(object, &stream), 0);
		for (uint64_t at = 0; at < size;) {
			const size_t part = UTIL_MIN(size - at, (uint64_t)(1 + at % 300000));
			assert_int_equal(remote_stream_read(stream, bytes, part, at, &fault), 0);
			check(bytes, 6, at, part);
			at += part;
		}
		assert_int_equal(bytes_take(), size);
		/* Back; and beyond the end. */
		assert_int_equal(remote_stream_read(stream, bytes, 512, 100, &fault), 0);
		check(bytes, 6, 100, 512);
		assert_int_equal(
			remote_stream_read(stream, bytes, 512, size - 511, &fault), -ENODATA);
		remote_stream_close(stream);
		(void)bytes_take();
		settle();
		remote_object_unref(object);
		stop();
	}
	/* The more was read in a row, the more ranges are under way ahead of the reader. */
	start(0);
	struct remote_object *object = open_object(8, 40 * MIB);
	assert_int_equal(remote_stream_open(object, &stream), 0);
	for (uint64_t at = 0; at < 4; at++)
		assert_int_equal(
			remote_stream_read(stream, bytes, 1, at * REMOTE_STREAM_RANGE, &fault), 0);
	(void)pthread_mutex_lock(&server.lock);
	assert_int_equal(server.count, 3 + REMOTE_STREAM_RANGES);
	(void)pthread_mutex_unlock(&server.lock);
	remote_stream_close(stream);
	remote_object_unref(object);
	stop();
	(void)bytes_take();
	/* Far apart: little more than the ranges that were looked into. */
	start(0);
	object = open_object(7, 200 * MIB);
	assert_int_equal(remote_stream_open(object, &stream), 0);
	for (uint64_t at = 0; at < 200 * MIB; at += 20 * MIB) {
		assert_int_equal(remote_stream_read(stream, bytes, 512, at, &fault), 0);
		check(bytes, 7, at, 512);
	}
	remote_stream_close(stream);
	assert_true(bytes_take() <= 10 * REMOTE_STREAM_RANGE);
	remote_object_unref(object);
	stop();
}

/* Readers at random places, some of which cancel, on a cache that is too small. */
static void *reader(void *context)
{
	struct remote_object *const *shards = context;
	struct waited *waited = malloc(sizeof *waited);
	uint64_t seed = (uintptr_t)waited;
	for (int i = 0; i < 300; i++) {
		seed = hash_mix(seed + 1);
		const unsigned shard = (unsigned)(seed % 2);
		const uint32_t size = 1 + (uint32_t)(seed >> 8) % 290000;
		const uint64_t offset = (seed >> 20) % (3 * MIB / 2 - size);
		waited_begin(waited, shards[shard], offset, size);
		if (seed >> 60 == 0)
			remote_object_cancel(&waited->read);
		const int result = waited_end(waited);
		if (result == 0)
			check(waited->bytes, shard, offset, size);
		else if (result != -ECANCELED || seed >> 60 != 0)
			fail_msg("a read ended with %d", result);
	}
	free(waited);
	return NULL;
}

static void test_crowd(void **state)
{
	pthread_t threads[6];
	start(MIB);
	struct remote_object *shards[2] = {open_object(0, SHARD), open_object(1, SHARD)};
	for (size_t i = 0; i < UTIL_COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, shards), 0);
	for (size_t i = 0; i < UTIL_COUNT(threads); i++)
		(void)pthread_join(threads[i], NULL);
	assert_true(folder_bytes() <= MIB);
	remote_object_unref(shards[0]);
	remote_object_unref(shards[1]);
	stop();
}

/* A range that is kept is one request, however many reads there are in it. */
static void keep(uint64_t cache)
{
	struct remote_kept *kept, *other;
	start(cache);
	struct remote_object *object = open_object(6, 20 * MIB);
	hold(true);
	assert_int_equal(remote_object_keep(object, 100, 3 * MIB, &kept), 0);
	assert_int_equal(remote_object_keep(object, 2 * MIB, MIB, &other), 0);
	wait_waiting(1);
	assert_true(remote_kept_bytes(kept) >= 3 * MIB);
	assert_true(remote_kept_bytes(kept) <= 3 * MIB + REMOTE_KEEP_MORE);
	/* It is answered for by both. */
	assert_int_equal(remote_kept_bytes(other), remote_kept_bytes(kept));
	hold(false);
	for (uint64_t at = 100; at < 3 * MIB; at += 100000)
		read_check(object, 6, at, 1000);
	assert_int_equal(server.count, 1);
	remote_kept_drop(kept);
	read_check(object, 6, 50000, MIB);
	assert_int_equal(server.count, 1);
	remote_kept_drop(other);
	if (cache)
		settle();
	read_check(object, 6, 50000, MIB);
	assert_int_equal(server.count, cache ? 1 : 2);
	/* More than one request may have. */
	(void)bytes_take();
	assert_int_equal(remote_object_keep(object, 4 * MIB, 16 * MIB, &kept), 0);
	read_check(object, 6, 4 * MIB, 16 * MIB);
	assert_int_equal(server.count, 2);
	assert_int_equal(bytes_take(), 16 * MIB);
	remote_kept_drop(kept);
	remote_object_unref(object);
	stop();
}

static void test_keep(void **state)
{
	keep(0);
}

static void test_keep_stored(void **state)
{
	int fd;
	keep(64 * MIB);
	start(64 * MIB);
	struct remote_object *object = open_object(6, 20 * MIB);
	struct remote_kept *kept;
	read_check(object, 6, 100, 3 * MIB);
	read_check(object, 6, 4 * MIB, 16 * MIB);
	assert_int_equal(server.count, 0);
	assert_true(remote_object_local(object, 4 * MIB, 16 * MIB, &fd));
	/* What the cache has takes no memory. */
	assert_int_equal(remote_object_keep(object, 4 * MIB, 16 * MIB, &kept), 0);
	assert_int_equal(remote_kept_bytes(kept), 0);
	remote_kept_drop(kept);
	remote_object_unref(object);
	stop();
}

/* Dropped while it is under way: a read that waits gets its bytes; without one it is canceled. */
static void test_keep_dropped(void **state)
{
	static struct waited waited;
	struct remote_kept *kept;
	start(0);
	struct remote_object *object = open_object(7, 8 * MIB);
	hold(true);
	assert_int_equal(remote_object_keep(object, 0, MIB, &kept), 0);
	wait_waiting(1);
	remote_kept_drop(kept);
	wait_waiting(0);
	assert_int_equal(remote_object_keep(object, 0, MIB, &kept), 0);
	waited_begin(&waited, object, 1000, 5000);
	wait_waiting(1);
	remote_kept_drop(kept);
	wait_waiting(1);
	hold(false);
	assert_int_equal(waited_end(&waited), 0);
	check(waited.bytes, 7, 1000, 5000);
	/* A read that is canceled leaves what is kept under way. */
	hold(true);
	assert_int_equal(remote_object_keep(object, 2 * MIB, MIB, &kept), 0);
	waited_begin(&waited, object, 2 * MIB, 5000);
	remote_object_cancel(&waited.read);
	assert_int_equal(waited_end(&waited), -ECANCELED);
	wait_waiting(1);
	hold(false);
	read_check(object, 7, 2 * MIB, MIB);
	remote_kept_drop(kept);
	remote_object_unref(object);
	stop();
}

/* What nobody keeps any more, but is not written yet, counts as memory of the cache. */
static void test_keep_unwritten(void **state)
{
	struct remote_kept *kept;
	start(64 * MIB);
	struct remote_object *object = open_object(9, 8 * MIB);
	struct disk *disk = objects->disk;
	/* Makes the file, and takes credit for more: both would wait for the lock. */
	read_check(object, 9, 4 * MIB, 1000);
	settle();
	assert_int_equal(disk_credit(disk, 3 * MIB, false), 0);
	(void)pthread_mutex_lock(&disk->slot_lock);
	assert_int_equal(remote_object_keep(object, 0, 2 * MIB, &kept), 0);
	read_check(object, 9, 0, 1000);
	assert_int_equal(atomic_load(&objects->staged), 0);
	remote_kept_drop(kept);
	assert_int_equal(atomic_load(&objects->staged), 2 * MIB);
	(void)pthread_mutex_unlock(&disk->slot_lock);
	settle();
	remote_object_unref(object);
	stop();
}

/* A range that cannot be fetched is the reader's to report. */
static void test_keep_replaced(void **state)
{
	uint8_t byte;
	struct fault fault;
	struct remote_kept *kept;
	start(0);
	struct remote_object *object = open_object(8, MIB);
	server.etag = "\"b\"";
	assert_int_equal(remote_object_keep(object, 0, MIB, &kept), 0);
	wait_waiting(0);
	assert_int_equal(remote_object_read(object, &byte, 1, 5, &fault), -ESTALE);
	remote_kept_drop(kept);
	server.etag = "\"a\"";
	read_check(object, 8, 5, 1);
	remote_object_unref(object);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(test_share, setup, teardown),
		cmocka_unit_test_setup_teardown(test_share_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel_early, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cached, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_belady, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keep_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keep_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keep_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keep_unwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crowd, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
