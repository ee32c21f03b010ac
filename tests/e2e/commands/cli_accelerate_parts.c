/* cli_accelerate_parts: the search for how many accelerators can be fed, over machines that are
 * made up: each run is answered by a formula, so that the right number is known. */
#include "client/cli/bench/accelerate.h"

#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "batch/extent.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "serve/budget.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A machine. */
static struct {
	double capacity; /* how many accelerators it keeps busy all the time */
	double promise; /* the rate of a trainer that does not compute, in capacities */
	uint64_t samples, available;
	int fails_at; /* this run fails; 0: none */
	/* what happened */
	int runs, alive;
	uint64_t memory; /* of the last run */
	char said[512];
} machine;

enum { SLOT = 1 << 20 };

void cli_note(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(machine.said, sizeof machine.said, format, args);
	va_end(args);
}

int cli_fail(enum cli_exit code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(machine.said, sizeof machine.said, format, args);
	va_end(args);
	return (int)code;
}

bool recipe_is_stream(const char *source)
{
	return strncmp(source, "stream:", 7) == 0;
}

int recipe_open(const struct recipe *recipe, const char *source, struct dataset **ret_dataset)
{
	(void)recipe;
	*ret_dataset = NULL;
	return strcmp(source, "none") == 0 ? CLI_USAGE : CLI_OK;
}

int recipe_load(struct recipe *recipe, const struct dataset *dataset)
{
	(void)dataset;
	recipe->sampler.length = machine.samples;
	return CLI_OK;
}

void recipe_unload(struct recipe *recipe)
{
	(void)recipe;
}

void dataset_free(struct dataset *dataset)
{
	(void)dataset;
}

uint64_t extent_stride(const struct extent_geometry *geometry)
{
	(void)geometry;
	return SLOT;
}

struct budget_worker budget_worker_needs(void)
{
	return (struct budget_worker){.fixed = 0};
}

unsigned cpu_threads(void)
{
	return 2;
}

uint64_t budget_for(uint64_t streams, unsigned threads, const struct budget_worker *worker)
{
	(void)worker;
	return streams + threads * (uint64_t)SLOT;
}

void cgroup_memory_read(struct cgroup_memory *ret)
{
	*ret = (struct cgroup_memory){.available = machine.available};
}

uint64_t budget_default(void)
{
	return 64 * (uint64_t)SLOT;
}

int measure_check(const struct measure_options *options)
{
	(void)options;
	return 0;
}

int measure_run(const struct measure_options *options, struct measure *ret)
{
	double batch = (double)options->recipe.spec.batch_size, step_s = 0.224,
	       busy = machine.capacity / options->trainers;
	bool computes = options->step_s > 0;
	assert_true(options->in_step == computes && options->trainers >= 1);
	machine.memory = options->daemon.memory;
	if (++machine.runs == machine.fails_at)
		return CLI_FAILED;
	busy = busy > 1 ? 1 : busy;
	*ret = (struct measure){.trainers = options->trainers,
		.images_per_s = computes ? busy * batch / step_s
					 : machine.capacity * machine.promise * batch / step_s};
	for (unsigned i = 0; i < options->trainers; i++)
		ret->trainer[i] = (struct measure_trainer){
			.seconds = 1000 * step_s, .batches = (uint64_t)(busy * 1000 + 0.5)};
	machine.alive++;
	return CLI_OK;
}

void measure_deinit(struct measure *measure)
{
	machine.alive -= measure->trainers != 0;
	*measure = (struct measure){.trainers = 0};
}

static int hunt(unsigned count, struct measure *ret_measure, struct accelerate *ret)
{
	struct accelerate_options options = {
		.count = count, .profile = "h100", .run = MEASURE_DEFAULT};
	options.run.source = "images";
	options.run.share = "split";
	assert_int_equal(accelerate_check(&options), 0);
	assert_int_equal(options.run.recipe.spec.batch_size, 400);
	return accelerate_run(&options, ret_measure, ret);
}

static void set_up(double capacity, double promise)
{
	memset(&machine, 0, sizeof machine);
	machine.capacity = capacity;
	machine.promise = promise;
	machine.samples = 1281167;
	machine.available = (uint64_t)1 << 40;
}

/* For machines of all speeds, and however wrong the first guess is. */
static void finds_the_largest_that_passes(void **state)
{
	(void)state;
	static const double promises[] = {1, 0.95, 1.3, 0.25, 4, 0.001};
	for (int tenth = 1; tenth <= 700; tenth += 3) {
		for (size_t i = 0; i < UTIL_COUNT(promises); i++) {
			struct measure measure;
			struct accelerate got;
			set_up(tenth / 10.0, promises[i]);
			/* capacity / n >= 0.9, to the thousandth that batches are counted in */
			unsigned expected = 0;
			while (expected < TRAINER_MAX &&
				(uint64_t)(machine.capacity / (expected + 1) * 1000 + 0.5) >= 900)
				expected++;
			assert_int_equal(hunt(0, &measure, &got), CLI_OK);
			assert_true(got.tries_made <= ACCELERATE_TRIES && machine.alive == 1);
			assert_int_equal(got.fed, expected);
			assert_int_equal(got.fed_more, expected == TRAINER_MAX);
			assert_int_equal(got.bound,
				expected == TRAINER_MAX ? ACCELERATE_MOST : ACCELERATE_FREE);
			/* Reported is the largest that passed, or the smallest that did not. */
			assert_int_equal(got.count, expected ? expected : 1);
			assert_int_equal(measure.trainers, got.count);
			assert_true(got.passed == (expected > 0));
			measure_deinit(&measure);
		}
	}
}

static void stops_where_dataset_or_memory_end(void **state)
{
	(void)state;
	struct measure measure;
	struct accelerate got;
	set_up(50, 1);
	machine.samples = 400 * 7 + 399;
	assert_int_equal(hunt(0, &measure, &got), CLI_OK);
	assert_true(got.fed == 7 && got.fed_more && got.bound == ACCELERATE_DATASET);
	measure_deinit(&measure);
	set_up(50, 1);
	machine.available = 40 * (uint64_t)SLOT; /* a tenth stays free; two slots are the rest */
	assert_int_equal(hunt(0, &measure, &got), CLI_OK);
	assert_true(got.fed == 8 && got.fed_more && got.bound == ACCELERATE_MEMORY);
	assert_true(machine.memory == 64 * (uint64_t)SLOT);
	measure_deinit(&measure);
	assert_int_equal(machine.alive, 0);
	assert_int_equal(hunt(9, &measure, &got), CLI_FAILED);
	assert_non_null(
		strstr(machine.said, "9 accelerators with batches of 400 need --memory 38M"));
	assert_non_null(strstr(machine.said, "enough for 8"));
	machine.samples = 399;
	assert_int_equal(hunt(0, &measure, &got), CLI_USAGE);
	assert_non_null(strstr(machine.said, "399 samples, not enough for a batch of 400; give"));
	assert_int_equal(hunt(2, &measure, &got), CLI_USAGE);
	assert_non_null(strstr(machine.said, "for a batch of 400 for each of 2 accelerators; "));
	machine.samples = 1;
	assert_int_equal(hunt(1, &measure, &got), CLI_USAGE);
	assert_non_null(strstr(machine.said, "1 sample, not enough for a batch of 400; give"));
}

static void judges_one_run_by_its_rate(void **state)
{
	(void)state;
	static const struct {
		double capacity;
		unsigned count, fed;
		bool passed, more;
	} cases[] = {{0.5, 1, 0, false, false}, {0.5, 4, 0, false, false}, {2, 4, 2, false, false},
		{4, 4, 4, true, true}, {30, 4, 4, true, true}, {3.65, 4, 4, true, true},
		{3.55, 4, 3, false, false}};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct measure measure;
		struct accelerate got;
		set_up(cases[i].capacity, 1);
		assert_int_equal(hunt(cases[i].count, &measure, &got), CLI_OK);
		assert_int_equal(machine.runs, 1);
		assert_true(got.fed == cases[i].fed && got.passed == cases[i].passed);
		assert_true(got.fed_more == cases[i].more && got.free_images_per_s == 0);
		measure_deinit(&measure);
		assert_int_equal(machine.alive, 0);
	}
}

/* The rate of 10 accelerators would feed an eleventh, but an epoch has no batch for it. */
static void the_rate_of_one_run_makes_no_batches(void **state)
{
	(void)state;
	struct measure measure;
	struct accelerate got;
	set_up(50, 1);
	assert_int_equal(hunt(10, &measure, &got), CLI_OK);
	assert_true(got.fed == 11 && got.fed_more);
	measure_deinit(&measure);
	set_up(50, 1);
	machine.samples = 400 * 10;
	assert_int_equal(hunt(10, &measure, &got), CLI_OK);
	assert_true(got.fed == 10 && got.fed_more);
	measure_deinit(&measure);
}

/* Nothing is kept, whichever run fails. */
static void ends_with_a_run_that_fails(void **state)
{
	(void)state;
	for (int at = 1; at <= 4; at++) {
		struct measure measure;
		struct accelerate got;
		set_up(5, 3);
		machine.fails_at = at;
		assert_int_equal(hunt(0, &measure, &got), CLI_FAILED);
		assert_true(machine.runs == at && machine.alive == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_largest_that_passes),
		cmocka_unit_test(stops_where_dataset_or_memory_end),
		cmocka_unit_test(judges_one_run_by_its_rate),
		cmocka_unit_test(the_rate_of_one_run_makes_no_batches),
		cmocka_unit_test(ends_with_a_run_that_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
