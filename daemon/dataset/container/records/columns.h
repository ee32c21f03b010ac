/* columns: the items of MDS and LitData, which are alike.
 *
 *   shard: u32 count, (count + 1) x u32 the bytes at which the items begin and the last one ends,
 *          perhaps something else, the items
 *   item:  u32 size of each column whose size is not fixed, the columns
 *
 * The image is `image_column`, or else the only column of images, or else the only column of bytes
 * whose first value begins like an image. The label is `label_column`, or else the column "label",
 * "class", "cls" or "y", or else, where columns have no names, the only column of integers.
 * Integers are classes; other numbers, and arrays of any numbers, are rows of numbers. Blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/container/records/array.h"
#include "dataset/container/records/records.h"

#include <stdbool.h>
#include <stdint.h>

enum { COLUMNS_MAX = 1024, COLUMN_ENCODING = 48 };

enum column_kind {
	COLUMN_OTHER, /* only for fields */
	COLUMN_IMAGE, /* a file of some image type */
	COLUMN_BYTES, /* perhaps one */
	COLUMN_PIL, /* u32 width, height, size of the mode; the mode; pixels */
	COLUMN_ARRAY,
	COLUMN_NUMBER,
	COLUMN_TEXT_INT, /* an integer in decimal */
	COLUMN_BIT, /* one bit of a byte; not for fields */
	COLUMN_APART, /* its values are not ranges of bytes; for nothing */
};

struct column {
	char name[COLUMN_NAME_MAX + 1];
	char encoding[COLUMN_ENCODING]; /* for faults */
	enum column_kind kind;
	uint32_t fixed; /* bytes; 0: each item says it */
	enum number number; /* of NUMBER */
	struct array_type array; /* of ARRAY */
};

struct columns {
	struct column *at;
	uint32_t count;
	bool unnamed; /* the columns are numbered */
};

/* Where the items of a shard are. */
struct columns_table {
	uint64_t offsets; /* the place of the first of count + 1 offsets */
	uint32_t count;
	uint64_t begin; /* the first byte that an item may have */
};

/* Where the value of one column of one row is. */
struct columns_value {
	uint64_t offset; /* in the shard, of its bytes or of what they are packed in */
	uint32_t size; /* unpacked */
	bool absent; /* the row has none */
	uint8_t bit; /* of the byte, of BIT */
	struct packed packed;
	uint64_t aside; /* the source's own: where its bytes are while it is read */
};

/* Rows that are stored in another way than items. */
struct columns_source {
	void *context;
	/* Finds the value of a column; rows follow each other, columns do not. 0 or as `index`. */
	int (*find)(void *context, uint64_t row, uint32_t column, struct columns_value *ret,
		struct fault *fault);
	/* Points *ret to bytes of a value, valid until the next call; the value has that many. */
	int (*read)(void *context, const struct columns_value *value, uint64_t from, size_t size,
		const uint8_t **ret, struct fault *fault);
};

/* Copies a name and an encoding. */
void column_name(struct column *column, const char *name, const char *encoding);

/* Writes the samples of a shard into its index. 0, or as struct container says of `index`. */
int columns_index(const struct index_job *job, const struct columns *columns,
	const struct columns_table *table, struct fault *fault);

/* The same for `count` rows from elsewhere. */
int columns_rows(const struct index_job *job, const struct columns *columns,
	const struct columns_source *source, uint64_t count, struct fault *fault);
