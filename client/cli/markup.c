/* markup: see markup.h. */
#include "client/cli/markup.h"

#include "base/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How many bytes the code point at `text` has; 0 where it is none that may be there. */
static size_t markup_point(const unsigned char *text)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char first = text[0];
	if (first < 0x80)
		return first >= 0x20 || first == '\t' || first == '\n' ? first != 0x7f : 0;
	size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	uint32_t point = first & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (text[i] & 0x3f);
	}
	bool control = point < 0xa0, surrogate = point >= 0xd800 && point < 0xe000;
	bool good = point >= least[size] && point < 0x110000 && !control && !surrogate &&
		    (point & 0xfffe) != 0xfffe;
	return good ? size : 0;
}

static const char *markup_reference(char c)
{
	static const struct {
		char c;
		const char *text;
	} references[] = {
		{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
	for (size_t i = 0; i < UTIL_COUNT(references); i++)
		if (references[i].c == c)
			return references[i].text;
	return NULL;
}

void markup_text(FILE *file, const char *text)
{
	while (*text) {
		size_t size = markup_point((const unsigned char *)text);
		const char *reference = markup_reference(*text);
		if (reference)
			(void)fputs(reference, file);
		else if (size)
			(void)fwrite(text, 1, size, file);
		else
			(void)fputs("\xef\xbf\xbd", file);
		text += size ? size : 1;
	}
}
