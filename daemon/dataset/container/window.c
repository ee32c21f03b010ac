/* window: see window.h. */
#include "dataset/container/window.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void window_init(struct window *window, const struct blob *blob, const char *path, uint64_t size)
{
	*window = (struct window){.blob = blob, .path = path, .size = size};
}

void window_deinit(struct window *window)
{
	free(window->buffer);
	window->buffer = NULL;
}

static int window_cut(const struct window *window, uint64_t offset, uint64_t size, uint64_t end,
	const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: %s needs %llu bytes, but the file ends at byte %llu: it is damaged "
		"or was cut off; copy it again from where it came from",
		window->path, (unsigned long long)offset, what, (unsigned long long)size,
		(unsigned long long)end);
}

static int window_grow(struct window *window, size_t size, struct fault *fault)
{
	size_t room = UTIL_MAX(size, (size_t)WINDOW_LEAST);
	if (room <= window->room && window->buffer)
		return 0;
	uint8_t *buffer = malloc(room);
	if (!buffer)
		return fault_set(fault, -ENOMEM, "no memory to index %s", window->path);
	free(window->buffer);
	window->buffer = buffer;
	window->room = room;
	window->used = 0;
	return 0;
}

static int window_fill(struct window *window, uint64_t offset, struct fault *fault)
{
	size_t size = (size_t)UTIL_MIN((uint64_t)window->room, window->size - offset);
	window->used = 0;
	ssize_t n = blob_read(window->blob, window->buffer, size, offset);
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read at byte %llu: %s", window->path,
			(unsigned long long)offset, blob_error((int)n));
	window->at = offset;
	window->used = (size_t)n;
	return 0;
}

int window_get(struct window *window, uint64_t offset, size_t size, const char *what,
	const uint8_t **ret, struct fault *fault)
{
	if (offset > window->size || size > window->size - offset)
		return window_cut(window, offset, size, window->size, what, fault);
	if (size > WINDOW_MOST)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: %s has %zu bytes, but at most %d are allowed: the file is "
			"damaged",
			window->path, (unsigned long long)offset, what, size, WINDOW_MOST);
	const bool inside = window->buffer && offset >= window->at &&
			    offset - window->at <= window->used &&
			    size <= window->used - (size_t)(offset - window->at);
	int rc = inside ? 0 : window_grow(window, size, fault);
	if (rc == 0 && !inside)
		rc = window_fill(window, offset, fault);
	if (rc < 0)
		return rc;
	/* The file may have become shorter since it was opened. */
	if (size > window->used - (size_t)(offset - window->at))
		return window_cut(window, offset, size, window->at + window->used, what, fault);
	*ret = window->buffer + (offset - window->at);
	return 0;
}
