/* reconnect: a fake daemon that dies as a script says, and an application that continues; for the
 * tests named after it.
 *
 * They have in common that, however a daemon dies and wherever in the protocol, each batch is given
 * once and in order, and batches that the application holds stay as they were. */
#pragma once

#include "client/fake.h"
#include "penstock/penstock.h"

/* Of all streams here but where a test says otherwise. */
extern const struct fake_shape endless;

/* A daemon whose every connection has its own end: */
enum end {
	AT_ACCEPT,
	AT_HELLO, /* after it was read */
	REFUSES_HELLO, /* as a daemon that is ending does */
	AT_WELCOME, /* after it was sent */
	AT_OPEN,
	REFUSES_OPEN, /* with .code */
	ANOTHER_REFUSES, /* the same, and says in WELCOME that it is another process */
	AT_OPENED,
	AT_EXTENT,
	AT_BATCH, /* after .batches of them */
	SHUTS_DOWN, /* the same, with ERROR -ESHUTDOWN, and then it stays for the releases */
	OPENS_ANOTHER, /* OPENED is .change'd */
	SENDS_GARBAGE, /* for WELCOME */
	OVERWRITES, /* after .batches, fills slot 0 with another and hangs up */
	ENDS_AND_OVERWRITES, /* the same, after END */
	STAYS,
};

struct life {
	enum end end;
	unsigned batches;
	int code;
	void (*change)(struct wire_opened *opened);
};

struct script {
	const char *name;
	struct life life[8]; /* of one connection after the other; the last for all further ones */
	unsigned lives;
};

/* A fake_serve, whose argument is a script: each connection is its next life. */
void serve_script(int fd, const void *argument);

/* One life from OPEN on. `again`: the stream was open before, and the client must say so. */
void serve_life(int fd, const struct life *life, bool again);

/* ---- the application ---- */

struct penstock_stream *open_stream(const struct fake *fake, int32_t reconnect_ms);
/* The same of "stream:mix", a stream of the daemon's configuration. */
struct penstock_stream *open_named(const struct fake *fake, int32_t reconnect_ms);

/* That the batch is the stream's number `ordinal`; that it comes next. */
void want_content(const struct penstock_batch *batch, uint64_t ordinal);
void want_next(struct penstock_stream *stream, struct penstock_batch *batch, uint64_t ordinal);

/* Takes and holds every batch that the daemon can announce, then kills the daemon. */
void lose(struct fake *fake, struct penstock_stream *stream, struct penstock_batch *batch);

/* That the stream has ended with this code and a sentence like this, and stays so. */
void want_over(struct penstock_stream *stream, int code, const char *sentence);

/* That no batch comes for a while, and why. */
void want_timeout(struct penstock_stream *stream, const char *sentence);

/* Whether the descriptor becomes readable. */
bool polls(int fd, int ms);
