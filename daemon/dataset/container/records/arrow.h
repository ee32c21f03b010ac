/* arrow: the rows of an Arrow IPC file or stream, of which LitData makes its chunks where rows
 * hold only bytes, texts and numbers.
 *
 *   "ARROW1\0\0" (a file only), messages, u32 0xffffffff 0, (a file only: a footer)
 *   message: u32 0xffffffff, u32 size, a FlatBuffer, its body
 *
 * The first message is the schema, a tree of fields; each of the others has rows of all of them,
 * as buffers of its body (arrow.apache.org/docs/format/Columnar.html; Schema.fbs and
 * Message.fbs). The footer repeats where the messages are, and is not read. A leaf of the tree is
 * a column, whose name is its path with slashes. Columns of bytes and texts give ranges of bytes
 * of the shard, numbers and lists of numbers as well, and all of them may be compressed
 * (Zstandard). Other types are passed over. Refused: dictionaries, view types, big-endian files,
 * and LZ4.
 *
 * Only the buffers of the columns that are asked for are read, a piece at a time: memory does not
 * grow with rows. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/records/columns.h"

#include <stdint.h>

struct arrow;

/* Reads the schema of `size` bytes at byte `begin` of the shard; the columns are in *ret_columns,
 * whose array the arrow owns. 0; -EINVAL; -ENOMEM; -errno. The caller calls arrow_free in all
 * cases. */
int arrow_open(const struct index_job *job, uint64_t begin, uint64_t size, uint64_t rows,
	struct arrow **ret, struct columns *ret_columns, struct fault *fault);
void arrow_free(struct arrow *arrow); /* takes NULL */

/* Its rows, of which it must have as many as were said. `context` is the arrow. */
int arrow_find(void *context, uint64_t row, uint32_t column, struct columns_value *ret,
	struct fault *fault);
int arrow_read(void *context, const struct columns_value *value, uint64_t from, size_t size,
	const uint8_t **ret, struct fault *fault);

/* Called after the last row: 0, or -EINVAL if there are more rows or no end. */
int arrow_end(struct arrow *arrow, struct fault *fault);
