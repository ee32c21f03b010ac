/* output: writes a file whole or not at all.
 *
 * A regular file is written under a temporary name and then renamed, so that no partial file
 * appears and a full disk leaves the old file as it was. A pipe or a device is written to
 * directly. Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdio.h>

/* Writes what `context` holds. 0, or a negative errno with a fault that names the file `name`. It
 * need not check the stream for write errors. */
typedef int output_put_fn(FILE *file, const char *name, const void *context, struct fault *fault);

/* With `replace` an existing file, or the file that a symbolic link leads to, is replaced; without
 * it that is -EEXIST. 0, or a negative errno with a fault. */
int output_write(const char *path, bool replace, output_put_fn *put, const void *context,
	struct fault *fault);

/* Whether the file can probably be written, asked before the work begins: 0, or a negative errno
 * with a fault. */
int output_check(const char *path, struct fault *fault);
