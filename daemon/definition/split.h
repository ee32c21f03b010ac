/* split: a part of a dataset, in the notation of TensorFlow Datasets: "train", "train[:90%]",
 * "[1000:]", "val[-10%:]".
 *
 * NAME is a folder inside the source, or its tar files NAME/x.tar or NAME-x.tar; without NAME, the
 * split takes the source itself. FROM and TO are numbers of samples or percentages. Either may be
 * left out, and negative ones count from the end. Percentages are rounded to the closest whole
 * sample, ties to the even one. order_subset (order/order.h) decides which samples these are: those
 * between two places of a permutation that is the same for every seed and on every machine.
 *
 * Pure functions, except split_source, which reads the file system; any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPLIT_TEXT = 256, SPLIT_MILLIONTHS = 1000000 };

struct split_bound {
	int64_t value; /* samples, or millionths of a percent */
	bool percent;
};

struct split {
	char name[SPLIT_TEXT]; /* "": the source itself */
	bool part; /* false: the whole dataset, in its own order */
	bool ended; /* `to` was written */
	struct split_bound from, to;
};

/* 0, or -EINVAL with a fault that names the wrong character and what was expected. */
int split_parse(const char *text, struct split *ret, struct fault *fault);

/* Computes which places of the permutation of a dataset with that many samples the split takes.
 * `text` is the split as written, for messages. 0; -EINVAL with a fault if the split is empty or
 * a bound is beyond the end of the dataset. */
int split_places(const struct split *split, const char *text, uint64_t samples, uint64_t *ret_from,
	uint64_t *ret_count, struct fault *fault);

/* Finds the path to open the dataset by: `source` itself, or NAME in it. Blocks. 0; -ENOENT if the
 * source has no NAME or is not a folder (the fault says what was expected); -ENAMETOOLONG. */
int split_source(const struct split *split, const char *source, char *buffer, size_t room,
	struct fault *fault);

/* Hashes the bounds, not NAME: the name of a dataset is not part of the hash. */
uint64_t split_hash(const struct split *split);
