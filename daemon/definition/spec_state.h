/* spec_state: reads and writes the state in the mapping of a definition. For spec.c; spec.h
 * declares the functions for other modules. */
#pragma once

#include "base/text/yaml.h"
#include "definition/spec.h"
#include "proto/jsontext.h"

/* A reader for struct yaml_key: takes a mapping, or a quoted text of one. `field` is a struct
 * spec_state. */
int spec_state_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* Adds "cuts": [[position, global batch], ...]. */
void spec_state_json_cuts(struct jsontext *json, const struct buckets_cuts *cuts);
void spec_state_json(struct jsontext *json, const struct spec_state *state);
