/* roots: the folders that the configuration allows the daemon to read datasets from.
 *
 * Before the daemon opens a path that a client named, it checks the path here and refuses it with a
 * sentence that names the path and the folders. A link may change between the check and the open;
 * the kernel's Landlock (confine/confine.h) restricts the process to the same folders and stops
 * that.
 *
 * main sets the roots before there are threads, and nothing changes them later. Any thread may read
 * them. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>

enum { ROOTS_MAX = 32, ROOTS_PATH = 1024 };

/* Adds a folder: the one that the path resolves to now. 0; -EINVAL: not an absolute path of a
 * folder; -E2BIG: more than ROOTS_MAX; -ENOENT and the like. */
int roots_add(const char *path, struct fault *fault);

/* Without folders, nothing local may be read: the roots are URLs (remote/remote.h). */
void roots_bind(void);

/* Whether there are roots of either kind; if not, the daemon may read everything. */
bool roots_apply(void);

/* How many folders there are. */
unsigned roots_count(void);
const char *roots_path(unsigned i);

/* Checks that `path` resolves to a place below a root. Where the path does not exist (yet), the
 * part that exists counts. `what` names it in the sentence: "source", "labels: manifest". Blocks on
 * the file system. 0, or -EACCES with a fault. */
int roots_check(const char *what, const char *path, struct fault *fault);

/* Sets the cache folder, which must exist. Clients write lists for the daemon below it, and the
 * daemon may read it anyway. */
void roots_set_cache(const char *cache_dir);

/* As roots_check, for a list of samples or weights: lists in the cache folder are allowed too. */
int roots_check_list(const char *what, const char *path, struct fault *fault);

/* As roots_check, for a name in an open folder. The sentence calls it `shown`. */
int roots_check_at(
	const char *what, int folder, const char *name, const char *shown, struct fault *fault);

/* A root that is the folder `real` (a path without links) or is below it; NULL: none is. */
const char *roots_within(const char *real);

/* Removes all roots. For tests. */
void roots_clear(void);
