/* why: what `penstock why` found, for why.c, which finds it and tells people, and why_json.c, which
 * tells machines. Main thread. */
#pragma once

#include "client/cli/watch/why/story.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

#define WHY_SECOND_NS 1000000000ull

struct why_file {
	char path[PATH_MAX];
	struct record *records;
	struct story story;
	bool told;
};

struct why {
	const char *given; /* --folder */
	bool json, all;
	int32_t pid; /* 0: not asked for */
	const char *named; /* a file */

	char folder[PATH_MAX];
	char boot_id[64];
	struct utsname machine;
	struct why_file *file; /* newest first */
	size_t files, found; /* found: ends to tell */
	size_t kept; /* while files are read: so many are, at the front of `file` */
	int width;
};

/* Whether this end was asked for, and how many of a story's were. */
bool why_tells(const struct why *why, const struct story_end *end);
size_t why_count(const struct why *why, const struct story *story);

/* Prints all as one JSON object; an exit code. */
int why_machine(const struct why *why);
