/* checksum_avx512: the library's header, compiled with -mavx512f (only this file); empty elsewhere.
 * See checksum.h. */
#ifdef __AVX512F__
#include "decode/jpeg/checksum.h"

/* The bytes come from another core: with the library's distance, half of the time is spent waiting
 * for them. */
#define XXH_PREFETCH_DIST 4096
#ifndef XXH_INLINE_ALL /* some builds set it for all files */
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

uint64_t checksum_avx512(const uint8_t *bytes, size_t size)
{
	return XXH3_64bits(bytes, size);
}
#else
typedef int checksum_avx512_empty;
#endif
