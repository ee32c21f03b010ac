/* utf8: see utf8.h. */
#include "base/utf8.h"

/* How many bytes a character takes by its first one; 0 for none that begins one. */
static size_t utf8_size(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first >= 0xf5)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int32_t utf8_decode(const char *text, size_t *ret_size)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	size_t size = utf8_size(s[0]);
	int32_t point = size > 1 ? s[0] & (0x7f >> size) : s[0];
	*ret_size = 1;
	if (!size)
		return -1;
	for (size_t i = 1; i < size; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return -1;
		point = point << 6 | (s[i] & 0x3f);
	}
	if (point < least[size] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return -1;
	*ret_size = size;
	return point;
}
