/* opening: a dataset while it is being opened; for dataset_open.c and this folder only.
 * dataset_open.c finds all indexes, builds those that are missing, and sums up.
 *
 * A map of this folder:
 *   opening.h          struct opening
 *   opening_find.c     where indexes are stored, and whether the stored one can be used
 *   opening_build.c    builds a missing index in the first place that can be written;
 *                      opening_find.c reads it back before it is used
 *   opening_remote.c   shards that are URLs: opens their objects, gets the indexes beside them
 *   opening_team.c     several threads that open one dataset
 *   opening_notice.c   what the user is told: why a dataset is empty, what was noticed
 *
 * One thread; blocks. The indexes of remote shards are built by several (opening_team). */
#pragma once

#include "dataset/blob.h"

#include "dataset/dataset_impl.h"
#include "dataset/index_progress.h"

/* The result of examining an index. Everything above FOUND means that it cannot be used. */
enum found { FOUND, FOUND_NOTHING, FOUND_STALE, FOUND_DAMAGED, FOUND_FOREIGN };

enum place { PLACE_BESIDE, PLACE_CACHE, PLACES };

struct opening {
	struct dataset_options options;
	enum dataset_labels asked;
	struct labels *labels; /* NULL: the rule is a single word */
	uint64_t rule; /* labels_index_hash; 0: the rule is a single word */
	struct field_list fields; /* of tars; no names: none */
	uint64_t fields_hash; /* field_list_hash */
	struct column_choice columns;
	uint64_t columns_hash; /* column_choice_hash */
	struct dataset *dataset;
	struct fault *fault;
	char *cache; /* NULL: no cache folder can be used */
	struct index_head *heads; /* per shard */
	/* A folder's index that is out of date and will be replaced; magic 0: none. */
	struct index_head replaced;
	bool anew; /* the index of the folder was built again, as the options ask for */
	bool *missing; /* per shard: its index must be built */
	struct index_progress progress;
	uint64_t damaged, homeless, dotted, labelless;
	uint64_t gained; /* samples that an earlier release's indexes did not have */
	/* What the walk of a folder found: the files that it passed over, and the class folder that
	 * is named like a split and holds folders ("": none). */
	struct opening_passed {
		uint64_t count;
		char text[INDEX_PASSED_TEXT];
	} passed[INDEX_PASSED_KINDS + 1];
	uint32_t passed_kinds;
	char split_like[32];
	/* "", or the sentence that says how the class names of two shards differ. */
	char classes_differ[FAULT_TEXT];
	bool classes_known;
	uint32_t classes_shard; /* the shard whose class names the dataset has */
	bool reordered; /* an index of a folder had the order of earlier releases */
	bool partless; /* an index of an earlier release had whole pages only */
	int place_error[PLACES]; /* why the last index could not be written there */
	char *tidied[PLACES]; /* the folder in which leftover temporary files were removed last */
	char example[512]; /* a shard, for the notice */
	struct opening_team *team; /* NULL: one thread builds indexes */
};

/* Opens the shard, or the folder's root, for reading. The caller calls blob_close in every case. 0,
 * or a negative errno with a fault. */
int opening_shard(const struct opening *opening, uint32_t number, struct blob *ret);

/* First pass, for one shard: finds its index, or marks it as missing. 0, or a negative errno with a
 * fault. */
int opening_find(struct opening *opening, uint32_t number);

/* A hash of the state of the files beside a shard, which its index holds; 0 where the container has
 * none. 0, or a negative errno with a fault. */
int opening_state_beside(struct opening *opening, uint32_t number, uint32_t *ret);

/* Examines the index at `path`; the shard uses it if it is FOUND. FOUND_*, or a negative errno with
 * a fault. */
int opening_try(struct opening *opening, uint32_t number, const char *path);

/* The same for an index that begins at byte `base` of an open file. */
int opening_examine(
	struct opening *opening, uint32_t number, int fd, uint64_t base, uint64_t file_size);

/* The path of an index in a place, which the caller frees; NULL if the place is not to be used, or
 * without memory. */
char *opening_place(const struct opening *opening, uint32_t number, enum place place,
	enum dataset_labels labels);

/* Before the first pass: opens the objects of shards that are URLs, several at once. 0, or a
 * negative errno with a fault. */
int opening_connect(struct opening *opening);

/* Gets an index from beside a remote shard into the cache folder: the one that serves any request,
 * or else the one for the labels that were asked for. FOUND_*, or a negative errno with a
 * fault. */
int opening_download(struct opening *opening, uint32_t number);

/* Calls `work` for each shard, on several threads. They share `opening` under one lock, which
 * `work` takes with opening_resume and gives back with opening_pause. 0, or the error of the lowest
 * shard that failed. */
typedef int opening_work(struct opening *opening, uint32_t number, struct fault *fault);
int opening_team(struct opening *opening, unsigned threads, opening_work *work);

/* A thread of a team gives the lock back while it waits for its own shard, and takes it again;
 * `fault` is its own. With `alone` it keeps the lock from then on. On other threads all do
 * nothing. */
void opening_pause(struct opening *opening);
void opening_resume(struct opening *opening, struct fault *fault);
void opening_alone(bool alone);

/* Where a shard that is being indexed reports to: in a team `own`, which adds up what all threads
 * have reached; otherwise &opening->progress. */
struct index_progress *opening_progress(struct opening *opening, struct index_progress *own);

/* The path of an index beside its shard, or its URL, which the caller frees; NULL if this index is
 * not stored beside shards, or without memory. */
char *opening_beside(const struct opening *opening, uint32_t number, enum dataset_labels labels);

/* Second pass, for one shard: builds its index. 0, or a negative errno with a fault. */
int opening_build(struct opening *opening, uint32_t number);

/* Gives the notice a shard as its example, unless it already has one. */
void opening_example(struct opening *opening, const char *path);

/* 0, or -EINVAL with a fault that says what was found instead of images. */
int opening_nonempty(const struct opening *opening);

/* Judges a folder by its tables, once its labels are known: class folders that are named like
 * splits and hold folders, an order of classes without classes. 0 or -EINVAL. */
int opening_judge(const struct opening *opening);

/* Writes dataset->notice and the warnings. */
void opening_notice(struct opening *opening);
