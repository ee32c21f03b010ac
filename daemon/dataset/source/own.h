/* own: the files that penstock itself writes beside shards (index.h, sidecar.h, dimensions.h,
 * `penstock pack`). They did not exist when the user first wrote "shards/" and a star: later
 * expansions must find what the first one found. Pure. */
#pragma once

#include "base/util.h"

#include <stdbool.h>

static inline bool source_is_own(const char *path)
{
	static const char *const ends[] = {".idx", ".ckp", ".dim", ".pack.json"};
	static const char *const marks[] = {".idx.tmp-", ".ckp.tmp-", ".dim.tmp-"};
	size_t size = strlen(path);
	for (size_t i = 0; i < UTIL_COUNT(ends); i++)
		if (size > strlen(ends[i]) && !strcmp(path + size - strlen(ends[i]), ends[i]))
			return true;
	for (size_t i = 0; i < UTIL_COUNT(marks); i++)
		if (strstr(path, marks[i]))
			return true;
	return false;
}
