/* utf8: see utf8.h. */
#include "proto/utf8.h"

#include <string.h>

/* How many bytes a character takes, told by its first byte; 0 for a byte that begins none. */
static size_t utf8_size(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first >= 0xf5)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int32_t utf8_decode(const char *text, size_t *ret_bytes)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	size_t size = utf8_size(s[0]);
	int32_t point = size > 1 ? s[0] & (0x7f >> size) : s[0];
	*ret_bytes = 1;
	if (!size)
		return -1;
	for (size_t i = 1; i < size; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return -1;
		point = point << 6 | (s[i] & 0x3f);
	}
	if (point < least[size] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return -1;
	*ret_bytes = size;
	return point;
}

bool utf8_is_valid(const char *text)
{
	for (size_t bytes; *text; text += bytes)
		if (utf8_decode(text, &bytes) < 0)
			return false;
	return true;
}

size_t utf8_count(const char *text)
{
	size_t count = 0;
	for (; *text; text++)
		count += utf8_begins(*text);
	return count;
}

size_t utf8_cut(const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	while (size && !utf8_begins(text[size]))
		size--;
	return size;
}
