/* json: writes JSON text into a growing buffer. Used by status, the state, the tools' --json and WIRE_OPEN. Reading JSON is not its job.
 *
 *   struct json json = {0};
 *   json_object(&json); json_string(&json, "name", "a"); json_end(&json);
 *   ... json.text ...; json_free(&json);
 *
 * Commas and escapes are its business; bytes that are no UTF-8 become U+FFFD. When memory runs out, `failed` is set, text is NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	char *text; /* zero-terminated */
	size_t size, room;
	char closer[32]; /* open brackets, innermost last */
	int depth;
	bool comma, failed;
};

/* `key` is NULL inside an array and for the outermost value. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
void json_end(struct json *json);
void json_string(struct json *json, const char *key, const char *value);
void json_number(struct json *json, const char *key, double value, int decimals);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_i64(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_raw(struct json *json, const char *key, const char *text); /* text is JSON already */
void json_free(struct json *json);
