/* class_folders: folders as classes, for the containers that hold files with paths.
 *
 * Either the root holds images (a flat folder: no labels), or its directories are classes and each
 * of them has at least one image somewhere below it. As in torchvision's ImageFolder, a class's
 * label is the rank of its name, and an empty class is an error, because it would shift all labels
 * after it. With labels NONE, and if a manifest has the labels, the folder may have any shape.
 *
 * The container calls, in this order: class_folders_names; class_folders_directory for directories
 * and class_folders_image for images, in the order of folder.h; class_folders_end. Files that are
 * not images may be reported at any time. One thread; memory grows with the number of classes. */
#pragma once

#include "dataset/container/container.h"

struct class_folders;

/* `job` outlives it. 0 or -ENOMEM. */
int class_folders_new(const struct index_job *job, struct class_folders **ret, struct fault *fault);
void class_folders_free(struct class_folders *classes); /* takes NULL */

/* The names of the directories in the root, in the order of their labels; copied. 0 or -ENOMEM. */
int class_folders_names(
	struct class_folders *classes, const char *const *names, size_t count, struct fault *fault);

/* A directory at `path` below the root. 0; -EINVAL if it is in a class that is named like a split,
 * unless job->nested. */
int class_folders_directory(
	const struct class_folders *classes, const char *path, struct fault *fault);

/* Writes the image at `path` below the root as the next sample. The caller fills in everything but
 * the label; sample->name may have more parts than `path`. 0; 1: the manifest leaves it out;
 * -EINVAL; -errno. */
int class_folders_image(struct class_folders *classes, struct index_sample *sample,
	const char *path, struct fault *fault);

/* Counts a file that is left out; `name` is the last part of its path. */
void class_folders_other(struct class_folders *classes, const char *name);

/* After the last image: decides whether the folders are classes, checks that each has an image, and
 * writes the names of the classes and what was left out. 0; -EINVAL; -errno. */
int class_folders_end(struct class_folders *classes, struct fault *fault);

/* Whether a class folder has a name of those that splits have: "train", "Val", ... Pure. */
bool class_folders_split_like(const char *name, size_t size);

/* Writes the fault that the folder `root` has such a class folder with folders in it. `archive`:
 * the root is a file that holds folders. Returns -EINVAL. */
int class_folders_split_fault(const char *root, bool archive, char *const *classes, size_t count,
	const char *found, struct fault *fault);
