/* braces: a list of paths, and the paths that braces stand for: see source.h. Pure. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum {
	/* a mistake such as {0..100000000} must not use up the memory, nor take hours */
	SOURCE_PATHS_MAX = 1000000,
	SOURCE_PATHS_BYTES = 64 << 20, /* of all paths together */
	SOURCE_EXPANDED_BYTES = 512 << 20, /* of all texts that expanding makes on its way */
	SOURCE_TEXT_MAX = 4095, /* bytes of one path */
};

struct source_paths {
	char **path; /* absolute; links are resolved only before a part such as ".." */
	size_t count;
	size_t room;
	uint64_t bytes; /* of the paths */
	uint64_t expanded; /* bytes of the texts that were made on the way */
};

/* Expands braces only. 0; -E2BIG: more than SOURCE_PATHS_MAX, SOURCE_PATHS_BYTES or
 * SOURCE_EXPANDED_BYTES; -ENAMETOOLONG; -ENOMEM. `paths` starts zeroed; the caller frees it, also
 * after a fault. */
int source_braces(const char *spec, struct source_paths *paths, struct fault *fault);

/* Takes over `path`, which may be NULL after a failed allocation. 0; -E2BIG; -ENOMEM. */
int source_paths_add(struct source_paths *paths, char *path, struct fault *fault);

void source_paths_free(struct source_paths *paths);
