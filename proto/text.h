/* text: a growing buffer of bytes that always ends in a zero byte.
 *
 *   struct text text = {0};
 *   text_print(&text, "%d samples", count);
 *   text_put(&text, "\n");
 *   char *made = text_take(&text);    NULL: no memory
 *
 * When memory runs out, `failed` is set, what was written is freed, and every later call does
 * nothing. So the caller checks once, at the end. It doubles its room as it grows. A struct text
 * belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text { /* zeroed is empty */
	char *bytes; /* NULL until something is written */
	size_t size, room; /* the size does not count the zero byte */
	bool failed;
};

void text_put(struct text *text, const char *string);
void text_put_bytes(struct text *text, const void *bytes, size_t size);
void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Hands over the bytes, to be freed by the caller; "" where nothing was written, NULL where memory
 * ran out. The text is empty afterwards. */
char *text_take(struct text *text);

/* Frees the bytes and empties the text. */
void text_free(struct text *text);
