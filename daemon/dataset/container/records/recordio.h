/* recordio: reads the records of a RecordIO file, as MXNet, InsightFace and DALI have them, and the
 * .idx file beside it.
 *
 * A record is a header of 8 bytes (a magic number; 3 bits that say which part of a record this is,
 * and 29 bits with its length) and its bytes, padded to a multiple of 4. A writer that meets the
 * magic number itself at a multiple of 4 within the record leaves it out and begins another part
 * there, so that a reader can find its way after damage. About eight of ImageNet's images are
 * divided in this way. (dmlc-core, src/recordio.cc.)
 *
 * A record of images begins with MXNet's IRHeader of 24 bytes: flag, label, id, id2. If the flag is
 * above 0, that many float32 labels follow it, and the label in it is not used. The image is the
 * rest. (mxnet, python/mxnet/recordio.py.)
 *
 * X.idx has a line for each record of X.rec: a key, a tab, the byte where the record begins.
 *
 * Everything read from either file is checked against its size. Blocks. One thread per reader. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECORDIO_MAGIC_BYTES = 4,
	RECORDIO_HEAD = 8, /* of a part */
	RECORDIO_IR = 24, /* of an IRHeader */
	RECORDIO_KEY_MAX = 255, /* bytes of a key in an .idx file */
};
#define RECORDIO_MAGIC UINT32_C(0xced7230a)

struct recordio_record {
	uint64_t at; /* of its first header */
	uint64_t stored; /* bytes from `at` to its last one, without padding */
	uint64_t next; /* of what follows it */
	uint64_t size; /* of its bytes, with its parts joined */
	uint32_t parts;
};

/* What a record says about its image, which begins after `skip` bytes. */
struct recordio_image {
	uint64_t id;
	uint32_t flag;
	uint32_t skip;
	float label; /* of the header; only if `flag` is 0 */
};

struct recordio {
	struct window window;
};

void recordio_init(
	struct recordio *reader, const struct blob *blob, const char *path, uint64_t size);
void recordio_deinit(struct recordio *reader);

/* Reads the headers of the record that begins at byte `at`. 1; 0: the file ends there; -EINVAL: it
 * is not a record, or is cut off, with a fault that names byte and record; -ENOMEM; -errno. */
int recordio_at(
	struct recordio *reader, uint64_t at, struct recordio_record *ret, struct fault *fault);

/* Copies `size` bytes of the record's joined parts, from its byte `from` on, which exist. 0 or as
 * recordio_at. */
int recordio_copy(struct recordio *reader, const struct recordio_record *record, uint64_t from,
	void *to, size_t size, struct fault *fault);

/* Reads the record's IRHeader. 0; -EINVAL: the record is too short for it or for its labels; or as
 * recordio_at. */
int recordio_image(struct recordio *reader, const struct recordio_record *record,
	struct recordio_image *ret, struct fault *fault);

/* One line of an .idx file. */
struct recordio_line {
	uint64_t at; /* of the line in the .idx file */
	uint64_t record; /* byte of the .rec file */
	size_t key_size;
	char key[RECORDIO_KEY_MAX + 1];
};

struct recordio_idx {
	struct window window;
	uint64_t next, number; /* of lines */
};

void recordio_idx_init(
	struct recordio_idx *idx, const struct blob *blob, const char *path, uint64_t size);
void recordio_idx_deinit(struct recordio_idx *idx);

/* The next line that is not empty: 1; 0 at the end; -EINVAL: not a line of the form above; -ENOMEM;
 * -errno. */
int recordio_idx_next(struct recordio_idx *idx, struct recordio_line *ret, struct fault *fault);
