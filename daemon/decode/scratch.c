/* scratch: see scratch.h. */
#include "decode/scratch.h"

#include "base/util.h"
#include "base/whole.h"

#include <assert.h>
#include <errno.h>
#include <xxhash.h>

int scratch_init(
	struct scratch *scratch, size_t block_bytes, struct permit *pool, const struct spill *spill)
{
	uint8_t *block = aligned_alloc(SCRATCH_ALIGN, util_align(block_bytes, SCRATCH_ALIGN));
	if (!block)
		return -ENOMEM;
	*scratch = (struct scratch){.block = block,
		.block_bytes = block_bytes,
		.base = block,
		.size = block_bytes,
		.pool = pool,
		.spill = spill,
		.file = -1};
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

static void scratch_use(
	struct scratch *scratch, uint8_t *memory, uint64_t bytes, uint64_t permitted)
{
	scratch->borrowed = scratch->base = memory;
	scratch->borrowed_bytes = bytes;
	scratch->permitted = permitted;
	scratch->size = (size_t)bytes;
	scratch->used = 0;
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
	scratch_use(scratch, borrowed, bytes, bytes);
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

int scratch_spill(struct scratch *scratch, uint64_t least)
{
	assert(!scratch->borrowed && scratch->spill && scratch->pool);
	uint64_t total = scratch->pool->total, bytes = total - total % SCRATCH_ALIGN;
	least = util_align(least, SCRATCH_ALIGN);
	bool mapped = least > bytes;
	uint8_t *memory = NULL;
	(void)permit_acquire(scratch->pool, total);
	int file = spill_open(scratch->spill), result = UTIL_MIN(file, 0);
	if (!result && mapped)
		result = spill_memory(file, least, &memory);
	if (!result && !mapped) {
		memory = aligned_alloc(SCRATCH_ALIGN, bytes);
		result = memory ? 0 : -ENOMEM;
	}
	if (result) {
		util_close_fd(&file);
		permit_release(scratch->pool, total);
		return result;
	}
	scratch_use(scratch, memory, mapped ? least : bytes, total);
	scratch->file = file;
	scratch->file_at = mapped ? least : 0;
	scratch->mapped = mapped;
	scratch->spare = mapped ? 0 : bytes - least;
	return 0;
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

uint64_t scratch_sum(const void *bytes, size_t size)
{
	uint64_t sum = XXH3_64bits(bytes, size);
	return sum ? sum : 1;
}

int scratch_read_back(
	const struct scratch *scratch, void *to, size_t size, uint64_t at, uint64_t sum)
{
	ssize_t got = whole_read(scratch->file, to, size, at);
	if (got < 0)
		return (int)got;
	return (size_t)got == size && scratch_sum(to, size) == sum ? 0 : -EIO;
}

void scratch_reset(struct scratch *scratch)
{
	if (scratch->borrowed) {
		if (scratch->mapped)
			spill_unmap(scratch->borrowed, scratch->borrowed_bytes, 0);
		else
			free(scratch->borrowed);
		util_close_fd(&scratch->file);
		if (scratch->pool)
			permit_release(scratch->pool, scratch->permitted);
	}
	scratch->file = -1;
	scratch->mapped = false;
	scratch->file_at = scratch->spare = 0;
	scratch->borrowed = NULL;
	scratch->borrowed_bytes = 0;
	scratch->base = scratch->block;
	scratch->size = scratch->block_bytes;
	scratch->used = 0;
}
