/* keeper: what the witness process does: it listens to the daemon, samples, writes entries, and
 * sees how processes end. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct keeper_options {
	int socket, pidfd; /* of the daemon; pidfd -1 where the kernel has none */
	pid_t daemon;
	const char *folder, *path;
	uint64_t bytes;
	unsigned keep;
};

/* Returns when the daemon has ended and its end is recorded. */
void keeper_run(const struct keeper_options *options);
