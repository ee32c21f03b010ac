/* number: numbers as files hold them. Each function writes one and returns its size in bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { NUMBER_VARINT_MAX = 10 };

/* The lowest `size` bytes of the value, at most 8, the lowest first. */
static inline size_t number_little(uint8_t *to, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		to[i] = (uint8_t)(value >> 8 * i);
	return size;
}

/* The same, the lowest last. */
static inline size_t number_big(uint8_t *to, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		to[size - 1 - i] = (uint8_t)(value >> 8 * i);
	return size;
}

/* Seven bits in a byte, the lowest first, as Protocol Buffers, Thrift and Snappy have them. */
static inline size_t number_varint(uint8_t to[NUMBER_VARINT_MAX], uint64_t value)
{
	size_t size = 0;
	for (; value >= 0x80; value >>= 7)
		to[size++] = (uint8_t)(value | 0x80);
	to[size++] = (uint8_t)value;
	return size;
}
