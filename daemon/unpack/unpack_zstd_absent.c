/* unpack_zstd_absent: replaces unpack_zstd.c in builds without libzstd. */
#include "unpack/unpack_method.h"

#include <stdlib.h>

static const char *zstd_library(void)
{
	return "";
}

const struct unpack_method unpack_zstd = {
	.name = "Zstandard",
	.library = zstd_library,
	.refused = "it is compressed with Zstandard, and this penstock was built without libzstd: "
		   "build it with libzstd-dev, or write the files again with Snappy or gzip",
	.unmake = free,
};
