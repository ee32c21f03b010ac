/* spec_check: checks the keys of a definition together, and sets the values that they imply.
 * Used by spec.c, which knows where a key is in a text, and by the command line, which knows its
 * options. Pure functions. */
#pragma once

#include "definition/spec.h"

/* The fault of a definition. Its sentence usually begins with the name of the key, and names no
 * place in a text. */
struct spec_wrong {
	int key; /* enum spec_key; SPEC_KEYS: the definition as a whole */
	enum spec_place { SPEC_AT_KEY, SPEC_AT_VALUE, SPEC_AT_LAST_ITEM } place;
	char text[FAULT_TEXT];
};

/* Checks the keys that `spec->given` marks, and fills in the values that they imply. Call it
 * once for each definition. 0 or -EINVAL. */
int spec_settle(struct stream_spec *spec, struct spec_wrong *ret);
