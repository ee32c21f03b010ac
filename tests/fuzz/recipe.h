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

/* A number that may lie: an input whose next byte is at least `from` replaces it, by one of the
 * lies or by one that is near. */
static inline uint64_t recipe_lie(
	struct recipe *recipe, uint8_t from, uint64_t value, const uint64_t *lies, size_t count)
{
	if (recipe_byte(recipe) < from)
		return value;
	const uint8_t which = recipe_byte(recipe);
	return which < 128 ? lies[which % count] : value + which - 192;
}

/* Changes one to four bytes; a place is chosen by that many bytes of the input. */
static inline void recipe_spoil(struct recipe *recipe, uint8_t *bytes, size_t size, unsigned width)
{
	for (int left = 1 + recipe_byte(recipe) % 4; left && size; left--) {
		const size_t at = (size_t)recipe_number(recipe, width) % size;
		bytes[at] = recipe_byte(recipe);
	}
}
