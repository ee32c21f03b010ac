/* fault_batch: see fault.h. BATCH and slot heads that no daemon sends, and messages that must
 * not follow a good batch. */
#include "client/fault.h"

#include <errno.h>
#include <string.h>

/* ---- BATCH: the message, and the head of its slot ---- */

/* Changes of the message `b` or of the slot's head `h`, and the client's sentences. */
#define CHANGES(X)                                                                               \
	X(batch_extent, b->extent = 1, "an extent that it has not announced")                    \
	X(batch_slot, b->slot = 4, "a slot that the extent does not have")                       \
	X(batch_far_slot, b->slot = UINT32_MAX, "a slot that the extent does not have")          \
	X(batch_no_rows, b->count = 0; h->count = 0, "impossible number of rows")                \
	X(batch_many_rows, b->count = 5; h->count = 5, "impossible number of rows")              \
	X(batch_serial, b->serial++, "names another batch")                                      \
	X(batch_position, b->position++, "names another batch")                                  \
	X(batch_count, b->count--, "names another batch")                                        \
	X(head_epoch, h->epoch++, "names another batch")                                         \
	X(head_batch, h->batch++, "names another batch")                                         \
	X(batch_epoch, b->epoch++, "that is not the next one")                                   \
	X(batch_name, b->batch++, "that is not the next one")                                    \
	X(head_magic, h->magic++, "is not of this version")                                      \
	X(head_version, h->version++, "is not of this version")                                  \
	X(head_short, h->head_bytes -= 8, "is not of this version")                              \
	X(head_batch_size, h->batch_size++, "not that of the stream")                            \
	X(head_views, h->views = 2, "not that of the stream")                                    \
	X(head_no_views, h->views = 0, "not that of the stream")                                 \
	X(head_height, h->height++, "not that of the stream")                                    \
	X(head_no_height, (h->height = 0, h->row_bytes = 0), "not that of the stream")           \
	X(head_width, h->width++, "not that of the stream")                                      \
	X(head_no_width, (h->width = 0, h->row_bytes = 0), "not that of the stream")             \
	X(head_larger, (h->height++, h->row_bytes += 3u * h->width), "not that of the stream")   \
	X(head_smaller_alone, h->height--, "not that of the stream")                             \
	X(head_larger_rows, h->row_bytes++, "not that of the stream")                            \
	X(head_smaller_rows, h->row_bytes--, "not that of the stream")                           \
	X(head_channels, h->channels = 1, "not that of the stream")                              \
	X(head_pixel_type, h->pixel_type = SLOTS_F16, "not that of the stream")                  \
	X(head_pixel_layout, h->pixel_layout = SLOTS_NCHW, "not that of the stream")             \
	X(head_label_type, h->label_type = SLOTS_LABEL_F32, "not that of the stream")            \
	X(head_label_width, h->label_width = 2, "not that of the stream")                        \
	X(head_record_bytes, h->record_bytes = 72, "not that of the stream")                     \
	X(head_row_bytes, h->row_bytes *= 2, "not that of the stream")                           \
	X(head_images_in_head, h->images_offset = 64, "lead out of the slot")                    \
	X(head_images_odd, h->images_offset += 4, "lead out of the slot")                        \
	X(head_images_out, h->images_offset = t->memory->stride - 64, "lead out of the slot")    \
	X(head_images_far, h->images_offset = UINT64_MAX - 63, "lead out of the slot")           \
	X(head_labels_out, h->labels_offset = t->memory->stride, "lead out of the slot")         \
	X(head_labels_beyond, h->labels_offset = t->memory->stride + 64, "lead out of the slot") \
	X(head_records_out, h->records_offset = t->memory->stride - 64, "lead out of the slot")

#define SEND_BATCH(function, change, sentence)                               \
	static void function(const struct fault_turn *t)                     \
	{                                                                    \
		struct wire_batch *b = (struct wire_batch *)(void *)t->next; \
		struct slots_head *h = fake_slot(t->memory, 0);              \
		(void)b, (void)h;                                            \
		change;                                                      \
		fault_send(t, -1);                                           \
	}
CHANGES(SEND_BATCH)

static void batch_withdrawn(const struct fault_turn *t)
{
	struct wire_withdrawn withdrawn = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = 0};
	fake_send(t->fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	fault_send(t, -1);
}

/* ---- after a good first batch ---- */

static void same_slot_again(const struct fault_turn *t)
{
	struct wire_batch *batch = (struct wire_batch *)(void *)t->next;
	batch->serial++;
	batch->batch++;
	fault_send(t, -1);
}

static void same_serial_again(const struct fault_turn *t)
{
	fake_send_batch(t->fd, &fault_shape, t->memory, 1, 0);
}

static void serial_gap(const struct fault_turn *t)
{
	fake_send_batch(t->fd, &fault_shape, t->memory, 1, 2);
}

/* A correct serial does not make it the right batch. */
static void send_as_second(int fd, const struct fake_memory *memory, uint64_t ordinal)
{
	struct wire_batch batch = fake_fill(&fault_shape, memory, 1, ordinal);
	batch.serial = fake_slot(memory, 1)->serial = fault_shape.first_serial + 1;
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

static void same_batch_again(const struct fault_turn *t)
{
	send_as_second(t->fd, t->memory, 0);
}

static void batch_left_out(const struct fault_turn *t)
{
	send_as_second(t->fd, t->memory, 2);
}

/* Codes that have a meaning in the client itself. */
#define SEND_CODE(function, code)                                                      \
	static void function(const struct fault_turn *t)                               \
	{                                                                              \
		fake_send_error(t->fd, 0, 1, code, "the network file system is away"); \
	}

SEND_CODE(fail_again, -EAGAIN)
SEND_CODE(fail_interrupted, -EINTR)
SEND_CODE(fail_timed_out, -ETIMEDOUT)
SEND_CODE(fail_pipe, -EPIPE)

static void fail_stream(const struct fault_turn *t)
{
	fake_send_error(
		t->fd, 0, 1, -EIO, "/data/a.tar: reading failed at byte 12: Input/output error");
}

static void shut_down(const struct fault_turn *t)
{
	fake_send_error(t->fd, 0, 1, -ESHUTDOWN, "the daemon is ending: it was sent SIGTERM");
}

static void end_then_batch(const struct fault_turn *t)
{
	struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}, .epochs = 1, .batches = 1};
	fake_send(t->fd, &end.head, sizeof end, NULL, 0, -1);
	fake_send_batch(t->fd, &fault_shape, t->memory, 1, 1);
}

static void cut_end(const struct fault_turn *t)
{
	struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}};
	fake_send(t->fd, &end.head, sizeof end - 8, NULL, 0, -1);
}

static void answer_unasked(const struct fault_turn *t)
{
	fake_send_answer(t->fd, 77, "what?");
}

static void answer_nothing(const struct fault_turn *t)
{
	fake_send_answer(t->fd, 0, "what?");
}

/* An answer to a question that was given up long ago (OPEN's number will do) is not a fault: the
 * wait continues, here until the hang-up. */
static void answer_late(const struct fault_turn *t)
{
	fake_send_answer(t->fd, 2, "late");
	fake_send_error(t->fd, 2, 1, -EINVAL, "late too");
}

/* Sends without end, and never lets the client wait. */
static void flood_with(int fd, struct wire_head *head, size_t bytes, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	while (conn_send(fd, false, head, bytes, text, length, -1) == CONN_OK)
		continue;
}

static void flood_answers(const struct fault_turn *t)
{
	struct wire_answer answer = {
		.head = {.type = WIRE_ANSWER, .request = 2}, .total_bytes = 4, .text_bytes = 4};
	flood_with(t->fd, &answer.head, sizeof answer, "late");
}

static void flood_errors(const struct fault_turn *t)
{
	struct wire_error error = {.head = {.type = WIRE_ERROR, .request = 2, .stream = 1},
		.code = -EINVAL,
		.text_bytes = 4};
	flood_with(t->fd, &error.head, sizeof error, "late");
}

#define CHANGE_FAULT(function, change, sentence) {#function, BATCH, function, 0, -EPROTO, sentence},

const struct fault faults_of_batch[] = {
	CHANGES(CHANGE_FAULT){"hang up before batch", BATCH, fault_hang_up, 0, -EPIPE,
		"has ended or closed the connection"},
	{"cut batch", BATCH, fault_cut, 0, -EPROTO, "malformed BATCH"},
	{"long batch", BATCH, fault_lengthen, 0, -EPROTO, "malformed BATCH"},
	{"garbage for batch", BATCH, fault_send_garbage, 0, -EPROTO, "malformed message"},
	{"batch of another stream", BATCH, fault_send_other_stream, 0, -EPROTO,
		"stream 2, which is not open"},
	{"batch with a descriptor", BATCH, fault_send_with_fd, 0, -EPROTO,
		"descriptor with a message"},
	{"withdrawn extent", BATCH, batch_withdrawn, 0, -EPROTO,
		"an extent that it has not announced"},

	{"hang up after a batch", AFTER, fault_hang_up, 0, -EPIPE,
		"has ended or closed the connection"},
	{"same slot again", AFTER, same_slot_again, 0, -EPROTO, "this client still holds"},
	{"same serial again", AFTER, same_serial_again, 0, -EPROTO, "out of order"},
	{"gap in serials", AFTER, serial_gap, 0, -EPROTO, "out of order"},
	{"same batch again", AFTER, same_batch_again, 0, -EPROTO, "that is not the next one"},
	{"a batch left out", AFTER, batch_left_out, 0, -EPROTO, "that is not the next one"},
	{"stream fails: try again", AFTER, fail_again, 0, -EIO, "file system is away"},
	{"stream fails: interrupted", AFTER, fail_interrupted, 0, -EIO, "file system is away"},
	{"stream fails: timed out", AFTER, fail_timed_out, 0, -EIO, "file system is away"},
	{"stream fails: broken pipe", AFTER, fail_pipe, 0, -EIO, "file system is away"},
	{"stream fails", AFTER, fail_stream, 0, -EIO, "/data/a.tar: reading failed at byte 12"},
	{"daemon shuts down", AFTER, shut_down, 0, -ESHUTDOWN, "it was sent SIGTERM"},
	{"connection ended", AFTER, fault_end_connection, 0, -EPROTO,
		"expected RELEASE of something held"},
	{"cut end", AFTER, cut_end, 0, -EPROTO, "malformed END"},
	{"batch after the end", AFTER, end_then_batch, 0, PENSTOCK_END, ""},
	{"unasked answer", AFTER, answer_unasked, 0, -EPROTO, "question that was not asked"},
	{"answer to nothing", AFTER, answer_nothing, 0, -EPROTO, "question that was not asked"},
	{"late answers", AFTER, answer_late, 0, -EPIPE, "has ended or closed the connection"},
	{"answers without end", AFTER, flood_answers, 0, -EPROTO,
		"messages that were not asked for"},
	{"refusals without end", AFTER, flood_errors, 0, -EPROTO,
		"messages that were not asked for"},
	{"gone without hang-up", AFTER, fault_die_without_hangup, 0, -EPIPE,
		"died without closing"},
	{0},
};
