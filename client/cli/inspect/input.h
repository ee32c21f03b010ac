/* input: reads the bytes of one image that a user names: a file, `-` for standard input, or
 * SHARD!MEMBER as `check` and `replay` print it. Main thread.
 *
 * A map of this folder:
 *   cache.c             penstock cache: what is kept of remote data
 *   check.c             penstock check: what a dataset is, and which images are broken
 *   machine.[ch]        what this machine offers a loader, for check and plan
 *   decode.c            penstock decode: writes single images
 *   input.[ch]          this: the bytes of one image that a user names
 *   headline.[ch]       what the header of an image says
 *   show.c              penstock show: a batch as an image
 *   contact_sheet.[ch]  draws the batch
 *   show_sample.[ch]    penstock show --sample: one sample after each operation
 *   step_sheet.[ch]     draws that sample
 *   sheet_style.h       what both drawings have in common
 *   replay.c            penstock replay: makes rows of a batch again
 *   plan.c              penstock plan: what every rank of a job will get
 *   plan_reads.[ch]     what its nodes will read of storage
 *   state.c             penstock state: describes a state, and whether a stream can resume from it
 *   resume.[ch]         reads, describes and compares a state, for state and plan */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { INPUT_SLACK = 64 }; /* readable bytes after an image's last one, for the decoder */

struct input {
	uint8_t *data;
	size_t size;
};

/* Reads the whole image, at most `limit` bytes. 0; -EFBIG: more than the limit; or another negative
 * errno; each with a fault. A file whose name holds a `!` takes precedence over a shard. */
int input_read(const char *name, uint64_t limit, struct input *ret, struct fault *fault);
void input_free(struct input *input);

/* Whether a name is read from this file; for a member, whether this file is its shard. */
bool input_is(const char *name, const struct stat *file);

/* The name for an image made from it, without extension: the last part of the name, "stdin" for
 * `-`. Writes into `buffer` and returns it. */
const char *input_base(const char *name, char *buffer, size_t room);
