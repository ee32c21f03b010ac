/* jsontext: writes JSON text into a growing buffer. Used by status, the state, the tools' --json
 * and WIRE_OPEN. Reading JSON is not its job.
 *
 *   struct jsontext json = {0};
 *   jsontext_object(&json); jsontext_string(&json, "name", "a"); jsontext_end(&json);
 *   ... json.text ...; jsontext_free(&json);
 *
 * Commas and escapes are its business; bytes that are no UTF-8 become U+FFFD. When memory runs out,
 * `failed` is set, text is NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jsontext {
	char *text; /* zero-terminated */
	size_t size, room;
	char closer[32]; /* open brackets, innermost last */
	int depth;
	bool comma, failed;
};

/* `key` is NULL inside an array and for the outermost value. */
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
void jsontext_raw(
	struct jsontext *json, const char *key, const char *text); /* text is JSON already */
void jsontext_free(struct jsontext *json);

/* Whether jsontext_string writes the text as it is, so that a reader gets the same bytes. Pure. */
bool jsontext_is_utf8(const char *text);
