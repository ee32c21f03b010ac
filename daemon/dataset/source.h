/* spec: what a user names -> the files that are meant.
 *
 *   DIR                          a folder
 *   X.tar, any other file name   a tar
 *   train-*.tar                  a glob (`* ? [...]`), sorted bytewise; hidden names only where the
 *                                dot is written, and indexes (*.idx) only where the glob ends so
 *   train-{000000..000146}.tar   a range of whole numbers, leading zeros kept, downwards and with
 *                                a step ({0..8..2}) too
 *   {a,b}/x-{0..9}.tar           alternatives; they nest, and combine with ranges and globs
 *
 * Something that exists under the very name given is meant itself, whatever braces and stars it
 * has. Braces that hold neither a comma nor a range stand for themselves, as in the shell. A
 * backslash is an ordinary character. Paths from braces come in the order written, and each must
 * exist; a path named twice is there twice.
 *
 * Blocks on the file system. Any thread. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"

#include <stddef.h>
#include <stdint.h>

enum {
	SOURCE_PATHS_MAX = 1000000, /* a slip such as {0..100000000} must not eat the memory */
	SOURCE_TEXT_MAX = 4095, /* bytes of one path */
};

struct source_paths {
	char **path; /* absolute; links are resolved only on the way to a part such as ".." */
	size_t count;
	size_t room;
};

/* Expands braces alone. 0; -E2BIG more than SOURCE_PATHS_MAX; -ENAMETOOLONG; -ENOMEM. `paths` starts
 * zeroed and is freed by the caller, also after a fault. */
int source_braces(const char *spec, struct source_paths *paths, struct fault *fault);

/* Expands all of it and looks what is there. 0: `ret_folder` is 1 when the only path is a folder, 0
 * when all paths are regular files. -ENOENT: something is missing, or a glob matches nothing;
 * -EINVAL: empty, several folders, folders and files mixed, neither file nor folder; -EACCES and
 * the like. The caller frees `paths`, also after a fault. */
int source_expand(
	const char *spec, struct source_paths *paths, enum dataset_kind *ret, struct fault *fault);

void source_paths_free(struct source_paths *paths);
