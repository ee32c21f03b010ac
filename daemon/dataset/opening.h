/* opening: one dataset while it is being opened. What dataset_open.c and its parts share; nobody
 * else includes it.
 *
 *   dataset_open.c     the door: finds all, builds what is missing, sums up
 *   opening_find.c     where indexes lie, and whether the one there serves
 *   opening_build.c    an index that is missing, built in the first place that takes it; looked at
 *                      by opening_find.c before it counts
 *   opening_notice.c   what the user is told: why a dataset is empty, what was noticed
 *
 * One thread; blocks. */
#pragma once

#include "dataset/dataset_impl.h"
#include "dataset/index_progress.h"

/* What became of looking at an index. */
enum found { FOUND, FOUND_NOTHING, FOUND_STALE, FOUND_DAMAGED, FOUND_FOREIGN };

enum place { PLACE_BESIDE, PLACE_CACHE, PLACES };

struct opening {
	struct dataset_options options;
	enum dataset_labels asked;
	struct labels *labels; /* NULL: a word says it all */
	uint64_t rule; /* labels_index_hash; 0: indexes of a word */
	struct dataset *dataset;
	struct fault *fault;
	char *cache; /* NULL: there is none */
	struct index_head *heads; /* per shard, as loaded */
	bool *missing; /* per shard: to be built */
	struct index_progress progress;
	uint64_t damaged, homeless, dotted, labelless;
	int place_error[PLACES]; /* why the last index found no home */
	char *tidied[PLACES]; /* in whose folder what others left was removed */
	char example[512]; /* a shard that the notice names */
};

/* The tar, or the folder's root, open for reading. A descriptor, or a negative errno with a fault.
 */
int opening_shard(const struct opening *opening, uint32_t number);

/* First pass, for one shard: is its index there? Else it is marked as missing. 0 or a negative
 * errno with a fault. */
int opening_find(struct opening *opening, uint32_t number);

/* Looks at the index at `path`, which the shard takes over when it serves. FOUND_* or -ENOMEM. */
int opening_try(struct opening *opening, uint32_t number, const char *path);

/* Is what lies at `base` an index of this shard as it is now? If so it is taken. FOUND_* or
 * -ENOMEM. */
int opening_examine(
	struct opening *opening, uint32_t number, int fd, uint64_t base, uint64_t file_size);

/* The path of an index in a place, for the caller to free; NULL where the place is not to be used
 * (or without memory: the next one will tell). */
char *opening_place(const struct opening *opening, uint32_t number, enum place place,
	enum dataset_labels labels);

/* Second pass, for one shard: its index is built. 0 or a negative errno with a fault. */
int opening_build(struct opening *opening, uint32_t number);

/* The first shard that is named so is the notice's example. */
void opening_example(struct opening *opening, const char *path);

/* 0, or -EINVAL with a fault that says what there is instead of images. */
int opening_nonempty(const struct opening *opening);

/* Writes dataset->notice. */
void opening_notice(struct opening *opening);
