/* fetch_share: see fetch_share.h. */
#include "fetch/fetch_share.h"

#include "base/hash.h"
#include "base/util.h"

#include <errno.h>

static struct fetch_item **share_bucket(struct lane *lane, const struct fetch_item *item)
{
	uint64_t key = fetch_key(item);
	uint64_t h = hash_mix((uintptr_t)item->dataset ^ key << 20 ^ key >> 48);
	return &lane->flight[h & (FETCH_FLIGHTS - 1)];
}

static struct fetch_item *share_leader(struct lane *lane, const struct fetch_item *item)
{
	struct fetch_item *leader = *share_bucket(lane, item);
	while (leader && (leader->dataset != item->dataset || fetch_key(leader) != fetch_key(item)))
		leader = fetch_state(leader)->flight;
	return leader;
}

bool fetch_share_hit(struct lane *lane, struct fetch_item *item)
{
	struct cache_sample sample;
	struct cache_block *block;
	if (!lane->fetch->cache || fetch_wants_values(item) ||
		!cache_take(lane->fetch->cache, item->dataset, fetch_key(item), &sample, &block))
		return false;
	item->data = sample.data;
	item->size = sample.size;
	item->read_ns = 0;
	fetch_state(item)->block = block;
	/* What else belongs to a packed item was looked up. */
	if (fetch_state(item)->range) {
		fetch_plan_finish(lane, item, FETCH_OK);
		return true;
	}
	item->unpacked = sample.size;
	/* In place of its label, a field has whether it is longer. */
	if (item->field)
		item->longer = sample.label != 0;
	else
		item->label = sample.label;
	item->shard = sample.shard;
	item->position = sample.position;
	fetch_plan_finish(lane, item, FETCH_OK);
	return true;
}

bool fetch_share(struct lane *lane, struct fetch_item *item)
{
	if (fetch_share_hit(lane, item))
		return true;
	struct fetch_item *leader = fetch_wants_values(item) ? NULL : share_leader(lane, item);
	if (!leader)
		return false;
	item->next = fetch_state(leader)->followers;
	fetch_state(leader)->followers = item;
	fetch_count(&lane->counters.shared, 1);
	return true;
}

bool fetch_shares(struct lane *lane, const struct fetch_item *item)
{
	return share_leader(lane, item) ||
	       (lane->fetch->cache &&
		       cache_has(lane->fetch->cache, item->dataset, fetch_key(item)));
}

void fetch_share_begin(struct lane *lane, struct fetch_item *item)
{
	struct fetch_item **bucket = share_bucket(lane, item);
	fetch_state(item)->followers = NULL;
	fetch_state(item)->flight = *bucket;
	*bucket = item;
}

struct fetch_item *fetch_share_end(struct lane *lane, struct fetch_item *item)
{
	struct fetch_item **at = share_bucket(lane, item);
	while (*at != item)
		at = &fetch_state(*at)->flight;
	*at = fetch_state(item)->flight;
	struct fetch_item *followers = fetch_state(item)->followers;
	fetch_state(item)->followers = NULL;
	return followers;
}

static void share_cancel_followers(
	struct lane *lane, struct fetch_item *leader, const struct fetch_reader *reader)
{
	struct fetch_item **at = &fetch_state(leader)->followers;
	while (*at) {
		struct fetch_item *item = *at;
		if (reader && item->reader != reader) {
			at = &item->next;
			continue;
		}
		*at = item->next;
		fetch_plan_finish(lane, item, -ECANCELED);
	}
}

void fetch_share_cancel(struct lane *lane, const struct fetch_reader *reader)
{
	for (unsigned i = 0; i < FETCH_FLIGHTS; i++)
		for (struct fetch_item *leader = lane->flight[i]; leader;
			leader = fetch_state(leader)->flight)
			share_cancel_followers(lane, leader, reader);
}

uint32_t fetch_field_size(
	const struct fetch_op *op, const struct fetch_item *item, bool *ret_longer)
{
	bool file = item->field && op->kind == FETCH_OP_FILE;
	*ret_longer = file ? op->got > item->field->limit : item->longer;
	return file ? UTIL_MIN(op->got, item->field->limit) : item->size;
}

void fetch_share_keep(struct lane *lane, const struct fetch_op *op)
{
	bool sample = op->kind == FETCH_OP_RANGE || op->kind == FETCH_OP_FILE;
	/* A folder's file that has grown is not the indexed one any more. */
	if (!lane->fetch->cache || !sample || op->result != 0 ||
		(op->kind == FETCH_OP_FILE && op->got > op->need))
		return;
	/* The items belong to the engine as long as the op does. */
	const struct fetch_read *read = (const struct fetch_read *)(const void *)op;
	for (const struct fetch_item *item = read->items; item; item = item->next) {
		bool longer = false;
		/* Under the sample's number the cache has bytes that are not packed. */
		if (item->packed.method != PACKED_NONE && !fetch_state_const(item)->range)
			continue;
		uint32_t size = fetch_field_size(op, item, &longer);
		struct cache_sample kept = {
			.number = fetch_key(item),
			.position = item->position,
			.label = item->field ? longer : item->label,
			.shard = item->shard,
			.size = size,
			.data = item->data,
		};
		cache_put(lane->fetch->cache, item->dataset, &kept);
	}
}
