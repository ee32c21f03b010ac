/* snappy_make: Snappy blocks made of chosen elements, together with what they unpack to. For tests;
 * a compressor would only make the elements that it needs. */
#pragma once

#include "fuzz/number.h"

#include <stdint.h>
#include <string.h>

enum { SNAPPY_ROOM = 8 << 20 };

struct snappy_made {
	uint8_t packed[SNAPPY_ROOM], plain[SNAPPY_ROOM];
	uint32_t packed_size, plain_size;
};

/* A literal of `size` bytes (at least 1), whose length takes at least
 * `larger` bytes after the tag (0 to 4). */
static inline void snappy_put_literal(
	struct snappy_made *made, const void *bytes, uint32_t size, uint32_t larger)
{
	uint8_t *to = made->packed + made->packed_size;
	const uint32_t number = size - 1;
	const uint32_t least = number < 60 ? 0 : number < 1 << 8 ? 1 : number < 1 << 16 ? 2 : 3;
	const uint32_t form = larger > least ? larger : least;
	*to++ = (uint8_t)((form ? 59 + form : number) << 2);
	to += number_little(to, number, form);
	memcpy(to, bytes, size);
	made->packed_size = (uint32_t)(to + size - made->packed);
	memcpy(made->plain + made->plain_size, bytes, size);
	made->plain_size += size;
}

/* A copy of 1 to 64 bytes in the form with `offsets` bytes of distance: 1 (4 to 11 bytes from at
 * most 2047 back), 2 or 4. */
static inline void snappy_put_copy(
	struct snappy_made *made, uint32_t distance, uint32_t size, uint32_t offsets)
{
	uint8_t *to = made->packed + made->packed_size;
	if (offsets == 1)
		*to++ = (uint8_t)(1 | (size - 4) << 2 | distance >> 8 << 5);
	else
		*to++ = (uint8_t)((offsets == 2 ? 2 : 3) | (size - 1) << 2);
	to += number_little(to, distance, offsets);
	made->packed_size = (uint32_t)(to - made->packed);
	for (uint32_t i = 0; i < size; i++, made->plain_size++)
		made->plain[made->plain_size] = made->plain[made->plain_size - distance];
}

/* Puts the preamble in front. */
static inline void snappy_put_size(struct snappy_made *made, uint32_t size)
{
	uint8_t preamble[NUMBER_VARINT_MAX];
	const uint32_t length = (uint32_t)number_varint(preamble, size);
	memmove(made->packed + length, made->packed, made->packed_size);
	memcpy(made->packed, preamble, length);
	made->packed_size += length;
}
