/* mtime: when a file was last changed. Indexes store it, and readers compare with it. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

static inline int64_t mtime_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}
