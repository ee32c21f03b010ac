/* window: reads a file in any order through one buffer, and never beyond its end.
 *
 * Readers of containers look at a few bytes here and there: headers, offsets, small tables. A
 * window reads at least WINDOW_LEAST bytes at a time, so that neighbors cost one read. It does not
 * map the file, because a map of a file that is cut short ends the process. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/blob.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WINDOW_LEAST = 64 << 10,
	WINDOW_MOST = 4 << 20, /* of one window_get */
};

struct window {
	const struct blob *blob; /* borrowed */
	const char *path; /* borrowed; for faults */
	uint64_t size; /* of the file, as it was when the dataset was opened */
	uint64_t at; /* of the buffer's first byte */
	size_t used, room;
	uint8_t *buffer;
};

void window_init(struct window *window, const struct blob *blob, const char *path, uint64_t size);
void window_deinit(struct window *window);

/* Points *ret to `size` bytes at `offset` of the file, valid until the next call. 0; -EINVAL if the
 * file ends before or `size` is above WINDOW_MOST, with a fault that says "PATH: byte N: `what`
 * needs M bytes, but the file ends at byte E: ..."; -ENOMEM; -errno of the read. `what` is what is
 * being read: "the header of record 7". */
int window_get(struct window *window, uint64_t offset, size_t size, const char *what,
	const uint8_t **ret, struct fault *fault);
