/* jsontext: writes JSON text into a growing buffer, for status, the state, --json of the tools and
 * WIRE_OPEN. It does not read JSON.
 *
 *   struct jsontext json = {0};
 *   jsontext_object(&json, NULL);
 *   jsontext_string(&json, "name", "a");
 *   jsontext_end(&json);
 *   ... json.text.bytes ...
 *   jsontext_free(&json);
 *
 * It adds commas and escapes, and writes U+FFFD for bytes that are not UTF-8. When memory runs out,
 * `text.failed` is set and `text.bytes` is NULL. A struct jsontext belongs to one thread at a time.
 * It allocates, so the steady state of a stream does not use it. */
#pragma once

#include "proto/text.h"

#include <stdbool.h>
#include <stdint.h>

struct jsontext {
	struct text text;
	char closer[32]; /* the closing brackets of what is open, the innermost last */
	int depth;
	bool comma; /* the bracket that is open has a complete value */
};

/* `key` is NULL inside an array and for the outermost value. A string that is NULL becomes null,
 * and so does a number that is not finite. */
void jsontext_object(struct jsontext *json, const char *key);
void jsontext_array(struct jsontext *json, const char *key);
void jsontext_end(struct jsontext *json);
void jsontext_string(struct jsontext *json, const char *key, const char *value);
void jsontext_number(struct jsontext *json, const char *key, double value, int decimals);
/* The fewest digits that read back as the same number. */
void jsontext_shortest(struct jsontext *json, const char *key, double value);
void jsontext_u64(struct jsontext *json, const char *key, uint64_t value);
void jsontext_i64(struct jsontext *json, const char *key, int64_t value);
void jsontext_bool(struct jsontext *json, const char *key, bool value);
/* `text` is JSON already. */
void jsontext_raw(struct jsontext *json, const char *key, const char *text);
void jsontext_free(struct jsontext *json);
