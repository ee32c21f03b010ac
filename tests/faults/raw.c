/* raw: a trainer that sends and receives the messages itself. Steps, in order: connected,
 * hello-sent, welcomed, open-sent, opened, extent-received, mapped; for each batch batch-received,
 * reading, read, full (it holds all), before-release, released; query-sent, answered,
 * error-received, withdrawn; ended, close-sent, closed.
 *
 * A message that breaks the protocol ends it with a note. tests/client has the lying daemons. */
#include "faults/trainer.h"
#include "proto/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RAW_STREAM = 1, RAW_QUERY = 10, RAW_UNKNOWN_QUERY = 11, RAW_HELD = WIRE_SLOTS_MAX };

struct raw {
	struct trainer *t;
	struct wire_opened opened;
	struct wire_extent extent;
	const uint8_t *memory;
	struct wire_batch held[RAW_HELD]; /* oldest first */
	uint32_t held_count;
	uint64_t given;
	bool over;
};

static struct conn_message raw_message;

__attribute__((noreturn)) static void raw_end(const struct raw *raw, int code, const char *why)
{
	trainer_note(raw->t, "%s", why);
	exit(code);
}

static void raw_send(const struct raw *raw, struct wire_head *head, size_t bytes, const char *text)
{
	int result = conn_send(raw->t->fd, false, head, bytes, text, text ? strlen(text) : 0, -1);
	/* The daemon's last messages may still be in the socket. */
	if (result && result != CONN_E_CLOSED)
		raw_end(raw, TRAINER_ERROR, "error: cannot send");
}

static void raw_receive(const struct raw *raw)
{
	int result = conn_receive(raw->t->fd, false, &raw_message);
	if (result == CONN_E_CLOSED || result == -ECONNRESET)
		raw_end(raw, TRAINER_LOST, "lost");
	if (result)
		raw_end(raw, TRAINER_ERROR, "error: malformed message");
}

static const void *raw_as(
	const struct raw *raw, enum wire_type type, size_t fixed_bytes, size_t text_field)
{
	const void *message = conn_view(&raw_message, type, fixed_bytes, text_field);
	if (!message)
		raw_end(raw, TRAINER_ERROR, "error: not the message that the protocol says");
	return message;
}

/* ---- the daemon's messages ---- */

static void raw_on_error(const struct raw *raw)
{
	const struct wire_error *error =
		raw_as(raw, WIRE_ERROR, sizeof *error, offsetof(struct wire_error, text_bytes));
	if (error->head.request == RAW_UNKNOWN_QUERY) {
		trainer_step(raw->t, "error-received");
		return;
	}
	trainer_note(raw->t, "error %d %.*s", error->code, (int)error->text_bytes,
		(const char *)(error + 1));
	exit(TRAINER_ERROR);
}

static void raw_on_extent(struct raw *raw)
{
	const struct wire_extent *extent = raw_as(raw, WIRE_EXTENT, sizeof *extent, 0);
	int fd = raw_message.fd;
	raw->extent = *extent;
	if (fd < 0)
		raw_end(raw, TRAINER_ERROR, "error: an extent without a descriptor");
	trainer_step(raw->t, "extent-received");
	void *memory = mmap(NULL, raw->extent.bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED || close(fd))
		raw_end(raw, TRAINER_ERROR, "error: the extent cannot be mapped");
	raw->memory = memory;
	trainer_step(raw->t, "mapped");
}

/* The head must be that of the announced batch; otherwise something writes to a leased slot. */
static struct trainer_batch raw_look(const struct raw *raw, const struct wire_batch *b)
{
	const uint8_t *slot = raw->memory + b->slot * raw->extent.slot_stride;
	struct slots_head head;
	memcpy(&head, slot, sizeof head);
	if (head.magic != SLOTS_MAGIC || head.serial != b->serial || head.epoch != b->epoch ||
		head.batch != b->batch || head.position != b->position || head.count != b->count)
		raw_end(raw, TRAINER_ERROR, "error: the slot holds another batch");
	return (struct trainer_batch){
		.epoch = b->epoch,
		.batch = b->batch,
		.position = b->position,
		.count = b->count,
		.flags = b->flags,
		.images = slot + head.images_offset,
		.labels = slot + head.labels_offset,
		.records = slot + head.records_offset,
		.row_bytes = head.row_bytes,
		.label_bytes = sizeof(int64_t) * head.label_width,
	};
}

static void raw_release(struct raw *raw)
{
	uint32_t which = raw->t->newest ? raw->held_count - 1 : 0;
	const struct wire_batch b = raw->held[which];
	struct wire_release release = {
		.head = {.type = WIRE_RELEASE, .stream = RAW_STREAM},
		.extent = b.extent,
		.slot = b.slot,
		.serial = b.serial,
	};
	(void)raw_look(raw, &b);
	memmove(raw->held + which, raw->held + which + 1,
		(--raw->held_count - which) * sizeof *raw->held);
	trainer_step(raw->t, "before-release");
	raw_send(raw, &release.head, sizeof release, NULL);
	trainer_step(raw->t, "released");
}

static void raw_ask(const struct raw *raw)
{
	struct wire_query query = {
		.head = {.type = WIRE_QUERY, .request = RAW_QUERY, .stream = RAW_STREAM},
		.kind = WIRE_QUERY_WAIT};
	raw_send(raw, &query.head, sizeof query, NULL);
	query.head.request = RAW_UNKNOWN_QUERY;
	query.kind = UINT32_MAX;
	raw_send(raw, &query.head, sizeof query, NULL);
	trainer_step(raw->t, "query-sent");
}

static void raw_on_batch(struct raw *raw)
{
	const struct wire_batch *message = raw_as(raw, WIRE_BATCH, sizeof *message, 0);
	struct trainer *t = raw->t;
	if (!raw->memory || message->extent != raw->extent.extent ||
		message->slot >= raw->extent.slot_count || raw->held_count == raw->opened.slots)
		raw_end(raw, TRAINER_ERROR, "error: a batch where none can be");
	const struct wire_batch batch = *message;
	raw->held[raw->held_count++] = batch;
	const struct trainer_batch look = raw_look(raw, &batch);
	trainer_read(t, &look);
	raw->given++;
	if (raw->held_count == raw->opened.slots)
		trainer_step(t, "full");
	if (raw->given == t->query)
		raw_ask(raw);
	trainer_pause(t);
	while (raw->held_count > t->hold || raw->held_count == raw->opened.slots)
		raw_release(raw);
	raw->over = trainer_enough(t, raw->given);
}

static void raw_take(struct raw *raw)
{
	raw_receive(raw);
	switch (raw_message.head.type) {
	case WIRE_EXTENT:
		raw_on_extent(raw);
		return;
	case WIRE_BATCH:
		raw_on_batch(raw);
		return;
	case WIRE_ANSWER:
		trainer_step(raw->t, "answered");
		return;
	case WIRE_WITHDRAWN:
		trainer_step(raw->t, "withdrawn");
		return;
	case WIRE_END:
		trainer_note(raw->t, "end");
		trainer_step(raw->t, "ended");
		raw->over = true;
		return;
	default:
		raw_on_error(raw);
		return;
	}
}

/* ---- the trainer's life ---- */

static void raw_connect(struct raw *raw)
{
	struct trainer *t = raw->t;
	struct wire_hello hello = {
		.head = {.type = WIRE_HELLO, .request = 1},
		.magic = WIRE_MAGIC,
		.version_min = WIRE_VERSION_MIN,
		.version_max = WIRE_VERSION_MAX,
	};
	if (conn_connect(t->socket, &t->fd))
		raw_end(raw, TRAINER_ERROR, "error: nobody listens");
	trainer_step(t, "connected");
	raw_send(raw, &hello.head, sizeof hello, NULL);
	trainer_step(t, "hello-sent");
	raw_receive(raw);
	if (raw_message.head.type == WIRE_ERROR)
		raw_on_error(raw);
	(void)raw_as(raw, WIRE_WELCOME, sizeof(struct wire_welcome),
		offsetof(struct wire_welcome, text_bytes));
	trainer_step(t, "welcomed");
}

static void raw_open(struct raw *raw)
{
	struct wire_open open = {
		.head = {.type = WIRE_OPEN, .request = 2, .stream = RAW_STREAM},
		.text_bytes = (uint32_t)strlen(raw->t->open),
	};
	raw_send(raw, &open.head, sizeof open, raw->t->open);
	trainer_step(raw->t, "open-sent");
	raw_receive(raw);
	if (raw_message.head.type == WIRE_ERROR)
		raw_on_error(raw);
	const struct wire_opened *o = raw_as(raw, WIRE_OPENED, sizeof *o, 0);
	raw->opened = *o;
	trainer_note(raw->t,
		"opened %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %" PRIu64 " %" PRIu64
		" %" PRIu64 " %" PRIu64 " %u %u %u %u",
		o->fingerprint, o->order, o->transform, o->seed, o->epoch, o->batch, o->position,
		o->batch_size, o->rank, o->world_size, o->slots);
	trainer_step(raw->t, "opened");
}

int raw_run(struct trainer *t)
{
	static struct raw raw;
	raw.t = t;
	raw_connect(&raw);
	if (!t->open)
		return TRAINER_DONE;
	raw_open(&raw);
	while (!raw.over)
		raw_take(&raw);
	struct wire_close message = {.head = {.type = WIRE_CLOSE, .stream = RAW_STREAM}};
	raw_send(&raw, &message.head, sizeof message, NULL);
	trainer_step(t, "close-sent");
	(void)close(t->fd);
	t->fd = -1;
	trainer_step(t, "closed");
	return TRAINER_DONE;
}
