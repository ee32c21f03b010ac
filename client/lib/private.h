/* private: starts a daemon for an application that started none. */
#pragma once

#include "client/lib/socket_path.h"

#include <limits.h>

enum { PRIVATE_LINE = 400 };

/* A start under way. */
struct private_start {
	struct wait *wait; /* NULL, or how to ask the application while private_open waits */
	const struct socket_path *place; /* the caller's */
	const char *memory; /* the caller's; NULL: its default */
	uint32_t threads; /* 0: its default */
	int lock_fd; /* -1, or held: no other process starts a daemon meanwhile */
	int ready_fd; /* -1, or readable when the daemon listens or has ended */
	bool was_taken; /* another daemon had the place when this one was started */
	off_t log_start;
	char program[PATH_MAX];
	char log[CONNECTION_PATH + 16];
};

/* Starts a daemon at the place's own socket, unless another process has done so meanwhile, there
 * or at the common socket, and connects. The daemon ends ten seconds after its last client.
 * `memory` NULL, `threads` 0: its defaults. 0, or -errno with a sentence, which has the last
 * line of the log of a daemon that ended at once. -EINTR if the application ended the call: then
 * nothing is held, and a daemon that was being started ends when no client comes. */
int private_open(struct connection *connection, const struct socket_path *place, const char *memory,
	uint32_t threads);

/* The same in steps, for a caller that must not wait. */

/* No start is under way. */
void private_init(struct private_start *start, const struct socket_path *place, const char *memory,
	uint32_t threads);

/* Finds the program, makes the socket's folder, takes the lock. The caller should then look once
 * more whether a daemon listens. 0; -EAGAIN: another process has the lock; others with a
 * sentence. */
int private_lock(struct private_start *start);

/* With the lock: starts the daemon. 0, and the caller waits for ready_fd; or -errno with a
 * sentence. Takes as long as a fork and an exec: milliseconds. */
int private_begin(struct private_start *start);

/* ready_fd is readable: 0, or -ECONNREFUSED with the last line of its log. Closes ready_fd. */
int private_end(struct private_start *start);

/* The last line of the log since the daemon was started, or a phrase that says that there is none:
 * room for PRIVATE_LINE. */
void private_last_word(const struct private_start *start, char ret_line[PRIVATE_LINE]);

/* After a start that failed: whether another daemon kept this one from starting, one that
 * listens, is ending, gets ready, or has ended since. */
bool private_was_refused(const struct private_start *start);

/* Whether another daemon has the place now. */
bool private_is_taken(const struct private_start *start);

/* Releases the lock, so that others may start a daemon. One that was started goes on. */
void private_unlock(struct private_start *start);

/* The penstockd that would be started: PENSTOCKD, else beside this library, beside the running
 * program, in the library's tree's bin, on PATH. 0; -ENOENT with the places that were searched. */
int private_find_program(char *buffer, size_t room);
