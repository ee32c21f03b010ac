/* subset: the lists of sample numbers for streams with `indices` (list.h).
 *
 * subset_open blocks, so call it on a thread of its own; several calls may run at the same time.
 * Call the other functions on any thread. */
#pragma once

#include "definition/list.h"
#include "order/order.h"

/* Reads the .npy file; `cancel` (may be NULL) ends the reading early. 0 and a list, which the
 * caller must close with list_close; or a negative errno with a fault that names the file:
 * -ENOENT and other errors of open, -EINVAL if it is not a list of sample numbers, -EIO, -ENOMEM
 * if the budget is too small (the fault names a budget that is enough), -ECANCELED. */
int subset_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault);

/* The numbers of the list, 4 bytes each if all of them fit; valid until the caller closes the
 * list. */
struct order_subset subset_numbers(const struct list *list);

/* 0, or -EINVAL if one of its numbers is not below `samples`. */
int subset_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault);
