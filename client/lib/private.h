/* private: a daemon of one's own, for whoever starts no daemon. */
#pragma once

#include "client/lib/socket_path.h"

#include <limits.h>

enum { PRIVATE_LINE = 400 };

/* A start under way. */
struct private_start {
	struct wait *wait; /* NULL, or whom to ask while private_open waits */
	const struct socket_path *place; /* the caller's */
	const char *memory; /* the caller's; NULL: its default */
	uint32_t threads; /* 0: its default */
	int lock_fd; /* -1, or held: no other process starts one meanwhile */
	int ready_fd; /* -1, or readable when it listens or has ended */
	bool was_taken; /* the place, when it was started */
	off_t log_start;
	char program[PATH_MAX];
	char log[CONNECTION_PATH + 16];
};

/* Starts a daemon at the place's own socket unless another process has done so meanwhile, there or
 * at the common one, and connects. It ends ten seconds after its last client. `memory` NULL,
 * `threads` 0: its defaults. 0 or -errno with a sentence, the last line of its log where it ended
 * at once. -EINTR where connection->wait says so: nothing is held then, and a daemon that was being
 * started ends when nobody comes. */
int private_open(struct connection *connection, const struct socket_path *place, const char *memory,
	uint32_t threads);

/* The same in steps, for who must not wait. */

/* Nothing is under way. */
void private_init(struct private_start *start, const struct socket_path *place, const char *memory,
	uint32_t threads);

/* Finds the program, makes the socket's folder, takes the lock; whoever has it should look once
 * more whether a daemon is there by now. 0; -EAGAIN another process has it; others with a sentence.
 */
int private_lock(struct private_start *start);

/* With the lock: starts the daemon. 0, and ready_fd is to be waited for; or -errno with a sentence.
 * Takes the milliseconds of a fork and an exec. */
int private_begin(struct private_start *start);

/* ready_fd is readable: 0, or -ECONNREFUSED with the last line of its log. Closes ready_fd. */
int private_end(struct private_start *start);

/* The last line of the log since the daemon was started, or words for there being none: room for
 * PRIVATE_LINE. */
void private_last_word(const struct private_start *start, char ret_line[PRIVATE_LINE]);

/* Whether somebody else's daemon is what kept this one from starting: one that listens, is ending
 * or gets ready, or has ended since. To be asked only after a start that failed. */
bool private_was_refused(const struct private_start *start);

/* Whether somebody else's daemon has the place now. */
bool private_is_taken(const struct private_start *start);

/* Lets others start one. The daemon itself goes on getting ready. */
void private_unlock(struct private_start *start);

/* The penstockd that would be started: PENSTOCKD, else beside the running program, beside this
 * library, in its tree's bin, on PATH. 0; -ENOENT with the places looked at. */
int private_find_program(char *buffer, size_t room);
