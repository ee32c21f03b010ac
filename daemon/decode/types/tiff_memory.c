/* tiff_memory: see tiff_memory.h. The piece is a row of blocks, each with a head in front of it
 * that says how large it and the block before it are. A block that is freed joins free neighbors.
 */
#include "decode/types/tiff_memory.h"

#include "base/util.h"

#include <string.h>

enum { ALIGN = 16 };

struct block {
	uint64_t size; /* with this head; ALIGN divides it */
	uint64_t before : 63; /* size of the block before; 0: this is the first one */
	uint64_t used : 1;
};

_Static_assert(sizeof(struct block) == ALIGN, "blocks stay aligned");

static _Thread_local struct {
	uint8_t *start, *end;
	struct block *rover; /* where the search for a free block begins */
	bool is_short;
} piece;

static struct block *next_block(struct block *block)
{
	return (struct block *)(void *)((uint8_t *)block + block->size);
}

static bool is_last(struct block *block)
{
	return (uint8_t *)next_block(block) == piece.end;
}

void tiff_memory_lend(void *memory, uint64_t bytes)
{
	bytes -= bytes % ALIGN;
	piece.start = memory;
	piece.end = piece.start + bytes;
	piece.rover = memory;
	piece.is_short = false;
	*piece.rover = (struct block){.size = bytes};
}

void tiff_memory_return(void)
{
	piece.start = NULL;
	piece.end = NULL;
	piece.rover = NULL;
}

bool tiff_memory_short(void)
{
	return piece.is_short;
}

/* Splits off what `block` has beyond `size`. */
static void trim(struct block *block, uint64_t size)
{
	if (block->size - size < 2 * sizeof(struct block))
		return;
	bool last = is_last(block);
	uint64_t rest = block->size - size;
	block->size = size;
	struct block *after = next_block(block);
	*after = (struct block){.size = rest, .before = size};
	if (!last)
		next_block(after)->before = rest & ((1ull << 63) - 1);
}

static struct block *find(uint64_t size, struct block *from, const uint8_t *to)
{
	for (struct block *block = from; (const uint8_t *)block < to; block = next_block(block))
		if (!block->used && block->size >= size)
			return block;
	return NULL;
}

void *tiff_memory_malloc(size_t bytes)
{
	uint64_t size = util_align((uint64_t)bytes, ALIGN) + sizeof(struct block);
	struct block *block = NULL;
	if (piece.start && size > bytes) {
		block = find(size, piece.rover, piece.end);
		if (!block)
			block = find(size, (struct block *)(void *)piece.start,
				(const uint8_t *)piece.rover);
	}
	if (!block) {
		piece.is_short = true;
		return NULL;
	}
	trim(block, size);
	block->used = 1;
	piece.rover = block;
	return block + 1;
}

void *tiff_memory_calloc(size_t count, size_t bytes)
{
	size_t all;
	if (__builtin_mul_overflow(count, bytes, &all))
		return NULL;
	void *memory = tiff_memory_malloc(all);
	if (memory)
		memset(memory, 0, all);
	return memory;
}

/* Makes one block of two neighbors. */
static void join(struct block *block, struct block *after)
{
	bool last = is_last(after);
	if (piece.rover == after)
		piece.rover = block;
	block->size += after->size;
	if (!last)
		next_block(block)->before = block->size & ((1ull << 63) - 1);
}

void tiff_memory_free(void *memory)
{
	if (!memory || !piece.start)
		return;
	struct block *block = (struct block *)memory - 1;
	block->used = 0;
	if (!is_last(block) && !next_block(block)->used)
		join(block, next_block(block));
	if (block->before) {
		struct block *before = (struct block *)(void *)((uint8_t *)block - block->before);
		if (!before->used)
			join(before, block);
	}
}

void *tiff_memory_realloc(void *memory, size_t bytes)
{
	if (!memory)
		return tiff_memory_malloc(bytes);
	const struct block *block = (const struct block *)memory - 1;
	size_t held = (size_t)block->size - sizeof(*block);
	if (bytes <= held)
		return memory;
	void *larger = tiff_memory_malloc(bytes);
	if (!larger)
		return NULL;
	memcpy(larger, memory, held);
	tiff_memory_free(memory);
	return larger;
}
