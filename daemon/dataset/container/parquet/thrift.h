/* thrift: reads structures of Thrift's compact protocol from a file, field by field.
 *
 * Parquet's footer and page headers are such structures (thrift-compact-protocol.md of Apache
 * Thrift). The caller takes one field after the other, reads those it knows with the function of
 * their type, and skips all others with thrift_skip. Memory is one window, whatever the sizes:
 * nothing is built, and a list is read element by element. Nesting is bounded by THRIFT_DEPTH, and
 * a count by the bytes that are left.
 *
 * The first error is kept in `error`, with its fault. From then on every function returns zeros and
 * every list and structure ends, so that a caller only checks `error` at the end. Blocks. One
 * thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THRIFT_DEPTH = 32 };

enum thrift_type {
	THRIFT_STOP,
	THRIFT_TRUE, /* also the type of a list of bool */
	THRIFT_FALSE,
	THRIFT_BYTE,
	THRIFT_I16,
	THRIFT_I32,
	THRIFT_I64,
	THRIFT_DOUBLE,
	THRIFT_BINARY,
	THRIFT_LIST,
	THRIFT_SET,
	THRIFT_MAP,
	THRIFT_STRUCT,
};

struct thrift {
	struct window *window; /* borrowed */
	const char *what; /* borrowed; "the footer", for faults */
	struct fault *fault; /* borrowed */
	uint64_t at,
		end; /* bytes of the file: the next one, and where the structures end at most */
	const uint8_t *piece, *piece_end; /* of the window, from `at` on */
	int error;
};

/* A field of a structure. Begins zeroed for each structure. */
struct thrift_field {
	int32_t id;
	uint8_t type; /* enum thrift_type */
};

void thrift_init(struct thrift *thrift, struct window *window, uint64_t at, uint64_t end,
	const char *what, struct fault *fault);

/* Notes the error, unless there is one already: "PATH: byte N: WHAT is damaged: `how`". Returns
 * -EINVAL or the first error. */
int thrift_damaged(struct thrift *thrift, const char *how);

/* Takes the header of the next field. False at the end of the structure, and after an error. */
bool thrift_next(struct thrift *thrift, struct thrift_field *field);

/* The value of the field that was just taken. A field of another type is an error. */
int64_t thrift_integer(struct thrift *thrift, const struct thrift_field *field);
bool thrift_bool(struct thrift *thrift, const struct thrift_field *field);

/* Whether the field is a structure, whose fields follow; another type is an error. */
bool thrift_struct(struct thrift *thrift, const struct thrift_field *field);

/* The size of a binary, whose bytes follow. An element of a list of binaries begins with a size,
 * too: thrift_size. */
uint64_t thrift_binary(struct thrift *thrift, const struct thrift_field *field);
uint64_t thrift_size(struct thrift *thrift);
void thrift_copy(struct thrift *thrift, void *buffer, size_t size);
void thrift_pass(struct thrift *thrift, uint64_t size);

/* The number of elements of a list, which follow; `type` is theirs. An integer in a list is read
 * with thrift_element. */
uint64_t thrift_list(
	struct thrift *thrift, const struct thrift_field *field, enum thrift_type type);
int64_t thrift_element(struct thrift *thrift);

/* Passes over the value of a field of any type. */
void thrift_skip(struct thrift *thrift, const struct thrift_field *field);

/* Passes over a structure whose fields follow. */
void thrift_skip_struct(struct thrift *thrift);
