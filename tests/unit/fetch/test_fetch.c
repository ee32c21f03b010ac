/* fetch: both engines give every sample's bytes, in any order, from tars and folders, buffered and
 * direct, through a small arena; urgency, merging, large samples, canceling, ending, and starting
 * where io_uring is not allowed. */
#include "unit/fetch/fetch_fixture.h"

#include "fetch/fetch_op.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct fetch_options options_of(enum fetch_engine engine)
{
	return (struct fetch_options){.engine = engine,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18};
}

/* --- the same bytes, whatever the way --- */

static void read_all(struct fetch *fetch, const struct fixture *fixture, uint64_t arena)
{
	for (uint64_t seed = 0; seed < 3; seed++) {
		struct reader reader;
		reader_init(&reader, fetch, fixture, 2 * fixture->count);
		if (seed > 0)
			reader_shuffle(&reader, seed);
		reader_all(&reader);
		assert_int_equal(reader.outcome[FETCH_OK], reader.count);
		reader_deinit(&reader);
	}
	struct fetch_stats stats;
	fetch_stats_read(fetch, &stats);
	assert_int_equal(stats.samples, 6 * fixture->count);
	assert_int_equal(stats.inflight, 0);
	assert_int_equal(stats.arena_used, 0);
	assert_true(stats.arena_peak <= arena);
	/* Each round reads each sample twice; both share one read if they overlap in time. */
	assert_true(stats.bytes >= 3 * dataset_bytes(fixture->dataset));
	assert_true(stats.cpu_ns > 0);
}

static void read_all_ways(const struct fixture *fixture)
{
	struct permit large;
	permit_init(&large, 2 << 20);
	for (int io = FETCH_IO_AUTO; io <= FETCH_IO_DIRECT; io++)
		for (uint64_t arena = 1 << 20; arena <= 8 << 20; arena <<= 3) {
			struct fetch_options options = options_of(FETCH_AUTO);
			options.io = (enum fetch_io)io;
			options.arena_bytes = arena;
			options.large = &large;
			each_engine (fetch, &options)
				read_all(fetch, fixture, arena);
		}
	assert_int_equal(large.used, 0);
	permit_deinit(&large);
}

static void test_tars(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 300, 70, true);
	read_all_ways(&fixture);
	fixture_free(&fixture);
}

static void test_folder(void **state)
{
	struct fixture fixture;
	fixture_images(&fixture, 300, true);
	read_all_ways(&fixture);
	fixture_free(&fixture);
}

/* --- merging --- */

static void test_merging(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 400, 400, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	options.arena_bytes = 16 << 20;
	/* Each lane reads the pages of the index that it needs. */
	options.lanes = 1;
	each_engine (fetch, &options) {
		struct reader reader;
		struct fetch_stats stats;
		reader_init(&reader, fetch, &fixture, fixture.count);
		reader_all(&reader);
		fetch_stats_read(fetch, &stats);
		/* 400 samples of 20 KB on average are 8 MB in reads of 1 MiB; the window may
		 * shorten some. */
		assert_int_equal(stats.reads + stats.merged, 400);
		assert_true(stats.reads < 60);
		assert_int_equal(stats.index_hits + stats.index_misses, 400);
		assert_int_equal(stats.index_misses, 4);
		reader_deinit(&reader);
		/* In reverse order, no sample follows its neighbor. */
		reader_init(&reader, fetch, &fixture, fixture.count);
		for (uint64_t i = 0; i < fixture.count; i++)
			reader.items[i].item.number = fixture.count - 1 - i;
		uint64_t merged = stats.merged;
		reader_all(&reader);
		fetch_stats_read(fetch, &stats);
		assert_int_equal(stats.merged, merged);
		reader_deinit(&reader);
	}
	fixture_free(&fixture);
}

/* --- urgency and back-pressure --- */

/* The time without buffers continues to grow; storage has nothing to do. */
static void expect_only_buffers_lack(struct fetch *fetch, const struct fetch_stats *before)
{
	struct fetch_stats after;
	uint64_t delay_ns;
	unsigned threads = 0;
	assert_true(before->busy_ns > 0 && before->asked_ns >= before->busy_ns);
	(void)usleep(1000);
	fetch_stats_read(fetch, &after);
	assert_true(after.short_ns >= before->short_ns + 1000000);
	assert_int_equal(after.busy_ns, before->busy_ns);
	assert_int_equal(after.asked_ns, before->asked_ns);
	if (fetch_delay_ns(fetch, &delay_ns, &threads)) /* if the kernel says */
		assert_true(threads > 0);
}

/* With all buffers held, a later urgent item is served before earlier ones. */
static void test_urgency(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 300, 300, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	/* Between lanes there is no order. */
	options.lanes = 1;
	each_engine (fetch, &options) {
		struct reader reader;
		struct fetch_item *held[600];
		unsigned count = 0;
		reader_init(&reader, fetch, &fixture, 600);
		reader_shuffle(&reader, 3);
		for (int i = 0; i < 600; i++)
			reader.items[i].item.urgency = i < 500 ? 7 * 256 : i < 550 ? 3 * 256 : 256;
		reader_submit(&reader, 0, 500);
		while ((held[count] = reader_one(&reader, 300)))
			count++;
		assert_true(count > 0 && count < 500);
		struct fetch_stats stats;
		fetch_stats_read(fetch, &stats);
		assert_true(stats.arena_waits > 0);
		assert_int_equal(stats.inflight, 500 - count);
		expect_only_buffers_lack(fetch, &stats);
		/* The less urgent ones are submitted first, one by one. */
		for (uint64_t i = 500; i < 600; i++)
			reader_submit(&reader, i, i + 1);
		/* The engine sees them all before a buffer is released; a few find room
		 * immediately. */
		unsigned early = 0;
		while ((held[count + early] = reader_one(&reader, 200)))
			assert_true(held[count + early++]->urgency < 7 * 256);
		assert_true(early < 50);
		count += early;
		for (unsigned i = 0; i < count; i++)
			reader_finish(&reader, held[i]);
		uint64_t sum[8] = {0}, seen[8] = {0};
		for (unsigned i = 0; i < 600 - count; i++) {
			struct fetch_item *item = reader_one(&reader, 60000);
			assert_non_null(item);
			sum[item->urgency / 256] += i;
			seen[item->urgency / 256]++;
			reader_finish(&reader, item);
		}
		assert_int_equal(seen[1] + seen[3], 100 - early);
		/* Means, since a thread of the engine may be delayed with the item it has: 50 and
		 * 50 of 600 are urgent; without urgency all means would be about 300. */
		assert_true(sum[1] / seen[1] < 60);
		assert_true(sum[3] / seen[3] < 110);
		assert_true(sum[1] / seen[1] < sum[3] / seen[3]);
		reader_deinit(&reader);
	}
	fixture_free(&fixture);
}

/* --- large samples --- */

static void test_large_waits_for_its_permit(void **state)
{
	struct fixture fixture;
	struct permit large;
	permit_init(&large, 1 << 20);
	fixture_images(&fixture, 20, true);
	struct fetch_options options = options_of(FETCH_AUTO);
	options.large = &large;
	each_engine (fetch, &options) {
		struct reader reader;
		assert_int_equal(permit_acquire(&large, 600000), 0);
		reader_init(&reader, fetch, &fixture, 60);
		reader_submit(&reader, 0, 60);
		/* Three large samples wait; the others pass them. */
		reader_take(&reader, 57);
		assert_null(reader_one(&reader, 20));
		permit_release(&large, 600000);
		reader_take(&reader, 3);
		assert_int_equal(reader.outcome[FETCH_OK], 60);
		reader_deinit(&reader);
		assert_int_equal(large.used, 0);
	}
	assert_true(large.peak <= 1 << 20);
	fixture_free(&fixture);
	permit_deinit(&large);
}

static void test_too_large(void **state)
{
	struct fixture fixture;
	struct permit small;
	permit_init(&small, 500000);
	fixture_tars(&fixture, 20, 20, true);
	for (int pool = 0; pool < 2; pool++) {
		struct fetch_options options = options_of(FETCH_AUTO);
		options.large = pool ? &small : NULL;
		each_engine (fetch, &options) {
			struct reader reader;
			reader_init(&reader, fetch, &fixture, 20);
			reader_all(&reader);
			assert_int_equal(reader.outcome[FETCH_OK], 19);
			assert_int_equal(reader.outcome[FETCH_E_TOO_LARGE], 1);
			assert_non_null(strstr(reader.items[FIXTURE_LARGE].fault.text, "memory:"));
			assert_non_null(
				strstr(reader.items[FIXTURE_LARGE].fault.text, "00000017.jpg"));
			reader_deinit(&reader);
		}
	}
	fixture_free(&fixture);
	permit_deinit(&small);
}

/* --- many submitters, cancelling, ending --- */

struct submitter {
	struct fetch *fetch;
	const struct fixture *fixture;
	uint64_t seed;
};

static void *submitter_run(void *context)
{
	struct submitter *submitter = context;
	struct reader reader;
	reader_init(&reader, submitter->fetch, submitter->fixture, 600);
	reader_shuffle(&reader, submitter->seed);
	for (uint64_t i = 0; i < 600; i++)
		reader.items[i].item.urgency = i / 64 * 256;
	/* A few are in flight at a time, and are released out of order. */
	for (uint64_t i = 0; i < 600; i += 20) {
		reader_submit(&reader, i, i + 20);
		if (i >= 40)
			reader_take(&reader, 20);
	}
	reader_take(&reader, 40);
	assert_int_equal(reader.outcome[FETCH_OK], 600);
	reader_deinit(&reader);
	return NULL;
}

static void test_four_submitters(void **state)
{
	struct fixture tars, folder;
	fixture_tars(&tars, 200, 30, false);
	fixture_images(&folder, 200, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	each_engine (fetch, &options) {
		pthread_t thread[4];
		struct submitter submitter[4];
		for (uint64_t i = 0; i < 4; i++) {
			submitter[i] = (struct submitter){fetch, i % 2 ? &tars : &folder, i};
			assert_int_equal(
				pthread_create(&thread[i], NULL, submitter_run, &submitter[i]), 0);
		}
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
	}
	fixture_free(&tars);
	fixture_free(&folder);
}

static void test_cancel_and_forget(void **state)
{
	struct fixture tars, folder;
	fixture_tars(&tars, 300, 100, false);
	fixture_images(&folder, 300, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	each_engine (fetch, &options) {
		for (int round = 0; round < 10; round++) {
			struct reader gone, stays;
			reader_init(&gone, fetch, round % 2 ? &tars : &folder, 300);
			reader_init(&stays, fetch, round % 2 ? &folder : &tars, 300);
			reader_shuffle(&gone, (uint64_t)round);
			reader_submit(&gone, 0, 300);
			reader_submit(&stays, 0, 300);
			reader_take(&gone, (uint64_t)round);
			fetch_cancel(fetch, &gone.who);
			reader_take(&gone, 300 - (uint64_t)round);
			fetch_forget(fetch, gone.fixture->dataset);
			assert_true(gone.negative > 0);
			assert_int_equal(gone.negative + gone.outcome[FETCH_OK], 300);
			reader_take(&stays, 300);
			assert_int_equal(stays.outcome[FETCH_OK], 300);
			reader_deinit(&gone);
			reader_deinit(&stays);
		}
	}
	fixture_free(&tars);
	fixture_free(&folder);
}

/* Two readers of one dataset: canceling one does not affect the other. */
static void test_cancel_one_of_two(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 300, 100, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	each_engine (fetch, &options) {
		for (uint64_t round = 0; round < 10; round++) {
			struct reader gone, stays;
			reader_init(&gone, fetch, &fixture, 300);
			reader_init(&stays, fetch, &fixture, 300);
			reader_shuffle(&gone, round);
			reader_shuffle(&stays, round + 1);
			reader_submit(&gone, 0, 300);
			reader_submit(&stays, 0, 300);
			reader_take(&gone, round);
			fetch_cancel(fetch, &gone.who);
			reader_take(&gone, 300 - round);
			reader_take(&stays, 300);
			assert_true(gone.negative > 0);
			assert_int_equal(stays.outcome[FETCH_OK], 300);
			reader_deinit(&gone);
			reader_deinit(&stays);
		}
	}
	fixture_free(&fixture);
}

/* A forgotten dataset may be freed while the reader exists: nothing of it is used, and a dataset
 * opened at the same address is not confused with it. */
static void test_dataset_replaced(void **state)
{
	struct fetch_options options = options_of(FETCH_AUTO);
	each_engine (fetch, &options) {
		for (uint64_t round = 0; round < 6; round++) {
			struct fixture fixture;
			struct reader reader;
			if (round % 2)
				fixture_tars(&fixture, 50 + round, 9, false);
			else
				fixture_images(&fixture, 50 + round, false);
			reader_init(&reader, fetch, &fixture, fixture.count);
			reader_all(&reader);
			assert_int_equal(reader.outcome[FETCH_OK], fixture.count);
			reader_deinit(&reader);
			fetch_forget(fetch, fixture.dataset);
			fixture_free(&fixture);
		}
	}
}

static void test_free_with_queue(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 300, 100, false);
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++)
		for (unsigned wait = 0; wait < 4; wait++) {
			struct fetch_options options = options_of(fixture_engines[e]);
			struct fetch *fetch = fixture_fetch(&options);
			if (!fetch)
				continue;
			struct reader reader;
			reader_init(&reader, fetch, &fixture, 600);
			reader_shuffle(&reader, wait);
			reader_submit(&reader, 0, 600);
			/* Delivered items must be released before fetch_free. */
			uint64_t taken = 0;
			for (struct fetch_item *item;
				taken < 20 * wait && (item = reader_one(&reader, 1000)); taken++)
				reader_finish(&reader, item);
			fetch_cancel(fetch, &reader.who);
			for (struct fetch_item *item;
				taken < 600 && (item = reader_one(&reader, 1000)); taken++)
				reader_finish(&reader, item);
			assert_int_equal(taken, 600);
			fetch_free(fetch);
			reader_deinit(&reader);
		}
	fixture_free(&fixture);
}

/* Items are released on the engine's thread as soon as they are done; items that are still queued
 * at the end are canceled. */
static _Atomic unsigned ended_ok, ended_canceled;

static void release_at_once(struct fetch_item *item)
{
	struct reader *reader = ((struct reader_item *)item)->reader;
	if (item->result == FETCH_OK)
		atomic_fetch_add(&ended_ok, 1);
	else if (item->result == -ECANCELED)
		atomic_fetch_add(&ended_canceled, 1);
	fetch_release(reader->fetch, item);
}

static void test_free_at_once(void **state)
{
	struct fixture fixture;
	fixture_images(&fixture, 300, false);
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++)
		for (int round = 0; round < 20; round++) {
			struct fetch_options options = options_of(fixture_engines[e]);
			struct fetch *fetch = fixture_fetch(&options);
			if (!fetch)
				continue;
			struct reader reader;
			reader_init(&reader, fetch, &fixture, 3000);
			for (int i = 0; i < 3000; i++)
				reader.items[i].item.done = release_at_once;
			atomic_store(&ended_ok, 0);
			atomic_store(&ended_canceled, 0);
			reader_submit(&reader, 0, 3000);
			(void)usleep((useconds_t)round * 50);
			fetch_free(fetch);
			assert_int_equal(
				atomic_load(&ended_ok) + atomic_load(&ended_canceled), 3000);
			reader_deinit(&reader);
		}
	fixture_free(&fixture);
}

static void test_free_unused(void **state)
{
	struct fetch_options options = options_of(FETCH_AUTO);
	for (int i = 0; i < 20; i++)
		each_engine (fetch, &options)
			;
	fetch_free(NULL);
}

/* --- where io_uring is restricted --- */

/* Runs `body` in a child process, so that its limits and filters end with it; its failed assertions
 * fail the test. */
static void in_child(void (*body)(const struct fixture *), const struct fixture *fixture)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)alarm(60);
		body(fixture);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHILD_ASSERT(x)                                                       \
	do {                                                                  \
		if (!(x)) {                                                   \
			(void)fprintf(stderr, "line %d: %s\n", __LINE__, #x); \
			_exit(1);                                             \
		}                                                             \
	} while (0)

static void child_reads(struct fetch *fetch, const struct fixture *fixture, uint64_t times)
{
	struct reader reader;
	reader_init(&reader, fetch, fixture, times * fixture->count);
	reader_shuffle(&reader, 1);
	reader_submit(&reader, 0, reader.count);
	for (uint64_t i = 0; i < reader.count; i++) {
		struct fetch_item *item = reader_one(&reader, 30000);
		if (item && item->result != FETCH_OK)
			(void)fprintf(stderr, "%d: %s\n", item->result, item->fault->text);
		CHILD_ASSERT(item && item->result == FETCH_OK);
		CHILD_ASSERT(item->size == 0 || item->data[0] == fixture_byte(item->number, 0));
		fetch_release(fetch, item);
	}
	reader_deinit(&reader);
}

/* More shards than may be open, and an index larger than its cache. */
static void few_files_body(const struct fixture *unused)
{
	struct fixture fixture;
	struct rlimit low = {64, 64};
	CHILD_ASSERT(setrlimit(RLIMIT_NOFILE, &low) == 0);
	fixture_tars(&fixture, 400, 2, false);
	struct fetch_options options = options_of(FETCH_AUTO);
	options.index_bytes = 0;
	each_engine (fetch, &options) {
		child_reads(fetch, &fixture, 3);
	}
	fixture_free(&fixture);
}

static void test_few_files(void **state)
{
	in_child(few_files_body, NULL);
}

static void forbidden_body(const struct fixture *fixture)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = UTIL_COUNT(filter), .filter = filter};
	CHILD_ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHILD_ASSERT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	struct fetch_options options = options_of(FETCH_URING);
	struct fetch *fetch = NULL;
	struct fault fault = {""};
	CHILD_ASSERT(fetch_new(&options, &fetch, &fault) == -EPERM);
	CHILD_ASSERT(strstr(fault.text, "seccomp or kernel.io_uring_disabled"));
	options.engine = FETCH_AUTO;
	CHILD_ASSERT(fetch_new(&options, &fetch, &fault) == 0);
	CHILD_ASSERT(
		strstr(fetch_describe(fetch), "pread (16 threads): io_uring is forbidden here"));
	child_reads(fetch, fixture, 1);
	fetch_free(fetch);
}

static void test_forbidden(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 100, 30, false);
	in_child(forbidden_body, &fixture);
	fixture_free(&fixture);
}

/* The locked memory that most containers allow is enough for a ring, but not for its buffers; with
 * none, some kernels make no ring, and then threads read. */
static void memlock_body(const struct fixture *fixture)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	/* A capability to lock memory would override the limit. */
	CHILD_ASSERT(syscall(SYS_capset, &header, data) == 0);
	for (int none = 0; none < 2; none++) {
		rlim_t bytes = none ? 0 : 64 << 10;
		struct rlimit limit = {bytes, bytes};
		CHILD_ASSERT(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
		struct fetch_options options = options_of(FETCH_AUTO);
		struct fetch *fetch = NULL;
		CHILD_ASSERT(fetch_new(&options, &fetch, NULL) == 0);
		const char *said = fetch_describe(fetch);
		bool ring = strncmp(said, "io_uring", 8) == 0;
		CHILD_ASSERT(
			ring ? strstr(said, "unregistered buffers because RLIMIT_MEMLOCK is") !=
					NULL
			     : strstr(said, "io_uring is forbidden") ||
					strstr(said, "RLIMIT_MEMLOCK is"));
		child_reads(fetch, fixture, 1);
		fetch_free(fetch);
	}
}

static void test_little_locked_memory(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 100, 30, false);
	in_child(memlock_body, &fixture);
	fixture_free(&fixture);
}

static void no_files_body(const struct fixture *fixture)
{
	struct rlimit limit;
	int fd = dup(0);
	CHILD_ASSERT(fd >= 0);
	limit.rlim_cur = limit.rlim_max = (rlim_t)fd + 1;
	CHILD_ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	struct fetch_options options = options_of(FETCH_URING);
	struct fetch *fetch = NULL;
	struct fault fault = {""};
	int rc = fetch_new(&options, &fetch, &fault);
	CHILD_ASSERT(rc == -EMFILE || rc == -EPERM || rc == -ENOSYS);
	CHILD_ASSERT(rc != -EMFILE || strstr(fault.text, "RLIMIT_NOFILE"));
	options.engine = FETCH_AUTO;
	CHILD_ASSERT(fetch_new(&options, &fetch, &fault) == 0);
	CHILD_ASSERT(strstr(fetch_describe(fetch), "pread"));
	fetch_free(fetch);
}

static void test_no_files(void **state)
{
	in_child(no_files_body, NULL);
}

/* --- descriptions --- */

static void test_wants_direct(void **state)
{
	struct fixture fixture;
	char why[256];
	fixture_tars(&fixture, 10, 10, false);
	for (int io = FETCH_IO_AUTO; io <= FETCH_IO_DIRECT; io++) {
		struct fetch_options options = options_of(FETCH_PREAD);
		options.io = (enum fetch_io)io;
		struct fetch *fetch = fixture_fetch(&options);
		/* Ten small samples fit into any machine's page cache. */
		assert_int_equal(fetch_wants_direct(fetch, fixture.dataset, why, sizeof why),
			io == FETCH_IO_DIRECT);
		assert_non_null(strstr(why, io == FETCH_IO_AUTO ? "fit into" : "is configured"));
		assert_string_equal(fetch_describe(fetch), "pread (16 threads)");
		fetch_free(fetch);
	}
	fixture_free(&fixture);
}

static void test_outcome_names(void **state)
{
	for (int i = 0; i < FETCH_OUTCOMES; i++) {
		assert_string_not_equal(fetch_outcome_name((enum fetch_outcome)i), "unknown");
		for (int j = 0; j < i; j++)
			assert_string_not_equal(fetch_outcome_name((enum fetch_outcome)i),
				fetch_outcome_name((enum fetch_outcome)j));
	}
	assert_string_equal(fetch_outcome_name(FETCH_OUTCOMES), "unknown");
}

/* One lane for 8 threads, as far as there is memory for its buffers and pages. */
static void test_lanes_for(void **state)
{
	const uint64_t mib = 1 << 20;
	assert_int_equal(fetch_lanes_for(0, 64 * mib, 16 * mib), 1);
	assert_int_equal(fetch_lanes_for(2, 64 * mib, 16 * mib), 1);
	assert_int_equal(fetch_lanes_for(8, 64 * mib, 16 * mib), 1);
	assert_int_equal(fetch_lanes_for(9, 64 * mib, 16 * mib), 2);
	assert_int_equal(fetch_lanes_for(64, 64 * mib, 16 * mib), 8);
	assert_int_equal(fetch_lanes_for(1000, 1024 * mib, 64 * mib), FETCH_LANES);
	assert_int_equal(fetch_lanes_for(1000, 24 * mib, 64 * mib), 3);
	assert_int_equal(fetch_lanes_for(1000, 1024 * mib, 2 * mib), 2);
	assert_int_equal(fetch_lanes_for(1000, mib, 0), 1);
}

/* The items of a sample come to one lane: one read serves them. Those of all lanes are canceled,
 * and counted. */
static void test_lanes(void **state)
{
	struct fixture fixture;
	struct fetch_options options = options_of(FETCH_URING);
	options.lanes = 4;
	fixture_tars(&fixture, 400, 400, false);
	struct fetch *fetch = fixture_fetch(&options);
	if (fetch) {
		struct reader reader;
		struct fetch_stats stats;
		assert_non_null(strstr(fetch_describe(fetch), "4 rings"));
		reader_init(&reader, fetch, &fixture, 1600);
		reader_shuffle(&reader, 5);
		reader_all(&reader);
		assert_int_equal(reader.outcome[FETCH_OK], 1600);
		fetch_stats_read(fetch, &stats);
		assert_int_equal(stats.samples, 1600);
		assert_int_equal(stats.inflight, 0);
		assert_int_equal(stats.arena_used, 0);
		assert_int_equal(stats.reads + stats.merged + stats.shared, 1600);
		uint64_t reads = stats.reads;
		/* The same sample for all. */
		for (uint64_t i = 0; i < 200; i++)
			reader.items[i].item.number = 21;
		reader_submit(&reader, 0, 200);
		reader_take(&reader, 200);
		fetch_stats_read(fetch, &stats);
		assert_int_equal(stats.reads, reads + 1);
		reader_submit(&reader, 0, 1600);
		fetch_cancel(fetch, &reader.who);
		reader_take(&reader, 1600);
		reader_deinit(&reader);
		fetch_forget(fetch, fixture.dataset);
		fetch_free(fetch);
	}
	fixture_free(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lanes_for),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_tars),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_few_files),
		cmocka_unit_test(test_merging),
		cmocka_unit_test(test_urgency),
		cmocka_unit_test(test_large_waits_for_its_permit),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_four_submitters),
		cmocka_unit_test(test_cancel_and_forget),
		cmocka_unit_test(test_cancel_one_of_two),
		cmocka_unit_test(test_dataset_replaced),
		cmocka_unit_test(test_free_with_queue),
		cmocka_unit_test(test_free_at_once),
		cmocka_unit_test(test_free_unused),
		cmocka_unit_test(test_forbidden),
		cmocka_unit_test(test_little_locked_memory),
		cmocka_unit_test(test_no_files),
		cmocka_unit_test(test_wants_direct),
		cmocka_unit_test(test_outcome_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
