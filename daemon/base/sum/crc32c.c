/* crc32c: see crc32c.h. Eight bytes at a time with eight tables ("slicing by 8": Kounavis and
 * Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC Generation", 2008). */
#include "base/sum/crc32c.h"

#include <pthread.h>

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void tables_fill(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
		tables[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
}

static uint32_t crc_plain(uint32_t crc, const uint8_t *bytes, size_t size)
{
	(void)pthread_once(&tables_once, tables_fill);
	for (; size >= 8; bytes += 8, size -= 8) {
		crc ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
		       (uint32_t)bytes[3] << 24;
		crc = tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^
		      tables[5][crc >> 16 & 0xff] ^ tables[4][crc >> 24] ^ tables[3][bytes[4]] ^
		      tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
	}
	for (; size; bytes++, size--)
		crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
	return crc;
}

uint32_t crc32c(const uint8_t *bytes, size_t size)
{
	return ~crc_plain(~UINT32_C(0), bytes, size);
}
