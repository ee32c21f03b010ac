/* witness: the process next to the daemon that keeps the flight recorder.
 *
 * The daemon forks it before it has any thread, and tells it what happens by datagrams (struct
 * record) over a socket pair. The daemon never waits for it: datagrams that do not fit into the
 * socket are dropped and counted. Once a second, by its own clock, the witness samples the memory
 * of the daemon and of every attached trainer, the cgroups, PSI and NVIDIA's devices, writes that
 * into the ring, and sends the same records back. It holds a pidfd of each process, and records how
 * it ends. The witness ends after the daemon, when it has recorded that end too, at most a second
 * later. It ignores SIGTERM and SIGINT, which may be sent to the whole process group.
 *
 * The daemon fills in what only it knows, the witness what only the kernel knows:
 *   START            daemon: threads, cpus, budget, version, socket, config; witness: the rest
 *   ATTACH           daemon: trainer, pid, stream, source, group, batch_size, rank, world_size;
 *                    witness: the rest. One for each stream that a trainer opens
 *   DAEMON, TRAINER  the daemon sends its numbers each second; the witness keeps the newest and
 *                    writes them, with memory, CPU and GPU, when it samples. So numbers that stay
 *                    the same show a daemon that hangs
 *   LEAVE, END       daemon
 *   EXIT, MACHINE, GPU  witness
 *   NOTE             daemon, or witness
 * The witness sends back START, once it is in the file, ATTACH, DAEMON, TRAINER, MACHINE, GPU, EXIT
 * and its own NOTEs, which are meant for the operator. While no trainer is attached it writes only
 * every tenth second, so that an idle daemon's file keeps what was seen last. */
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
	/* How many files the folder may have, this one included: the oldest are removed, except
	 * those of living daemons. */
	unsigned keep;
	/* Called in the witness process once it is set up, to confine it. May be NULL. */
	void (*confine)(void *context);
	void *confine_context;
};

/* Forks, and waits until the process has closed all descriptors that it inherited. Call it before
 * any thread exists. 0, or a negative errno with a fault; the daemon can go on without a witness.
 * If the file cannot be made, that is not a fault: it comes back as a NOTE, and the witness
 * measures all the same and tries again. */
int witness_start(const struct witness_options *options, struct witness **ret, struct fault *fault);

/* Sends it a record, with RECORD_ATTACH also `pidfd` (or -1). A `time_ns` of 0 becomes now. Never
 * blocks. Event loop. Takes NULL. */
void witness_tell(struct witness *witness, const struct record *record, int pidfd);

/* Receives a record from it: false when none is there now. Call it whenever witness_fd is readable.
 * When the witness has died, witness_gone is true afterwards. */
bool witness_hear(struct witness *witness, struct record *ret);
int witness_fd(const struct witness *witness); /* -1 when it is gone */

/* Whether it has died; `ret_text` says how. Reaps it. */
bool witness_gone(struct witness *witness, char *ret_text, size_t room);

pid_t witness_pid(const struct witness *witness);
const char *witness_path(const struct witness *witness); /* the file */
uint64_t witness_dropped(const struct witness *witness); /* records that did not fit */

/* Tells it that the daemon ends and why (NULL: it was told before), and frees. The process ends by
 * itself. Takes NULL. */
void witness_end(struct witness *witness, const char *why);
