/* scratch: see scratch.h. */
#include "decode/scratch.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>

int scratch_init(struct scratch *scratch, size_t block_bytes, struct permit *pool)
{
	uint8_t *block = aligned_alloc(SCRATCH_ALIGN, util_align(block_bytes, SCRATCH_ALIGN));
	if (!block)
		return -ENOMEM;
	*scratch = (struct scratch){.block = block,
		.block_bytes = block_bytes,
		.base = block,
		.size = block_bytes,
		.pool = pool};
	return 0;
}

void scratch_deinit(struct scratch *scratch)
{
	if (!scratch->block)
		return;
	scratch_reset(scratch);
	free(scratch->block);
	scratch->block = NULL;
}

int scratch_would_borrow(const struct scratch *scratch, uint64_t bytes)
{
	return bytes > scratch->size - scratch->used;
}

/* `permit`: asks the pool, with or without waiting. */
static int scratch_borrow(
	struct scratch *scratch, uint64_t bytes, int (*permit)(struct permit *, uint64_t))
{
	if (!scratch_would_borrow(scratch, bytes))
		return 0;
	assert(!scratch->borrowed);
	bytes = util_align(bytes, SCRATCH_ALIGN);
	int refused = scratch->pool ? permit(scratch->pool, bytes) : 0;
	if (refused)
		return refused;
	uint8_t *borrowed = bytes <= SIZE_MAX ? aligned_alloc(SCRATCH_ALIGN, (size_t)bytes) : NULL;
	if (!borrowed) {
		if (scratch->pool)
			permit_release(scratch->pool, bytes);
		return -ENOMEM;
	}
	scratch->borrowed = scratch->base = borrowed;
	scratch->borrowed_bytes = bytes;
	scratch->size = (size_t)bytes;
	scratch->used = 0;
	return 0;
}

int scratch_provide(struct scratch *scratch, uint64_t bytes)
{
	return scratch_borrow(scratch, bytes, permit_acquire);
}

int scratch_try(struct scratch *scratch, uint64_t bytes)
{
	return scratch_borrow(scratch, bytes, permit_try);
}

uint8_t *scratch_rest(const struct scratch *scratch, size_t *ret_bytes)
{
	assert(!scratch->borrowed);
	*ret_bytes = scratch->size - scratch->used;
	return scratch->base + scratch->used;
}

void *scratch_take(struct scratch *scratch, size_t bytes)
{
	size_t left = scratch->size - scratch->used;
	if (bytes > left)
		return NULL;
	void *piece = scratch->base + scratch->used;
	scratch->used += UTIL_MIN(util_align(bytes, SCRATCH_ALIGN), left);
	return piece;
}

void scratch_reset(struct scratch *scratch)
{
	if (scratch->borrowed) {
		free(scratch->borrowed);
		if (scratch->pool)
			permit_release(scratch->pool, scratch->borrowed_bytes);
	}
	scratch->borrowed = NULL;
	scratch->borrowed_bytes = 0;
	scratch->base = scratch->block;
	scratch->size = scratch->block_bytes;
	scratch->used = 0;
}
