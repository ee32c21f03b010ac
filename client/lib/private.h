/* private: a daemon of one's own, for whoever starts no daemon. */
#pragma once

#include "client/lib/connection.h"

/* Starts a daemon for the socket at `path` unless another process has done so meanwhile, and
 * connects. It ends ten seconds after its last client. `memory` NULL, `threads` 0: its defaults. 0
 * or -errno with a sentence, the last line of its log where it ended at once. */
int private_open(struct connection *connection, const char *path, bool named, const char *memory,
	uint32_t threads);

/* The penstockd that would be started: PENSTOCKD, else beside the running program, beside this
 * library, in its tree's bin, on PATH. 0; -ENOENT with the places looked at. */
int private_find_program(char *buffer, size_t room);
