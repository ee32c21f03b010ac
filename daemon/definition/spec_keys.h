/* spec_keys: the table of proto/keys.h, in the form that yaml.h needs. */
#pragma once

#include "base/text/yaml.h"
#include "definition/spec.h"

extern const struct yaml_key spec_keys[SPEC_KEYS];

struct spec_who {
	/* The configuration and clients, but not beside `stream:`; the same, also beside it;
	 * clients only, also beside it. */
	enum spec_writer { SPEC_DEFINITION, SPEC_READER, SPEC_CLIENT } writer;
	/* Whether all trainers of a group must use the same value. */
	enum { SPEC_OWN, SPEC_SAME } alike;
	bool plain; /* the default of a flag */
};

extern const struct spec_who spec_who[SPEC_KEYS];

/* Whether the key has the same effect in both definitions. */
bool spec_keys_equal(enum spec_key key, const struct stream_spec *a, const struct stream_spec *b);
