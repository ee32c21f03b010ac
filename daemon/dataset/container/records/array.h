/* array: arrays of numbers as MDS (`ndarray`), PyTorch's tensors and NumPy's arrays in LitData
 * store them: an optional type, an optional shape, and the numbers row by row. Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number {
	NUMBER_NONE,
	NUMBER_BOOL,
	NUMBER_U8,
	NUMBER_I8,
	NUMBER_U16,
	NUMBER_I16,
	NUMBER_U32,
	NUMBER_I32,
	NUMBER_U64,
	NUMBER_I64,
	NUMBER_F16,
	NUMBER_F32,
	NUMBER_F64,
};

/* Bytes of a number; 0 for NUMBER_NONE. */
uint32_t number_size(enum number number);
/* Its name, as NumPy calls it; not of NUMBER_NONE. */
const char *number_text(enum number number);
/* Whether it has no fraction. */
bool number_whole(enum number number);
/* A number without a fraction; one above INT64_MAX becomes INT64_MAX. */
int64_t number_int(enum number number, const uint8_t *bytes);
double number_double(enum number number, const uint8_t *bytes);

/* "float32", as NumPy calls them; NUMBER_NONE for other names. */
enum number number_named(const char *name, size_t size);

enum { ARRAY_DIMS = 8, ARRAY_HEAD = 8 + ARRAY_DIMS * 8 };

enum array_form {
	ARRAY_MDS, /* u8 type (if not given), u8 (dimensions << 2 | type of theirs), these */
	ARRAY_TENSOR, /* big-endian u32 type, dimensions, each dimension */
	ARRAY_NUMPY, /* the same, little-endian, and other types */
	ARRAY_FLAT, /* only the numbers */
};

/* How a column stores its arrays. */
struct array_type {
	enum array_form form;
	enum number number; /* NONE: each array says it */
	uint32_t dims; /* 0: each array says it */
	uint64_t dim[ARRAY_DIMS];
};

/* One array. */
struct array {
	enum number number;
	uint32_t dims;
	uint64_t dim[ARRAY_DIMS];
	uint64_t at; /* of its first number in the value */
	uint64_t count; /* of all numbers */
};

/* The types that LitData numbers: constants.py. NUMBER_NONE for others. */
enum number array_torch(uint64_t number);
enum number array_numpy(uint64_t number);

/* MDS's text after "ndarray": "", ":uint8", ":uint8:32,32,3". False: it is none of these. */
bool array_mds(const char *text, struct array_type *ret);

/* Reads the head of a value of `size` bytes, of which `head` has the first, at least ARRAY_HEAD
 * unless there are fewer. NULL, or what is wrong with it, to follow "its array ". */
const char *array_read(const struct array_type *type, const uint8_t *head, size_t head_size,
	uint64_t size, struct array *ret);
