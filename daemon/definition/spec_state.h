/* spec_state: reads and writes the state in the mapping of a definition. For spec.c; spec.h
 * declares the functions for other modules. */
#pragma once

#include "base/yaml.h"
#include "definition/spec.h"
#include "proto/jsontext.h"

/* A reader for struct yaml_key: takes a mapping, or a quoted text of one. `field` is a struct
 * spec_state. */
int spec_state_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

void spec_state_json(struct jsontext *json, const struct spec_state *state);
