/* model: the messages that PROTOCOL.md allows a daemon on one connection.
 *
 * model_sent takes each datagram before it is sent; model_read reads the received messages and
 * compares the type, the code, the request, the order, batches by name and content, and memory by
 * its seals. Anything that is unexpected or missing ends the process (world_wrong).
 *
 * If the model cannot know which of several things the daemon has done (a stream of a dataset
 * with a broken file may have just ended), the connection becomes lax: from then on the model
 * checks only the rules for every connection. model_lax counts those. */
#pragma once

#include "world.h"

enum {
	MODEL_STREAMS = 24, /* the daemon allows 16 */
	MODEL_WAITING = 512,
	MODEL_SLOTS = 64,
	MODEL_DEFINITIONS = 24,
	MODEL_HASHES = 256, /* batches of each definition whose content is known */
};

enum model_kind {
	MODEL_ALONE = 0, /* its batches depend only on its definition */
	MODEL_SHARED = 1, /* its start depends on other trainers; it may be refused */
	MODEL_FRAIL = 2, /* its stream may end with an error at any time */
};

/* A valid definition. */
struct model_definition {
	const char *text; /* @: the world's root */
	enum model_kind kind;
	bool same_order; /* batches begin at the first of epoch 0, so their content is known */
};
extern const struct model_definition model_definitions[];
extern const unsigned model_definition_count;

enum model_state {
	MODEL_NONE,
	MODEL_OPENING,
	MODEL_OPEN,
	MODEL_OVER, /* ended by the daemon with an error; CLOSE is due */
	MODEL_CLOSING, /* CLOSE was sent; earlier messages may be unread */
};

struct model_slot {
	bool held;
	uint64_t serial, hash;
};

struct model_stream {
	enum model_state state;
	uint32_t number, request;
	int definition; /* -1: not in the table */
	enum model_kind kind;
	bool must_open, lists;
	uint64_t epochs; /* requested; 0: endless */
	uint64_t start_epoch, start_position; /* of a state */
	bool resumed, writable;
	struct wire_opened opened;
	bool memory; /* its extent is mapped */
	uint32_t extent, slots;
	uint64_t stride, bytes;
	const uint8_t *map;
	bool given, ended;
	bool overwritten; /* a slot had been filled again when its announcement was read */
	uint64_t serial, epoch, batch, position,
		count; /* of the next batch; count: of those that came */
	uint32_t held;
	struct model_slot slot[MODEL_SLOTS];
};

enum model_wait {
	WAIT_WELCOME,
	WAIT_ANSWER,
	WAIT_REFUSAL, /* ERROR with this code; 0: any */
	WAIT_EITHER, /* an answer, or ERROR -EINVAL */
	WAIT_FATAL, /* ERROR -EPROTO, and the connection's end */
};

struct model_waiting {
	enum model_wait what;
	uint32_t request, stream;
	int code;
	bool late; /* may come after answers to later requests */
};

struct model {
	struct world *world;
	int fd; /* -1: not connected */
	bool greeted, doomed, lax, reads;
	bool told; /* the error that ends it has come */
	bool half; /* the client has shut its sending half */
	struct model_stream stream[MODEL_STREAMS];
	struct model_waiting waiting[MODEL_WAITING];
	unsigned first, count;
	unsigned next; /* of these, the one that model_next named */
	unsigned unread; /* requests that were open at once while it did not read */
};

/* Totals over all connections. */
struct model_figures {
	uint64_t sent, received, batches, opened, refused, protocol_errors, lax;
	uint64_t flood; /* requests of clients that do not read: not counted in `sent` */
	uint64_t
		/* Batches whose announcements were read after their leases had ended. */
		overwritten;
};
extern struct model_figures model_figures;
/* Of this program: definitions that are not of the table were opened, the daemon was stopped. */
extern bool model_odd, model_stopped;
extern unsigned model_openings; /* of it */
/* Until this is cleared, the model learns contents and does not compare them. */
extern bool model_learns;

void model_begin(struct model *model, struct world *world);
/* A datagram of `size` bytes, with that many descriptors, is about to be sent. `definition` and
 * `state` concern an OPEN; -1, NULL: nothing is known. */
void model_sent(struct model *model, const void *bytes, size_t size, unsigned fds, int definition);
/* The daemon will close the connection: the client sent an empty datagram, or shut its sending
 * half. */
void model_sent_end(struct model *model);
/* Reads all received messages. */
void model_read(struct model *model);
/* Checks that nothing is still expected: all answers came, or the connection ended as it had to.
 * Call this after the daemon has handled everything and everything was read. */
void model_settled(const struct model *model);
/* Hangs up and forgets everything. Held batches must be unchanged. */
void model_hang_up(struct model *model);

struct model_stream *model_stream(struct model *model, uint32_t number);
unsigned model_streams(const struct model *model);
