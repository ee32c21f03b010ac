/* sorted: puts any number of items into the order of their keys, with bounded memory.
 *
 * The members of a ZIP are in any order, and ImageFolder's is another one. An external merge sort:
 * items are collected in one buffer; a full buffer is sorted and becomes a run in an unlinked
 * temporary file; in the end the runs are merged. Items that fit the buffer need no file. Memory:
 * the buffer, four bytes per item in it, and while merging as much again, however many items
 * there are. Keys are compared bytewise; a key that is the beginning of another one comes first.
 * Items with equal keys come in any order. Blocks; one thread. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum {
	SORTED_BUFFER = 16 << 20, /* bytes of a run */
	SORTED_LEAST = 64 << 10, /* the smallest buffer that sorted_new takes */
	SORTED_RUNS = 1024,
	SORTED_KEY_MAX = 8192,
	SORTED_VALUE_MAX = 64,
};

struct sorted;

struct sorted_item {
	const uint8_t *key, *value; /* not aligned */
	size_t key_size, value_size;
};

/* `what` says in faults what is sorted: "the index of X"; it outlives the list. `buffer` is
 * SORTED_BUFFER, or less for tests. 0 or -ENOMEM. */
int sorted_new(const char *what, size_t buffer, struct sorted **ret, struct fault *fault);
void sorted_free(struct sorted *sorted); /* takes NULL */

/* Copies an item. 0; -E2BIG beyond SORTED_RUNS runs; -errno of the temporary file. */
int sorted_add(struct sorted *sorted, const struct sorted_item *item, struct fault *fault);

/* After the last item: *ret becomes the first item, and with each further call the next one, valid
 * until the call after it. 1; 0 after the last; -ENOMEM; -errno. */
int sorted_next(struct sorted *sorted, struct sorted_item *ret, struct fault *fault);
