/* shelf: the open datasets; all streams that read the same one share it.
 *
 * The ranks of a job read one dataset, so together they need its index pages, its open files and
 * its entry points only once. shelf_open always opens the dataset, which finds out whether the
 * shards have changed. When the shelf already has one that reads the same, the new one is dropped
 * and the old one gets another holder.
 *
 * Any thread; several may open at once. */
#pragma once

#include "base/list.h"
#include "dataset/dataset.h"

#include <pthread.h>

struct fetch;
struct sidecar;

struct shelf_entry {
	struct dataset *dataset;
	struct sidecar *sidecar; /* NULL: opened without entry points */
	/* Used by the shelf, under its lock. */
	struct list_node node;
	enum dataset_labels labels;
	uint32_t holders;
	/* Held while a thread makes the index anew; the fields below it are its. */
	pthread_mutex_t renewing;
	/* The entry with the new sizes, of which this one is a holder; NULL: there is none. */
	struct shelf_entry *next;
	struct fault misfit; /* "", or why readers of this entry cannot go on with the new index */
};

enum {
	SHELF_RENEWALS = 64, /* datasets whose renewals are remembered */
	SHELF_PAUSES = 12, /* how often the pause doubles: up to 68 minutes */
	SHELF_E_SOON = 1, /* the index was made anew a short while ago */
	SHELF_E_SAME = 2, /* it was made anew, and nothing differs */
};
/* How long the index of a dataset is not made anew after it was: at first. */
#define SHELF_PAUSE_NS 1000000000ull

/* When the index of a dataset was made anew last. */
struct shelf_renewal {
	uint64_t key; /* of the dataset's path and labels; 0: none */
	uint64_t until_ns; /* no further renewal before */
	unsigned times;
};

struct shelf {
	struct fetch *fetch; /* reads the datasets; outlives the shelf */
	pthread_mutex_t lock;
	struct list_head entries;
	struct shelf_renewal renewals[SHELF_RENEWALS];
};

void shelf_init(struct shelf *shelf, struct fetch *fetch);
/* Every entry must have been closed. Takes a zeroed shelf. */
void shelf_deinit(struct shelf *shelf);

/* Opens the dataset that `source` names, as dataset_open does; `entry_points`: with a sidecar.
 * Blocks. 0 and an entry for one shelf_close; or an error of dataset_open, or -ENOMEM, with a
 * fault. */
int shelf_open(struct shelf *shelf, const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault);

/* Images of a folder were rewritten in place: opens it again with an index that is made anew, once
 * for all holders of `old`, and keeps the old one for those that still read it. `source` and
 * `options` are those of shelf_open. *ret_made: this call made it.
 *
 * A file that changes for ever must not keep the daemon indexing: a second passes before an index
 * is made anew again, and each time doubles that pause, up to 68 minutes. *ret_after_ns becomes
 * when it ends (clock_ns).
 *
 * Blocks. 0 and an entry for one shelf_close; SHELF_E_SOON, SHELF_E_SAME; -ESTALE with a fault: the
 * holders of `old` cannot go on, because samples or labels differ too; or an error of dataset_open
 * with a fault. */
int shelf_renew(struct shelf *shelf, struct shelf_entry *old, const char *source,
	const struct dataset_options *options, struct shelf_entry **ret, uint64_t *ret_after_ns,
	bool *ret_made, struct fault *fault);

/* Call once all of the holder's fetch items have completed. The last holder frees the dataset: then
 * it blocks as fetch_forget does. Takes NULL. */
void shelf_close(struct shelf *shelf, struct shelf_entry *entry);
