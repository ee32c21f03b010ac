/* checkpoint: a file with all that a run needs to go on: the network's parts, the loader's state,
 * the step, and the options that must be the same; behind them a hash of it all. Written beside
 * itself and renamed: it is either the old one or the new one. What is wrong with one ends the
 * process with a sentence. */
#pragma once

#include "net.h"

enum { CHECKPOINT_STATE = 512, CHECKPOINT_VALUES = 24, CHECKPOINT_NAME = 16 };

/* An option that must be the same when the run goes on. */
struct checkpoint_value {
	char name[CHECKPOINT_NAME];
	double value;
};

struct checkpoint {
	char magic[8];
	uint64_t step; /* done */
	uint64_t part_bytes[NET_PARTS];
	uint32_t classes, values;
	struct checkpoint_value value[CHECKPOINT_VALUES];
	char state[CHECKPOINT_STATE]; /* the loader's */
};

/* Waits for the device. `checkpoint` is filled in but for `magic` and `part_bytes`. */
void checkpoint_save(
	const char *path, struct ops *ops, struct net *net, const struct checkpoint *checkpoint);

/* Reads what comes before the parts. */
void checkpoint_read(const char *path, struct checkpoint *ret_checkpoint);

/* Refuses one that was written with other options. */
void checkpoint_compare(const char *path, const struct checkpoint *checkpoint,
	const struct checkpoint_value *values, unsigned count);

/* Fills the network. */
void checkpoint_load(const char *path, struct ops *ops, struct net *net);
