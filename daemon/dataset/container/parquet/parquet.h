/* parquet: a Parquet file, as Hugging Face's `datasets` and others write it, read in place.
 *
 * A map of this folder:
 *   parquet.[ch]            the footer: columns, and the chunks of one row group after the other
 *   thrift.[ch]             the encoding of footer and page headers
 *   schema.[ch]             the tree of columns
 *   features.[ch]           what `datasets` notes about the columns, with the names of the classes
 *   page.[ch]               the header of a page
 *   stream.[ch]             the bytes of a page, from front to back, and runs of small numbers
 *   piece.h                 the bytes of a window that can be read at once
 *   cursor.[ch]             the values of a column chunk, one after the other, with their places
 *   choice.[ch]             which columns hold image and label
 *   label.[ch]              the label of a row
 *   container_parquet.c     the container: rows become samples
 *
 * A file is: "PAR1", the column chunks of all row groups, the footer, the footer's size as 4 bytes,
 * "PAR1" (parquet-format's README.md and parquet.thrift). A chunk is a sequence of pages, each with
 * a header, and perhaps compressed. Nothing that the file says is trusted: every size is compared
 * with what is left, and memory is bounded whatever the sizes are. Row groups are read one after
 * the other from the footer, so that memory does not grow with their number. Blocks. One thread. */
#pragma once

#include "dataset/blob.h"

#include "dataset/container/parquet/schema.h"
#include "dataset/container/parquet/thrift.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PARQUET_TAIL = 8, /* the footer's size and the magic after it */
	PARQUET_LEAST = 12, /* bytes of the smallest file */
	PARQUET_FEATURES_MAX = 64 << 20, /* of the notes of `datasets` */
	PARQUET_WANTED_MAX = 16, /* columns that are read at once */
};

/* By their numbers in parquet.thrift. */
enum parquet_codec {
	PARQUET_UNCOMPRESSED,
	PARQUET_SNAPPY,
	PARQUET_GZIP,
	PARQUET_LZO,
	PARQUET_BROTLI,
	PARQUET_LZ4,
	PARQUET_ZSTD,
	PARQUET_LZ4_RAW,
	PARQUET_CODECS,
};

/* The values of one column in one row group. */
struct parquet_chunk {
	uint64_t at, end; /* of its pages in the file; within it */
	uint64_t values;
	uint8_t codec; /* enum parquet_codec */
};

struct parquet {
	const char *path; /* borrowed */
	const struct blob *blob; /* borrowed */
	uint64_t size;
	uint64_t footer; /* of its first byte */
	struct schema schema;
	uint64_t rows; /* of the whole file */
	uint64_t groups; /* row groups */
	char *features; /* the notes of `datasets`, a JSON text; NULL: none */
	size_t features_size;
	struct window window;
	struct thrift thrift; /* at the next row group */
	uint64_t group, row; /* the next one's number, and that of its first row */
};

/* Reads the footer up to its row groups. The caller calls parquet_close, also after a fault. 0;
 * -EINVAL damaged, cut off, encrypted, not Parquet; -ENOMEM; -errno of a read. */
int parquet_open(struct parquet *parquet, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault);
void parquet_close(struct parquet *parquet);

/* The next row group: how many rows it has, and the chunks of the wanted nodes, which are leaves.
 * 1; 0 after the last; negative as parquet_open. */
int parquet_group(struct parquet *parquet, const uint32_t *wanted, size_t count,
	struct parquet_chunk *ret_chunks, uint64_t *ret_rows, struct fault *fault);
