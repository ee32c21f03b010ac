/* index_share: stores the index of a remote shard beside it, under the name at which openings on
 * other machines look for it: SHARD.idx.
 *
 * An object of that name that is not an index of penstock is never overwritten. For commands: one
 * thread per call; blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"

#include <stdint.h>

enum index_share {
	INDEX_SHARE_STORED, /* the object is new, or took the place of an older index */
	INDEX_SHARE_SAME, /* it was there already */
	/* The index fits these settings only, or the index is not in a file of its own: no opening
	 * looks for it beside the shard. */
	INDEX_SHARE_NONE,
};

/* For shard `number`. An enum index_share, or a negative errno with a sentence: the place cannot be
 * written. */
int index_share(const struct dataset *dataset, uint32_t number, struct fault *fault);
