/* options: what train_cuda was asked for. */
#pragma once

#include "checkpoint.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers are double here, whole ones too (all are below 2^53); -1 where what was left out means
 * something of its own. */
struct options {
	const char *source, *validate, *checkpoint;
	bool resume, self_test;
	double steps, epochs, stop_at, seconds, every;
	double batch, image, width, blocks, classes, seed;
	double rate, momentum, decay, warmup, smoothing, mixup, cutmix;
	double device, prefetch;
	uint32_t memory; /* enum penstock_cuda_memory */
};

/* Ends the process with a sentence where something is wrong, and after --help. */
void options_parse(struct options *options, int argc, char **argv);

/* The options that a run which goes on must have in common with the one that stopped. */
unsigned options_recipe(
	const struct options *options, struct checkpoint_value ret_values[CHECKPOINT_VALUES]);
