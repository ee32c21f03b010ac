/* label_json: JSON as programs write it, which is more than RFC 8259 allows.
 *
 * Python's json module writes NaN, Infinity, -Infinity, integers of any size and halves of
 * surrogate pairs; some editors begin a file with a byte order mark (U+FEFF). Metadata beside a
 * label may hold all of these. A label may not: label_json keeps such a value as a string that
 * begins with a zero byte, so that the functions that read labels refuse it and show what the text
 * has. Pure. */
#pragma once

#include "base/fault.h"

#include <jansson.h>
#include <stddef.h>

/* The parts (base/text/json.h) of what describes one sample. */
enum { LABEL_JSON_PARTS = 1 << 18 };

/* Parses a JSON text of at most `parts` parts. NULL with a fault that does not name its file. The
 * caller frees it with json_decref. */
json_t *label_json(const char *text, size_t size, size_t parts, struct fault *fault);

/* "an integer", "an array", ...; for a value that JSON cannot hold, the value: "NaN", "Infinity",
 * the digits of an integer beyond 63 bits, a number too large for a float64. Valid as long as
 * `value`. */
const char *label_json_type(const json_t *value);

/* Whether `value` is one that JSON cannot hold. */
int label_json_odd(const json_t *value);
