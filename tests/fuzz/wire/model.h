/* model: what PROTOCOL.md lets a daemon say on one connection.
 *
 * model_sent is told each datagram before it is sent, model_read reads what came and compares: the
 * type, the code, the request, the order, batches by name and by content, memory by its seals.
 * Anything that is unexpected or missing ends the process (world_wrong).
 *
 * Where the daemon may have done one of several things that cannot be told from here (a stream of a
 * dataset with a broken file may have ended just now), the connection is lax from there on: then
 * only the rules for every connection are checked. model_lax counts those. */
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
	MODEL_ALONE = 0, /* what it is given follows from its definition alone */
	MODEL_SHARED = 1, /* where it begins, and when, hangs on others; it may be refused */
	MODEL_FRAIL = 2, /* its stream may end with an error at any time */
};

/* A definition that is right. */
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
	MODEL_CLOSING, /* CLOSE was sent; what came before may not have been read */
};

struct model_slot {
	bool held;
	uint64_t serial, hash;
};

struct model_stream {
	enum model_state state;
	uint32_t number, request;
	int definition; /* -1: of none of the table */
	enum model_kind kind;
	bool must_open, lists;
	uint64_t epochs; /* asked for; 0: endless */
	uint64_t start_epoch, start_position; /* of a state */
	bool resumed, writable;
	struct wire_opened opened;
	bool memory; /* its extent is mapped */
	uint32_t extent, slots;
	uint64_t stride, bytes;
	const uint8_t *map;
	bool given, ended;
	bool overwritten; /* a slot had been filled again when its announcement was read */
	uint64_t serial, epoch, batch, position, count; /* of the next; count: of those that came */
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
	bool late; /* may come behind what was asked after it */
};

struct model {
	struct world *world;
	int fd; /* -1: not connected */
	bool greeted, doomed, lax, reads;
	bool told; /* the error that ends it has come */
	bool half; /* it has said that it sends no more */
	struct model_stream stream[MODEL_STREAMS];
	struct model_waiting waiting[MODEL_WAITING];
	unsigned first, count;
	unsigned next; /* of these, the one that model_next named */
	unsigned unread; /* requests that were open at once while it did not read */
};

/* What went through all connections. */
struct model_figures {
	uint64_t sent, received, batches, opened, refused, protocol_errors, lax;
	uint64_t flood; /* of those that ask and do not read: not counted in `sent` */
	uint64_t overwritten; /* batches that were read of when their leases had ended */
};
extern struct model_figures model_figures;
/* Of this program: definitions that are not of the table were opened, the daemon was stopped. */
extern bool model_odd, model_stopped;
extern unsigned model_openings; /* of it */
/* Until it is cleared, contents are learnt and not compared. */
extern bool model_learns;

void model_begin(struct model *model, struct world *world);
/* A datagram of `size` bytes, with so many descriptors, is about to be sent. `definition` and
 * `state` concern an OPEN; -1, NULL: nothing is known. */
void model_sent(struct model *model, const void *bytes, size_t size, unsigned fds, int definition);
/* The other end closes at the next look: an empty datagram, or the sending half was shut. */
void model_sent_end(struct model *model);
/* All that has come. */
void model_read(struct model *model);
/* Nothing is waited for any more: all answers came, or the connection is over as it had to. To be
 * called when the daemon has taken all and all was read. */
void model_settled(const struct model *model);
/* Hangs up, and forgets all. What was held must be as it was. */
void model_hang_up(struct model *model);

struct model_stream *model_stream(struct model *model, uint32_t number);
unsigned model_streams(const struct model *model);
