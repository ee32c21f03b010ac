/* records: containers that hold one record after another: TFRecord, MDS and LitData.
 *
 * A map of this folder:
 *   records.[ch]           what these containers share: labels, names, files beside a shard
 *   container_tfrecord.c   TFRecord: records of tf.Example
 *   example.[ch]           reads a tf.Example, which is a protobuf, without copying it
 *   container_mds.c        MosaicML's MDS: the header of a shard, and index.json
 *   container_litdata.c    LitData: index.json, and the chunks that it names
 *   columns.[ch]           the items of MDS and LitData: which column is what, and where it is
 *   arrow.[ch]             the rows that LitData stores as Arrow: its messages, columns and buffers
 *   frames.[ch]            the items of LitData where they are compressed
 *   flat.[ch]              reads FlatBuffers, which Arrow's messages are
 *   aside.[ch]             unpacks parts of a shard into a file, while it is indexed
 *   index_json.[ch]        the index.json of MDS and LitData
 *   array.[ch]             arrays of numbers in such columns
 *   container_recordio.c   RecordIO: MXNet's records of images
 *   recordio.[ch]          reads RecordIO files and the .idx files beside them
 *
 * Blocks on the file system. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many first bytes of a file say what type of image it is. */
enum { RECORDS_IMAGE_HEAD = 16 };

/* Whether bytes begin like an image of a type that penstock may read; *ret_format is then its enum
 * sample_format. Pure. */
bool records_image(const uint8_t *bytes, size_t size, uint8_t *ret_format);

/* Called before the first sample: says in the index's head where labels come from as long as the
 * container has none. */
void records_begin(const struct index_job *job);

/* Whether the container itself must look for labels. */
bool records_labelled(const struct index_job *job);

/* Puts one class, after adding the label offset, into job->found. `row` is the sample's number in
 * the shard, for faults. 0 or -EINVAL. */
int records_class(const struct index_job *job, uint64_t row, int64_t value, struct fault *fault);

/* The same for a row of numbers: begins it with job->found, and adds one number. */
int records_number(const struct index_job *job, uint64_t row, double value, struct fault *fault);

/* Reads the whole file `name` in the folder of the file `path` (beside.h). 1 and an allocated text
 * with a zero byte after it; 0: it does not exist; -EINVAL if it has more than `most` bytes or is
 * not a regular file; -errno. */
int records_beside(const char *path, const char *name, size_t most, char **ret, size_t *ret_size,
	struct fault *fault);

/* The name of a sample that has none: its row, in decimal. Returns its size. */
enum { RECORDS_ROW = 24 };
size_t records_row(uint64_t row, char ret[RECORDS_ROW]);

/* Little-endian numbers, as all of these formats have them. */
static inline uint32_t records_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

static inline uint64_t records_u64(const uint8_t *bytes)
{
	return records_u32(bytes) | (uint64_t)records_u32(bytes + 4) << 32;
}
