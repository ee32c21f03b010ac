/* accelerate: how many accelerators can be fed, in the terms of MLPerf Storage.
 *
 * A simulated accelerator is a process that takes a batch, holds it for as long as a real one is
 * known to compute on it, and meets the others before the next one, as gradients are summed. Its
 * utilisation is the share of its time in which it computed: batches x computation time / time. A
 * machine feeds N of them when their average is at least ACCELERATE_LINE.
 *
 * Taken over from MLPerf Storage 2.0 (mlcommons/storage, Submission_guidelines.md 4 and
 * configs/dlio/workload/resnet50_{h100,a100}.yaml; the meeting and the sum from the DLIO
 * benchmark's main.py and statscounter.py): the ResNet-50 workload's batch size and computation
 * times, the formula, the line of 90 %, that what comes before the pipeline runs is not counted
 * (there the first step, here everything up to a second after the first). Not taken over: its data
 * set, larger than five times the memory, of synthetic records that are read and not decoded; here
 * the images are the user's and are decoded, cropped and resized in full, so that each accelerator
 * asks for more than storage. It is no result of that benchmark, and must not be called one. */
#pragma once

#include "client/cli/bench/measure.h"

#include <stdbool.h>
#include <stdint.h>

#define ACCELERATE_PROFILES "h100|a100"
#define ACCELERATE_LINE 0.9

enum {
	ACCELERATE_TRIES = 12,
	ACCELERATE_STEPS = 20, /* a window of fewer says little: one batch more or less is 5 % */
};

struct accelerate_options {
	unsigned count; /* 1 .. TRAINER_MAX; 0: look for the most that this machine feeds */
	const char *profile; /* one of ACCELERATE_PROFILES */
	bool batch_given, step_given; /* `run` has its own, instead of the profile's */
	struct measure_options run; /* all but trainers and what the profile says */
};

struct accelerate_try {
	unsigned count;
	double utilisation, images_per_s; /* average; of all together */
	bool passed;
};

/* What bounds the number of accelerators from above. */
enum accelerate_bound {
	ACCELERATE_FREE, /* nothing but the machine's speed */
	ACCELERATE_DATASET, /* an epoch has no more than one batch for each */
	ACCELERATE_MEMORY,
	ACCELERATE_MOST, /* TRAINER_MAX */
};

struct accelerate {
	const char *profile;
	bool altered; /* another batch or time than the profile's */
	uint64_t batch_size;
	double step_s;
	unsigned count; /* of the run that is shown */
	uint64_t steps; /* of the accelerator that made the fewest in its window */
	uint64_t memory; /* bytes that the daemon's budget was made */
	double utilisation[TRAINER_MAX], mean;
	bool passed;
	unsigned fed; /* so many can be fed; 0: not one */
	bool fed_more; /* perhaps more: it was not seen that one more cannot */
	double free_images_per_s; /* of one that does not compute; 0: not measured */
	enum accelerate_bound bound; /* where `fed` met it */
	struct accelerate_try tries[ACCELERATE_TRIES];
	unsigned tries_made;
};

/* Fills what the profile says into `run`. 0, or -EINVAL after saying what cannot be. */
int accelerate_check(struct accelerate_options *options);

/* CLI_OK, what was found, and the run that it stands on (to be freed with measure_deinit); or the
 * exit code after saying why. */
int accelerate_run(const struct accelerate_options *options, struct measure *ret_measure,
	struct accelerate *ret);
