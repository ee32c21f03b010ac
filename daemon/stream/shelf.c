/* shelf: see shelf.h. The lock is held while the entries are walked, never while storage is read or
 * memory is freed. */
#include "stream/shelf.h"

#include "dataset/sidecar.h"
#include "fetch/fetch.h"
#include "labels/label_rule.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void shelf_init(struct shelf *shelf, struct fetch *fetch)
{
	*shelf = (struct shelf){.fetch = fetch};
	pthread_mutex_init(&shelf->lock, NULL);
}

void shelf_deinit(struct shelf *shelf)
{
	if (!shelf->fetch)
		return;
	assert(list_is_empty(&shelf->entries));
	pthread_mutex_destroy(&shelf->lock);
}

static void shelf_entry_free(struct shelf_entry *entry)
{
	sidecar_free(entry->sidecar);
	dataset_free(entry->dataset);
	free(entry);
}

/* The entry that reads the same as `fresh`, with another holder; `fresh` itself where there is
 * none. */
static struct shelf_entry *shelf_settle(struct shelf *shelf, struct shelf_entry *fresh)
{
	pthread_mutex_lock(&shelf->lock);
	struct shelf_entry *entry = list_first(&shelf->entries, struct shelf_entry, node);
	while (entry && (entry->labels != fresh->labels || !entry->sidecar != !fresh->sidecar ||
				!dataset_same(entry->dataset, fresh->dataset)))
		entry = list_next(entry, node);
	if (!entry) {
		entry = fresh;
		list_prepend(&shelf->entries, &entry->node);
	}
	entry->holders++;
	pthread_mutex_unlock(&shelf->lock);
	return entry;
}

int shelf_open(struct shelf *shelf, const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault)
{
	struct shelf_entry *fresh = calloc(1, sizeof *fresh);
	if (!fresh)
		return fault_set(fault, -ENOMEM, "no memory to open %s", source);
	fresh->labels = options->rule ? options->rule->from : options->labels;
	int rc = dataset_open(source, options, &fresh->dataset, fault);
	if (rc == 0 && entry_points && sidecar_new(fresh->dataset, &fresh->sidecar) < 0)
		rc = fault_set(fault, -ENOMEM, "no memory for the entry points of %u shards",
			dataset_shards(fresh->dataset));
	if (rc < 0) {
		shelf_entry_free(fresh);
		return rc;
	}
	*ret = shelf_settle(shelf, fresh);
	if (*ret == fresh)
		fetch_expect(shelf->fetch, fresh->dataset);
	else
		shelf_entry_free(fresh);
	return 0;
}

void shelf_close(struct shelf *shelf, struct shelf_entry *entry)
{
	if (!entry)
		return;
	pthread_mutex_lock(&shelf->lock);
	bool last = --entry->holders == 0;
	if (last)
		list_remove(&shelf->entries, &entry->node);
	pthread_mutex_unlock(&shelf->lock);
	if (!last)
		return;
	fetch_forget(shelf->fetch, entry->dataset);
	shelf_entry_free(entry);
}
