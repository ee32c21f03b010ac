/* liar: the daemon's end of a client's connections, in the client's own process and thread.
 *
 * conn_connect and all of client/lib/wait.h replace the library's functions (ld --wrap): a
 * connection is a socket pair, and when the library would wait, the liar runs instead. It sends
 * the messages of its tape, correct or wrong, and judges each by PROTOCOL.md as it sends it. So
 * it knows what the client must accept, and from which message on it must accept nothing more.
 * Time is a number that only waiting moves. */
#pragma once

#include "penstock/penstock.h"
#include "proto/slots.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LIAR_QUEUE = 256,
	LIAR_MAPS = 80,
	LIAR_SLOTS = 8,
};

/* A batch that was announced correctly. */
struct liar_batch {
	struct wire_batch message;
	const uint8_t *slot; /* in the liar's own mapping */
	uint64_t stride;
	bool sound; /* its slot's head is correct */
	uint64_t mark; /* what its memory is filled with */
};

struct liar_figures {
	uint64_t messages, right, wrong, batches, connections, hangs;
};
extern struct liar_figures liar_figures;

/* Starts a new case: these bytes determine what the liar does. */
void liar_begin(const uint8_t *bytes, size_t size, bool writable);
/* Closes everything that the liar has. */
void liar_end(void);

/* What a client must report about its current connection. */
bool liar_welcomed(void); /* it was greeted, and its stream opened, correctly */
bool liar_ended(void); /* END was sent at the right time */
bool liar_broke(void); /* the protocol was broken, or may have been, or the connection is over */
bool liar_is_unsure(void); /* it is no longer known what the client must accept */
bool liar_is_strange(void); /* the stream is correct, but unknown to this library */

/* The batch that the application must get next; NULL: none. And that it got it. */
struct liar_batch *liar_next(void);
void liar_given(void);
/* The next byte of the tape for the application. */
uint32_t liar_draw(uint32_t below);
bool liar_is_over(void); /* the tape is at its end */
int64_t liar_now_ns(void);
