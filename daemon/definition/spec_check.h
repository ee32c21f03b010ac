/* spec_check: what the keys of a definition must satisfy together, and what follows from them. For
 * spec.c, which knows where in a text a key is, and for the command line, which knows its options.
 * Pure. */
#pragma once

#include "definition/spec.h"

/* What is wrong with a definition. The sentence begins with the name of the key in most cases, and
 * has no place in a text. */
struct spec_wrong {
	int key; /* enum spec_key; SPEC_KEYS: the definition as a whole */
	enum spec_place { SPEC_AT_KEY, SPEC_AT_VALUE, SPEC_AT_LAST_ITEM } place;
	char text[FAULT_TEXT];
};

/* Judges the keys that `spec->given` marks, and fills in what they imply; once for each definition.
 * 0 or -EINVAL. */
int spec_settle(struct stream_spec *spec, struct spec_wrong *ret);
