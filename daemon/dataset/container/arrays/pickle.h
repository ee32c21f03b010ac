/* pickle: finds arrays and lists in a pickled dict without unpickling it.
 *
 * A pickle is a program for a stack machine, which may call any function of Python. This scanner
 * runs none: it follows the stack, and knows a value only by its type and its place in the file. It
 * accepts the operations that make dicts, lists, tuples, strings, whole numbers and NumPy arrays of
 * bytes; any other operation, and any other function, is refused with its place.
 *
 * The file is one dict whose keys are short strings, as CIFAR's batches are. Protocols 2 to 5; not
 * those before, whose operations are lines of text. In protocol 2, Python 3 writes bytes as text
 * that must be converted first: such files are refused, too. (CPython, Lib/pickletools.py.)
 *
 * Memory: the stack, some 200 KiB. Lists may be of any length, because a cursor reads their items
 * from the file. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PICKLE_ENTRIES = 16, /* of the dict */
	PICKLE_KEY_MAX = 47, /* bytes */
	PICKLE_STACK = 4096, /* values; Python writes lists in pieces of 1000 */
};

enum pickle_type {
	PICKLE_MARK,
	PICKLE_NOTHING, /* None */
	PICKLE_FLAG, /* True or False: `number` */
	PICKLE_NUMBER,
	PICKLE_TEXT, /* a string or bytes: `size` bytes at `at` of the file */
	PICKLE_LIST, /* `size` items; the first operation is at `at` */
	PICKLE_DICT, /* the outermost value */
	PICKLE_TUPLE,
	PICKLE_ARRAY, /* bytes of NumPy: rows times columns at `at` */
	/* What an array is made of, and known tuples. */
	PICKLE_NAME, /* a function or a class: `number` */
	PICKLE_SHAPE, /* a tuple of one or two numbers: rows, columns */
	PICKLE_NEW_ARGUMENTS, /* (ndarray, shape, text) */
	PICKLE_NEW, /* an array without contents */
	PICKLE_KIND_ARGUMENTS, /* ("u1", number, number) */
	PICKLE_KIND, /* dtype("u1") */
	PICKLE_STATE, /* (number, shape, kind, False, text) */
};

enum pickle_items {
	PICKLE_ITEMS_NONE,
	PICKLE_ITEMS_NUMBERS,
	PICKLE_ITEMS_TEXTS,
	PICKLE_ITEMS_OTHER
};

struct pickle_value {
	uint8_t type; /* enum pickle_type */
	uint8_t items; /* of a LIST: enum pickle_items */
	bool again; /* not written here: it repeats a value that was written before */
	uint64_t at, size;
	int64_t number;
	uint32_t rows, columns;
};

struct pickle_entry {
	char key[PICKLE_KEY_MAX + 1];
	struct pickle_value value;
};

struct pickle_dict {
	struct pickle_entry entry[PICKLE_ENTRIES];
	uint32_t count;
};

/* Whether bytes begin as such a pickle. Pure. */
bool pickle_begins(const uint8_t *bytes, size_t size);

/* Reads the whole pickle. 0; -EINVAL with a fault that names the byte; -ENOMEM; -errno. */
int pickle_scan(struct window *window, struct pickle_dict *ret, struct fault *fault);

/* The value of a key; NULL: it has none. Pure. */
const struct pickle_value *pickle_find(const struct pickle_dict *dict, const char *key);

/* Reads the items of a list of NUMBERS or TEXTS that pickle_scan has found. */
struct pickle_cursor {
	struct window *window; /* borrowed; of this cursor only, or reading gets slow */
	uint64_t at, left;
};

void pickle_cursor_init(
	struct pickle_cursor *cursor, struct window *window, const struct pickle_value *list);

/* 1 and the next item; 0 after the last; -EINVAL: the file changed meanwhile; or as
 * pickle_scan. */
int pickle_next(struct pickle_cursor *cursor, struct pickle_value *ret, struct fault *fault);
