/* class_count: reads the labels of the samples that a stream draws from, and counts how many each
 * class has: for `weights: balanced` (weigh.h) and `sampling` (class_table.h). The class of a
 * sample with several labels is its first.
 *
 * The counts take 16 bytes for each class, at most half full, which are charged to the budget while
 * they exist. Labels come from the index, page by page. Only one thread counts at a time; the next
 * one may then find the table that it wants on the shelf.
 *
 * Everything here may block; call it on a thread of its own. */
#pragma once

#include "dataset/dataset.h"
#include "definition/list.h"

enum { CLASS_COUNT_MOST = 1 << 20 };

/* The samples whose labels are counted. `number` returns the dataset's number for a place. */
struct class_places {
	const struct dataset *dataset;
	uint64_t count;
	uint64_t hash; /* of the choice of samples; equal hashes share a table */
	uint64_t (*number)(const void *context, uint64_t place); /* NULL: the place is the number */
	const void *context;
};

/* Whether the labels of a dataset say a class for each sample: their only class or, where they are
 * several classes (`type: classes`), the first, which is the record's label. */
bool class_count_fits(const struct dataset *dataset);

struct class_entry {
	uint64_t count; /* 0: free */
	uint32_t label;
};

struct class_reader; /* the page of the index that was read last */

struct class_count {
	/* The caller sets these. */
	struct list_shelf *shelf;
	const struct class_places *places;
	/* For refusals: the key, "sampling", and what to do about too many classes. */
	const char *origin, *instead;
	progress_fn *progress; /* may be NULL; can stop it */
	void *progress_context;
	struct fault *fault;
	/* Open addressing. */
	struct class_entry *entry;
	uint64_t room, classes; /* `room` is a power of two */
	int ledger_line;
	struct class_reader *reader;
};

/* Waits until no other thread counts. 0; -ECANCELED; -ENOMEM. Only after 0, the caller must call
 * class_count_end. */
int class_count_begin(struct class_count *count);
void class_count_end(struct class_count *count);

/* Calls `take` with the label of each place, in their order, and counts its class. 0; -EINVAL if a
 * sample has no label, or for more than CLASS_COUNT_MOST classes; -ENOMEM; -ECANCELED; otherwise as
 * dataset_page_read. */
int class_count_labels(struct class_count *count,
	void (*take)(void *context, uint64_t place, uint32_t label), void *context);

/* The number of samples of a class that was counted. */
uint64_t class_count_of(const struct class_count *count, uint32_t label);

/* Frees the counts. */
void class_count_deinit(struct class_count *count);

/* Whether `progress` asks to stop. */
bool class_count_stopped(struct class_count *count);
int class_count_cancelled(struct fault *fault);
