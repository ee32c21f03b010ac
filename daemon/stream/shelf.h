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
};

struct shelf {
	struct fetch *fetch; /* reads the datasets; outlives the shelf */
	pthread_mutex_t lock;
	struct list_head entries;
};

void shelf_init(struct shelf *shelf, struct fetch *fetch);
/* Every entry must have been closed. Takes a zeroed shelf. */
void shelf_deinit(struct shelf *shelf);

/* Opens the dataset that `source` names, as dataset_open does; `entry_points`: with a sidecar.
 * Blocks. 0 and an entry for one shelf_close; or an error of dataset_open, or -ENOMEM, with a
 * fault. */
int shelf_open(struct shelf *shelf, const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault);

/* Call once all of the holder's fetch items have completed. The last holder frees the dataset: then
 * it blocks as fetch_forget does. Takes NULL. */
void shelf_close(struct shelf *shelf, struct shelf_entry *entry);
