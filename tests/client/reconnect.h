/* reconnect: a fake daemon that dies as a script says, and an application that continues; for the
 * tests named after it.
 *
 * In all of them, wherever in the protocol a daemon dies, each batch is given once and in order,
 * and batches that the application holds stay unchanged. */
#pragma once

#include "client/fake.h"
#include "penstock/penstock.h"

/* For all streams here, unless a test says otherwise. */
extern const struct fake_shape endless;

/* A daemon whose every connection has its own end: */
enum end {
	AT_ACCEPT,
	AT_HELLO, /* after it was read */
	REFUSES_HELLO, /* as an ending daemon does */
	AT_WELCOME, /* after it was sent */
	AT_OPEN,
	REFUSES_OPEN, /* with .code */
	ANOTHER_REFUSES, /* the same, and WELCOME names another process */
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

/* One life, starting at OPEN. `again`: the stream was open before, and the client must say so. */
void serve_life(int fd, const struct life *life, bool again);

/* ---- the application ---- */

struct penstock_stream *open_stream(const struct fake *fake, int32_t reconnect_ms);
/* The same of "stream:mix", a stream of the daemon's configuration. */
struct penstock_stream *open_named(const struct fake *fake, int32_t reconnect_ms);

/* Checks that the batch is the stream's number `ordinal`; that it is the next one. */
void want_content(const struct penstock_batch *batch, uint64_t ordinal);
void want_next(struct penstock_stream *stream, struct penstock_batch *batch, uint64_t ordinal);

/* Takes and holds every batch that the daemon can announce, then kills the daemon. */
void lose(struct fake *fake, struct penstock_stream *stream, struct penstock_batch *batch);

/* Checks that the stream has ended with this code and sentence, and stays ended. */
void want_over(struct penstock_stream *stream, int code, const char *sentence);

/* Checks that no batch comes for a while, and the reason. */
void want_timeout(struct penstock_stream *stream, const char *sentence);

/* Whether the descriptor becomes readable. */
bool polls(int fd, int ms);
