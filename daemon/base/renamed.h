/* renamed: options and YAML keys that once had another name.
 *
 * An old name keeps working: it means what the new one means. Help and manual show the new name
 * only, and a program that meets an old one says so in one line (renamed_say). A command line or a
 * mapping that has both is refused. To rename an option or a key, add a line to renamed.c.
 *
 * Any thread; pure. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>

struct renamed {
	const char *old, *name; /* options without their dashes */
};

/* Both end with a NULL. */
enum { RENAMED_MAX = 8 }; /* in either */
extern const struct renamed renamed_options[], renamed_keys[];

/* Today's name of what was once called `old`; NULL where nothing was. */
const char *renamed_name(const struct renamed *table, const char *old);

/* Writes "--no-checkpoints is the old name of --no-entry-points; use the new name". `dashes` is
 * what both begin with. Returns ret->text. */
const char *renamed_say(const char *dashes, const char *old, const char *name, struct fault *ret);

/* Whether a command line has the option `name` itself ("--name" or "--name=..."). */
bool renamed_beside(int argc, char *const *argv, const char *name);
