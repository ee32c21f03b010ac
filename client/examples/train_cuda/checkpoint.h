/* checkpoint: a file with everything that a run needs to resume: the network's parts, the loader's
 * state, the step, and the options that must be the same; at its end a hash of all of it. It is
 * written under a temporary name and renamed, so that the file is either the old one or the new
 * one. If something is wrong with a checkpoint, the process ends with a sentence. */
#pragma once

#include "net.h"

enum { CHECKPOINT_STATE = 512, CHECKPOINT_VALUES = 24, CHECKPOINT_NAME = 16 };

/* An option that must be the same when the run is resumed. */
struct checkpoint_value {
	char name[CHECKPOINT_NAME];
	double value;
};

struct checkpoint {
	char magic[8];
	uint64_t step; /* steps done */
	uint64_t part_bytes[NET_PARTS];
	uint32_t classes, values;
	struct checkpoint_value value[CHECKPOINT_VALUES];
	char state[CHECKPOINT_STATE]; /* the loader's */
};

/* Waits for the device. The caller fills in `checkpoint`, except `magic` and `part_bytes`. */
void checkpoint_save(
	const char *path, struct ops *ops, struct net *net, const struct checkpoint *checkpoint);

/* Reads everything before the parts. */
void checkpoint_read(const char *path, struct checkpoint *ret_checkpoint);

/* Ends the process if the checkpoint was written with other options. */
void checkpoint_compare(const char *path, const struct checkpoint *checkpoint,
	const struct checkpoint_value *values, unsigned count);

/* Fills the network. */
void checkpoint_load(const char *path, struct ops *ops, struct net *net);
