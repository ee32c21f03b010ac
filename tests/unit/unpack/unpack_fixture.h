/* unpack_fixture: a source of stored bytes in a file. */
#pragma once

#include "base/whole.h"

struct unpack_file {
	int fd;
	uint64_t offset; /* of the first stored byte */
};

static inline ssize_t unpack_file_read(void *context, uint64_t at, void *buffer, size_t size)
{
	const struct unpack_file *file = context;
	return whole_read(file->fd, buffer, size, file->offset + at);
}
