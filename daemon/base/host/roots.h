/* roots: the folders that datasets may lie in, where the configuration says so.
 *
 * Whoever is about to open what somebody else named asks here first, and refuses with a sentence
 * that names the path and the folders. What keeps even a link that is changed between question and
 * opening from leading out is the kernel's Landlock (confine/confine.h), which binds to the same
 * folders.
 *
 * Set by main before any thread runs, and never again; read by any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>

enum { ROOTS_MAX = 32, ROOTS_PATH = 1024 };

/* Adds a folder, by what it leads to now. 0; -EINVAL: no absolute path of a folder; -E2BIG; -ENOENT
 * and the like. */
int roots_add(const char *path, struct fault *fault);

/* How many there are; 0: everything may be read. */
unsigned roots_count(void);
const char *roots_path(unsigned i);

/* Whether what `path` leads to lies in a root; of a path that does not exist (yet) the part that
 * does counts. `what` names it in the sentence: "source", "labels: manifest". Blocks: asks the file
 * system. 0, or -EACCES with a fault. */
int roots_check(const char *what, const char *path, struct fault *fault);

/* Where clients lay lists for the daemon: beneath its cache folder, which it may read anyway. The
 * folder is there. */
void roots_set_cache(const char *cache_dir);

/* The same as roots_check, of a list of samples or weights: those of the cache folder may be read
 * too. */
int roots_check_list(const char *what, const char *path, struct fault *fault);

/* The same of a name in a folder that is open, `shown` being its path in the sentence. */
int roots_check_at(
	const char *what, int folder, const char *name, const char *shown, struct fault *fault);

/* A root that is this folder or lies beneath it (a path without links); NULL: there is none. */
const char *roots_within(const char *real);

/* Forgets them all. For tests. */
void roots_clear(void);
