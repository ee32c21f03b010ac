/* witness: the process beside the daemon that keeps the flight recorder.
 *
 * It is forked before the daemon has any thread, and is told by datagrams (struct record) over a
 * socket pair what happens; the daemon never waits for it: what does not fit into the socket is
 * dropped and counted. Once a second it looks at the memory of the daemon and of every trainer that
 * attached, at the cgroups, at PSI and at NVIDIA's devices, writes that into the ring, and sends
 * the same records back. It holds a pidfd of each; when one ends it notes how. It ends after the
 * daemon has, when it has noted that too, and does not outlive it by more than a second; SIGTERM
 * and SIGINT, which a whole process group gets, it leaves to the daemon. */
#pragma once

#include "base/fault.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct witness;

struct witness_options {
	const char *folder; /* NULL: $XDG_STATE_HOME/penstock, else ~/.local/state/penstock */
	uint64_t bytes; /* of the file */
	unsigned keep; /* files of earlier daemons that stay in the folder, the newest; older ones
			  go */
};

/* Forks. To be called before any thread exists. 0, or a negative errno with a fault; the daemon
 * then goes on without one. */
int witness_start(const struct witness_options *options, struct witness **ret, struct fault *fault);

/* Tells it something; `pidfd` (or -1) goes along with RECORD_ATTACH. Never blocks. Event loop. */
void witness_tell(struct witness *witness, const struct record *record, int pidfd);

/* What it measured, one record at a time: true and a record, or false when there is none now. To be
 * read whenever witness_fd is readable. */
bool witness_hear(struct witness *witness, struct record *ret);
int witness_fd(const struct witness *witness);

pid_t witness_pid(const struct witness *witness);
const char *witness_path(const struct witness *witness); /* the file */
uint64_t witness_dropped(const struct witness *witness); /* records that did not fit */

/* Tells it that the daemon ends, and why; frees. The process goes by itself. NULL is nothing. */
void witness_end(struct witness *witness, const char *why);
