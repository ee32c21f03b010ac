/* fetch_share: items that need no read of their own, because their sample is in the cache, or is
 * being read for another item already.
 *
 * The first item of a sample leads: while it is read, others that want the same sample follow it.
 * What was read is put into the cache before the leader is finished, so that there is no moment in
 * between at which a sample would be read again. When the leader is finished, its followers get the
 * same buffer; where there is none that can be shared (the read failed, or its buffer is the
 * leader's own), they go back to the queue, and the cache has the sample or they are read.
 *
 * The planner's lock is held by all callers, but for fetch_share_keep. */
#pragma once

#include "fetch/fetch_internal.h"

/* Finishes an item out of the cache. False: it is not there. */
bool fetch_share_hit(struct fetch *fetch, struct fetch_item *item);

/* An item that is in no list: finishes it out of the cache, or lets it follow. False: neither. */
bool fetch_share(struct fetch *fetch, struct fetch_item *item);

/* Whether fetch_share would, as far as is known before it tries. */
bool fetch_shares(struct fetch *fetch, const struct fetch_item *item);

/* The item's read begins: it leads. */
void fetch_share_begin(struct fetch *fetch, struct fetch_item *item);

/* Its read has ended: its followers, linked by `next`, are the caller's. */
struct fetch_item *fetch_share_end(struct fetch *fetch, struct fetch_item *item);

/* Finishes followers with -ECANCELED: those of one reader, or (NULL) all. */
void fetch_share_cancel(struct fetch *fetch, const struct fetch_reader *reader);

/* Puts what a done op has read into the cache. Without the planner's lock, before the op is handed
 * back to it. */
void fetch_share_keep(struct fetch *fetch, const struct fetch_op *op);
