/* piece: the bytes of a window that can be read at once. */
#pragma once

#include "base/util.h"
#include "dataset/container/window.h"

/* Points *ret to the bytes at `at`, at least one and at most `most`: those that the window already
 * holds, or else WINDOW_LEAST. `most` is not 0. 0, or as window_get. */
static inline int piece_get(struct window *window, uint64_t at, uint64_t most, const char *what,
	const uint8_t **ret, size_t *ret_size, struct fault *fault)
{
	uint64_t size = UTIL_MIN(most, (uint64_t)WINDOW_LEAST);
	if (window->buffer && at >= window->at && at - window->at < window->used)
		size = UTIL_MIN(most, window->used - (at - window->at));
	int rc = window_get(window, at, (size_t)size, what, ret, fault);
	if (rc == 0)
		*ret_size = (size_t)size;
	return rc;
}
