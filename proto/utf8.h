/* utf8: walks text that should be UTF-8 and may hold any bytes.
 *
 * Well-formed means as in the Unicode Standard 15, table 3-7: overlong forms, surrogates and code
 * points above U+10FFFF are malformed. Every text ends in a zero byte, and no function reads past
 * it. Any thread; pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point at `text` and how many bytes it takes; -1 and 1 for a malformed byte. At the end
 * of the text 0 and 1. */
int32_t utf8_decode(const char *text, size_t *ret_bytes);

/* Whether the whole text is well-formed. */
bool utf8_is_valid(const char *text);

/* Whether a character begins with this byte: every byte except a continuation byte. In text that
 * may be malformed this counts and cuts characters without decoding them. */
static inline bool utf8_begins(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80;
}

/* How many characters the text has. */
size_t utf8_count(const char *text);

/* How many bytes of the text to keep so that they are at most `most` and end between two
 * characters. */
size_t utf8_cut(const char *text, size_t most);
