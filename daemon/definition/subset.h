/* subset: the lists of sample numbers that streams with `indices` consist of (list.h).
 *
 * subset_open blocks and belongs on a thread of its own; several may open at once. The rest: any
 * thread. */
#pragma once

#include "definition/list.h"
#include "order/order.h"

/* Reads the .npy file. `cancel` (may be NULL) is looked at now and then. 0 and a list for one
 * list_close; or a negative errno with a fault that names the file: -ENOENT and the like, -EINVAL
 * it is no list of sample numbers, -EIO, -ENOMEM not within the budget (says what would fit),
 * -ECANCELED. */
int subset_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault);

/* Its numbers, 4 bytes each where they all fit; valid while the list is held. */
struct order_subset subset_numbers(const struct list *list);

/* 0, or -EINVAL where one of its numbers is none of a dataset with so many samples. */
int subset_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault);
