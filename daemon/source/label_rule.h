/* label_rule: where a stream's labels come from, as its definition says it (key `labels:`).
 *
 *   a word                      dataset.h: auto, none, folder, cls, json
 *   {json: PATH}                a place in each sample's .json member (label_path.h)
 *   {manifest: FILE}            a table of paths and labels (label_manifest.h)
 *   {classes: FILE}             as auto, with names for the numbers
 *   type:, classes: beside json and manifest
 *
 * A sample's label is one class (int64, in the index's record), any number of classes (multi-hot)
 * or a row of numbers. The last two lie behind the sample's name in its name page and come out as
 * float32 rows of dataset_label_width values. Plain data. */
#pragma once

#include "source/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum { LABEL_RULE_TEXT = 4096 };

struct label_rule {
	enum dataset_labels from;
	enum label_type type; /* LABEL_TYPE_AUTO: what is found says it */
	char json[LABEL_RULE_TEXT]; /* with DATASET_LABELS_PATH */
	char manifest[LABEL_RULE_TEXT]; /* with DATASET_LABELS_MANIFEST */
	char classes[LABEL_RULE_TEXT]; /* "": none */
};

/* Whether a word says it all: datasets are then indexed as they always were. */
static inline bool label_rule_plain(const struct label_rule *rule)
{
	return rule->from <= DATASET_LABELS_JSON && rule->type == LABEL_TYPE_AUTO &&
	       !rule->classes[0];
}
