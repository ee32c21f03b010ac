/* util: the little that everything uses: cleanup, minima, alignment, text that is too long. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UTIL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define UTIL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define UTIL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* `cleanup(free_ptr) char *x` frees on every way out of the scope. Locals only; a function uses
 * either this or one forward goto ladder, never both. */
#define cleanup(fn) __attribute__((cleanup(util_##fn)))

static inline void util_free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void util_close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static inline void util_close_file(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

/* Bytes of UTF-8 text that are shown where there is room for `most`: no character is cut. */
static inline size_t util_cut(const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	while (size && ((unsigned char)text[size] & 0xc0) == 0x80)
		size--;
	return size;
}

/* Rounds up to a power of two `to`. */
static inline uint64_t util_align(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}
