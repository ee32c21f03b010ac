/* cost: see cost.h. */
#include "client/cli/pack/cost.h"

#include "base/clock.h"
#include "base/util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct cost_run {
	const struct dataset *dataset;
	const struct cost_options *options;
	uint64_t count, tries, begin_ns;
	_Atomic uint64_t next;
};

struct cost_worker {
	struct cost_run *run;
	struct image_maker *maker;
	pthread_t thread;
	uint64_t made;
	double seconds;
};

uint64_t cost_tries(uint64_t first, uint64_t count, unsigned threads)
{
	uint64_t left = count > first ? count - first : 0;
	return UTIL_MIN(UTIL_MAX(left / COST_PART, (uint64_t)threads), left);
}

uint64_t cost_sample(uint64_t first, uint64_t count, uint64_t tries, uint64_t i)
{
	/* The middle of each of `tries` equal parts. As numbers of 64 bits: left / tries first. */
	uint64_t left = count - first, part = left / tries, rest = left % tries;
	return first + i * part + i * rest / tries + part / 2;
}

static bool cost_make(struct cost_worker *worker, uint64_t number)
{
	const struct cost_run *run = worker->run;
	struct sample sample;
	struct fault fault;
	struct image image = {.choices = 0};
	if (dataset_sample(run->dataset, number, &sample, &fault) < 0 ||
		sample.size > run->options->largest)
		return false;
	uint8_t *data = malloc((size_t)sample.size + IMAGE_SLACK);
	if (!data)
		return false;
	memset(data + sample.size, 0, IMAGE_SLACK);
	if (dataset_read(run->dataset, &sample, data, sample.size, &fault)) {
		free(data);
		return false;
	}
	bool made = image_make(worker->maker, data, sample.size, &image) == 0;
	image_deinit(&image);
	return made;
}

static void *cost_work(void *argument)
{
	struct cost_worker *worker = argument;
	struct cost_run *run = worker->run;
	uint64_t i;
	do {
		i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
		if (i < run->tries)
			worker->made += cost_make(worker,
				cost_sample(run->options->first, run->count, run->tries, i));
		worker->seconds = (double)(clock_ns() - run->begin_ns) * 1e-9;
	} while (i + 1 < run->tries && clock_ns() - run->begin_ns < COST_MOST_NS);
	return NULL;
}

/* Starts all threads or none that counts: fewer would report a lower rate. */
static unsigned cost_start(struct cost_run *run, struct cost_worker *workers)
{
	const struct cost_options *options = run->options;
	struct fault fault;
	unsigned started = 0;
	for (; started < options->threads; started++) {
		struct cost_worker *worker = &workers[started];
		*worker = (struct cost_worker){.run = run};
		if (image_maker_new(&options->image, options->memory, &worker->maker, &fault) < 0)
			break;
		if (pthread_create(&worker->thread, NULL, cost_work, worker)) {
			image_maker_free(worker->maker);
			break;
		}
	}
	return started;
}

bool cost_measure(
	const struct dataset *dataset, const struct cost_options *options, struct cost *ret)
{
	struct cost_run run = {.dataset = dataset,
		.options = options,
		.count = dataset_count(dataset),
		.begin_ns = clock_ns()};
	run.tries = cost_tries(options->first, run.count, options->threads);
	cleanup(free_ptr) struct cost_worker *workers = calloc(options->threads, sizeof *workers);
	if (!run.tries || !workers)
		return false;
	unsigned started = cost_start(&run, workers);
	double rate = 0;
	for (unsigned i = 0; i < started; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		image_maker_free(workers[i].maker);
		rate += (double)workers[i].made / UTIL_MAX(workers[i].seconds, 1e-6);
	}
	if (started < options->threads || rate <= 0)
		return false;
	uint64_t left = run.count - options->first;
	*ret = (struct cost){.images = left, .images_per_s = rate, .seconds = (double)left / rate};
	return true;
}
