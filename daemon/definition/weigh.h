/* weigh: the weights by which streams with `weights` draw their samples, as a table for order/alias
 * (list.h): 8 bytes per sample.
 *
 * weigh_open and weigh_balance block, so call them on a thread of its own; several calls may run
 * at the same time. */
#pragma once

#include "definition/class_count.h"
#include "definition/list.h"
#include "order/alias.h"

/* Whether this is `weights: balanced`, not a file. */
bool weigh_is_balanced(const char *weights);

/* Reads a .npy file of floats: finite, not negative, at least one above 0. `cancel` (may be
 * NULL) ends the reading early. 0 and a list, which the caller must close with list_close; or a
 * negative errno with a fault that names the file, and the first wrong value if there is one:
 * -ENOENT and other errors of open, -EINVAL, -EIO, -ENOMEM if the budget is too small (the fault
 * says how much would fit), -ECANCELED. */
int weigh_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault);

/* 0, or -EINVAL if the number of weights is not `samples`. */
int weigh_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault);

/* Makes the table of `balanced`: the weight of a sample is 1 / (the number of samples in its
 * class). Calls `progress` (may be NULL) now and then, which can stop it. 0; -EINVAL if there
 * are no labels, or more than CLASS_COUNT_MOST classes; -ENOMEM; -ECANCELED; otherwise as
 * dataset_page_read. */
int weigh_balance(struct list_shelf *shelf, const struct class_places *places,
	progress_fn *progress, void *progress_context, struct list **ret, struct fault *fault);

static inline const alias_cell *weigh_table(const struct list *list)
{
	return (const alias_cell *)list->memory;
}
