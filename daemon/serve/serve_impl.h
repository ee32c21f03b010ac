/* serve_impl: what the files of serve/ share. Nobody else includes it. All of it belongs to the
 * event loop, except what a thread that it has started has not handed over yet: struct opening,
 * closing and arrival, and what structs quarantine, namer and reload name as the thread's. */
#pragma once

#include "base/host/ledger.h"
#include "base/permit.h"
#include "confine/confine.h"
#include "proto/conn.h"
#include "proto/jsontext.h"
#include "record/record.h"
#include "serve/budget.h"
#include "serve/observe/account.h"
#include "serve/server.h"
#include "serve/session/peer.h"
#include "stats/histogram.h"
#include "stream/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SERVE_STREAMS_PER_CLIENT = 16,
	SERVE_HELLO_LIMIT_S = 10,
	SERVE_DRAIN_LIMIT_S = 5,
	SERVE_COME_BACK_S = 2, /* how long a shared group waits for all who come back */
	SERVE_COME_BACK_MOST_S = 60, /* where it knows how many they are */
	SERVE_QUARANTINE_SEEN = 1024,
	SERVE_QUARANTINE_LINES = 1000,
	SERVE_QUARANTINE_BYTES = 16 << 20,
	SERVE_QUARANTINE_ROOM = 16, /* lines that are written at once */
	SERVE_NAMINGS = 128, /* paths of a stream that are asked for and not yet known */
};

/* How long an opening waits for memory that returns. */
#define SERVE_OPEN_WAIT_NS 2000000000ull

/* What epoll hands back. */
enum watch_kind {
	WATCH_LISTENER,
	WATCH_SIGNAL,
	WATCH_TIMER,
	WATCH_WAKE,
	WATCH_CLIENT,
	WATCH_PIDFD,
	WATCH_WITNESS
};

struct watch {
	enum watch_kind kind;
	struct client *client;
};

/* What the flight recorder knows of a client. */
struct client_record {
	uint64_t number; /* of trainers, never used twice; 0: no stream was answered to it */
	uint64_t given, epoch, batch; /* batches in all; the one announced last */
	uint32_t group; /* whose batch that was: its extent's number */
	/* Comes back from the witness. */
	bool measured;
	uint64_t resident_bytes, gpu_bytes; /* UINT64_MAX: not known */
	float cpu; /* negative: not known */
	char command[RECORD_TEXT];
};

struct client {
	struct client *next;
	struct server *server;
	struct watch socket_watch, pid_watch;
	int fd, pidfd; /* -1 when closed; pidfd -1 where the kernel has none */
	pid_t pid;
	struct peer_name name;
	struct peer *peer;
	bool hello, dead, want_write;
	uint64_t since_ns;
	struct member *members;
	struct client_record record;
	uint64_t gpu_peak_bytes; /* the most that was seen, by the metrics */
};

/* A client's place in a group: one of its streams. */
struct member {
	struct member *next_of_client, *next_of_group;
	struct client *client;
	struct group *group;
	uint32_t stream; /* the client's number */
	uint32_t request; /* of its WIRE_OPEN, until answered */
	struct spec_state state; /* where it goes on */
	uint64_t epochs; /* that it asked for; 0: endless */
	bool reconnect; /* it was reading before, and `state` is its next batch */
	bool answered, ended;
	struct tally_reader reader; /* once answered */
	uint64_t given; /* batches */
	uint64_t epoch, batch; /* of the one announced last, else of the first to come */
	uint64_t blocks_since_ns; /* when it was first seen to hold back others; 0: it does not */
	uint64_t number; /* of all that ever came, never used twice */
	uint64_t empty_since_ns; /* when it gave back the last that it held; 0: it holds some, or
				    has had none yet */
	uint64_t announced_ns[TALLY_SLOTS_MAX]; /* of what it holds */
	struct account_member account;
};

/* The ranks of a split group, each a struct group of its own. */
struct job {
	struct job *next;
	char name[2 * SPEC_NAME];
	bool begun; /* a rank was answered: there is an origin */
	struct spec_state origin; /* where the first one that was answered began */
	uint64_t fingerprint; /* of what that one reads */
	uint32_t groups; /* that are not closing */
	uint64_t seen[]; /* bit per rank that was answered at some time */
};

/* What streams counted. */
struct totals {
	struct stream_stats streams; /* its counters alone; what it says of now is 0 */
	uint64_t trainer_wait_ns, slots_full_ns;
};

/* What of a stream is named in the quarantine file. */
struct quarantine {
	uint64_t seen[SERVE_QUARANTINE_SEEN];
	uint32_t lines;
	bool running;
	pthread_t thread;
	atomic_bool done; /* released by the thread, acquired by the event loop */
	/* The thread's while it runs. */
	struct stream_broken broken[SERVE_QUARANTINE_ROOM];
	unsigned count;
	bool first; /* line of the stream */
	bool failed; /* nothing could be written */
	char notice[FAULT_TEXT];
};

struct naming;

/* Paths of samples that were asked for. */
struct path_task {
	struct naming *waiting; /* for the thread, in order */
	struct naming *asked; /* with it */
	uint32_t count; /* of both */
	bool running;
	pthread_t thread;
	atomic_bool done; /* released by the thread, acquired by the event loop */
};

struct group {
	struct group *next;
	struct server *server;
	char name[2 * SPEC_NAME];
	struct stream_spec spec;
	struct job *job; /* NULL where all share every batch */
	struct peer *peer; /* who began it: charged with a stream, or, while it closes, with one
			      whose memory has not come back */
	struct sampling_lists lists; /* until the stream's opening has them */
	struct stream *stream; /* NULL while opening */
	struct opening *opening;
	struct member *members;
	uint32_t extent_number;
	bool begun; /* the stream's first batch is fixed and members are answered */
	bool started; /* batches are announced */
	bool closing, told_end;
	uint64_t opened_ns; /* when the stream was there */
	/* time accounts, ns */
	uint64_t account_ns, trainer_wait_ns, slots_full_ns;
	bool was_waiting, was_full;
	struct account_group account;
	uint64_t ticks;
	struct histogram waits[2]; /* as the server's, of this half minute and the last */
	struct quarantine quarantine;
	struct path_task namer;
};

struct opening {
	struct opening *next;
	struct server *server;
	struct group *group; /* NULL once nobody waits for it: the result is dropped */
	struct peer *peer; /* charged until the thread has ended */
	pthread_t thread;
	struct stream_spec spec;
	struct sampling_lists lists;
	struct stream *stream;
	int result;
	struct fault fault;
	atomic_bool cancel; /* relaxed: polled while indexing */
	_Atomic uint64_t samples, bytes, total; /* relaxed: progress for status */
};

/* Lines of the log that clients can bring about. */
enum log_limit_kind { LOG_LIMIT_OFFENCE, LOG_LIMIT_OPENING, LOG_LIMIT_KINDS };

struct log_limit {
	uint64_t since_ns, left_out;
	uint32_t lines;
};

struct handouts;
struct closing;

/* The flight recorder, as the event loop sees it. */
struct recorder {
	struct witness *witness; /* NULL: off, or it has died */
	struct watch watch;
	uint64_t trainers; /* that ever attached */
	uint64_t dropped; /* by a witness that is gone */
	bool ending; /* why was told */
	/* Comes back. */
	bool writes; /* its file is there */
	bool has_machine;
	struct record_machine machine;
	uint64_t resident_bytes; /* of the daemon; UINT64_MAX: not known */
	unsigned gpus;
	struct record_gpu gpu[RECORD_GPUS];
};

struct supervisor {
	uint64_t watchdog_ns; /* that it gives; 0: there is none */
	uint64_t progress_ns; /* when the threads were last seen to get on */
	bool told; /* that they do not */
	char status[96]; /* told last */
};

/* The configuration that is being read again. */
struct reload {
	pthread_t thread;
	bool running, again;
	atomic_bool done; /* released by the thread, acquired by the event loop */
	/* The thread's while it runs. */
	struct config *fresh;
	int result;
	struct fault fault;
};

struct server {
	struct config *config;
	char socket[108], cache_dir[4096];
	int lock_fd, listen_fd, epoll_fd, signal_fd, timer_fd, wake_fd;
	struct watch listen_watch, signal_watch, timer_watch, wake_watch;
	struct budget plan;
	struct ledger ledger;
	/* Two pools: a decoder may wait for its permit while it holds a large read, so they must
	 * not be one. */
	struct permit large_reads, large_images;
	bool ready_parts; /* ledger and permit are initialised */
	struct fetch *fetch;
	struct shelf shelf;
	struct list_shelf lists;
	struct workers *pool;
	struct stream_environment environment;
	struct client *clients;
	uint32_t client_count;
	struct group *groups;
	struct job *jobs;
	uint32_t next_extent;
	uint64_t started_ns, idle_since_ns, drain_since_ns;
	uint64_t used_ns; /* when a client that had had a stream went last */
	uint64_t started_unix_ns; /* told as it was then: it must not move when the clock is set */
	bool draining, stop;
	bool deaf; /* the listener is not watched until the next tick */
	pthread_mutex_t quarantine_lock; /* of the file, threads alone: held while it is written */
	pthread_mutex_t opened_lock;
	struct opening *opened; /* handed over by opener threads, as the next by theirs */
	struct closing *closed;
	uint32_t openings, closings; /* threads not yet joined */
	struct lists_task *arrivals; /* who waits for a list of samples */
	struct peer_book peers;
	struct handouts
		*lent; /* what clients still have of streams that are gone, and of answers */
	struct log_limit quiet[LOG_LIMIT_KINDS];
	uint64_t turn; /* of the loop, counted */
	char notices[4][FAULT_TEXT];
	uint32_t notice_count;
	bool entry_points_lost; /* a stream has said that some cannot be kept */
	uint64_t members; /* that ever came */
	struct account_server account;
	/* Since the start. How long a trainer that had given all back waited for its next batch;
	 * how long a batch took to be filled; how long a trainer held one. */
	struct histogram waits, fills, held;
	struct totals retired; /* of streams that are gone */
	struct http *http; /* NULL: off, or it could not listen */
	uint64_t publish_ns; /* CPU time that the last publishing took */
	struct recorder recorder;
	struct confine_state confined;
	struct supervisor supervisor;
	struct reload reload;
};

/* supervisor.c: what systemd is told, where it is there */
void supervisor_start(struct server *server); /* it listens */
void supervisor_tick(struct server *server); /* once a second, after the accounts */
void supervisor_reloading(void);
void supervisor_reloaded(void);
void supervisor_stopping(void);
/* Whether threads did something, or waited for what is not theirs. Pure. */
bool supervisor_gets_on(const struct account_second *second);

/* confined.c: what the process may do, step by step (confine/confine.h). 0, or a negative errno
 * with a fault. */
int confined_begin(struct server *server, struct fault *fault); /* before the witness */
int confined_files(struct server *server, struct fault *fault); /* before any thread */
int confined_calls(struct server *server, struct fault *fault); /* when all is there */
void confined_witness(void *server);
void confined_status(struct jsontext *json, const struct server *server);

/* server.c */
void server_notice(struct server *server, const char *text);
void server_notice_only(struct server *server, const char *text); /* the recorder has it */
void server_drain(struct server *server);
/* -ENOMEM, -ENOSPC: it is not watched. */
int server_watch(struct server *server, int fd, uint32_t events, struct watch *watch);
/* Stops or begins to listen for connections: one that cannot be taken would be told of for ever. */
void server_deafen(struct server *server, bool deaf);

/* quiet.c */
bool log_limit_may(
	struct server *server, enum log_limit_kind kind); /* log a line; false: leave it out */
void log_limit_tick(struct server *server); /* once a second */
void log_limit_end(struct server *server);

/* lent.c */
/* Takes over the loan, the line and the charge: all go back when nobody has the memory any more. */
void handouts_keep(struct server *server, struct peer *peer, enum peer_kind kind,
	struct handout loan, int line, uint64_t bytes);
void handouts_sweep(struct server *server);
/* Whether some was given up by the daemon only just now: it is about to come back. */
bool handouts_returns(const struct server *server);
/* How long the loop may wait, which wanted to wait so long. */
int handouts_timeout_ms(const struct server *server, int timeout_ms);
uint64_t handouts_bytes(const struct server *server);
void handouts_deinit(struct server *server); /* gives them up */

/* recorder.c */
void recorder_start(struct server *server); /* before any thread */
void recorder_watch(struct server *server); /* all is there that is told of the start */
void recorder_note(struct server *server, const char *text);
/* Why the daemon ends: the first one counts. */
void recorder_ending(struct server *server, const char *kind, const char *why);
void recorder_signalled(struct server *server, uint32_t number, uint32_t pid);
void recorder_end(struct server *server);
void recorder_attach(const struct member *m); /* its stream was answered */
void recorder_announced(struct member *m); /* a batch */
void recorder_leave(const struct client *client, const char *why);
void recorder_tick(struct server *server); /* once a second */
void recorder_hear(struct server *server); /* something came back */
uint64_t recorder_dropped(const struct recorder *recorder); /* never less than before */
/* The keys `recorder`, `resident_bytes`, `machine`, `gpus`. */
void recorder_status(struct jsontext *json, const struct server *server);
/* Of a trainer: `resident_bytes`, `gpu_bytes`, `cpu`, `command`. */
void recorder_status_trainer(struct jsontext *json, const struct client *client);

/* client.c */
/* Two of the reasons of client_close, which say how a trainer left. */
extern const char client_hung_up[], client_process_ended[], client_daemon_ends[];
void client_accept(struct server *server);
void client_readable(struct client *client);
void client_close(struct client *client,
	const char *why); /* marks dead; freed by client_sweep at the end of a turn */
/* What the dead held goes back. Their structs stay until client_sweep. */
void client_bury(struct server *server);
void client_sweep(struct server *server);
/* Sends, or closes a client that does not read. */
/* Closes it. `result`: conn_send's or conn_receive's. */
void client_lost(struct client *client, int result);
void client_send(struct client *client, struct wire_head *head, size_t bytes, const void *text,
	size_t text_bytes, int fd);
void client_error(
	struct client *client, uint32_t request, uint32_t stream, int code, const char *text);
/* `text` NULL: there is no memory for it. */
void client_answer(struct client *client, const struct wire_head *head, const char *text);
void client_want_write(struct client *client, bool want);

/* group.c */
struct member *group_find_member(const struct client *client, uint32_t stream);
unsigned group_size(const struct group *group);

/* Trainers, or ranks of the job, that are there: what `wait_for` counts. */
unsigned group_present(const struct group *group);
void group_leave(struct member *member);
void group_released(struct member *member, uint32_t slot);
/* Tells it that its stream, or its opening, is over; to one that has had its END nothing is. */
void group_say_over(struct member *member, int code, const char *text);
/* Ends the stream, or its opening, for all its members with this sentence. */
void group_refuse(struct group *group, int code, const char *text);
/* It takes no more members and goes as soon as it has none and nothing is in flight. */
void group_shut(struct group *group);
void group_turn(struct group *group); /* collects, announces, ends; after anything happened */
void group_tick(struct group *group); /* once a second */
/* Notes what its checkpoints met: once a second, and as it ends before the next. */
void group_remark(struct group *group);
/* Frees groups that nobody reads and nothing writes, then begins to open the new ones. */
void group_sweep(struct server *server);

/* arrival.c */
/* Reads the list of a definition with `indices`, then joins. */
void lists_task_open(
	struct client *client, const struct wire_head *head, const struct stream_spec *spec);
/* Whether this stream of the client is on its way there, and how many are. */
bool lists_task_is(const struct client *client, uint32_t stream);
unsigned lists_task_count(const struct client *client);
void lists_task_close(struct client *client, uint32_t stream); /* where it is */
void lists_task_leave(struct client *client); /* all of a client that is gone */
void lists_task_refuse(struct server *server, int code, const char *text); /* all */
/* Begins to read, and has those join whose list is there. */
void lists_task_sweep(struct server *server);

/* join.c */
/* `lists`: of the files that `spec` names; taken over. */
void join_open(struct client *client, const struct wire_head *head, const struct stream_spec *spec,
	struct sampling_lists *lists);
void join_opened(struct opening *opening);
/* Fixes where the stream begins and answers the members, when it is time to. */
void join_begin(struct group *group);

/* totals.c */
/* Its stream is about to be freed: what it counted stays. */
void totals_retire(struct group *group);
/* Since the daemon's start, of streams that are there and of those that are gone: never less than
 * before. */
void totals_read(const struct server *server, struct totals *ret);

/* publish.c: metrics and the page */
void publish_start(struct server *server);
void publish_tick(struct server *server); /* once a second */
void publish_sheet(struct server *server); /* after a wake-up: somebody may want one */
const char *publish_address(const struct server *server); /* "" where there is none */
void publish_end(struct server *server);

/* metrics.c: OpenMetrics text, malloc'ed; NULL when memory is out */
char *metrics_text(struct server *server);

/* opener.c: takes the group's lists along, unless it fails */
int open_task_start(struct server *server, struct group *group, const struct stream_spec *spec,
	struct fault *fault);
void open_task_collect(struct server *server);
/* A thread of the event loop's, with a small stack: 0, or what pthread_create says. */
int open_task_thread(pthread_t *ret, void *(*run)(void *argument), void *argument);

/* namer.c */
/* Answers it, some time later. The sample is one that the stream has. */
void path_task_ask(struct client *client, const struct wire_query *query, struct group *group);
/* Answers what is known. True while something is not: the stream must stay. */
bool path_task_collect(struct group *group);
void path_task_leave(const struct client *client); /* it is gone */

/* reload.c */
void reload_ask(struct server *server);
void reload_collect(struct server *server);
void reload_end(struct server *server); /* waits for it */

/* closer.c */
/* Frees a stream that is idle. The charge (PEER_KEPT) is taken over. */
void close_task_take(struct server *server, struct stream *stream, struct peer *peer);
void close_task_collect(struct server *server);

/* status.c: malloc'ed JSON or text; NULL when memory is out */
char *status_server(struct server *server);
char *status_stream(struct group *group);
void status_wait(struct group *group, char *buffer, size_t room);

/* sheet.c: rows of the newest complete batch of the stream at this place in /status, for
 * http_sheet_give. NULL: there is no such stream, no batch yet, or no memory. */
struct http_sheet *sheet_copy(const struct server *server, uint32_t place);

/* quarantine.c */
/* Begins to name what is new. True while lines are being written: the stream must stay. */
bool quarantine_take(struct group *group);
