/* measure: one run of `penstock bench`, from the first look at the dataset to the daemon's end.
 *
 * Starts a daemon of its own (or uses a stream of the running one), forks the trainers, watches
 * from outside, ends what it started. What is measured when is told in trainer.h. Runs may follow
 * each other in one process, one at a time; nothing is left of one when the next begins. Main
 * thread; blocks for as long as the run takes. */
#pragma once

#include "client/cli/bench/cold.h"
#include "client/cli/bench/series.h"
#include "client/cli/bench/trainer.h"
#include "client/cli/recipe.h"
#include "stats/histogram.h"

#include <stdbool.h>
#include <stdint.h>

struct node;

struct measure_options {
	const char *source; /* a dataset, or "stream:NAME" of the running daemon */
	struct recipe recipe;
	struct recipe_daemon daemon;
	unsigned trainers; /* 1 .. TRAINER_MAX */
	const char *share; /* "all", "split", "private" */
	bool distinct_seeds; /* with "private" */
	bool cold; /* the dataset's files leave the page cache first */
	double seconds, warmup_s, max_broken;
	bool in_step; /* trainers wait for each other after every batch */
	double step_s, rate; /* of every trainer, as in trainer.h; 0: as fast as batches come */
	uint64_t began_ns; /* what first_batch_s counts from; 0: the call */
	const char *label; /* of the progress line */
};

#define MEASURE_DEFAULT                                                                   \
	{                                                                                 \
		.recipe = RECIPE_DEFAULT, .daemon = RECIPE_DAEMON_DEFAULT, .trainers = 1, \
		.share = "all", .seconds = 10, .warmup_s = 1, .max_broken = 0,            \
		.label = "measuring"                                                      \
	}

/* Names in the daemon's statistics: `stages`, and what `decode` of them is made of. */
enum { MEASURE_STAGES = 4, MEASURE_DECODE_STAGES = 8 };
extern const char *const measure_stage[MEASURE_STAGES];
extern const char *const measure_decode_stage[MEASURE_DECODE_STAGES];

/* One trainer's window. */
struct measure_trainer {
	double images_per_s, seconds;
	double waits; /* share of the window that it waited for a batch */
	uint64_t batches;
};

/* What a run found. */
struct measure {
	const char *source; /* the options' */
	char dataset[96]; /* "500 samples, 56.1 MiB, flat folder"; "" for a stream of the running
			     daemon */
	char described[RECIPE_TEXT]; /* the recipe in words */
	uint64_t batch_size, image_size; /* as the daemon opened it */
	unsigned trainers;
	const char *share; /* the options' */
	double images_per_s, images, seconds; /* of the window; average per trainer */
	struct measure_trainer trainer[TRAINER_MAX];
	double images_made; /* by the daemon, for all trainers */
	double first_batch_s;
	/* Of all trainers, in their windows: between the arrivals of two batches; from asking for
	 * one until it came; from its being complete to its arrival, of those that were waited for
	 * (total 0: none was). */
	struct histogram_summary arrivals, waits, announced;
	double waited; /* share of the window that a trainer waited, average */
	struct series series;
	bool cpu_known, memory_known, bytes_known; /* false where the daemon is another user's, or
						      where its pid is not known here */
	double cpu_s; /* of the daemon, in the window */
	uint64_t peak_memory, budget, bytes_read; /* budget 0: the daemon's default */
	uint64_t cgroup_peak; /* bytes charged to this process's cgroup, page cache included; 0: not
				 known */
	bool cgroup_exact; /* the kernel's own mark, else the highest of ten looks a second */
	double step_s, rate; /* the options' */
	bool is_cold;
	struct cold cold; /* where it is */
	uint64_t samples; /* of the dataset */
	/* CPU seconds in the window. */
	double stage_s[MEASURE_STAGES], decode_stage_s[MEASURE_DECODE_STAGES];
	struct node *stats; /* the daemon's, at the end of the window: threads, reader, io,
			       fallbacks, broken, verdict */
};

/* Whether the options can be: 0, or -EINVAL after saying why. */
int measure_check(const struct measure_options *options);

/* CLI_OK and a result, to be freed with measure_deinit; or the exit code after saying why. */
int measure_run(const struct measure_options *options, struct measure *ret);

/* Zeroed ones are allowed. */
void measure_deinit(struct measure *measure);
