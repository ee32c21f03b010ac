/* cost: how long a pack will take on this machine. Makes images of a few samples, evenly spread
 * over those that are left, with all threads at once, and drops them. Nothing is written.
 *
 * A sample that cannot be read or made does not count here: the pack itself meets it, and says what
 * is wrong with it. */
#pragma once

#include "client/cli/pack/image.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	COST_MOST_NS = 1000000000, /* a thread begins no further sample after this long */
	COST_PART = 20, /* at most one sample in this many, but one for each thread */
};

struct cost_options {
	struct image_options image;
	struct image_memory memory;
	uint64_t largest; /* bytes of a sample; a larger one is left out */
	unsigned threads;
	uint64_t first; /* the first sample that is left */
};

struct cost {
	uint64_t images; /* that are left */
	double images_per_s, seconds; /* of all threads together; for all images that are left */
};

/* Waits about a second at most, and longer only for a sample that takes longer. False: nothing
 * could be measured. */
bool cost_measure(
	const struct dataset *dataset, const struct cost_options *options, struct cost *ret);

/* The samples to try: `tries` of the numbers from `first` to below `count`, evenly spread, without
 * repetition. Pure. */
uint64_t cost_tries(uint64_t first, uint64_t count, unsigned threads);
uint64_t cost_sample(uint64_t first, uint64_t count, uint64_t tries, uint64_t i);
