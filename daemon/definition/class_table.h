/* class_table: the samples of each class, for streams with `sampling` (order/per_class.h): 4 bytes
 * for each sample, 8 where numbers are larger, and 8 for each class (list.h). 4 more for each
 * sample while a table is made.
 *
 * Blocks, so call it on a thread of its own. */
#pragma once

#include "definition/class_count.h"
#include "order/per_class.h"

/* Makes the table, or finds it on the shelf. Calls `progress` (may be NULL) now and then, which can
 * stop it. 0; -EINVAL if there are no labels or fewer classes than `want->classes`; otherwise as
 * class_count_labels. `want` has P and K. */
int class_table_open(struct list_shelf *shelf, const struct class_places *places,
	const struct per_class *want, progress_fn *progress, void *progress_context,
	struct list **ret, struct fault *fault);

/* The table of a list that class_table_open returned, for P and K of `want`; valid until the list
 * is closed. */
struct per_class class_table_view(const struct list *list, const struct per_class *want);
