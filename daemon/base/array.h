/* array: makes room in an array that grows while it is filled.
 *
 * For lists whose length is known only at the end: names of a folder, keys of a file. The room
 * doubles, so that adding n elements moves each of them a constant number of times on average. Any
 * thread; the array belongs to its owner. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { ARRAY_FIRST_ROOM = 16 };

/* `array` has room for `*room` elements of `bytes` bytes each. Returns it with room for `count` + 1
 * elements: moved where it had to grow (`*room` is then the new room), or NULL without memory: then
 * the array and its room are as they were. */
static inline void *array_grown(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	size_t wanted = *room ? *room : ARRAY_FIRST_ROOM;
	while (wanted <= count && wanted <= SIZE_MAX / 2)
		wanted *= 2;
	void *grown = wanted > count ? reallocarray(array, wanted, bytes) : NULL;
	if (grown)
		*room = wanted;
	return grown;
}
