/* text: see text.h. */
#include "proto/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_FIRST_ROOM = 256 };

static void text_fail(struct text *text)
{
	free(text->bytes);
	*text = (struct text){.failed = true};
}

/* Makes room for `more` bytes and the zero byte. */
static bool text_reserve(struct text *text, size_t more)
{
	if (text->failed)
		return false;
	if (more < text->room - text->size)
		return true;
	size_t room = text->room ? text->room : TEXT_FIRST_ROOM;
	while (room - text->size <= more && room <= SIZE_MAX / 2)
		room *= 2;
	char *bytes = room - text->size > more ? realloc(text->bytes, room) : NULL;
	if (!bytes) {
		text_fail(text);
		return false;
	}
	text->bytes = bytes;
	text->room = room;
	return true;
}

void text_put_bytes(struct text *text, const void *bytes, size_t size)
{
	if (!text_reserve(text, size))
		return;
	memcpy(text->bytes + text->size, bytes, size);
	text->size += size;
	text->bytes[text->size] = 0;
}

void text_put(struct text *text, const char *string)
{
	text_put_bytes(text, string, strlen(string));
}

void text_print(struct text *text, const char *format, ...)
{
	va_list args, again;
	if (!text_reserve(text, 0))
		return;
	va_start(args, format);
	va_copy(again, args);
	int size = vsnprintf(text->bytes + text->size, text->room - text->size, format, args);
	if (size < 0) {
		text_fail(text);
	} else if (text_reserve(text, (size_t)size)) {
		/* It may have been cut: now it fits. */
		(void)vsnprintf(text->bytes + text->size, text->room - text->size, format, again);
		text->size += (size_t)size;
	}
	va_end(again);
	va_end(args);
}

char *text_take(struct text *text)
{
	char *bytes = text_reserve(text, 0) ? text->bytes : NULL;
	if (bytes)
		bytes[text->size] = 0;
	*text = (struct text){0};
	return bytes;
}

void text_free(struct text *text)
{
	free(text->bytes);
	*text = (struct text){0};
}
