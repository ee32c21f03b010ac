/* peer: see peer.h.
 *
 * The limits leave room for the next process, whatever one process takes:
 * - One process gets a part of each kind, a quarter or half of all.
 * - The last eighth of each kind (at least one, if there are two) is for processes that have none
 *   of it yet, so that several processes that take all they can leave room, too.
 * - A sixteenth of the connections is root's, unless the daemon runs as root: an administrator can
 *   always connect.
 * A user that starts processes without end can still use up what one user may have. */
#include "serve/session/peer.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

enum {
	PEER_PIDFS = 0x50494446, /* PID_FS_MAGIC, linux/magic.h: inodes are unique from 6.9 on */
	PEER_SHARE_LEAST = 4, /* of clients and streams, however small the configuration */
	PEER_COSTLY = 16, /* messages of one process in a turn of the loop */
};

/* Limits that are fixed, for all processes and for one. A thread takes a stack; a kept extent or a
 * long answer takes a line in the ledger. */
enum {
	PEER_OPENINGS_MOST = 128,
	PEER_OPENINGS_SHARE = 32,
	PEER_KEPT_MOST = 96,
	PEER_KEPT_SHARE = 48,
	PEER_ANSWERS_MOST = 16,
	PEER_ANSWERS_SHARE = 4,
};

void peer_book_set(struct peer_book *book, uint32_t max_clients, uint32_t max_streams)
{
	book->most[PEER_CLIENTS] = max_clients;
	book->most[PEER_STREAMS] = max_streams;
	book->most[PEER_OPENINGS] = PEER_OPENINGS_MOST;
	book->most[PEER_KEPT] = PEER_KEPT_MOST;
	book->most[PEER_ANSWERS] = PEER_ANSWERS_MOST;
	book->uid = geteuid();
}

void peer_book_deinit(struct peer_book *book)
{
	while (book->peers) {
		struct peer *peer = book->peers;
		book->peers = peer->next;
		free(peer);
	}
}

/* ---- naming ---- */

static uint64_t peer_inode(int pidfd)
{
	struct statfs filesystem;
	struct stat status;
	if (pidfd < 0 || fstatfs(pidfd, &filesystem) || filesystem.f_type != PEER_PIDFS ||
		fstat(pidfd, &status))
		return 0;
	return status.st_ino;
}

/* Older kernels have only pidfd_open: between the connection and this call another process may have
 * got the pid. */
static int peer_open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (fd < 0 && pid > 0 && errno == ESRCH)
		return -ESRCH;
	return fd;
#else
	(void)pid;
	return -1;
#endif
}

static int peer_pidfd(int socket, pid_t pid)
{
	int fd = -1;
	socklen_t size = sizeof fd;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	return errno == ESRCH || errno == EINVAL ? -ESRCH : peer_open_pidfd(pid);
}

int peer_look(int socket, struct peer_name *ret_name, int *ret_pidfd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return -errno;
	int pidfd = peer_pidfd(socket, peer.pid);
	if (pidfd >= 0)
		(void)fcntl(pidfd, F_SETFD, FD_CLOEXEC);
	*ret_name =
		(struct peer_name){.pid = peer.pid, .uid = peer.uid, .inode = peer_inode(pidfd)};
	*ret_pidfd = pidfd;
	return 0;
}

static bool peer_is(const struct peer *peer, const struct peer_name *name)
{
	return peer->name.pid == name->pid && peer->name.uid == name->uid &&
	       peer->name.inode == name->inode;
}

static struct peer *peer_find(const struct peer_book *book, const struct peer_name *name)
{
	struct peer *peer = book->peers;
	while (peer && !peer_is(peer, name))
		peer = peer->next;
	return peer;
}

/* ---- limits ---- */

/* The words of a limit, for one process and for all. */
static const struct peer_words {
	const char *things, *one, *all;
} peer_words[PEER_KINDS] = {
	[PEER_CLIENTS] = {"connections", "close those that it does not need, or raise max_clients",
		"max_clients allows: raise it or close some"},
	[PEER_STREAMS] = {"streams",
		"close some, have its trainers share a group, or raise "
		"max_streams",
		"max_streams allows: raise it or close some"},
	[PEER_OPENINGS] = {"streams that are being opened, or given-up ones whose storage hangs",
		"wait for them", "it may: wait for them, and see whether storage hangs"},
	[PEER_KEPT] = {"extents of streams that have ended, whose memory it still has mapped",
		"let go of the batches (views of them, too) of streams that are closed",
		"may be kept by trainers: end those that keep them"},
	[PEER_ANSWERS] = {"long answers that it has not let go of",
		"read answers, and close their descriptors",
		"may be kept by clients: end those that keep them"},
};

static bool peer_is_known(const struct peer_name *name)
{
	return name->pid > 0 || name->inode;
}

uint32_t peer_share(const struct peer_book *book, enum peer_kind kind)
{
	switch (kind) {
	case PEER_CLIENTS:
		return UTIL_MAX(book->most[kind] / 4, (uint32_t)PEER_SHARE_LEAST);
	case PEER_STREAMS:
		return UTIL_MAX(book->most[kind] / 2, (uint32_t)PEER_SHARE_LEAST);
	case PEER_OPENINGS:
		return PEER_OPENINGS_SHARE;
	case PEER_KEPT:
		return PEER_KEPT_SHARE;
	default:
		return PEER_ANSWERS_SHARE;
	}
}

static uint32_t peer_of_user(const struct peer_book *book, uid_t uid, enum peer_kind kind)
{
	uint32_t n = 0;
	for (const struct peer *p = book->peers; p; p = p->next)
		n += p->name.uid == uid ? p->held[kind] : 0;
	return n;
}

/* A user other than root may hold everything but the share that lets root connect. */
static int peer_may_user(const struct peer_book *book, const struct peer_name *name,
	enum peer_kind kind, struct fault *fault)
{
	uint32_t most = book->most[kind] - book->most[kind] / 16;
	if (kind != PEER_CLIENTS || name->uid == 0 || book->uid == 0 ||
		peer_of_user(book, name->uid, kind) < most)
		return 0;
	return fault_set(fault, -EBUSY,
		"user %lu has %" PRIu32 " connections, as many as this penstockd allows one user "
		"(the rest of max_clients, %" PRIu32
		", is root's): raise max_clients or close some",
		(unsigned long)name->uid, most, book->most[kind]);
}

/* The share of processes that hold nothing yet; of one in all nothing can be reserved. */
static uint32_t peer_reserve(uint32_t most)
{
	return most < 2 ? 0 : UTIL_MAX(most / 8, 1u);
}

/* Refuses when all is taken, or when the rest is reserved for processes that hold nothing yet. */
static int peer_may_all(const struct peer_book *book, const struct peer_name *name, uint32_t has,
	enum peer_kind kind, struct fault *fault)
{
	const struct peer_words *words = &peer_words[kind];
	uint32_t most = book->most[kind], reserve = peer_reserve(most);
	if (book->held[kind] >= most)
		return fault_set(fault, -EBUSY, "this penstockd has as many %s (%" PRIu32 ") as %s",
			words->things, most, words->all);
	if (has && book->held[kind] >= most - reserve)
		return fault_set(fault, -EBUSY,
			"the last %" PRIu32 " of %" PRIu32 " %s %s for processes that have none, "
			"and process %d has %" PRIu32 ": %s",
			reserve, most, words->things, reserve == 1 ? "is" : "are", (int)name->pid,
			has, words->one);
	return 0;
}

int peer_may(const struct peer_book *book, const struct peer_name *name, enum peer_kind kind,
	struct fault *fault)
{
	const struct peer *peer = peer_find(book, name);
	uint32_t has = peer && peer_is_known(name) ? peer->held[kind] : 0;
	if (has >= peer_share(book, kind))
		return fault_set(fault, -EBUSY,
			"process %d has %" PRIu32 " %s, as many as penstockd allows one process: "
			"%s",
			(int)name->pid, has, peer_words[kind].things, peer_words[kind].one);
	int result = peer_may_all(book, name, has, kind, fault);
	return result ? result : peer_may_user(book, name, kind, fault);
}

/* ---- charging ---- */

struct peer *peer_charge(struct peer_book *book, const struct peer_name *name, enum peer_kind kind)
{
	struct peer *peer = peer_find(book, name);
	if (!peer) {
		peer = calloc(1, sizeof *peer);
		if (!peer)
			return NULL;
		peer->name = *name;
		peer->next = book->peers;
		book->peers = peer;
	}
	peer->charges++;
	peer->held[kind]++;
	book->held[kind]++;
	return peer;
}

void peer_discharge(struct peer_book *book, struct peer *peer, enum peer_kind kind)
{
	if (!peer)
		return;
	peer->held[kind]--;
	book->held[kind]--;
	if (--peer->charges)
		return;
	struct peer **place = &book->peers;
	while (*place != peer)
		place = &(*place)->next;
	*place = peer->next;
	free(peer);
}

bool peer_has_turn(struct peer *peer, uint64_t turn)
{
	if (peer->turn != turn) {
		peer->turn = turn;
		peer->costly = 0;
	}
	return peer->costly < PEER_COSTLY;
}

void peer_spend(struct peer *peer)
{
	peer->costly++;
}
