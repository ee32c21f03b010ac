/* field_keys: the key `fields` of a stream, a list of what is delivered beside each image
 * (dataset/fields.h).
 *
 *   fields: [txt, json]
 *   fields: [txt, {name: npy, max: 4096, long: cut, missing: empty}]
 *
 * A single name may stand for a list of one. Pure functions over the caller's text; any thread. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "dataset/fields.h"
#include "proto/jsontext.h"

/* A reader for struct yaml_key: `field` is a struct field_list, which is written only on success.
 * 0 or -EINVAL. */
int field_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same for the text of an option. Messages call it `origin`: "--fields". */
int field_keys_parse(
	const char *text, const char *origin, struct field_list *ret, struct fault *fault);

/* Writes a list of mappings, with every key. */
void field_keys_json(struct jsontext *json, const char *key, const struct field_list *list);
