/* zip_root: which folder in a ZIP holds the class folders, and their names.
 *
 * As in ImageFolder, once the archive is unpacked: the root is the archive's own, and its folders
 * are the classes. But many archives hold one folder, in which the class folders are
 * ("train/n01440764/x.jpg", as on Kaggle). So if all files are below one folder, which holds no
 * images but in its folders, then that folder is the root; and again, if it holds only one folder
 * with folders of images. The root does not depend on the labels that were asked for, because the
 * order of the samples depends on it.
 *
 * Left out, as in a folder: names with a part that begins with a dot, and "__MACOSX". Everything
 * else counts, files that are not images and empty folders, too: they would be class folders after
 * unpacking. Memory grows with the number of classes, some 50 bytes for each. */
#pragma once

#include "dataset/container/archives/zip.h"
#include "dataset/container/folder.h"
#include "dataset/index_progress.h"

#include <stddef.h>
#include <stdint.h>

struct zip_class {
	char *name;
	uint32_t label;
};

struct zip_root {
	size_t size; /* of the root's path with its slash; 0: the archive's own root */
	char path[INDEX_NAME_MAX + 1];
	/* A hash table with linear probing, at most half full; slots without a name are free. */
	struct zip_class *slot;
	size_t slots, classes;
	size_t bytes; /* of the classes' names */
	struct index_progress *progress; /* set by the caller: whether to go on is asked there */
	uint64_t walked; /* members */
	const char **names; /* of the classes, by their labels; borrowed from the slots */
};

/* Walks the directory, which is at its first member, two or three times, and checks all names. 0;
 * -EINVAL; -E2BIG: too many classes; -ECANCELED; -ENOMEM; -errno. Call zip_root_deinit in all
 * cases; `root` begins zeroed but for `progress`. */
int zip_root_find(
	struct zip_root *root, struct zip_reader *zip, enum class_order order, struct fault *fault);
void zip_root_deinit(struct zip_root *root);

/* The label of the class with this name; UINT32_MAX: there is no such class. Pure. */
uint32_t zip_root_label(const struct zip_root *root, const char *name, size_t size);

/* Whether a member counts. Pure. */
bool zip_root_counts(const struct zip_member *member);
