/* utf8: characters out of bytes that may be anything. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The code point at `text`, which ends with a zero byte, and how many bytes it takes; -1 and 1 for
 * what is no UTF-8: overlong forms and surrogates are none. */
int32_t utf8_decode(const char *text, size_t *ret_size);
