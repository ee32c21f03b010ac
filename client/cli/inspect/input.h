/* input: the bytes of one image that a person names: a file, `-` for stdin, or SHARD!MEMBER as
 * `check` and `replay` print it. Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { INPUT_SLACK = 64 }; /* readable bytes behind an image's last, as the decoder asks */

struct input {
	uint8_t *data;
	size_t size;
};

/* Reads all of it, at most `limit` bytes. 0; -EFBIG beyond the limit; another negative errno; each
 * with a fault. A file whose very name holds a `!` goes before a shard. */
int input_read(const char *name, uint64_t limit, struct input *ret, struct fault *fault);
void input_free(struct input *input);

/* Whether a file is the one that a name is read from, the shard of a member included. */
bool input_is(const char *name, const struct stat *file);

/* What a picture made of it is called, without extension: the last part of the name, "stdin" for
 * `-`. Writes into `buffer` and returns it. */
const char *input_base(const char *name, char *buffer, size_t room);
