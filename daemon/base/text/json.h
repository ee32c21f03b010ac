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

/* In memory, a value of two bytes ("1,") has more than 50, and an object ("{}") several times that.
 * So each caller says how much its text may become: each comma counts as one part, each bracket
 * that opens as JSON_ARRAY_PARTS, each brace that opens as JSON_OBJECT_PARTS, even within a string.
 * A part takes at most some 110 bytes, besides its text. */
enum {
	JSON_ARRAY_PARTS = 2,
	JSON_OBJECT_PARTS = 4,
	JSON_PARTS_ANY = 0, /* for texts that penstock wrote */
};

/* As json_loadb, for texts of at most `parts` parts. `error` may be NULL. */
json_t *json_read(const char *text, size_t size, size_t parts, size_t flags, json_error_t *error);

/* Only after a reading that failed: whether there was not enough memory for it. The error's text
 * then says so. */
static inline bool json_lacked_memory(const json_error_t *error)
{
	return error->line < 0;
}

/* Releases a text that json_dumps made. */
void json_text_free(char *text);
