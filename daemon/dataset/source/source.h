/* source: expands what a user names into the paths of a folder or of files of one kind.
 *
 * A map of this folder:
 *   source.[ch]         this file: local paths
 *   source_remote.[ch]  URLs
 *   own.h               what penstock writes beside shards
 *   braces.[ch]         a list of paths; braces
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
 * URLs (s3://, gs://, hf://, https://, http://) have braces everywhere, and globs and folders (a
 * prefix that ends with a slash) where the server lists what it has: not by https and http. URLs
 * and local paths are not mixed in one source.
 *
 * Blocks on the file system and the network. Any thread. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"
#include "dataset/source/braces.h"

#include <stddef.h>
#include <stdint.h>

/* Expands braces and globs, and examines what exists. 0 and *ret: DATASET_FOLDER if the only path
 * is a folder of images; if all paths are regular files, or the folder is a dataset of another
 * kind, the kind of the first file. The kinds of the other files are not looked into: a list of
 * 100,000 names must not cost as many opens. -ENOENT: a path does not exist, or a glob matches
 * nothing; -EINVAL: empty, several folders, folders and files mixed, neither a file nor a folder;
 * -EACCES and the like. The caller frees `paths`, also after a fault. */
int source_expand(
	const char *spec, struct source_paths *paths, enum dataset_kind *ret, struct fault *fault);
