/* split: a part of a dataset, written as TensorFlow Datasets writes it: "train", "train[:90%]",
 * "[1000:]", "val[-10%:]".
 *
 * NAME is a folder inside the source, or its NAME/x.tar or NAME-x.tar; without one it is the source
 * itself. FROM and TO are numbers of samples or percent, either may be left out, and negative ones
 * count from the end. Percent are rounded to the closest whole sample, ties to the even one. Which
 * samples those are is order_subset's to say (order/order.h): what lies between two places of a
 * permutation that is the same for every seed and on every machine.
 *
 * Pure functions, but for split_source, which looks at the file system; any thread. */
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
	bool part; /* false: all of it, in its own order */
	bool ended; /* `to` was written */
	struct split_bound from, to;
};

/* 0, or -EINVAL with a fault that says at which character, and what was expected. */
int split_parse(const char *text, struct split *ret, struct fault *fault);

/* Of a dataset with so many samples: which places of its permutation. 0; -EINVAL there are none, or
 * a bound lies beyond the dataset (says so). `text` as it was written. */
int split_places(const struct split *split, const char *text, uint64_t samples, uint64_t *ret_from,
	uint64_t *ret_count, struct fault *fault);

/* What the dataset is opened by: `source` itself, or NAME in it. Blocks. 0; -ENOENT it has no such
 * NAME, or is no folder (says what there would have to be); -ENAMETOOLONG. */
int split_source(const struct split *split, const char *source, char *buffer, size_t room,
	struct fault *fault);

/* Of the part, not of its name: a dataset's name is no part of it. */
uint64_t split_hash(const struct split *split);
