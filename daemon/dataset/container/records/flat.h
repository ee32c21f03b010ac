/* flat: reads FlatBuffers, which Arrow describes its columns and batches with, without copying
 * them.
 *
 * A table begins with the distance back to its vtable, which has the place of each of its fields
 * in it, or 0. Distances to other tables, vectors and texts only lead forward. Every place is
 * checked against the end of the buffer, and its alignment; the first one that is wrong sets
 * `bad`, and from then on all fields are absent. Pure; one thread. (flatbuffers.dev, "FlatBuffer
 * Internals") */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flat {
	const uint8_t *bytes;
	uint32_t size;
	bool bad;
};

struct flat_table {
	uint32_t at, vtable;
	uint16_t vtable_size, size;
};

struct flat_vector {
	uint32_t at; /* of its first element */
	uint32_t count;
};

/* The outermost table. */
struct flat_table flat_root(struct flat *flat);

/* A little-endian number of `size` bytes (at most 8), or `none` if the table has none. */
uint64_t flat_number(struct flat *flat, const struct flat_table *table, unsigned field,
	uint32_t size, uint64_t none);

/* A table below. False: there is none. */
bool flat_child(
	struct flat *flat, const struct flat_table *table, unsigned field, struct flat_table *ret);

/* A vector of elements of `each` bytes; empty if the table has none. */
struct flat_vector flat_vector(
	struct flat *flat, const struct flat_table *table, unsigned field, uint32_t each);

/* Element `index`, which it has, of a vector of tables (of elements of 4 bytes). */
struct flat_table flat_element(struct flat *flat, const struct flat_vector *vector, uint32_t index);
