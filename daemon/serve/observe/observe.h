/* observe: what the daemon says of itself.
 *
 * A map of this folder:
 *   observe.h            this header
 *   account.[ch]         where time goes, second by second
 *   bottleneck.c         what holds a stream up, from the accounts
 *   differs.c            what tells the streams of one dataset apart
 *   totals.c             what all streams counted since the start
 *   recorder.[ch]        what the flight recorder's witness is told, and what it measured
 *   status.c             the status, as JSON
 *   metrics.c            the metrics, as OpenMetrics
 *   sheet_rows.c         rows of the newest batch, for the page
 *   publish.c            hands the status, the metrics and the rows to http
 *   publish_absent.c     in its place in a build without HTTP
 *   supervisor.c         what systemd is told
 *   supervisor_absent.c  in its place in a build without libsystemd
 *
 * All functions: event loop. */
#pragma once

#include "stats/verdict.h"
#include "stream/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct account_second;
struct group;
struct http;
struct server;

/* ---- bottleneck.c ---- */

void bottleneck_find(const struct group *group, struct verdict *ret);
/* The verdict of the stream whose trainers wait most, with its name where there are several; and
 * its remedy. */
void bottleneck_server(
	const struct server *server, char *buffer, size_t room, char ret_remedy[VERDICT_TEXT]);

/* ---- differs.c ---- */

enum { DIFFERS_TEXT = 400 };

/* What tells the stream apart from the others of its dataset: "eval, seed 3"; "" if it is the
 * only one, or if its name or rank does. Where even the definitions are the same: its trainer. */
void differs_text(const struct group *group, char *buffer, size_t room);
/* Its name for a sentence beside other streams: "train", "job rank 2", and without a name "imagenet
 * (eval, seed 3)". */
void differs_name(const struct group *group, char *buffer, size_t room);

/* ---- totals.c ---- */

struct totals {
	struct stream_stats streams; /* counters only: what it says of the present is 0 */
	uint64_t trainer_wait_ns, slots_full_ns;
};

/* The group's stream is about to be freed: what it counted is kept. */
void totals_retire(struct group *group);
/* Since the daemon's start, of streams that are open and of those that are gone: never less than
 * before. */
void totals_read(const struct server *server, struct totals *ret);

/* ---- status.c: malloc'ed JSON, or NULL without memory ---- */

char *status_server(struct server *server);
char *status_stream(struct group *group);
/* A sentence: what the group's trainers are waiting for. */
void status_wait(struct group *group, char *buffer, size_t room);

/* ---- metrics.c: malloc'ed OpenMetrics text, or NULL without memory ---- */

char *metrics_text(struct server *server);

/* ---- sheet_rows.c ---- */

/* Rows of the newest complete batch of the stream at this place in the status, for http_sheet_give.
 * NULL: there is no such stream, no batch yet, or no memory. */
struct http_sheet *sheet_copy(const struct server *server, uint32_t place);

/* ---- publish.c ---- */

struct publish {
	struct http *http; /* NULL: off, or it could not listen */
	const char *address; /* NULL without http */
	uint64_t cpu_ns; /* that the last publishing took */
};

void publish_start(struct server *server);
void publish_tick(struct server *server); /* once a second */
void publish_sheet(struct server *server); /* after a wake-up: a page may want one */
void publish_end(struct server *server);

/* ---- supervisor.c ---- */

struct supervisor {
	uint64_t watchdog_ns; /* of systemd's watchdog; 0: there is none */
	uint64_t progress_ns; /* when the threads were last seen to make progress */
	bool told; /* the log says that they make none */
	char status[96]; /* told last */
};

void supervisor_start(struct server *server); /* when it listens */
void supervisor_tick(struct server *server); /* once a second, after the accounts */
void supervisor_reloading(void);
void supervisor_reloaded(void);
void supervisor_stopping(void);
/* Whether threads did something, or waited for something that they cannot hasten. Pure. */
bool supervisor_gets_on(const struct account_second *second);
