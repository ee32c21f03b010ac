/* label_classes: names of classes, and which number each has.
 *
 * From a file, one name per line in the order of the numbers, from the NAME.pack.json that penstock
 * pack writes beside its tars, or collected from a manifest, where
 * the order is the bytewise one of the distinct names. Memory: the names and some 16 bytes for
 * each; CLASSES_MAX names and CLASSES_BYTES of text at most. One thread; only classes_load
 * blocks. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLASSES_MAX = 1 << 20,
	CLASSES_BYTES = 64 << 20,
	CLASSES_PACKED = 8 << 20, /* of a NAME.pack.json, which is in memory while it is read */
};

struct label_classes {
	char **name; /* by number */
	uint32_t count, room;
	uint32_t *table; /* open hashing: number + 1; 0: free */
	uint32_t slots; /* a power of two */
	size_t bytes;
};

/* Takes a zeroed struct. */
void classes_deinit(struct label_classes *classes);

/* Reads a file of names: UTF-8, LF or CRLF, a byte order mark does not matter; of a path that ends
 * with .pack.json the list "classes". 0; -EINVAL with
 * "path:line: ..." for an empty line, a name that was there before, or a byte that is no UTF-8;
 * -E2BIG; -errno. */
int classes_load(struct label_classes *classes, const char *path, struct fault *fault);

/* Adds a name unless it is there. 1 added, 0 it was there; -E2BIG or -ENOMEM with a fault. */
int classes_add(struct label_classes *classes, const char *name, size_t size, struct fault *fault);

/* Numbers the names anew, in bytewise order. */
void classes_sort(struct label_classes *classes);

/* The name's number; false where there is none. */
bool classes_find(
	const struct label_classes *classes, const char *name, size_t size, uint32_t *ret);

/* Of the names in their order. */
uint64_t classes_hash(const struct label_classes *classes);
