/* accelerate: see accelerate.h. */
#include "client/cli/bench/accelerate.h"

#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "batch/extent.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "client/cli/table.h"
#include "serve/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	ACCELERATE_SLOTS = 4, /* the daemon's default of --prefetch */
	ACCELERATE_ROUND = 2 << 20, /* the slots of an accelerator may take pages of this size */
	ACCELERATE_SPARE_PART = 10, /* one part in this many of the available memory stays free */
};

static const struct accelerate_profile {
	const char *name;
	uint64_t batch_size;
	double step_s;
} profiles[] = {{"h100", 400, 0.224}, {"a100", 400, 0.435}};

/* A search in progress, or a single try. */
struct hunt {
	const struct accelerate_options *options;
	struct accelerate result;
	struct measure best; /* of the try that is reported */
	bool has_best;
	unsigned most; /* the largest number that dataset, memory and TRAINER_MAX allow */
	enum accelerate_bound bound; /* which of them */
};

static const struct accelerate_profile *accelerate_profile(const char *name)
{
	const struct accelerate_profile *profile = &profiles[0];
	for (size_t i = 0; i < UTIL_COUNT(profiles); i++)
		if (strcmp(profiles[i].name, name) == 0)
			profile = &profiles[i];
	return profile;
}

int accelerate_check(struct accelerate_options *options)
{
	const struct accelerate_profile *profile = accelerate_profile(options->profile);
	struct measure_options *run = &options->run;
	if (!options->batch_given)
		run->recipe.spec.batch_size = profile->batch_size;
	if (!options->step_given)
		run->step_s = profile->step_s;
	run->trainers = UTIL_MAX(options->count, 1u);
	run->in_step = true;
	run->distinct_seeds = strcmp(run->share, "private") == 0;
	if (run->rate > 0)
		cli_note("--rate cannot be given with --accelerators; --step-ms changes the time "
			 "that an accelerator takes for a batch");
	else if (recipe_is_stream(run->source))
		cli_note("the running daemon's configuration defines the batches of %s, so "
			 "--accelerators cannot be given; name the folder or tar files",
			run->source);
	else if (!run->recipe.spec.train)
		cli_note("--accelerators simulates training; leave out --eval");
	else if (strcmp(run->share, "all") == 0)
		cli_note("each accelerator takes its own batches: with --accelerators, --share "
			 "must be split (ranks of one job) or private (a stream each)");
	else
		return measure_check(run);
	return -EINVAL;
}

/* Images a second that keep one accelerator busy. */
static double hunt_demand(const struct hunt *hunt)
{
	return (double)hunt->result.batch_size / hunt->result.step_s;
}

/* How many accelerators the rate would keep busy enough. */
static unsigned hunt_by_rate(const struct hunt *hunt, double images_per_s)
{
	double count = images_per_s / (hunt_demand(hunt) * ACCELERATE_LINE);
	return count < TRAINER_MAX ? (unsigned)count : TRAINER_MAX;
}

/* The memory that the batches of `count` accelerators take. */
static uint64_t hunt_batches(const struct hunt *hunt, unsigned count)
{
	const struct measure_options *run = &hunt->options->run;
	const struct stream_spec *spec = &run->recipe.spec;
	struct extent_geometry geometry = extent_plain(spec->batch_size, spec->image_size.height);
	geometry.width = spec->image_size.width;
	uint64_t slots = run->daemon.prefetch ? run->daemon.prefetch : ACCELERATE_SLOTS;
	uint64_t each = slots * extent_stride(&geometry);
	return count * ((each + ACCELERATE_ROUND - 1) / ACCELERATE_ROUND * ACCELERATE_ROUND);
}

/* The budget that `count` accelerators need. */
static uint64_t hunt_budget(const struct hunt *hunt, unsigned count)
{
	const struct recipe_daemon *daemon = &hunt->options->run.daemon;
	const struct budget_worker worker = budget_worker_needs();
	unsigned threads = daemon->threads ? (unsigned)daemon->threads : cpu_threads();
	return budget_for(hunt_batches(hunt, count), threads, &worker);
}

/* The largest budget: as given, or what this machine or container has available. */
static uint64_t hunt_room(const struct hunt *hunt)
{
	struct cgroup_memory memory;
	if (hunt->options->run.daemon.memory)
		return hunt->options->run.daemon.memory;
	cgroup_memory_read(&memory);
	return memory.available - memory.available / ACCELERATE_SPARE_PART;
}

static unsigned hunt_fit(const struct hunt *hunt)
{
	uint64_t room = hunt_room(hunt);
	unsigned count = TRAINER_MAX;
	while (count && hunt_budget(hunt, count) > room)
		count--;
	return count;
}

static int hunt_refuse_memory(const struct hunt *hunt, unsigned count, unsigned fit)
{
	return cli_fail(hunt->options->run.daemon.memory ? CLI_USAGE : CLI_FAILED,
		"%u accelerator%s with batches of %" PRIu64 " need --memory %" PRIu64
		"M (%s); %s %s, which is enough for %u; give fewer accelerators, --prefetch 2, or "
		"a smaller --batch-size",
		count, count == 1 ? "" : "s", hunt->result.batch_size,
		hunt_budget(hunt, count) >> 20, table_bytes(hunt_budget(hunt, count)).text,
		hunt->options->run.daemon.memory ? "--memory gives"
						 : "this machine or container has",
		table_bytes(hunt_room(hunt)).text, fit);
}

/* Finds the largest number that can be simulated. CLI_OK, or the exit code after saying why the
 * number that was asked for cannot be. */
static int hunt_bound(struct hunt *hunt)
{
	const struct measure_options *run = &hunt->options->run;
	unsigned least = UTIL_MAX(hunt->options->count, 1u), fit = hunt_fit(hunt);
	struct dataset *dataset;
	int code = recipe_open(&run->recipe, run->source, &dataset);
	if (code != CLI_OK)
		return code;
	bool split = strcmp(run->share, "split") == 0;
	struct recipe recipe = run->recipe;
	code = recipe_load(&recipe, dataset);
	uint64_t samples = recipe.sampler.length, batches = samples / recipe.spec.batch_size;
	recipe_unload(&recipe);
	dataset_free(dataset);
	if (code != CLI_OK)
		return code;
	char each[48] = "";
	if (least > 1)
		(void)snprintf(each, sizeof each, " for each of %u accelerators", least);
	if (batches < (split ? least : 1))
		return cli_fail(CLI_USAGE,
			"%s has %" PRIu64 " sample%s, not enough for a batch of %" PRIu32
			"%s; give a smaller --batch-size%s",
			run->source, samples, samples == 1 ? "" : "s", run->recipe.spec.batch_size,
			each,
			batches && split
				? ", or --share private, with which each reads the whole dataset"
				: "");
	if (fit < least)
		return hunt_refuse_memory(hunt, least, fit);
	hunt->most = TRAINER_MAX;
	hunt->bound = ACCELERATE_MOST;
	if (fit < hunt->most) {
		hunt->most = fit;
		hunt->bound = ACCELERATE_MEMORY;
	}
	if (split && batches < hunt->most) {
		hunt->most = (unsigned)batches;
		hunt->bound = ACCELERATE_DATASET;
	}
	return CLI_OK;
}

/* Runs `count` accelerators; `free`: one trainer that takes batches as they come. */
static int hunt_measure(const struct hunt *hunt, unsigned count, bool free, struct measure *ret)
{
	struct measure_options run = hunt->options->run;
	char label[48];
	(void)snprintf(label, sizeof label, "%u accelerator%s", count, count == 1 ? "" : "s");
	run.trainers = count;
	run.label = free ? "measuring" : label;
	run.step_s = free ? 0 : run.step_s;
	run.in_step = !free;
	if (hunt->result.tries_made || (!free && hunt->result.free_images_per_s > 0))
		run.began_ns = 0;
	if (!run.daemon.memory)
		run.daemon.memory = UTIL_MAX(hunt_budget(hunt, count), budget_default());
	return measure_run(&run, ret);
}

/* The utilization of each, and their average. */
static double hunt_utilisation(const struct hunt *hunt, unsigned count,
	const struct measure *measure, double ret_each[TRAINER_MAX])
{
	double mean = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct measure_trainer *one = &measure->trainer[i];
		ret_each[i] = (double)one->batches * hunt->result.step_s / one->seconds;
		mean += ret_each[i] / count;
	}
	return mean;
}

/* Makes this the run that is reported, unless a later one is. */
static void hunt_show(struct hunt *hunt, unsigned count, struct measure *measure)
{
	struct accelerate *result = &hunt->result;
	if (hunt->has_best)
		measure_deinit(&hunt->best);
	hunt->best = *measure;
	hunt->has_best = true;
	result->count = count;
	result->mean = hunt_utilisation(hunt, count, measure, result->utilisation);
	result->passed = result->mean >= ACCELERATE_LINE;
	result->memory = measure->budget;
	result->steps = UINT64_MAX;
	for (unsigned i = 0; i < count; i++)
		result->steps = UTIL_MIN(result->steps, measure->trainer[i].batches);
}

static int hunt_try(struct hunt *hunt, unsigned count, bool *ret_passed)
{
	struct accelerate *result = &hunt->result;
	struct measure measure;
	int code = hunt_measure(hunt, count, false, &measure);
	if (code != CLI_OK)
		return code;
	double each[TRAINER_MAX], mean = hunt_utilisation(hunt, count, &measure, each);
	*ret_passed = mean >= ACCELERATE_LINE;
	result->tries[result->tries_made++] = (struct accelerate_try){.count = count,
		.utilisation = mean,
		.images_per_s = measure.images_per_s * count,
		.passed = *ret_passed};
	/* Reported is the largest number that passes, or the smallest that does not. */
	bool better = !hunt->has_best || (*ret_passed ? !result->passed || count > result->count
						      : !result->passed && count < result->count);
	if (better)
		hunt_show(hunt, count, &measure);
	else
		measure_deinit(&measure);
	return CLI_OK;
}

/* What a single run shows: the daemon gave what it could, or was not asked for more. Whatever the
 * rate, dataset and memory bound the number. */
static void hunt_judge_one(struct hunt *hunt)
{
	struct accelerate *result = &hunt->result;
	double all = result->tries[0].images_per_s;
	result->fed = UTIL_MIN(hunt_by_rate(hunt, all), hunt->most);
	result->fed_more = result->passed;
	if (result->passed)
		result->fed = UTIL_MAX(result->fed, result->count);
	else
		result->fed = UTIL_MIN(result->fed, result->count - 1);
}

/* Tries the number that the rate promises, then its neighbors in growing steps until one number has
 * passed and a larger one has not, and then halves the interval. */
static int hunt_search(struct hunt *hunt)
{
	struct accelerate *result = &hunt->result;
	unsigned low = 0, high = hunt->most + 1, step = 1;
	unsigned next =
		UTIL_MIN(UTIL_MAX(hunt_by_rate(hunt, result->free_images_per_s), 1u), hunt->most);
	bool passed;
	while (high - low > 1 && result->tries_made < ACCELERATE_TRIES) {
		int code = hunt_try(hunt, next, &passed);
		if (code != CLI_OK)
			return code;
		if (passed)
			low = next;
		else
			high = next;
		if (low && high <= hunt->most)
			next = low + (high - low) / 2;
		else if (low)
			next = UTIL_MIN(low + step, hunt->most);
		else
			next = high > step + 1 ? high - step : 1;
		step *= 2;
	}
	result->fed = low;
	result->fed_more = high - low > 1 || high > hunt->most;
	result->bound = high > hunt->most ? hunt->bound : ACCELERATE_FREE;
	return CLI_OK;
}

static int hunt_free_rate(struct hunt *hunt)
{
	struct measure measure;
	int code = hunt_measure(hunt, 1, true, &measure);
	if (code != CLI_OK)
		return code;
	hunt->result.free_images_per_s = measure.images_per_s;
	measure_deinit(&measure);
	return CLI_OK;
}

static int hunt_whole(struct hunt *hunt)
{
	bool passed;
	int code = hunt_bound(hunt);
	if (code != CLI_OK)
		return code;
	if (hunt->options->count) {
		code = hunt_try(hunt, hunt->options->count, &passed);
		if (code == CLI_OK)
			hunt_judge_one(hunt);
		return code;
	}
	code = hunt_free_rate(hunt);
	return code == CLI_OK ? hunt_search(hunt) : code;
}

int accelerate_run(const struct accelerate_options *options, struct measure *ret_measure,
	struct accelerate *ret)
{
	struct hunt hunt = {.options = options,
		.result = {.profile = options->profile,
			.altered = options->batch_given || options->step_given,
			.batch_size = options->run.recipe.spec.batch_size,
			.step_s = options->run.step_s}};
	int code = hunt_whole(&hunt);
	if (code != CLI_OK) {
		measure_deinit(&hunt.best);
		return code;
	}
	*ret_measure = hunt.best;
	*ret = hunt.result;
	return CLI_OK;
}
