/* crc32c: the CRC-32 of Castagnoli's polynomial (RFC 3720, B.4), and its masked form in TFRecord
 * (tensorflow/core/lib/hash/crc32c.h). Pure; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const uint8_t *bytes, size_t size);

/* The same without the processor's instruction for it: for tests. */
uint32_t crc32c_portable(const uint8_t *bytes, size_t size);

/* TFRecord stores this, so that the checksum of data with checksums in it stays a good one. */
static inline uint32_t crc32c_masked(const uint8_t *bytes, size_t size)
{
	const uint32_t crc = crc32c(bytes, size);
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}
