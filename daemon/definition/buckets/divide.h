/* divide: which bucket each sample of a stream belongs to, as a table for order/members.h: a bit
 * for each sample where there are two buckets, up to 0.9 bytes where there are 64 (list.h).
 *
 * The sizes of the images come from a file beside each shard, which is made when a dataset is first
 * read with buckets (dataset/dimensions.h). Blocks, so call it on a thread of its own. */
#pragma once

#include "dataset/dataset.h"
#include "definition/buckets/bucket_keys.h"
#include "definition/list.h"
#include "order/sampler.h"

enum { DIVIDE_NOTICE = 640 };

/* Divides the samples of a sampler with one part: makes the table, or finds it on the shelf. Calls
 * `progress` (may be NULL) now and then, which can stop it. 0 and a list that the sampler needs
 * until list_close; otherwise as dimensions_walk or list_new. `ret_notice` becomes "" or what the
 * operator should know. */
int divide_sampler(struct list_shelf *shelf, const struct dataset *dataset,
	const struct bucket_keys *buckets, progress_fn *progress, void *progress_context,
	struct sampler *sampler, struct list **ret, char ret_notice[DIVIDE_NOTICE],
	struct fault *fault);

/* A hash of which sample belongs to which bucket, for states. */
uint64_t divide_hash(const struct list *list);
/* How many of the samples have no size that can be read: they count as squares. */
uint64_t divide_unreadable(const struct list *list);
