/* shelf: see shelf.h. The lock is held while the entries are walked, never while storage is read or
 * memory is freed. */
#include "stream/shelf.h"

#include "base/clock.h"
#include "base/hash.h"
#include "dataset/sidecar.h"
#include "fetch/fetch.h"
#include "labels/label_rule.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	pthread_mutex_destroy(&entry->renewing);
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

/* Opens the dataset by itself, without looking for one that reads the same. */
static int shelf_open_fresh(const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault)
{
	struct shelf_entry *fresh = calloc(1, sizeof *fresh);
	if (!fresh)
		return fault_set(fault, -ENOMEM, "no memory to open %s", source);
	pthread_mutex_init(&fresh->renewing, NULL);
	fresh->labels = options->rule ? options->rule->from : options->labels;
	int rc = dataset_open(source, options, &fresh->dataset, fault);
	if (rc == 0 && entry_points && sidecar_new(fresh->dataset, &fresh->sidecar) < 0)
		rc = fault_set(fault, -ENOMEM, "no memory for the entry points of %u shards",
			dataset_shards(fresh->dataset));
	if (rc < 0) {
		shelf_entry_free(fresh);
		return rc;
	}
	*ret = fresh;
	return 0;
}

int shelf_open(struct shelf *shelf, const char *source, const struct dataset_options *options,
	bool entry_points, struct shelf_entry **ret, struct fault *fault)
{
	struct shelf_entry *fresh = NULL;
	int rc = shelf_open_fresh(source, options, entry_points, &fresh, fault);
	if (rc < 0)
		return rc;
	*ret = shelf_settle(shelf, fresh);
	if (*ret == fresh)
		fetch_expect(shelf->fetch, fresh->dataset);
	else
		shelf_entry_free(fresh);
	return 0;
}

/* ---- renewals ---- */

static uint64_t renewal_key(const struct shelf_entry *entry)
{
	const char *path = dataset_shard_path(entry->dataset, 0);
	uint64_t h = hash_bytes(HASH_SEED, path, strlen(path));
	h = hash_mix(hash_u64(h, entry->labels));
	return h ? h : 1;
}

/* The dataset's place in the table, or the one that is free soonest. Under the lock. */
static struct shelf_renewal *renewal_of(struct shelf *shelf, uint64_t key)
{
	struct shelf_renewal *oldest = &shelf->renewals[0];
	for (unsigned i = 0; i < SHELF_RENEWALS; i++) {
		struct shelf_renewal *one = &shelf->renewals[i];
		if (one->key == key)
			return one;
		if (one->until_ns < oldest->until_ns)
			oldest = one;
	}
	*oldest = (struct shelf_renewal){.key = key};
	return oldest;
}

/* Whether the pause is over; *ret_after_ns becomes when it ends. */
static bool renewal_may(
	struct shelf *shelf, const struct shelf_entry *entry, uint64_t *ret_after_ns)
{
	pthread_mutex_lock(&shelf->lock);
	*ret_after_ns = renewal_of(shelf, renewal_key(entry))->until_ns;
	pthread_mutex_unlock(&shelf->lock);
	return clock_ns() >= *ret_after_ns;
}

/* Begins a pause, which is longer each time. */
static uint64_t renewal_note(struct shelf *shelf, const struct shelf_entry *entry)
{
	pthread_mutex_lock(&shelf->lock);
	struct shelf_renewal *renewal = renewal_of(shelf, renewal_key(entry));
	renewal->until_ns = clock_ns() + (SHELF_PAUSE_NS << renewal->times);
	renewal->times += renewal->times < SHELF_PAUSES;
	uint64_t until = renewal->until_ns;
	pthread_mutex_unlock(&shelf->lock);
	return until;
}

/* Takes a dataset over that was opened again: 0, SHELF_E_SAME or -ESTALE. */
static int renewal_settle(struct shelf *shelf, struct shelf_entry *old, struct shelf_entry *fresh,
	struct fault *fault)
{
	int rc = dataset_continues(old->dataset, fresh->dataset, fault);
	if (rc < 0) {
		old->misfit = *fault;
		shelf_entry_free(fresh);
		return rc;
	}
	if (dataset_same(old->dataset, fresh->dataset)) {
		shelf_entry_free(fresh);
		return SHELF_E_SAME;
	}
	/* A new entry even if another one reads the same: files that are written back and forth
	 * must not make entries hold each other in a circle. */
	fresh->holders = 1;
	pthread_mutex_lock(&shelf->lock);
	list_prepend(&shelf->entries, &fresh->node);
	pthread_mutex_unlock(&shelf->lock);
	fetch_expect(shelf->fetch, fresh->dataset);
	old->next = fresh;
	return 0;
}

/* With old->renewing held. */
static int renewal_make(struct shelf *shelf, struct shelf_entry *old, const char *source,
	const struct dataset_options *options, uint64_t *ret_after_ns, bool *ret_made,
	struct fault *fault)
{
	struct shelf_entry *fresh = NULL;
	struct dataset_options again = *options;
	if (old->misfit.text[0]) {
		*fault = old->misfit;
		return -ESTALE;
	}
	if (!renewal_may(shelf, old, ret_after_ns))
		return SHELF_E_SOON;
	*ret_made = true;
	again.instead_of = old->dataset;
	int rc = shelf_open_fresh(source, &again, old->sidecar != NULL, &fresh, fault);
	if (rc == 0)
		rc = renewal_settle(shelf, old, fresh, fault);
	else if (rc == -ESTALE)
		rc = -EAGAIN; /* it changed while it was indexed */
	*ret_after_ns = renewal_note(shelf, old);
	return rc;
}

/* The last of the entries that follow `entry`, with its `renewing` held. A stream that read nothing
 * for a long time may be several renewals behind: the entries in between are out of date, too. Each
 * entry holds the next one, so all of them live as long as the first. */
static struct shelf_entry *renewal_last(struct shelf_entry *entry)
{
	pthread_mutex_lock(&entry->renewing);
	while (entry->next) {
		struct shelf_entry *next = entry->next;
		pthread_mutex_unlock(&entry->renewing);
		pthread_mutex_lock(&next->renewing);
		entry = next;
	}
	return entry;
}

int shelf_renew(struct shelf *shelf, struct shelf_entry *old, const char *source,
	const struct dataset_options *options, struct shelf_entry **ret, uint64_t *ret_after_ns,
	bool *ret_made, struct fault *fault)
{
	*ret_made = false;
	struct shelf_entry *last = renewal_last(old), *fresh = last;
	int rc = 0;
	if (last == old) {
		rc = renewal_make(shelf, old, source, options, ret_after_ns, ret_made, fault);
		fresh = old->next;
	}
	if (rc == 0) {
		(void)renewal_may(shelf, fresh, ret_after_ns);
		pthread_mutex_lock(&shelf->lock);
		fresh->holders++;
		pthread_mutex_unlock(&shelf->lock);
		*ret = fresh;
	}
	pthread_mutex_unlock(&last->renewing);
	return rc;
}

/* Drops a holder; the last one frees the entry, and *ret_next loses a holder then. */
static bool shelf_drop(
	struct shelf *shelf, struct shelf_entry *entry, struct shelf_entry **ret_next)
{
	pthread_mutex_lock(&shelf->lock);
	bool last = --entry->holders == 0;
	if (last)
		list_remove(&shelf->entries, &entry->node);
	pthread_mutex_unlock(&shelf->lock);
	if (!last)
		return false;
	*ret_next = entry->next;
	fetch_forget(shelf->fetch, entry->dataset);
	shelf_entry_free(entry);
	return true;
}

void shelf_close(struct shelf *shelf, struct shelf_entry *entry)
{
	while (entry && shelf_drop(shelf, entry, &entry))
		;
}
