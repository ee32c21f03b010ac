/* why: what happened to trainers and to the daemon, as `penstock why` reports it.
 *
 * A map of this folder:
 *   why.[ch]        the command line, and the report for people
 *   why_files.c     finds and reads the recorder's files, and chooses which ends are shown
 *   why_json.c      the report as JSON
 *   story.[ch]      records of the flight recorder -> one end per process: the door to all below
 *   timeline.[ch]   the samples of one process -> the numbers that matter
 *   cause.[ch]      how a process ended and what surrounded that -> one cause, and how sure it is
 *   phrase.[ch]     the sentence that says what happened
 *   detail.[ch]     what the process was and what led to its end, one line per matter
 *   advice.[ch]     what to do about it
 *   words.[ch]      names and numbers that phrase, detail and advice share
 *
 * `penstock why` needs no daemon: people run it when the daemon is gone. Main thread. */
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
	int32_t pid; /* the process that the user asked about; 0: none */
	const char *named; /* the file that the user named; NULL: none */

	char folder[PATH_MAX];
	char boot_id[64];
	struct utsname machine;
	struct why_file *file; /* newest first */
	size_t files;
	size_t found; /* ends to report */
	size_t kept; /* files read so far; they stand at the front of `file` */
	int width;
};

/* Lists the files to read: the named one, or all of the folder. Returns an exit code. */
int why_find_files(struct why *why);

/* Reads files, newest first, until it has found what the user asked for. Returns an exit code. */
int why_search(struct why *why);

void why_forget(struct why_file *file);

/* Whether the user asked for this end. */
bool why_tells(const struct why *why, const struct story_end *end);

/* How many ends of the story the user asked for. */
size_t why_count(const struct why *why, const struct story *story);

/* Prints everything as one JSON object. Returns an exit code. */
int why_machine(const struct why *why);
