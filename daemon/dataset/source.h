/* source: expands what a user names into the paths of a folder or of files of one kind.
 *
 *   DIR                          a folder of images, or of the files of one dataset that a
 *                                container recognizes (container/container.h)
 *   X.tar, any other file name   a file; its content says of which kind
 *   train-*.tar                  a glob (`* ? [...]`), sorted bytewise; matches hidden names only
 *                                if the dot is written, and indexes (*.idx) only if the glob ends
 *                                so
 *   train-{000000..000146}.tar   a range of whole numbers, with leading zeros, downward and with a
 *                                step ({0..8..2}) too
 *   {a,b}/x-{0..9}.tar           alternatives; they nest, and combine with ranges and globs
 *
 * A file that exists under exactly the given name is meant itself, even if the name has braces and
 * stars. Braces that hold neither a comma nor a range stand for themselves, as in the shell. A
 * backslash is an ordinary character. Paths from braces come in the order written, and each must
 * exist; a path that is named twice appears twice.
 *
 * Blocks on the file system. Any thread. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"

#include <stddef.h>
#include <stdint.h>

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

/* Expands braces and globs, and examines what exists. 0 and *ret: DATASET_FOLDER if the only path
 * is a folder of images; if all paths are regular files, or the folder is a dataset of another
 * kind, the kind of the first file. The kinds of the other files are not looked into: a list of
 * 100,000 names must not cost as many opens. -ENOENT: a path does not exist, or a glob matches
 * nothing; -EINVAL: empty, several folders, folders and files mixed, neither a file nor a folder;
 * -EACCES and the like. The caller frees `paths`, also after a fault. */
int source_expand(
	const char *spec, struct source_paths *paths, enum dataset_kind *ret, struct fault *fault);

void source_paths_free(struct source_paths *paths);
