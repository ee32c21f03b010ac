/* guarded: memory that ends, or begins, at a forbidden page. It also catches SIMD loads that the
 * sanitizers do not see. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

struct guarded {
	uint8_t *map;
	size_t map_bytes;
	uint8_t *bytes;
};

/* `at_end`: bytes[size] is the forbidden page, else bytes[-1]. */
static inline struct guarded guarded_new(size_t size, int at_end)
{
	enum { PAGE = 4096 };
	size_t body = (size + PAGE - 1) / PAGE * PAGE;
	struct guarded g = {.map_bytes = body + 2 * PAGE};
	g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(g.map != MAP_FAILED);
	int result = mprotect(g.map + PAGE, body, PROT_READ | PROT_WRITE);
	assert(result == 0 || body == 0);
	(void)result;
	g.bytes = g.map + PAGE + (at_end ? body - size : 0);
	return g;
}

static inline void guarded_free(struct guarded *g)
{
	munmap(g->map, g->map_bytes);
}
