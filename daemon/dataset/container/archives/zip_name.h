/* zip_name: names in a ZIP as UTF-8.
 *
 * A name is UTF-8 if its flag says so, and code page 437 otherwise (APPNOTE.TXT, appendix D). But
 * programs on Linux and macOS write UTF-8 without the flag, and unzip takes their names as they
 * are, so a name without the flag is code page 437 only if it is not UTF-8. (Python's zipfile reads
 * such names as code page 437 always.) Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the name, zero-terminated and at most `room` - 1 bytes. Returns the size of the whole
 * name; -1 if it contains a zero byte, or if it is marked as UTF-8 and is not. */
long zip_name(const uint8_t *raw, size_t size, bool marked, char *ret, size_t room);
