/* places: the samples of a subset (`indices`, `split`) in the order of the dataset, which a shuffle
 * by blocks needs: the blocks of a subset are neighbors in storage, too.
 *
 * It is a list in memory, 4 bytes for each sample of the subset, or 8 in a dataset of more than
 * 2^32 samples. It is charged to the budget and shared as other lists are (list.h).
 *
 * Takes time in proportion to the subset; call it on a thread of its own. */
#pragma once

#include "base/fault.h"
#include "definition/list.h"
#include "order/order.h"

/* Sorts the subset of `order`, which is a list with the hash `hash` or a split. *ret becomes NULL
 * where there is nothing to do: no subset, or a list that is sorted. Otherwise the caller closes
 * it, and subset_numbers (subset.h) has the numbers. 0; -ENOMEM if the budget is too small (the
 * fault names a budget that is enough). */
int places_open(struct list_shelf *shelf, const struct order *order, uint64_t hash,
	struct list **ret, struct fault *fault);
