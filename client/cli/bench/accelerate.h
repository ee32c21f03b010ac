/* accelerate: how many accelerators this machine feeds, in the terms of MLPerf Storage.
 *
 * A simulated accelerator is a process that takes a batch, holds it for as long as a real
 * accelerator computes on it, and then waits for the others, as ranks do that sum their gradients.
 * Its utilization is the share of its time in which it computed: batches x computation time / time.
 * A machine feeds N accelerators if their average utilization is at least ACCELERATE_LINE.
 *
 * From MLPerf Storage 2.0 (mlcommons/storage, Submission_guidelines.md 4 and
 * configs/dlio/workload/resnet50_{h100,a100}.yaml; the meeting and the sum are from main.py and
 * statscounter.py of the DLIO benchmark) come the batch size and the computation times of the
 * ResNet-50 workload, the formula, the line of 90 %, and that the start is not counted (there the
 * first step, here everything until a second after the first batches). Different is the dataset:
 * MLPerf Storage reads synthetic records, five times as large as the memory, and does not decode
 * them; here the user's images are decoded, cropped and resized, which takes more than storage. So
 * the result is not a result of that benchmark, and must not be called one. */
#pragma once

#include "client/cli/bench/measure.h"

#include <stdbool.h>
#include <stdint.h>

#define ACCELERATE_PROFILES "h100|a100"
#define ACCELERATE_LINE 0.9

enum {
	ACCELERATE_TRIES = 12,
	ACCELERATE_STEPS = 20, /* with fewer in a window, one batch more or less is over 5 % */
};

struct accelerate_options {
	unsigned count; /* 1 .. TRAINER_MAX; 0: find the largest number that this machine feeds */
	const char *profile; /* one of ACCELERATE_PROFILES */
	bool batch_given, step_given; /* `run` has its own in place of the profile's */
	struct measure_options run; /* without trainers, and without what the profile sets */
};

struct accelerate_try {
	unsigned count;
	double utilisation, images_per_s; /* average; sum */
	bool passed;
};

/* What bounds the number of accelerators. */
enum accelerate_bound {
	ACCELERATE_FREE, /* only the machine's speed */
	ACCELERATE_DATASET, /* an epoch has no batch for one more */
	ACCELERATE_MEMORY,
	ACCELERATE_MOST, /* TRAINER_MAX */
};

struct accelerate {
	const char *profile;
	bool altered; /* the batch or the time is not the profile's */
	uint64_t batch_size;
	double step_s;
	unsigned count; /* of the run that is reported */
	uint64_t steps; /* in the window, of the accelerator that made the fewest */
	uint64_t memory; /* the daemon's budget in bytes */
	double utilisation[TRAINER_MAX], mean;
	bool passed;
	unsigned fed; /* how many can be fed */
	bool fed_more; /* perhaps more: no run showed that one more cannot be fed */
	double free_images_per_s; /* of one trainer that does not compute; 0: not measured */
	enum accelerate_bound bound; /* that `fed` has reached */
	struct accelerate_try tries[ACCELERATE_TRIES];
	unsigned tries_made;
};

/* Fills in `run` from the profile. 0, or -EINVAL after saying which options do not go together. */
int accelerate_check(struct accelerate_options *options);

/* CLI_OK, the result, and the run that it reports, which the caller frees with measure_deinit; or
 * the exit code after saying why. */
int accelerate_run(const struct accelerate_options *options, struct measure *ret_measure,
	struct accelerate *ret);
