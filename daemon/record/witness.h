/* witness: the process beside the daemon that keeps the flight recorder.
 *
 * It is forked before the daemon has any thread, and is told by datagrams (struct record) over a
 * socket pair what happens; the daemon never waits for it: what does not fit into the socket is
 * dropped and counted. Once a second, by its own clock, it looks at the memory of the daemon and of
 * every trainer that attached, at the cgroups, at PSI and at NVIDIA's devices, writes that into the
 * ring, and sends the same records back. It holds a pidfd of each; when one ends it notes how. It
 * ends after the daemon has, when it has noted that too, and does not outlive it by more than a
 * second; SIGTERM and SIGINT, which a whole process group gets, it leaves to the daemon.
 *
 * Who fills what: the daemon tells what only it knows, the witness what only the kernel does.
 *   START    the daemon: threads, cpus, budget, version, socket, config; the witness: the rest
 *   ATTACH   the daemon: trainer, pid, stream, source, group, batch_size, rank, world_size; the
 *            witness: the rest. A trainer has one for each stream that it opens
 *   DAEMON, TRAINER  the daemon tells its numbers each second; the witness keeps the newest and
 *            writes them, with memory, CPU and GPU, when it samples: a daemon that hangs is seen by
 *            numbers that stay the same
 *   LEAVE, END, NOTE the daemon alone
 *   EXIT, MACHINE, GPU, and the NOTEs that come back: the witness alone
 * What comes back: START, once it is in the file, ATTACH, DAEMON, TRAINER, MACHINE, GPU, EXIT, and
 * NOTE for whoever runs the daemon. While no trainer is attached only every tenth second is
 * written, so that an idle daemon keeps what it saw last.
 *
 *   witness.[ch]   this door, in the daemon
 *   keeper.[ch]    the process
 *   attic.[ch]     the folder of files */
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
	unsigned keep; /* files in the folder, this one too: older ones go, those of daemons that
			  live excepted */
	/* Called by the process itself when it has set itself apart, to bind it. May be NULL. */
	void (*confine)(void *context);
	void *confine_context;
};

/* Forks, and waits until the process has closed all that it inherited. To be called before any
 * thread exists. 0, or a negative errno with a fault; the daemon
 * then goes on without one. That no file can be made is no fault here: it comes back as a NOTE, the
 * witness measures all the same, and tries again. */
int witness_start(const struct witness_options *options, struct witness **ret, struct fault *fault);

/* Tells it something; `pidfd` (or -1) goes along with RECORD_ATTACH. `time_ns` 0 becomes now. Never
 * blocks. Event loop. NULL hears nothing. */
void witness_tell(struct witness *witness, const struct record *record, int pidfd);

/* What it measured, one record at a time: true and a record, or false when there is none now. To be
 * read whenever witness_fd is readable; when it has died, witness_gone is true then. */
bool witness_hear(struct witness *witness, struct record *ret);
int witness_fd(const struct witness *witness); /* -1 when it is gone */

/* Whether it has died; `ret_text` says how, where that is known. Reaps it. */
bool witness_gone(struct witness *witness, char *ret_text, size_t room);

pid_t witness_pid(const struct witness *witness);
const char *witness_path(const struct witness *witness); /* the file */
uint64_t witness_dropped(const struct witness *witness); /* records that did not fit */

/* Tells it that the daemon ends, and why (NULL: it was told before); frees. The process goes by
 * itself. NULL is nothing. */
void witness_end(struct witness *witness, const char *why);
