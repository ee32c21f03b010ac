/* label_keys: the key `labels` of a stream, a word or a mapping (labels/label_rule.h).
 *
 *   labels: cls
 *   labels: {json: annotations.species.id, classes: /data/species.txt}
 *   labels: {manifest: /data/labels.csv, type: multi_hot}
 *   labels: {manifest: /data/train.csv, only: true}
 *
 * A mapping may also be written as a quoted text, as on a command line. Pure functions over the
 * caller's text; any thread. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "labels/label_rule.h"
#include "proto/jsontext.h"

#include <stdbool.h>

/* A reader for struct yaml_key: `field` is a struct label_rule, which is written only on success.
 * Paths of files must be absolute. 0, -EINVAL or -ENOMEM. */
int label_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same for the text of an option, where paths may be relative. Messages call it `origin`:
 * "--labels". */
int label_keys_parse(
	const char *text, const char *origin, struct label_rule *ret, struct fault *fault);

/* Writes a word, or a mapping with the keys that were given. */
void label_keys_json(struct jsontext *json, const char *key, const struct label_rule *rule);

bool label_keys_equal(const struct label_rule *a, const struct label_rule *b);
