/* subset: the lists of sample numbers that streams with `indices` consist of (list.h).
 *
 * subset_open blocks and belongs on a thread of its own; several may open at once. The rest: any
 * thread. */
#pragma once

#include "definition/list.h"
#include "order/order.h"

/* Reads the .npy file; `cancel` (may be NULL) ends it early. 0 and a list, to be closed once with
 * list_close; or a negative errno with a fault that names the file: -ENOENT and the like, -EINVAL if
 * it is not a list of sample numbers, -EIO, -ENOMEM if the budget has no room (the fault says which
 * budget has), -ECANCELED. */
int subset_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault);

/* Its numbers, 4 bytes each if all of them fit; valid while the list is held. */
struct order_subset subset_numbers(const struct list *list);

/* 0, or -EINVAL if one of its numbers is not below `samples`. */
int subset_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault);
