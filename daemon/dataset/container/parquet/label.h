/* label: the label of a row of a Parquet file.
 *
 *   integers, booleans           one class; -1, as `datasets` writes it, and null: no label
 *   lists of integers            classes, each once
 *   numbers with a fraction      a row of one number
 *   lists of them                a row of numbers
 *
 * Reads through a cursor, one row after the other; blocks. */
#pragma once

#include "dataset/container/parquet/cursor.h"
#include "labels/label_value.h"

struct label_reader {
	struct cursor *cursor; /* borrowed */
	uint32_t list; /* see struct choice */
	int32_t offset; /* is added to one class */
	uint64_t classes; /* that have names; 0: their number is unknown */
	struct cursor_value ahead; /* the first value of the next row, of a list */
	bool has_ahead;
};

/* Begins the cursor's next chunk. */
void label_begin(struct label_reader *reader);

/* Reads the label of the next row. *ret_found: it has one. 0; -EINVAL: the values end, or this one
 * is not a label; or as cursor_next. `row` is for faults. */
int label_next(struct label_reader *reader, uint64_t row, struct label_found *found,
	bool *ret_found, struct fault *fault);

/* -EINVAL if the chunk has values for more rows. */
int label_end(struct label_reader *reader, struct fault *fault);
