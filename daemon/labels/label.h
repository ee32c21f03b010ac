/* label: the number in a .cls or .json member.
 *
 *   .cls    one decimal integer in ASCII, with blanks and newlines around it
 *   .json   an object; the integer under "label", or if that key is missing, under "cls"
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
}; /* bytes of a member; a larger one is not a label */

enum { LABEL_E_NONE = 1 }; /* JSON without such a key is metadata */

/* 0, or -EINVAL with a fault that says what was found instead. The fault does not name the
 * member. */
int label_from_cls(const char *text, size_t size, int32_t *ret, struct fault *fault);

/* 0, LABEL_E_NONE, or -EINVAL with a fault. */
int label_from_json(const char *text, size_t size, int32_t *ret, struct fault *fault);
