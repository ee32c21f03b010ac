/* ceiling: fetch without anything after it. The samples of a dataset are asked for in random order,
 * and each is given back when it comes. Prints, as one line of JSON: CPU time per sample of each
 * thread of fetch, and what only copying the same bytes out of the page cache costs.
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

enum { AHEAD = 2048, PART = 32, ARENA = 64 << 20, COPY_PART = 64 };

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

/* Opens the files of up to COPY_PART samples. Returns how many. */
static unsigned copy_open(
	const struct dataset *dataset, uint64_t first, struct sample *samples, int *fds)
{
	unsigned n = 0;
	bool files = dataset_in_files(dataset);
	for (; n < COPY_PART; n++) {
		uint64_t number = bench_number(first + n, dataset_count(dataset));
		if (dataset_sample(dataset, number, &samples[n], NULL) != 0)
			break;
		fds[n] = files ? openat(dataset_root_fd(dataset), samples[n].name,
					 O_RDONLY | O_CLOEXEC)
			       : open(dataset_shard_path(dataset, samples[n].shard),
					 O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0)
			break;
	}
	return n;
}

/* CPU time of reading the same samples with pread from open files into as much memory. The files
 * are opened and closed outside of the time that is measured; the clock is read once for many
 * samples, since that takes as long as copying a small one. 0: impossible. */
static double copy_ns(const struct dataset *dataset, uint64_t samples)
{
	uint64_t used = 0, sum = 0, n = 0;
	uint8_t *memory = malloc(ARENA);
	struct sample *part = calloc(COPY_PART, sizeof *part);
	int fds[COPY_PART];
	bool failed = !memory || !part;
	if (memory)
		memset(memory, 1, ARENA);
	while (!failed && n < samples) {
		unsigned count = copy_open(dataset, n, part, fds);
		uint64_t before = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		for (unsigned i = 0; i < count; i++) {
			if (used + part[i].size > ARENA)
				used = 0;
			failed |= pread(fds[i], memory + used, part[i].size,
					  (off_t)part[i].offset) < 0;
			used += util_align(part[i].size, 4096);
		}
		sum += thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		for (unsigned i = 0; i < count; i++)
			(void)close(fds[i]);
		failed |= count < COPY_PART;
		n += count;
	}
	free(part);
	free(memory);
	return failed ? 0 : (double)sum / (double)n;
}

/* --- */

static void print_lanes(const struct fetch *fetch, const uint64_t *before)
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
	printf("]");
}

static int measure(struct bench *bench, uint64_t samples, bool direct)
{
	uint64_t before[FETCH_LANES] = {0};
	struct fetch_stats stats;
	struct bench_item *items = bench_items(bench);
	if (!items)
		return 1;
	/* Once to warm up. */
	bench_run(bench, items, UTIL_MIN(samples, dataset_count(bench->dataset)));
	for (unsigned i = 0; i < bench->fetch->lane_count; i++) {
		clockid_t clock;
		struct lane *lane = bench->fetch->lanes[i];
		(void)pthread_getcpuclockid(lane->threads[0], &clock);
		before[i] = thread_cpu_ns(clock);
		atomic_store(&lane->counters.samples, 0);
	}
	bench->bytes = 0;
	uint64_t from = clock_ns(), own = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	bench_run(bench, items, samples);
	own = thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own;
	double wall_s = (double)(clock_ns() - from) / 1e9;
	fetch_stats_read(bench->fetch, &stats);
	printf("{\"engine\": \"%s\", \"lanes\": %u, \"samples\": %llu, \"failed\": %llu, "
	       "\"mean_bytes\": %.0f, \"samples_per_s\": %.0f, \"copy_us_per_sample\": %.3f, "
	       "\"consumer_us_per_sample\": %.3f, ",
		fetch_describe(bench->fetch), bench->fetch->lane_count, (unsigned long long)samples,
		(unsigned long long)bench->failed, (double)bench->bytes / (double)samples,
		(double)samples / wall_s,
		direct ? 0 : copy_ns(bench->dataset, UTIL_MIN(samples, UINT64_C(20000))) / 1000,
		(double)own / 1000 / (double)samples);
	print_lanes(bench->fetch, before);
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
