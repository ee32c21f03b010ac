/* checksum: XXH3 of 64 bits, by which kept entry points know their file's bytes (entry_pack.h).
 *
 * There is one function per instruction set, chosen with the driver of the lanes; all give the same
 * value. The library's own is compiled for SSE2 on x86-64, which takes twice as long. Pure; any
 * thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint64_t checksum_fn(const uint8_t *bytes, size_t size);

checksum_fn checksum_c;
#ifdef __x86_64__
checksum_fn checksum_avx2, checksum_avx512;
#endif
