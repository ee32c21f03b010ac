/* label_rule: where a stream's labels come from, as its definition says it (key `labels:`).
 *
 *   a word                      auto, none, folder, cls, json
 *   {json: PATH}                a place in each sample's .json member (label_path.h)
 *   {manifest: FILE}            a table of paths and labels (label_manifest.h)
 *   {manifest: FILE, only: true}  the same; samples that it does not name are left out
 *   {classes: FILE}             as auto, with names for the numbers
 *   type:, classes:             beside json and manifest
 *
 * A sample's label is one class (int64, in the index's record), any number of classes (multi-hot),
 * a row of numbers, or a row of classes. All but the first are stored after the sample's name in
 * its name page and are delivered as rows of dataset_label_width values: float32, and for rows of
 * classes int64. Plain data. */
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
	/* Where the labels of an index came from, never asked for by this word: a column, a feature
	 * or a field of the container itself. */
	DATASET_LABELS_COLUMN,
};

/* What one sample's label is. */
enum label_type {
	LABEL_TYPE_AUTO, /* in a rule only: the type that is found */
	LABEL_TYPE_CLASS, /* one class, an int64; -1: none */
	LABEL_TYPE_MULTI_HOT, /* float32 row: 1 at the sample's classes, else 0 */
	LABEL_TYPE_FLOAT, /* float32 row of the sample's numbers */
	LABEL_TYPE_CLASSES, /* int64 row of K classes in their order, the same K for all samples */
};

/* Whether all samples must have the same number of values. */
static inline bool label_type_is_even(enum label_type type)
{
	return type == LABEL_TYPE_FLOAT || type == LABEL_TYPE_CLASSES;
}

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
