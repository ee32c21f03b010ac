/* unpack_zstd_absent: replaces unpack_zstd.c in builds without libzstd. */
#include "unpack/unpack_method.h"

#include <stdlib.h>

static const char *zstd_library(void)
{
	return "";
}

#define REFUSED                                                                                   \
	"it is compressed with Zstandard, and this penstock was built without libzstd: build it " \
	"with libzstd-dev, or write the files again with Snappy or gzip"

const struct unpack_method unpack_zstd = {
	.name = "Zstandard",
	.library = zstd_library,
	.refused = REFUSED,
	.unmake = free,
};

const struct unpack_method unpack_zstd_part = {
	.name = "Zstandard",
	.library = zstd_library,
	.refused = REFUSED,
	.unmake = free,
};
