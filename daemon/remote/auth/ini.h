/* ini: the files ~/.aws/credentials and ~/.aws/config, line by line. ("AWS SDKs and Tools Reference
 * Guide: Shared config and credentials files".)
 *
 * [SECTION] and KEY = VALUE; # and ; begin a comment at the beginning of a line, and after a blank.
 * Indented lines belong to the value above them (settings of one service) and are passed over. No
 * sentence shows a line of the file, which may be a secret. Pure; any thread. */
#pragma once

#include "base/fault.h"

#include <stddef.h>

/* `key` is in lower case. A negative errno stops the reader, which returns it. */
typedef int ini_take_fn(void *context, const char *section, const char *key, const char *value);

/* `text` has `size` bytes and a zero after them, and is changed while it is read. `path` is for the
 * sentence. 0; -EINVAL with "path:line: ..."; what `take` returned. */
int ini_read(char *text, size_t size, const char *path, ini_take_fn *take, void *context,
	struct fault *fault);
