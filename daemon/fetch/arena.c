/* arena: see arena.h. The engine takes buffers, workers drop them; the lock is held for one search
 * of the bitmap. */
#include "fetch/arena.h"

#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct arena_run {
	uint32_t pages;
	_Atomic uint32_t holders;
};

enum { WORD_BITS = 64, HUGE_PAGE = 2 << 20 };

static size_t arena_words(const struct arena *arena)
{
	return (arena->pages + WORD_BITS - 1) / WORD_BITS;
}

/* Maps with room to begin at a huge page, so that the kernel can use huge pages for all of it. */
static int arena_map(struct arena *arena, size_t bytes)
{
	arena->mapping_bytes = bytes + HUGE_PAGE;
	arena->mapping = mmap(NULL, arena->mapping_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena->mapping == MAP_FAILED) {
		arena->mapping = NULL;
		return -errno;
	}
	arena->base = (uint8_t *)util_align((uintptr_t)arena->mapping, HUGE_PAGE);
	/* Optional: small pages work too. Reads into huge pages pin fewer page structs. */
	(void)madvise(arena->base, bytes, MADV_HUGEPAGE);
	return 0;
}

int arena_init(struct arena *arena, uint64_t bytes, struct fault *fault)
{
	*arena = (struct arena){0};
	bytes = util_align(UTIL_MAX(bytes, (uint64_t)ARENA_LEAST), ARENA_PAGE);
	char text[16];
	if (bytes / ARENA_PAGE > UINT32_MAX)
		return fault_set(fault, -ENOMEM,
			"read buffers of %s are too large to manage: lower memory:",
			size_format(bytes, text, sizeof text));
	pthread_mutex_init(&arena->lock, NULL);
	arena->pages = bytes / ARENA_PAGE;
	arena->runs = calloc(arena->pages, sizeof *arena->runs);
	arena->map = calloc(arena_words(arena), sizeof *arena->map);
	if (arena->runs && arena->map && arena_map(arena, bytes) == 0)
		return 0;
	arena_deinit(arena);
	return fault_set(fault, -ENOMEM,
		"cannot map %s of read buffers: lower memory: or raise the limit",
		size_format(bytes, text, sizeof text));
}

void arena_deinit(struct arena *arena)
{
	if (arena->pages == 0)
		return;
	assert(arena->used == 0);
	if (arena->mapping)
		(void)munmap(arena->mapping, arena->mapping_bytes);
	free(arena->runs);
	free(arena->map);
	pthread_mutex_destroy(&arena->lock);
	*arena = (struct arena){0};
}

uint64_t arena_bytes(const struct arena *arena)
{
	return (uint64_t)arena->pages * ARENA_PAGE;
}

/* The first page at or after `from` whose bit is `taken`, or `limit`. */
static size_t map_find(const uint64_t *map, size_t from, size_t limit, bool taken)
{
	while (from < limit) {
		uint64_t word = map[from / WORD_BITS];
		word = (taken ? word : ~word) >> (from % WORD_BITS);
		if (word) {
			from += (size_t)__builtin_ctzll(word);
			return UTIL_MIN(from, limit);
		}
		from = (from / WORD_BITS + 1) * WORD_BITS;
	}
	return limit;
}

static void map_set(uint64_t *map, size_t from, size_t count, bool taken)
{
	while (count > 0) {
		size_t shift = from % WORD_BITS, bits = UTIL_MIN(count, WORD_BITS - shift);
		uint64_t mask = (bits == WORD_BITS ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1)
				<< shift;
		if (taken)
			map[from / WORD_BITS] |= mask;
		else
			map[from / WORD_BITS] &= ~mask;
		from += bits;
		count -= bits;
	}
}

/* The beginning of a free run of `count` pages within [from, limit), or `limit`. */
static size_t map_run(const uint64_t *map, size_t from, size_t limit, size_t count)
{
	while (from < limit) {
		size_t begin = map_find(map, from, limit, false);
		size_t end = map_find(map, begin, UTIL_MIN(limit, begin + count), true);
		if (end - begin >= count)
			return begin;
		from = end == begin ? begin + 1 : end;
	}
	return limit;
}

/* Next-fit: from the cursor to the end, then from the beginning; a run never wraps around. */
static size_t arena_search(const struct arena *arena, size_t count)
{
	size_t found = map_run(arena->map, arena->cursor, arena->pages, count);
	if (found == arena->pages)
		found = map_run(arena->map, 0, arena->pages, count);
	return found;
}

static void arena_count(struct arena *arena, uint64_t used)
{
	atomic_store_explicit(&arena->used, used, memory_order_relaxed);
	if (used > atomic_load_explicit(&arena->peak, memory_order_relaxed))
		atomic_store_explicit(&arena->peak, used, memory_order_relaxed);
}

void arena_want(struct arena *arena)
{
	atomic_store_explicit(&arena->wanted, true, memory_order_seq_cst);
}

uint8_t *arena_take(struct arena *arena, uint64_t bytes, bool wait)
{
	size_t count = arena_cost(bytes) / ARENA_PAGE;
	uint8_t *buffer = NULL;
	pthread_mutex_lock(&arena->lock);
	size_t first = arena_search(arena, count);
	if (first < arena->pages) {
		map_set(arena->map, first, count, true);
		arena->cursor = first + count;
		arena_count(arena, arena->used + count * ARENA_PAGE);
		arena->runs[first].pages = (uint32_t)count;
		/* Relaxed: every holder gets the buffer through a lock or a queue of its own. */
		atomic_store_explicit(&arena->runs[first].holders, 1, memory_order_relaxed);
		buffer = arena->base + first * ARENA_PAGE;
	} else if (wait) {
		arena_want(arena);
	}
	pthread_mutex_unlock(&arena->lock);
	return buffer;
}

bool arena_wanted(struct arena *arena)
{
	/* In order with what the caller did before: arena_want is followed by another look. */
	return atomic_load_explicit(&arena->wanted, memory_order_seq_cst) &&
	       atomic_exchange_explicit(&arena->wanted, false, memory_order_seq_cst);
}

static struct arena_run *arena_run(struct arena *arena, const uint8_t *buffer)
{
	size_t offset = (size_t)(buffer - arena->base);
	assert(offset % ARENA_PAGE == 0 && offset / ARENA_PAGE < arena->pages);
	return &arena->runs[offset / ARENA_PAGE];
}

void arena_share(struct arena *arena, uint8_t *buffer, uint32_t holders)
{
	struct arena_run *run = arena_run(arena, buffer);
	assert(holders > 0 && atomic_load_explicit(&run->holders, memory_order_relaxed) == 1);
	atomic_store_explicit(&run->holders, holders, memory_order_relaxed);
}

bool arena_drop(struct arena *arena, uint8_t *buffer)
{
	struct arena_run *run = arena_run(arena, buffer);
	/* Release and acquire: all holders' reads of the buffer come before the next read into
	 * it. */
	uint32_t before = atomic_fetch_sub_explicit(&run->holders, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before > 1)
		return false;
	pthread_mutex_lock(&arena->lock);
	map_set(arena->map, (size_t)(buffer - arena->base) / ARENA_PAGE, run->pages, false);
	arena_count(arena, arena->used - (uint64_t)run->pages * ARENA_PAGE);
	pthread_mutex_unlock(&arena->lock);
	return arena_wanted(arena);
}
