/* beside: opens a file that a container has beside its shard: labels, an index, names of classes.
 *
 * Its path is made from the shard's, so it is the only other file that is opened. The roots of the
 * configuration (base/host/roots.h) apply to it, too. Blocks. Any thread. */
#pragma once

#include "base/fault.h"
#include "dataset/blob.h"

#include <stddef.h>
#include <stdint.h>

enum { BESIDE_PATH = 4352 };

struct beside {
	struct blob blob; /* not open: there is no such file */
	uint64_t size;
	char path[BESIDE_PATH];
};

enum { BESIDE_E_NONE = 1 };

/* Opens the file `name` in the folder of the file `shard`. 0; BESIDE_E_NONE: it does not exist, and
 * ret->path says which one was looked for; -EINVAL: it is not a regular file; -EACCES; -errno. The
 * caller calls beside_close in every case. */
int beside_open(const char *shard, const char *name, struct beside *ret, struct fault *fault);
void beside_close(struct beside *beside);

/* Adds to a hash whether the file `name` exists in the folder of `shard`, its size, and when it was
 * changed. Begin with 0. 0, or a negative errno with the fault where a server does not say. */
int beside_state(uint32_t *hash, const char *shard, const char *name, struct fault *fault);
