/* measure: one run of `penstock bench`, from opening the dataset to the end of the daemon.
 *
 * It starts a daemon (or uses a stream of the running one), forks the trainers, watches both
 * from outside, and ends what it started. trainer.h says when what is measured. Runs may follow
 * each other in one process; nothing of a run is left when the next begins. Main thread; blocks
 * for as long as the run takes. */
#pragma once

#include "client/cli/bench/cold.h"
#include "client/cli/bench/series.h"
#include "client/cli/bench/trainer.h"
#include "client/cli/recipe.h"
#include "stats/histogram.h"
#include "stats/verdict.h"

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
	bool cold; /* drops the dataset's files from the page cache first */
	double seconds, warmup_s, max_broken;
	bool in_step; /* trainers wait for each other after each batch */
	double step_s, rate; /* of each trainer, as in trainer.h; 0: as fast as batches come */
	uint64_t began_ns; /* first_batch_s counts from here; 0: from the call */
	const char *label; /* of the progress line */
};

#define MEASURE_DEFAULT                                                                   \
	{                                                                                 \
		.recipe = RECIPE_DEFAULT, .daemon = RECIPE_DAEMON_DEFAULT, .trainers = 1, \
		.share = "all", .seconds = 10, .warmup_s = 1, .max_broken = 0,            \
		.label = "measuring"                                                      \
	}

/* Names in the daemon's statistics: `stages`, and the parts of `decode`. */
enum { MEASURE_STAGES = 4, MEASURE_DECODE_STAGES = 8 };
extern const char *const measure_stage[MEASURE_STAGES];
extern const char *const measure_decode_stage[MEASURE_DECODE_STAGES];

/* The window of one trainer. */
struct measure_trainer {
	double images_per_s, seconds;
	double waits; /* share of the window in which it waited for a batch */
	uint64_t batches;
};

/* What a run found. */
struct measure {
	const char *source; /* the options' */
	/* "flat folder: 500 samples, 56.1 MiB"; "" for a stream of the running daemon. */
	char dataset[96];
	char described[RECIPE_TEXT]; /* the stream in words */
	/* As the daemon opened it. */
	uint64_t batch_size;
	struct pixel_size image_size;
	unsigned trainers;
	const char *share; /* the options' */
	double images_per_s, images, seconds; /* of the window; average per trainer */
	struct measure_trainer trainer[TRAINER_MAX];
	double images_made; /* by the daemon, for all trainers */
	double first_batch_s;
	/* All trainers, in their windows: the time between two arrivals; from the request of
	 * a batch to its arrival; and from its completion to its arrival, of the batches that a
	 * trainer was waiting for (total 0: there was none). */
	struct histogram_summary arrivals, waits, announced;
	double waited; /* share of the window in which a trainer waited, average */
	struct series series;
	/* False if the daemon belongs to another user, or if its pid is not known here. */
	bool cpu_known, memory_known, bytes_known;
	double cpu_s; /* of the daemon, in the window */
	uint64_t peak_memory, budget, bytes_read; /* budget 0: the daemon's default */
	/* Bytes charged to this process's cgroup, with the page cache; 0: not known. Exact if it is
	 * the kernel's own mark, otherwise the highest of ten samples a second. */
	uint64_t cgroup_peak;
	bool cgroup_exact;
	double step_s, rate; /* the options' */
	bool is_cold;
	struct cold cold; /* if is_cold */
	uint64_t samples; /* of the dataset */
	/* CPU seconds in the window. */
	double stage_s[MEASURE_STAGES], decode_stage_s[MEASURE_DECODE_STAGES];
	/* The daemon's, at the end of the window: threads, reader, io, fallbacks, broken,
	 * verdict. */
	struct node *stats;
};

/* Whether the options go together: 0, or -EINVAL after saying why not. */
int measure_check(const struct measure_options *options);

/* CLI_OK and a result, which the caller frees with measure_deinit; or the exit code after saying
 * why. */
int measure_run(const struct measure_options *options, struct measure *ret);

/* What would help against what the verdict names; "" if nothing would, or if the daemon is older
 * and does not say. Trainers that only take batches have no rate that would be enough: no number of
 * cores is named for them. */
const char *measure_remedy(const struct measure *measure, char buffer[VERDICT_TEXT]);

/* Zeroed ones are allowed. */
void measure_deinit(struct measure *measure);
