/* listing_sort: sorts names of objects into ImageFolder's order, also more than fit into memory:
 * runs that are sorted in memory go to an unlinked file and are merged at the end.
 *
 * One thread; blocks on the file. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LISTING_SORT_BYTES = 24 << 20, /* of a run */
	LISTING_SORT_RUNS = 4096, /* at most: some 900 million names */
};

struct listing_sort;

/* `run_bytes`: LISTING_SORT_BYTES; tests give less. `scratch`: the folder of the file; NULL:
 * TMPDIR. NULL without memory. */
struct listing_sort *listing_sort_new(bool natural, size_t run_bytes, const char *scratch);
void listing_sort_free(struct listing_sort *sort);

/* Adds a name (with slashes between its folders). 0; a negative errno with a sentence. */
int listing_sort_add(struct listing_sort *sort, const char *name, uint64_t size, const char *etag,
	struct fault *fault);

/* Gives all names in order, once. 0; what `give` returned; -EPROTO: a name was added twice; a
 * negative errno with a sentence. */
int listing_sort_give(struct listing_sort *sort,
	int (*give)(void *context, const char *name, uint64_t size, const char *etag,
		struct fault *fault),
	void *context, struct fault *fault);

/* The order: names without a folder first; then by the first folder (`natural`: by
 * name_order_natural), by the whole folder, by the name in it. As strcmp. Pure. */
int listing_sort_order(const char *a, const char *b, bool natural);
