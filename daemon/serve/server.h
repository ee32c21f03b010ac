/* server: the daemon's event loop: sockets, signals, timers, streams and the trainers that read
 * them.
 *
 * A map of this folder:
 *   server.[ch]     this door: start, one turn of the loop, the instance lock, the end
 *   state.h         struct server, which the parts share
 *   session/        clients, the streams that they open, the groups that share a stream: a client's
 *                   message is checked in messages.c; a batch is announced, and its lease is
 *                   returned, in lease.c
 *   tasks/          work that may wait for storage for long, on threads of their own
 *   observe/        what the daemon says of itself: status, metrics, flight record, systemd
 *   loop.[ch]       the descriptors that the loop waits for
 *   drain.c         the end that SIGTERM or `penstock stop` begins: streams end at a batch
 *   budget.[ch]     how the memory budget is divided
 *   confined.[ch]   what the process may do
 *   remoted.[ch]   data in remote storage: its settings
 *   notices.h       the last few warnings, which the status shows
 *   log_limit.[ch]  keeps clients from filling the log
 *
 * One thread runs all of it, except the tasks. Each folder's main header (session.h, tasks.h,
 * observe.h) has a map of its own. */
#pragma once

#include "base/fault.h"
#include "config.h"

struct server;

/* Takes the instance lock, starts the stages' threads, listens, and logs how memory is divided.
 * Signals must be blocked already. 0, or a negative errno: -EBUSY if another daemon serves this
 * socket (the fault says which). `config` stays the caller's and must outlive the server. */
int server_new(struct config *config, struct server **ret, struct fault *fault);

/* Runs until SIGTERM, SIGINT, WIRE_STOP or the idle limit; drains. 0, or a negative errno when the
 * loop itself failed. */
int server_run(struct server *server, struct fault *fault);

/* One turn of the loop, which waits at most `timeout_ms` (-1: for ever): for a test that is both
 * daemon and client. 1 when the daemon has ended, 0, or a negative errno. */
int server_turn(struct server *server, int timeout_ms, struct fault *fault);

void server_free(struct server *server);

/* The path of its socket. */
const char *server_socket(const struct server *server);

/* Logs that a configuration file defines no streams. At the start and after a reload. */
void server_note_streams(const struct config *config);
