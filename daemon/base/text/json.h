/* json: reads JSON with jansson, also where memory runs out.
 *
 * jansson (2.14 and before) goes on when its buffer for a token cannot grow, and then writes beyond
 * it. So an allocation that fails ends the reading at once, and what was allocated until then is
 * given back. Everything here that reads JSON calls this. Any thread.
 *
 * jansson gets its memory from here from the process's start on: what it returns must be released
 * by jansson, never by free(): json_text_free() is for the texts of json_dumps. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* As json_loadb. `error` may be NULL. */
json_t *json_read(const char *text, size_t size, size_t flags, json_error_t *error);

/* Only after a reading that failed: whether there was not enough memory for it. The error's text
 * then says so. */
static inline bool json_lacked_memory(const json_error_t *error)
{
	return error->line < 0;
}

/* Releases a text that json_dumps made. */
void json_text_free(char *text);
