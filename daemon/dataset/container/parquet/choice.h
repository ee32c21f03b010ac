/* choice: which columns of a Parquet file hold a sample's image, name, label and fields.
 *
 * The image is the column that was named; or else the only one that `datasets` calls an Image; or
 * else the only structure with binary `bytes`; or else the only binary column. Its bytes are the
 * column itself, or the child `bytes` of a structure, whose child `path` then names the sample. The
 * label is the column that was named; or else the only ClassLabel, or of several the one called
 * "label"; or else a column with one of the usual names. Pure. */
#pragma once

#include "dataset/column_choice.h"
#include "dataset/container/parquet/features.h"
#include "dataset/container/parquet/parquet.h"
#include "dataset/fields.h"

struct choice {
	uint32_t image; /* the leaf of the bytes */
	uint32_t path; /* the leaf of the names, or SCHEMA_NONE */
	uint32_t label; /* its leaf, or SCHEMA_NONE */
	/* If the label is a list, the definition level from which on it has an element; otherwise
	 * 0. */
	uint32_t list;
	const json_t *classes; /* borrowed from the features, or NULL */
	uint32_t field[FIELDS_MAX]; /* leaves */
};

/* `labelled`: the label is wanted. 0, or -EINVAL with the columns that the file has. */
int choice_make(const struct parquet *parquet, const struct features *features,
	const struct column_choice *columns, const struct field_list *fields, bool labelled,
	struct choice *ret, struct fault *fault);
