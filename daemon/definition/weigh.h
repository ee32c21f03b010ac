/* weigh: the weights that streams with `weights` draw their samples by, as a table for order/alias
 * (list.h): 8 bytes per sample.
 *
 * All of them block and belong on a thread of its own; several may open at once. */
#pragma once

#include "dataset/dataset.h"
#include "definition/list.h"
#include "order/alias.h"

/* `weights: balanced`, not a file. */
bool weigh_is_balanced(const char *weights);

/* Reads a .npy file of floats, finite, not negative, one of them above 0. `cancel` (may be NULL) is
 * looked at now and then. 0 and a list for one list_close; or a negative errno with a fault that
 * names the file, and where the values are at fault the first such: -ENOENT and the like, -EINVAL,
 * -EIO, -ENOMEM not within the budget (says what would fit), -ECANCELED. */
int weigh_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault);

/* 0, or -EINVAL where they are not one for each of so many samples. */
int weigh_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault);

/* Which samples' labels are counted: the dataset's number of a place. */
struct weigh_places {
	const struct dataset *dataset;
	uint64_t count;
	uint64_t hash; /* of which these are: two with equal hashes share a table */
	uint64_t (*number)(const void *context, uint64_t place); /* NULL: the place is the number */
	const void *context;
};

/* The table of `balanced`: each sample weighs 1 / (how many of its class there are). `progress`
 * (may be NULL) is called now and then, and stops it. 0; -EINVAL there are no labels, or more than
 * WEIGH_CLASSES of them; -ENOMEM; -ECANCELED; as dataset_page_read. */
enum { WEIGH_CLASSES = 1 << 20 };
int weigh_balance(struct list_shelf *shelf, const struct weigh_places *places,
	progress_fn *progress, void *progress_context, struct list **ret, struct fault *fault);

static inline const alias_cell *weigh_table(const struct list *list)
{
	return (const alias_cell *)list->memory;
}
