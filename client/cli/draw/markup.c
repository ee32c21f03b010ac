/* markup: see markup.h. */
#include "client/cli/draw/markup.h"

#include "base/util.h"
#include "proto/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How many bytes the code point at `text` has; 0 if it must not appear in XML. */
static size_t markup_point(const char *text)
{
	size_t size;
	int32_t point = utf8_decode(text, &size);
	bool control =
		point < 0x20 ? point != '\t' && point != '\n' : point >= 0x7f && point < 0xa0;
	return control || (point & 0xfffe) == 0xfffe ? 0 : size;
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
		size_t size = markup_point(text);
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
