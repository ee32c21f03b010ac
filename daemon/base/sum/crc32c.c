/* crc32c: see crc32c.h. Where the processor has an instruction for it, three parts of a piece are
 * summed at once, since one sum waits three cycles for each 8 bytes, and then joined: appending n
 * zero bytes to a sum is linear, so that tables do it (the idea is Mark Adler's). Elsewhere eight
 * bytes at a time with eight tables ("slicing by 8": Kounavis and Berry, "Novel Table Lookup-Based
 * Algorithms for High-Performance CRC Generation", 2008). */
#include "base/sum/crc32c.h"

#include "proto/processor.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { PART = 4096 };

static uint32_t tables[8][256];
static uint32_t shift[4][256]; /* a sum with PART zero bytes appended, by its bytes */
static bool instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t zeros_append(uint32_t crc)
{
	for (int i = 0; i < PART; i++)
		crc = crc >> 8 ^ tables[0][crc & 0xff];
	return crc;
}

static void fill(void)
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
	for (int byte = 0; byte < 4; byte++)
		for (uint32_t bit = 1; bit < 256; bit <<= 1) {
			const uint32_t one = zeros_append(bit << (8 * byte));
			for (uint32_t i = 0; i < bit; i++)
				shift[byte][bit + i] = shift[byte][i] ^ one;
		}
	/* Every processor that has AVX2 has SSE 4.2. */
	instruction = processor_has(PROCESSOR_AVX2);
}

static uint32_t crc_tables(uint32_t crc, const uint8_t *bytes, size_t size)
{
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

#ifdef __x86_64__
static uint32_t part_append(uint64_t crc, uint64_t next)
{
	return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
	       shift[3][crc >> 24 & 0xff] ^ (uint32_t)next;
}

static inline uint64_t word(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof value);
	return value;
}

__attribute__((target("sse4.2,crc32"))) static uint32_t crc_instruction(
	uint32_t start, const uint8_t *bytes, size_t size)
{
	uint64_t crc = start;
	for (; size >= (size_t)3 * PART; bytes += (size_t)3 * PART, size -= (size_t)3 * PART) {
		uint64_t second = 0, third = 0;
		for (size_t i = 0; i < PART; i += 8) {
			crc = __builtin_ia32_crc32di(crc, word(bytes + i));
			second = __builtin_ia32_crc32di(second, word(bytes + PART + i));
			third = __builtin_ia32_crc32di(third, word(bytes + (size_t)2 * PART + i));
		}
		crc = part_append(crc, second);
		crc = part_append(crc, third);
	}
	for (; size >= 8; bytes += 8, size -= 8)
		crc = __builtin_ia32_crc32di(crc, word(bytes));
	for (; size; bytes++, size--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *bytes);
	return (uint32_t)crc;
}
#endif

uint32_t crc32c(const uint8_t *bytes, size_t size)
{
	(void)pthread_once(&once, fill);
#ifdef __x86_64__
	if (instruction)
		return ~crc_instruction(~UINT32_C(0), bytes, size);
#endif
	return ~crc_tables(~UINT32_C(0), bytes, size);
}

uint32_t crc32c_portable(const uint8_t *bytes, size_t size)
{
	(void)pthread_once(&once, fill);
	return ~crc_tables(~UINT32_C(0), bytes, size);
}
