/* recipe: the bytes of an input as choices, one after the other; zeros once they are used up. So
 * a few bytes make a large file with correct checksums, and every input makes a file. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct recipe {
	const uint8_t *bytes;
	size_t size, at;
};

static inline int recipe_ends(const struct recipe *recipe)
{
	return recipe->at >= recipe->size;
}

static inline uint8_t recipe_byte(struct recipe *recipe)
{
	return recipe_ends(recipe) ? 0 : recipe->bytes[recipe->at++];
}

/* Little-endian, of that many bytes. */
static inline uint64_t recipe_number(struct recipe *recipe, unsigned bytes)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)recipe_byte(recipe) << 8 * i;
	return value;
}

/* Copies up to `size` bytes; returns how many there were. */
static inline size_t recipe_copy(struct recipe *recipe, void *to, size_t size)
{
	size_t left = recipe_ends(recipe) ? 0 : recipe->size - recipe->at;
	if (size > left)
		size = left;
	memcpy(to, recipe->bytes + recipe->at, size);
	recipe->at += size;
	return size;
}
