/* peer: who is at the other end, and how much of what all share it holds.
 *
 * A peer is a process, as the kernel names it when it connects: its pid and uid (SO_PEERCRED), and
 * where the kernel has them (6.9) the inode of its pidfd, which no later process gets again. What a
 * peer can make the daemon hold is charged to it, so that one that takes all it can leaves room for
 * others: to connect, to ask, to open.
 *
 * A charge outlives the connection: memory that a trainer keeps mapped after its stream has ended,
 * or a thread that hangs in its storage, is still this process's doing. So peers are counted by
 * what is charged to them, and go with the last of it.
 *
 * A process that cannot be seen from here (pid 0: it lives in another pid namespace, on a kernel
 * that gives no pidfd of it) is limited as a user, not as a process.
 *
 * Event loop. No I/O but in peer_look. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum peer_kind {
	PEER_CLIENTS, /* connections */
	PEER_STREAMS, /* that it began, or is about to */
	PEER_OPENINGS, /* threads that open a stream for it, or read its lists */
	PEER_KEPT, /* extents of streams that have ended, which it still has */
	PEER_ANSWERS, /* long ones that it has not let go of */
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
	uint32_t charges; /* of all kinds together: with the last the peer goes */
	uint32_t held[PEER_KINDS];
	uint64_t turn; /* of the event loop, to which `costly` belongs */
	uint32_t costly;
};

/* Who there is, and what all of them may hold. */
struct peer_book {
	struct peer *peers;
	uint32_t held[PEER_KINDS]; /* all of them */
	uint32_t most[PEER_KINDS]; /* all of them; of clients and streams what the configuration
				      says */
	uid_t uid; /* the daemon's own */
};

/* `max_clients`, `max_streams`: of the configuration; may be called again when it was read again.
 */
void peer_book_set(struct peer_book *book, uint32_t max_clients, uint32_t max_streams);
void peer_book_deinit(struct peer_book *book);

/* Of a connected socket. The pidfd is the caller's: -1 where the kernel has none for it, -ESRCH
 * when the process has ended. 0 or -errno. */
int peer_look(int socket, struct peer_name *ret_name, int *ret_pidfd);

/* The most of a kind that one process may hold. */
uint32_t peer_share(const struct peer_book *book, enum peer_kind kind);

/* Whether this peer (NULL: one that holds nothing yet, named `name`) may have one more: 0, or
 * -EBUSY with a sentence that says which limit, whose, and what to do. */
int peer_may(const struct peer_book *book, const struct peer_name *name, enum peer_kind kind,
	struct fault *fault);

/* The peer of that name, with one more of that kind. NULL: no memory. */
struct peer *peer_charge(struct peer_book *book, const struct peer_name *name, enum peer_kind kind);
/* One less; NULL is taken. The peer may be gone afterwards. */
void peer_discharge(struct peer_book *book, struct peer *peer, enum peer_kind kind);

/* Whether messages of it may still be read in this turn of the loop, which may be costly ones. */
bool peer_has_turn(struct peer *peer, uint64_t turn);
/* One was, in the turn that was asked for last. */
void peer_spend(struct peer *peer);
