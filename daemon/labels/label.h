/* label: what a .cls or .json member says.
 *
 *   .cls    one decimal integer in ASCII, blanks and newlines around it
 *   .json   an object; the integer under "label", or where that key is missing, under "cls"
 *
 * A label is 0 to 2^31-1. -1 is refused: it marks samples without a label, and those are never
 * mixed with others. Pure; any thread. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum {
	LABEL_CLS_MAX = 64,
	LABEL_JSON_MAX = 1 << 20
}; /* bytes of a member; larger ones are no labels */

enum { LABEL_E_NONE = 1 }; /* JSON without such a key: metadata, no label */

/* 0 or -EINVAL with a fault that says what was found instead; the caller puts the member's name
 * before it. */
int label_from_cls(const char *text, size_t size, int32_t *ret, struct fault *fault);

/* 0, LABEL_E_NONE, or -EINVAL with a fault. */
int label_from_json(const char *text, size_t size, int32_t *ret, struct fault *fault);
