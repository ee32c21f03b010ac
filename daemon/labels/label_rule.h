/* label_rule: where a stream's labels come from, as its definition says it (key `labels:`).
 *
 *   a word                      auto, none, folder, cls, json
 *   {json: PATH}                a place in each sample's .json member (label_path.h)
 *   {manifest: FILE}            a table of paths and labels (label_manifest.h)
 *   {manifest: FILE, only: true}  the same; samples that it does not name are left out
 *   {classes: FILE}             as auto, with names for the numbers
 *   type:, classes:             beside json and manifest
 *
 * A sample's label is one class (int64, in the index's record), any number of classes (multi-hot)
 * or a row of numbers. The last two are stored after the sample's name in its name page and are
 * delivered as float32 rows of dataset_label_width values. Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LABEL_RULE_TEXT = 4096, LABEL_WIDTH_MAX = 65536 };
/* Bytes of a sample's name, and of its name with its label: what one page of an index
 * (dataset/index.h) holds. */
enum { LABEL_NAME_MAX = 4000, LABEL_NAME_ROOM = 4080 };

enum dataset_labels {
	DATASET_LABELS_AUTO, /* class folders, .cls, .json, or none */
	DATASET_LABELS_NONE, /* every label is -1 */
	DATASET_LABELS_FOLDER, /* asked for explicitly: an error if there are none */
	DATASET_LABELS_CLS,
	DATASET_LABELS_JSON, /* member .json, key "label", else "cls" */
	DATASET_LABELS_PATH, /* member .json, a path into it: label_rule.h */
	DATASET_LABELS_MANIFEST, /* a file that names every sample */
};

/* What one sample's label is. */
enum label_type {
	LABEL_TYPE_AUTO, /* in a rule only: the type that is found */
	LABEL_TYPE_CLASS, /* one class, an int64; -1: none */
	LABEL_TYPE_MULTI_HOT, /* float32 row: 1 at the sample's classes, else 0 */
	LABEL_TYPE_FLOAT, /* float32 row of the sample's numbers */
};

struct label_rule {
	enum dataset_labels from;
	enum label_type type; /* AUTO: the type that is found */
	char json[LABEL_RULE_TEXT]; /* with DATASET_LABELS_PATH */
	char manifest[LABEL_RULE_TEXT]; /* with DATASET_LABELS_MANIFEST */
	bool only; /* the manifest chooses the samples */
	char classes[LABEL_RULE_TEXT]; /* "": none */
};

/* Whether the rule is a single word: indexes then do not depend on it. */
static inline bool label_rule_plain(const struct label_rule *rule)
{
	return rule->from <= DATASET_LABELS_JSON && rule->type == LABEL_TYPE_AUTO &&
	       !rule->classes[0];
}
