/* ceiling: fetch without anything after it. The samples of a dataset are asked for in random order,
 * and each is given back when it comes. Prints, as one line of JSON: CPU time per sample of each
 * thread of fetch, what only copying the same bytes out of the page cache costs, and how long each
 * lock was held.
 *
 *   ceiling SPEC LANES buffered|direct SAMPLES
 *
 * One more thread submits, as a stream does: as many samples ahead as a few batches, in parts. */
#include "base/clock.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { AHEAD = 2048, PART = 32, ARENA = 64 << 20, LOCKS = 64 };

/* --- locks --- */

/* What a lock was used for. Times are those of threads that hold it, not of those that wait. */
struct lock_use {
	_Atomic(const pthread_mutex_t *) mutex;
	_Atomic uint64_t times, held_ns, longest_ns;
};
static struct lock_use lock_uses[LOCKS];
static bool lock_measured; /* written while one thread runs */
static _Thread_local struct {
	const pthread_mutex_t *mutex;
	uint64_t since_ns;
} lock_held[8];

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

static void lock_took(const pthread_mutex_t *mutex)
{
	for (size_t i = 0; i < UTIL_COUNT(lock_held) && lock_measured; i++)
		if (!lock_held[i].mutex) {
			lock_held[i].mutex = mutex;
			lock_held[i].since_ns = clock_ns();
			return;
		}
}

static void lock_count(const pthread_mutex_t *mutex, uint64_t ns)
{
	for (size_t i = 0; i < LOCKS; i++) {
		const pthread_mutex_t *none = NULL;
		struct lock_use *use = &lock_uses[i];
		if (atomic_load(&use->mutex) != mutex &&
			!(atomic_compare_exchange_strong(&use->mutex, &none, mutex) ||
				none == mutex))
			continue;
		atomic_fetch_add(&use->times, 1);
		atomic_fetch_add(&use->held_ns, ns);
		if (ns > atomic_load(&use->longest_ns))
			atomic_store(&use->longest_ns, ns);
		return;
	}
}

static void lock_gave(const pthread_mutex_t *mutex)
{
	for (size_t i = 0; i < UTIL_COUNT(lock_held); i++)
		if (lock_held[i].mutex == mutex) {
			uint64_t ns = clock_ns() - lock_held[i].since_ns;
			lock_held[i].mutex = NULL;
			lock_count(mutex, ns);
			return;
		}
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_lock(mutex);
	lock_took(mutex);
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	lock_gave(mutex);
	return __real_pthread_mutex_unlock(mutex);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	lock_gave(mutex);
	int rc = __real_pthread_cond_wait(cond, mutex);
	lock_took(mutex);
	return rc;
}

static void lock_print(const char *name, const pthread_mutex_t *mutex, uint64_t samples)
{
	for (size_t i = 0; i < LOCKS; i++) {
		const struct lock_use *use = &lock_uses[i];
		if (atomic_load(&use->mutex) == mutex)
			printf(", \"%s\": {\"times_per_sample\": %.3f, \"ns_per_sample\": %.1f, "
			       "\"longest_us\": %.1f}",
				name, (double)use->times / (double)samples,
				(double)use->held_ns / (double)samples,
				(double)use->longest_ns / 1000);
	}
}

/* --- reading --- */

struct bench {
	struct fetch *fetch;
	const struct dataset *dataset;
	struct fetch_reader reader;
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct fetch_item *free; /* came back, linked by `next` */
	unsigned returned;
	uint64_t failed, bytes;
};

struct bench_item {
	struct fetch_item item; /* first */
	struct bench *bench;
	struct fault fault;
};

static void bench_done(struct fetch_item *item)
{
	struct bench *bench = ((struct bench_item *)item)->bench;
	pthread_mutex_lock(&bench->lock);
	item->next = bench->free;
	bench->free = item;
	if (++bench->returned == PART)
		pthread_cond_signal(&bench->some);
	pthread_mutex_unlock(&bench->lock);
}

/* Items that came back, at least PART of them, or the last. */
static struct fetch_item *bench_take(struct bench *bench, uint64_t left)
{
	uint64_t least = UTIL_MIN(left, (uint64_t)PART);
	pthread_mutex_lock(&bench->lock);
	while (bench->returned < least) {
		if (least < PART) {
			/* Nobody signals the last ones. */
			pthread_mutex_unlock(&bench->lock);
			(void)usleep(200);
			pthread_mutex_lock(&bench->lock);
		} else {
			pthread_cond_wait(&bench->some, &bench->lock);
		}
	}
	struct fetch_item *items = bench->free;
	bench->free = NULL;
	bench->returned = 0;
	pthread_mutex_unlock(&bench->lock);
	return items;
}

/* Position i of the order: each sample once per round, far from its neighbors, so that hardly two
 * that are under way are the same. The factor is a prime. */
static uint64_t bench_number(uint64_t i, uint64_t count)
{
	return i % count * UINT64_C(2654435761) % count;
}

static struct bench_item *bench_items(struct bench *bench)
{
	struct bench_item *items = calloc(AHEAD, sizeof *items);
	for (unsigned i = 0; items && i < AHEAD; i++) {
		items[i].bench = bench;
		items[i].item = (struct fetch_item){
			.reader = &bench->reader,
			.dataset = bench->dataset,
			.done = bench_done,
			.fault = &items[i].fault,
		};
	}
	return items;
}

/* Asks for `samples` samples; the caller's own time per sample is the consumer's. */
static void bench_run(struct bench *bench, struct bench_item *items, uint64_t samples)
{
	uint64_t asked = 0, back = 0, count = dataset_count(bench->dataset);
	struct fetch_item *free = NULL;
	for (unsigned i = 0; i < AHEAD; i++) {
		items[i].item.next = free;
		free = &items[i].item;
	}
	while (back < samples) {
		struct fetch_item *first = NULL, **tail = &first;
		while (free && asked < samples) {
			struct fetch_item *item = free;
			free = item->next;
			item->number = bench_number(asked++, count);
			*tail = item;
			tail = &item->next;
		}
		*tail = NULL;
		if (first)
			fetch_submit(bench->fetch, first);
		struct fetch_item *came = bench_take(bench, samples - back);
		while (came) {
			struct fetch_item *item = came;
			came = item->next;
			bench->failed += item->result != FETCH_OK;
			bench->bytes += item->size;
			fetch_release(bench->fetch, item);
			item->next = free;
			free = item;
			back++;
		}
	}
}

/* --- what copying costs --- */

static uint64_t thread_cpu_ns(clockid_t clock)
{
	struct timespec used = {0};
	(void)clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* CPU time of reading the same samples with pread from open files into as much memory. In a folder
 * the files are opened outside of the time that is measured. 0: impossible. */
static double copy_ns(const struct dataset *dataset, uint64_t samples)
{
	uint64_t count = dataset_count(dataset), used = 0, sum = 0, n = 0;
	bool files = dataset_in_files(dataset);
	uint8_t *memory = malloc(ARENA);
	memset(memory, 1, ARENA);
	struct sample sample;
	for (; n < samples; n++) {
		if (dataset_sample(dataset, bench_number(n, count), &sample, NULL) != 0)
			break;
		int fd = files ? openat(dataset_root_fd(dataset), sample.name, O_RDONLY | O_CLOEXEC)
			       : open(dataset_shard_path(dataset, sample.shard),
					 O_RDONLY | O_CLOEXEC);
		if (used + sample.size > ARENA)
			used = 0;
		uint64_t before = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		ssize_t got = pread(fd, memory + used, sample.size, (off_t)sample.offset);
		sum += thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		used += util_align(sample.size, 4096);
		(void)close(fd);
		if (got < 0)
			break;
	}
	free(memory);
	return n == samples ? (double)sum / (double)n : 0;
}

/* --- */

static void print_lanes(const struct fetch *fetch, const uint64_t *before, uint64_t samples)
{
	printf("\"threads\": [");
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		const struct lane *lane = fetch->lanes[i];
		clockid_t clock;
		uint64_t own = atomic_load(&lane->counters.samples);
		(void)pthread_getcpuclockid(lane->threads[0], &clock);
		double us = (double)(thread_cpu_ns(clock) - before[i]) / 1000;
		printf("%s{\"samples\": %llu, \"cpu_us_per_sample\": %.3f}", i ? ", " : "",
			(unsigned long long)own, own ? us / (double)own : 0);
	}
	printf("], \"locks\": {\"samples\": %llu", (unsigned long long)samples);
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "planner_%u", i);
		lock_print(name, &fetch->lanes[i]->lock, samples);
		(void)snprintf(name, sizeof name, "inbox_%u", i);
		lock_print(name, &fetch->lanes[i]->inbox.lock, samples);
	}
	lock_print("arena", &fetch->arena.lock, samples);
	lock_print("meter", &fetch->meter.lock, samples);
	printf("}");
}

static int measure(struct bench *bench, uint64_t samples, bool direct)
{
	uint64_t before[FETCH_LANES] = {0};
	struct fetch_stats stats;
	struct bench_item *items = bench_items(bench);
	if (!items)
		return 1;
	/* Once to warm up, with no time taken of locks. */
	bench_run(bench, items, UTIL_MIN(samples, dataset_count(bench->dataset)));
	for (unsigned i = 0; i < bench->fetch->lane_count; i++) {
		clockid_t clock;
		struct lane *lane = bench->fetch->lanes[i];
		(void)pthread_getcpuclockid(lane->threads[0], &clock);
		before[i] = thread_cpu_ns(clock);
		atomic_store(&lane->counters.samples, 0);
	}
	bench->bytes = 0;
	lock_measured = getenv("CEILING_LOCKS") != NULL;
	uint64_t from = clock_ns(), own = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	bench_run(bench, items, samples);
	own = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own;
	double wall_s = (double)(clock_ns() - from) / 1e9;
	lock_measured = false;
	fetch_stats_read(bench->fetch, &stats);
	printf("{\"engine\": \"%s\", \"lanes\": %u, \"samples\": %llu, \"failed\": %llu, "
	       "\"mean_bytes\": %.0f, \"samples_per_s\": %.0f, \"copy_us_per_sample\": %.3f, "
	       "\"consumer_us_per_sample\": %.3f, ",
		fetch_describe(bench->fetch), bench->fetch->lane_count, (unsigned long long)samples,
		(unsigned long long)bench->failed, (double)bench->bytes / (double)samples,
		(double)samples / wall_s,
		direct ? 0 : copy_ns(bench->dataset, UTIL_MIN(samples, UINT64_C(20000))) / 1000,
		(double)own / 1000 / (double)samples);
	print_lanes(bench->fetch, before, samples);
	printf("}\n");
	free(items);
	return bench->failed > 0;
}

int main(int argc, char **argv)
{
	struct fault fault = {""};
	struct dataset *dataset = NULL;
	if (argc != 5) {
		(void)fprintf(stderr, "usage: ceiling SPEC LANES buffered|direct SAMPLES\n");
		return 2;
	}
	bool direct = strcmp(argv[3], "direct") == 0;
	struct fetch_options options = {
		.engine = FETCH_URING,
		.io = direct ? FETCH_IO_DIRECT : FETCH_IO_BUFFERED,
		.arena_bytes = ARENA,
		.index_bytes = 16 << 20,
		.cache = FETCH_CACHE_OFF,
		.lanes = (unsigned)strtoul(argv[2], NULL, 10),
	};
	if (dataset_open(argv[1], NULL, &dataset, &fault) < 0) {
		(void)fprintf(stderr, "ceiling: %s\n", fault.text);
		return 77;
	}
	struct bench bench = {.dataset = dataset};
	pthread_mutex_init(&bench.lock, NULL);
	pthread_cond_init(&bench.some, NULL);
	fetch_reader_init(&bench.reader);
	if (fetch_new(&options, &bench.fetch, &fault) < 0) {
		(void)fprintf(stderr, "ceiling: %s\n", fault.text);
		return 77;
	}
	int rc = measure(&bench, strtoull(argv[4], NULL, 10), direct);
	fetch_forget(bench.fetch, dataset);
	fetch_free(bench.fetch);
	dataset_free(dataset);
	return rc;
}
