/* fault: a daemon that breaks the protocol at one step, and a client that must say so.
 *
 *   test_faults.c     the tests: every fault of every table, answers, a daemon that is stopped
 *   fault.[ch]        the daemon and the client around a fault; faults of any message
 *   fault_opening.c   faults of WELCOME and OPENED
 *   fault_extent.c    faults of EXTENT
 *   fault_batch.c     faults of BATCH, of the head of its slot, and after a good batch */
#pragma once

#include "client/fake.h"

#include <stddef.h>

enum fault_step { GREETING, OPENING, EXTENT, BATCH, AFTER };

/* A step of the daemon: the message that it would send next, and the memory that belongs to it. */
struct fault_turn {
	int fd; /* the connection */
	struct wire_head *next;
	size_t bytes; /* of the message */
	struct fake_memory *memory;
};

/* The daemon's action instead of sending that message. */
typedef void fault_does(const struct fault_turn *turn);

/* Sends the message, with this descriptor (-1: none): for a fault that has changed it. */
void fault_send(const struct fault_turn *turn, int pass_fd);

/* A daemon that does everything right up to `step` and then calls `does`. */
struct fault {
	const char *name;
	enum fault_step step;
	fault_does *does;
	int open, next; /* what the client must return; next is not called when open fails */
	const char *sentence; /* part of the client's sentence */
};

/* Each ended by a zeroed one. */
extern const struct fault faults_of_opening[], faults_of_extent[], faults_of_batch[];

/* The stream that these daemons serve. */
extern const struct fake_shape fault_shape;

/* A client at such a daemon; `argument` is a struct fault. For fake_check. */
void fault_run(const void *argument);

/* ---- faults of any message ---- */

fault_does fault_hang_up, fault_cut, fault_lengthen, fault_lie_about_length, fault_send_garbage;
/* A descriptor with a message that has none. */
fault_does fault_send_with_fd;
fault_does fault_send_other_stream, fault_end_connection;
/* The process dies, but its child keeps the socket: an end without a hang-up. */
fault_does fault_die_without_hangup;
