/* webp_memory: see webp_memory.h. */
#include "decode/types/webp_memory.h"

#include "base/util.h"

#include <string.h>

enum { ALIGN = 16 };

static _Thread_local struct {
	uint8_t *at;
	uint64_t left;
	bool is_short;
} piece;

void webp_memory_lend(void *memory, uint64_t bytes)
{
	piece.at = memory;
	piece.left = bytes;
	piece.is_short = false;
}

void webp_memory_return(void)
{
	piece.at = NULL;
	piece.left = 0;
}

bool webp_memory_short(void)
{
	return piece.is_short;
}

void *__wrap_malloc(size_t bytes)
{
	uint64_t aligned = util_align((uint64_t)bytes, ALIGN);
	if (aligned < bytes || aligned > piece.left) {
		piece.is_short = true;
		return NULL;
	}
	void *memory = piece.at;
	piece.at += aligned;
	piece.left -= aligned;
	return memory;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	size_t all;
	if (__builtin_mul_overflow(count, bytes, &all))
		return NULL;
	void *memory = __wrap_malloc(all);
	if (memory)
		memset(memory, 0, all);
	return memory;
}

void __wrap_free(void *memory)
{
	(void)memory;
}
