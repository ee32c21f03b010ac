/* braces: a list of paths, and the paths that braces stand for: see source.h. Pure. */
#pragma once

#include "base/fault.h"

#include <stddef.h>

enum {
	/* a mistake such as {0..100000000} must not use up the memory */
	SOURCE_PATHS_MAX = 1000000,
	SOURCE_TEXT_MAX = 4095, /* bytes of one path */
};

struct source_paths {
	char **path; /* absolute; links are resolved only before a part such as ".." */
	size_t count;
	size_t room;
};

/* Expands braces only. 0; -E2BIG more than SOURCE_PATHS_MAX; -ENAMETOOLONG; -ENOMEM. `paths` starts
 * zeroed; the caller frees it, also after a fault. */
int source_braces(const char *spec, struct source_paths *paths, struct fault *fault);

/* Takes over `path`, which may be NULL after a failed allocation. 0; -E2BIG; -ENOMEM. */
int source_paths_add(struct source_paths *paths, char *path, struct fault *fault);

void source_paths_free(struct source_paths *paths);
