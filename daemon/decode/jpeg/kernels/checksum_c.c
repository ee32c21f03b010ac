/* checksum_c: as the library was compiled. See checksum.h. */
#include "decode/jpeg/checksum.h"

#include <xxhash.h>

uint64_t checksum_c(const uint8_t *bytes, size_t size)
{
	return XXH3_64bits(bytes, size);
}
