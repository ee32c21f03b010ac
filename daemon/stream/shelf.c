/* shelf: see shelf.h. The lock is held for a walk over the entries, never while storage is asked or
 * something is freed. */
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
	assert(!shelf->entries);
	pthread_mutex_destroy(&shelf->lock);
}

static void shelf_entry_free(struct shelf_entry *entry)
{
	sidecar_free(entry->sidecar);
	dataset_free(entry->dataset);
	free(entry);
}

/* Another holder for an entry that reads the same as `fresh`, or `fresh` itself put up. */
static struct shelf_entry *shelf_settle(struct shelf *shelf, struct shelf_entry *fresh)
{
	pthread_mutex_lock(&shelf->lock);
	struct shelf_entry *entry = shelf->entries;
	while (entry && (entry->labels != fresh->labels || !entry->sidecar != !fresh->sidecar ||
				!dataset_same(entry->dataset, fresh->dataset)))
		entry = entry->next;
	if (!entry) {
		entry = fresh;
		entry->next = shelf->entries;
		shelf->entries = entry;
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
		rc = fault_set(fault, -ENOMEM, "no memory for the checkpoints of %u shards",
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
	if (last) {
		struct shelf_entry **at = &shelf->entries;
		while (*at != entry)
			at = &(*at)->next;
		*at = entry->next;
	}
	pthread_mutex_unlock(&shelf->lock);
	if (!last)
		return;
	fetch_forget(shelf->fetch, entry->dataset);
	shelf_entry_free(entry);
}
