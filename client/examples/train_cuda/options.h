/* options: the command line of train_cuda. */
#pragma once

#include "checkpoint.h"

#include <stdbool.h>
#include <stdint.h>

/* All numbers are double, whole numbers too (they are below 2^53). -1 means that the option was not
 * given, if that has a meaning of its own. */
struct options {
	const char *source, *validate, *checkpoint;
	bool resume;
	double steps, epochs, stop_at, seconds, every;
	double batch, image, width, blocks, classes, seed;
	double rate, momentum, decay, warmup, smoothing, mixup, cutmix;
	double device, prefetch;
	uint32_t memory; /* enum penstock_cuda_memory */
};

/* Ends the process with a sentence if something is wrong, and after --help. */
void options_parse(struct options *options, int argc, char **argv);

/* The options that a resumed run must have in common with the run that stopped. */
unsigned options_recipe(
	const struct options *options, struct checkpoint_value ret_values[CHECKPOINT_VALUES]);
