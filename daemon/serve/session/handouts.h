/* handouts: memory that clients were given and still hold after the daemon has finished with it:
 * the slots of streams that have ended, and answers that are too long for a message. Event loop.
 *
 * The memory stays allocated whatever the daemon does (batch/handout.h). So it stays reserved in
 * the ledger, and charged to the process it was made for, until every client has let go of it.
 * Otherwise a trainer that keeps what it was given, and opens streams again and again, would take
 * the daemon far beyond its budget.
 *
 * A client that closes a stream unmaps it in the next moment. So the daemon looks often at first,
 * then once a second. */
#pragma once

#include "batch/handout.h"
#include "serve/session/peer.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

/* Takes over the handout, the ledger's line and the peer's charge: all are returned when no client
 * holds the memory any more. */
void handouts_keep(struct server *server, struct peer *peer, enum peer_kind kind,
	struct handout handout, int line, uint64_t bytes);
void handouts_sweep(struct server *server);
/* Whether the daemon gave up some of it only just now: it is about to come back. */
bool handouts_returns(const struct server *server);
/* How long the loop may wait, if it otherwise waited `timeout_ms` (-1: for ever). */
int handouts_timeout_ms(const struct server *server, int timeout_ms);
uint64_t handouts_bytes(const struct server *server);
/* Gives them up. */
void handouts_deinit(struct server *server);
