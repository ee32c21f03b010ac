/* label_classes: names of classes and their numbers.
 *
 * The names come from one of:
 *   - a file with one name per line, in the order of the numbers
 *   - the NAME.pack.json that penstock pack writes beside its tars
 *   - a manifest, whose distinct names are numbered in bytewise order
 *
 * Memory: the names and some 16 bytes for each, at most CLASSES_MAX names and CLASSES_BYTES of
 * text, however long a file becomes while it is read. One thread; only classes_load blocks. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLASSES_MAX = 1 << 20,
	CLASSES_BYTES = 64 << 20,
	CLASSES_PACKED = 8 << 20, /* of a NAME.pack.json, which is in memory while it is read */
	CLASSES_PACKED_PARTS = 1 << 20, /* the same as parts of base/text/json.h */
};

struct label_classes {
	char **name; /* by number */
	uint32_t count, room;
	uint32_t *table; /* open hashing: number + 1; 0: free */
	uint32_t slots; /* a power of two */
	size_t bytes;
};

/* Also accepts a zeroed struct. */
void classes_deinit(struct label_classes *classes);

/* Reads a file of names: UTF-8, LF or CRLF, with or without a byte order mark. If the path ends
 * with .pack.json, reads the list "classes". 0; -EINVAL with "path:line: ..." for an empty line, a
 * line of more than LABEL_NAME_MAX bytes, a repeated name or a byte that is not UTF-8; -E2BIG;
 * -errno. */
int classes_load(struct label_classes *classes, const char *path, struct fault *fault);

/* Adds a name. 1; 0 if it exists already; -E2BIG or -ENOMEM with a fault. */
int classes_add(struct label_classes *classes, const char *name, size_t size, struct fault *fault);

/* Renumbers the names in bytewise order. */
void classes_sort(struct label_classes *classes);

/* Finds the number of a name; false if the name does not exist. */
bool classes_find(
	const struct label_classes *classes, const char *name, size_t size, uint32_t *ret);

/* Covers the names in their order. */
uint64_t classes_hash(const struct label_classes *classes);
