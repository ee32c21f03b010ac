/* server: the daemon's event loop: sockets, signals, timers, streams and who reads them.
 *
 * A map of this folder:
 *   plan.[ch]      how the memory budget is cut up
 *   server.[ch]    this door: start, the loop, signals, draining, the instance lock
 *   client.c       one connection: its messages
 *   peer.[ch]      who is at the other end, and how much it may hold
 *   lent.c         memory that clients still have when the daemon is through with it
 *   quiet.c        what clients bring about is logged so often, and no more
 *   join.c         who may join what, and where it begins
 *   group.c        one stream and its trainers: announcing, leases, hang-ups, laggards
 *   account.[ch]   where time goes, second by second, and the verdict of it
 *   totals.c       what all streams counted since the start
 *   recorder.c     what the flight recorder's witness is told, and what comes back
 *   opener.c       the thread that opens a stream, since building an index takes long
 *   arrival.c      the thread that reads lists of samples before that
 *   closer.c       the thread that frees a stream, since its storage may hang
 *   namer.c        the thread that looks up samples' paths, since their index may hang
 *   reload.c       the configuration, read again
 *   status.c       what the daemon says of itself, as JSON
 *   metrics.c      the same as OpenMetrics
 *   publish.c      hands both to http once a second, and rows for the page when they are asked for
 *   sheet.c        copies those rows
 *   quarantine.c   the file that names broken samples
 *
 * One thread runs all of it but what arrival, opener, closer, namer, reload and quarantine do on
 * threads of their own, each with a structure that is its alone until it has handed it over. */
#pragma once

#include "base/fault.h"
#include "config.h"

struct server;

/* Takes the instance lock, makes the stages' threads, listens. Signals must be blocked already. 0
 * or negative errno: -EBUSY another daemon serves this socket (says which). The plan of the memory
 * is logged. `config` stays the caller's and must outlive the server. */
int server_new(struct config *config, struct server **ret, struct fault *fault);

/* Runs until SIGTERM, SIGINT, WIRE_STOP or the idle limit; drains. 0, or a negative errno when the
 * loop itself failed. */
int server_run(struct server *server, struct fault *fault);

/* One turn of that loop, which waits at most so long (-1: for ever): for a test that is both ends
 * at once. 1 when the daemon has come to its end, 0, or a negative errno. */
int server_turn(struct server *server, int timeout_ms, struct fault *fault);

void server_free(struct server *server);

/* The path that is served. */
const char *server_socket(const struct server *server);
