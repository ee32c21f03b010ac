/* session: clients, the streams that they open, and the groups that share a stream.
 *
 * A map of this folder:
 *   session.[ch]   this header: client, member, job and group; finding and counting them
 *   peer.[ch]      which process is at the other end, and how much it may hold
 *   handouts.[ch]  memory that clients still hold after the daemon has finished with it
 *   client.c       one connection: accepting, sending, closing
 *   answer.c       answers of any length
 *   messages.c     what clients send: each message is checked, then handled
 *   join.c         which group a client joins, and where its stream begins
 *   lease.c        leases: a batch is announced to a trainer, and the trainer returns it
 *   group.c        one stream and its trainers: what is due after an event, leaving, the end
 *   sweep.c        what is due once a second and at the end of a turn of the loop: trainers that
 *                  hold others up, streams to open, dead clients and groups to free
 *
 * A client has a member for each stream that it has opened. A member belongs to a group: all
 * members of a group read the same batches. Everything here belongs to the event loop. */
#pragma once

#include "base/list.h"
#include "batch/tally.h"
#include "definition/spec.h"
#include "proto/conn.h"
#include "serve/loop.h"
#include "serve/observe/account.h"
#include "serve/observe/recorder.h"
#include "serve/session/peer.h"
#include "serve/tasks/tasks.h"
#include "stream/stream.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SESSION_STREAMS = 16, /* of one client */
	SESSION_NAME = 2 * SPEC_NAME, /* bytes of a group's name */
};

struct client {
	struct list_node node;
	struct server *server;
	struct watch socket_watch, pid_watch;
	int fd, pidfd; /* -1 when closed; pidfd -1 where the kernel has none */
	pid_t pid;
	struct peer_name name;
	struct peer *peer;
	uint64_t features; /* enum wire_feature, that both ends know */
	bool hello, dead, want_write;
	uint64_t since_ns;
	struct list_head members;
	struct client_record record;
	uint64_t gpu_peak_bytes; /* the most that the metrics saw */
};

/* A client's place in a group: one of its streams. */
struct member {
	struct list_node of_client, of_group;
	struct client *client;
	struct group *group;
	uint32_t stream; /* the client's number for it */
	uint32_t request; /* of its WIRE_OPEN, until answered */
	struct spec_state state; /* where it continues */
	uint64_t epochs; /* how many it asked for; 0: endless */
	bool reconnect; /* it was reading before, and `state` is its next batch */
	bool answered, ended;
	struct tally_reader reader; /* once answered */
	uint64_t given; /* batches */
	/* Of the batch announced last, else of the first one to come. */
	uint64_t epoch, batch;
	/* Since when it has held up others; 0: it does not. */
	uint64_t blocks_since_ns;
	/* Among all members that ever came; never used twice. */
	uint64_t number;
	/* When it returned the last batch that it held; 0: it holds some, or has had none yet. */
	uint64_t empty_since_ns;
	uint64_t announced_ns[TALLY_SLOTS_MAX]; /* of the batches that it holds */
	struct account_member account;
};

/* The ranks of a split group: each rank is a struct group of its own. */
struct job {
	struct list_node node;
	char name[SESSION_NAME];
	bool begun; /* a rank was answered, so `origin` is known */
	struct spec_state origin; /* where the first rank that was answered began */
	uint64_t fingerprint; /* of what that rank reads */
	uint32_t groups; /* that are not closing */
	uint64_t seen[]; /* a bit for each rank that was ever answered */
};

/* One stream and the members that read it. */
struct group {
	struct list_node node;
	struct server *server;
	char name[SESSION_NAME];
	struct stream_spec spec;
	struct job *job; /* NULL where all members share every batch */
	/* The peer that began it: charged with a stream or, while the group closes, with a stream
	 * whose memory has not come back. */
	struct peer *peer;
	struct sampling_lists lists; /* until the task that opens the stream has them */
	struct stream *stream; /* NULL while opening */
	struct opening *opening;
	struct list_head members;
	uint32_t extent_number;
	int numa_node; /* an index of server.numa, where the slots are; -1: not placed */
	bool begun; /* the stream's first batch is fixed and members are answered */
	bool started; /* batches are announced */
	bool closing, told_end;
	uint64_t came_ns; /* when its first member came */
	uint64_t opened_ns; /* when the stream was opened */
	struct account_group account;
	struct quarantine_task quarantine;
	struct renew_task renewal;
	struct path_task paths;
};

/* ---- session.c ---- */

struct member *session_find_member(const struct client *client, uint32_t stream);
unsigned session_group_size(const struct group *group);
/* Trainers, or ranks of the job, that are present: what `wait_for` counts. */
unsigned session_group_present(const struct group *group);
unsigned session_held(const struct member *member); /* batches */

/* ---- client.c ---- */

/* Reasons of client_close from which the flight recorder tells how a trainer left. */
extern const char client_hung_up[], client_process_ended[], client_daemon_ends[];

void client_accept(struct server *server);
/* Closes the connection and marks the client dead; sweep_clients frees it at the end of a turn. */
void client_close(struct client *client, const char *why);
/* Closes it after conn_send or conn_receive returned `result`. */
void client_lost(struct client *client, int result);
/* Sends, or closes a client that does not read. */
void client_send(struct client *client, struct wire_head *head, size_t bytes, const void *text,
	size_t text_bytes, int fd);
void client_error(
	struct client *client, uint32_t request, uint32_t stream, int code, const char *text);
void client_want_write(struct client *client, bool want);

/* ---- answer.c ---- */

/* `text` NULL: there was no memory for it, which is the answer. */
void answer_send(struct client *client, const struct wire_head *head, const char *text);

/* ---- messages.c ---- */

void messages_read(struct client *client);

/* ---- join.c ---- */

/* `lists`: of the files that `spec` names; taken over. */
void join_open(struct client *client, const struct wire_head *head, const struct stream_spec *spec,
	struct sampling_lists *lists);
void join_opened(struct opening *opening);
/* Fixes where the stream begins and answers the members, when it is time to. */
void join_begin(struct group *group);

/* ---- lease.c ---- */

/* Announces to a member every batch that is due to it, as far as its socket takes them, then the
 * end of its stream. */
void lease_give(struct member *member);
/* The member returns the batch in this slot, which it holds. */
void lease_return(struct member *member, uint32_t slot);

/* ---- group.c ---- */

/* Collects, announces, ends: after anything that may have changed what is due. */
void group_turn(struct group *group);
void group_leave(struct member *member);
/* Removes the members of clients that are dead. */
void group_bury(struct server *server);
/* Tells a member that its stream, or its opening, is over; one that was sent its END knows. */
void group_say_over(struct member *member, int code, const char *text);
/* Ends the stream, or its opening, for all its members with this sentence. */
void group_refuse(struct group *group, int code, const char *text);
/* The group takes no more members, and is freed as soon as it has none and nothing is in flight. */
void group_shut(struct group *group);

/* ---- sweep.c ---- */

void sweep_second(struct server *server); /* once a second: every group */
void sweep_clients(struct server *server); /* frees those that are dead */
/* Frees groups that no member reads and nothing writes to, then begins to open new streams. */
void sweep_groups(struct server *server);
