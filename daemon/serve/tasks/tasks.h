/* tasks: work that may wait for storage for long, each piece on a thread of its own, so that the
 * event loop never waits.
 *
 * A map of this folder:
 *   tasks.h            this header
 *   lists_task.c       reads the lists of samples that a stream is opened with
 *   open_task.c        opens a stream: building its index may take minutes
 *   path_task.c        looks up which file a sample is
 *   quarantine_task.c  appends broken samples to the quarantine file
 *   renew_task.c       makes an index anew whose images were rewritten
 *   close_task.c       frees a stream, whose storage may hang
 *   reload_task.c      reads the configuration again
 *
 * Each is a struct with a struct task in it (base/task.h). From the start of the task until the
 * event loop collects it, the thread owns the fields that are named as the thread's; the event loop
 * owns all others. All functions: event loop. */
#pragma once

#include "base/fault.h"
#include "base/list.h"
#include "base/task.h"
#include "definition/spec.h"
#include "stream/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct client;
struct config;
struct group;
struct peer;
struct server;
struct wire_head;
struct wire_query;

/* ---- lists_task.c ---- */

/* Reads the lists that `spec` names, then has the client join. */
void lists_task_open(
	struct client *client, const struct wire_head *head, const struct stream_spec *spec);
/* Whether lists are being read for this stream of the client, and for how many of its streams. */
bool lists_task_is(const struct client *client, uint32_t stream);
unsigned lists_task_count(const struct client *client);
void lists_task_close(struct client *client, uint32_t stream); /* gives it up, if it exists */
void lists_task_leave(struct client *client); /* all of a client that is gone */
void lists_task_refuse(struct server *server, int code, const char *text); /* all */
/* Begins to read, and has the clients join whose lists were read. */
void lists_task_sweep(struct server *server);

/* ---- open_task.c ---- */

struct opening {
	struct list_node node;
	struct server *server;
	struct group *group; /* NULL: every member has left; the stream is closed again */
	struct peer *peer; /* charged until the thread has ended */
	struct task task;
	struct stream_spec spec;
	int numa_node; /* group.numa_node */
	atomic_bool cancel; /* relaxed: polled while indexing; ends waits for servers */
	_Atomic uint64_t samples, bytes, total; /* relaxed: progress, for the status */
	/* The thread's. */
	struct sampling_lists lists;
	struct stream *stream;
	int result;
	struct fault fault;
};

/* Begins to open the group's stream, and takes over its lists unless that fails. */
int open_task_start(struct group *group, struct fault *fault);
/* The members of this group have all left. */
void open_task_abandon(struct opening *opening);
void open_task_collect(struct server *server);

/* ---- path_task.c ---- */

struct path_task {
	struct task task;
	struct list_head waiting; /* in the order in which they came */
	struct list_head asked; /* the thread's */
	uint32_t count; /* of both lists */
};

/* Answers the query some time later. The stream has the sample. */
void path_task_ask(struct client *client, const struct wire_query *query, struct group *group);
/* Answers what is known. True while something is not: the stream must stay. */
bool path_task_collect(struct group *group);
void path_task_leave(const struct client *client); /* a client that is gone */

/* ---- quarantine_task.c ---- */

enum {
	QUARANTINE_TASK_SEEN = 1024,
	QUARANTINE_TASK_ROOM = 16, /* lines that are written at once */
};

struct quarantine_task {
	struct task task;
	uint64_t seen[QUARANTINE_TASK_SEEN];
	uint32_t lines;
	/* The thread's. */
	struct stream_broken broken[QUARANTINE_TASK_ROOM];
	unsigned count;
	bool first; /* line of the stream */
	bool failed; /* nothing could be written */
	char notice[FAULT_TEXT];
};

/* Begins to name what is new. True while lines are being written: the stream must stay. */
bool quarantine_task_take(struct group *group);

/* ---- renew_task.c ---- */

struct renew_task {
	struct task task;
	struct stream_renewal renewal; /* the thread's */
};

/* Begins to make an index anew that the stream wants, and takes it into use when it is made. True
 * while a thread runs: the stream must stay. */
bool renew_task_take(struct group *group);

/* ---- close_task.c ---- */

/* Frees a stream that is idle. The charge (PEER_KEPT) is taken over. */
void close_task_start(struct server *server, struct stream *stream, struct peer *peer);
void close_task_collect(struct server *server);

/* ---- reload_task.c ---- */

struct reload_task {
	struct task task;
	bool again; /* another signal came meanwhile */
	/* The thread's. */
	struct config *fresh;
	int result;
	struct fault fault;
};

void reload_task_ask(struct server *server);
void reload_task_collect(struct server *server);
void reload_task_end(struct server *server); /* waits for it */

/* ---- of a daemon ---- */

struct tasks { /* zeroed has none, once `quarantine_lock` is initialized */
	struct list_head lists; /* struct lists_task, in the order in which they came */
	struct list_head openings, closings;
	struct reload_task reload;
	/* Threads only: held while one writes to the quarantine file. */
	pthread_mutex_t quarantine_lock;
};
