/* fetch_share: items that need no read of their own, because their sample is in the cache or is
 * already being read for another item.
 *
 * The first item of a sample leads: while it is read, other items that want the same sample follow
 * it. The bytes are put into the cache before the leader is finished, so that at no moment the
 * sample would be read again. When the leader is finished, its followers get the same buffer. If it
 * cannot be shared (the read failed, or the buffer is the leader's own), they return to the queue
 * and are served from the cache or are read.
 *
 * All callers hold the planner's lock, except those of fetch_share_keep. */
#pragma once

#include "fetch/fetch_internal.h"

/* Finishes an item from the cache. False: the cache does not have it. */
bool fetch_share_hit(struct lane *lane, struct fetch_item *item);

/* Finishes an item that is in no list from the cache, or lets it follow. False: neither is
 * possible. */
bool fetch_share(struct lane *lane, struct fetch_item *item);

/* Whether fetch_share would probably return true. */
bool fetch_shares(struct lane *lane, const struct fetch_item *item);

/* The item's read begins, and the item leads. */
void fetch_share_begin(struct lane *lane, struct fetch_item *item);

/* The item's read has ended. Returns its followers, linked by `next`. */
struct fetch_item *fetch_share_end(struct lane *lane, struct fetch_item *item);

/* Finishes followers with -ECANCELED: those of one reader, or (NULL) all. */
void fetch_share_cancel(struct lane *lane, const struct fetch_reader *reader);

/* The size of an item whose op is done, and whether a field is longer than that: of a folder's
 * field, only its read finds out. */
uint32_t fetch_field_size(
	const struct fetch_op *op, const struct fetch_item *item, bool *ret_longer);

/* Puts the samples of a done op into the cache. Called without the planner's lock, before the op is
 * handed back to the planner. */
void fetch_share_keep(struct lane *lane, const struct fetch_op *op);
