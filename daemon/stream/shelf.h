/* shelf: the datasets that are open, one for all streams that read the same.
 *
 * The ranks of a job and its private streams read one dataset; together they need its index pages,
 * its open files and its checkpoints once. A dataset is opened in any case, which is what finds out
 * whether its shards are still what they were; when one that reads the same stands here already,
 * the new one is dropped and the old one gets another holder.
 *
 * Any thread; several may open at once. */
#pragma once

#include "dataset/dataset.h"

#include <pthread.h>

struct fetch;
struct sidecar;

struct shelf_entry {
	struct dataset *dataset;
	struct sidecar *sidecar; /* NULL: no checkpoints were asked for */
	/* the shelf's own, under its lock */
	struct shelf_entry *next;
	enum dataset_labels labels;
	uint32_t holders;
};

struct shelf {
	struct fetch *fetch; /* that reads them; outlives the shelf */
	pthread_mutex_t lock;
	struct shelf_entry *entries;
};

void shelf_init(struct shelf *shelf, struct fetch *fetch);
/* Every entry must be closed. Takes a zeroed shelf. */
void shelf_deinit(struct shelf *shelf);

/* Opens what `source` names, as dataset_open does; `checkpoints`: with a sidecar. Blocks. 0 and an
 * entry for one shelf_close; or as dataset_open, or -ENOMEM with a fault. */
int shelf_open(struct shelf *shelf, const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault);

/* Once every item of the holder has completed. With the last holder the dataset goes: then as
 * fetch_forget. Takes NULL. */
void shelf_close(struct shelf *shelf, struct shelf_entry *entry);
