/* spec_state: the state that a definition may have: read out of its mapping, and written into it.
 * For spec.c; what others ask for is in spec.h. */
#pragma once

#include "base/yaml.h"
#include "definition/spec.h"
#include "proto/jsontext.h"

/* A reader of struct yaml_key: `field` is a struct spec_state; a mapping, or the text of one. */
int spec_state_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

void spec_state_json(struct jsontext *json, const struct spec_state *state);
