/* peer: the process at the other end of a connection, and how much of the shared resources it
 * holds.
 *
 * A peer is a process, as the kernel names it when it connects: its pid and uid (SO_PEERCRED) and,
 * from Linux 6.9 on, the inode of its pidfd, which no later process gets again. Everything that a
 * peer makes the daemon hold is charged to it, so that a peer that takes all it can leaves room for
 * others to connect, to ask and to open.
 *
 * A charge outlives the connection: the process is still the cause of memory that it keeps mapped
 * after its stream has ended, or of a thread that hangs in its storage. So a struct peer exists as
 * long as anything is charged to it.
 *
 * A process that cannot be seen from here (pid 0: it is in another pid namespace, and the kernel
 * gives no pidfd of it) is limited as a user, not as a process.
 *
 * Event loop. No I/O but in peer_look. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum peer_kind {
	PEER_CLIENTS, /* connections */
	PEER_STREAMS, /* that it began, or is about to begin */
	PEER_OPENINGS, /* threads that open a stream for it, or read its lists */
	PEER_KEPT, /* extents of streams that have ended, which it still maps */
	PEER_ANSWERS, /* long answers that it has not let go of */
	PEER_KINDS
};

struct peer_name {
	pid_t pid; /* 0: not seen from here */
	uid_t uid;
	uint64_t inode; /* of its pidfd; 0 where the kernel has none that is unique */
};

struct peer {
	struct peer *next;
	struct peer_name name;
	uint32_t charges; /* of all kinds together; the peer is freed with the last one */
	uint32_t held[PEER_KINDS];
	uint64_t turn; /* of the event loop, to which `costly` belongs */
	uint32_t costly;
};

/* All peers, and what they may hold together. */
struct peer_book {
	struct peer *peers;
	uint32_t held[PEER_KINDS]; /* by all peers */
	uint32_t most[PEER_KINDS]; /* for all peers */
	uid_t uid; /* the daemon's own */
};

/* `max_clients` and `max_streams` are the configuration's. May be called again, after a reload. */
void peer_book_set(struct peer_book *book, uint32_t max_clients, uint32_t max_streams);
void peer_book_deinit(struct peer_book *book);

/* Names the peer of a connected socket. The caller owns the pidfd: -1 if the kernel has none for
 * it, -ESRCH if the process has ended. 0 or -errno. */
int peer_look(int socket, struct peer_name *ret_name, int *ret_pidfd);

/* The most of a kind that one process may hold. */
uint32_t peer_share(const struct peer_book *book, enum peer_kind kind);

/* Whether the peer of that name may have one more: 0, or -EBUSY with a sentence that says which
 * limit it met, whose limit that is, and what to do. */
int peer_may(const struct peer_book *book, const struct peer_name *name, enum peer_kind kind,
	struct fault *fault);

/* Charges one more of that kind; returns the peer of that name. NULL: no memory. */
struct peer *peer_charge(struct peer_book *book, const struct peer_name *name, enum peer_kind kind);
/* Takes one charge back. The peer may be freed. NULL is accepted. */
void peer_discharge(struct peer_book *book, struct peer *peer, enum peer_kind kind);

/* Whether messages of the peer, which may be costly, may still be read in this turn of the loop. */
bool peer_has_turn(struct peer *peer, uint64_t turn);
/* A costly one was read, in the turn that was asked about last. */
void peer_spend(struct peer *peer);
