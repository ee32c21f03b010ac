/* size: reads and writes sizes as people write them: 128M, 4G. Any thread; pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Reads an unsigned number with an optional K, M, G or T (also KiB, MB, ...: always powers of
 * 1024). "1.5G" is allowed, half a byte is not. 0; -EINVAL: not a size; -ERANGE: 2^63 or more. */
int size_parse(const char *text, uint64_t *ret_bytes);

/* Writes e.g. "37.5 MiB" into `buffer` (at least 16 bytes) and returns it. */
const char *size_format(uint64_t bytes, char *buffer, size_t room);
