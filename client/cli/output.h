/* output: a file that is written whole or not at all.
 *
 * A regular file is written beside its place and renamed, so that nobody sees half of it and a full
 * disk leaves what was there; what is no regular file (a pipe, a device) is written as it stands.
 * Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdio.h>

/* Writes what `context` holds. 0, or a negative errno with a fault that calls the file `name`. What
 * the stream itself could not write need not be looked for. */
typedef int output_put_fn(FILE *file, const char *name, const void *context, struct fault *fault);

/* `replace`: in place of a file that is there, or of what a symbolic link leads to; else -EEXIST. 0
 * or a negative errno with a fault. */
int output_write(const char *path, bool replace, output_put_fn *put, const void *context,
	struct fault *fault);

/* Whether a file could be made there, as far as that can be told before: 0, or a negative errno
 * with a fault. */
int output_check(const char *path, struct fault *fault);
