/* fault_batch: see fault.h. BATCH and the head of its slot as no daemon sends them, and what may
 * not follow a good batch. */
#include "client/fault.h"

#include <errno.h>
#include <string.h>

/* ---- BATCH: the message, and the head of its slot ---- */

#define SEND_BATCH(function, change)                                                      \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		struct wire_batch *b = (struct wire_batch *)(void *)next;                 \
		struct slots_head *h = fake_slot(memory, 0);                              \
		(void)b, (void)h;                                                         \
		change;                                                                   \
		fake_send(fd, next, bytes, NULL, 0, -1);                                  \
	}

SEND_BATCH(batch_extent, b->extent = 1)
SEND_BATCH(batch_slot, b->slot = 4)
SEND_BATCH(batch_far_slot, b->slot = UINT32_MAX)
SEND_BATCH(batch_no_rows, b->count = 0; h->count = 0)
SEND_BATCH(batch_many_rows, b->count = 5; h->count = 5)
SEND_BATCH(batch_serial, b->serial++)
SEND_BATCH(batch_epoch, b->epoch++)
SEND_BATCH(batch_name, b->batch++)
SEND_BATCH(batch_position, b->position++)
SEND_BATCH(batch_count, b->count--)
SEND_BATCH(head_epoch, h->epoch++)
SEND_BATCH(head_batch, h->batch++)
SEND_BATCH(head_magic, h->magic++)
SEND_BATCH(head_version, h->version++)
SEND_BATCH(head_short, h->head_bytes -= 8)
SEND_BATCH(head_batch_size, h->batch_size++)
SEND_BATCH(head_views, h->views = 2)
SEND_BATCH(head_no_views, h->views = 0)
SEND_BATCH(head_height, h->height++)
SEND_BATCH(head_no_height, (h->height = 0, h->row_bytes = 0))
SEND_BATCH(head_width, h->width++)
SEND_BATCH(head_no_width, (h->width = 0, h->row_bytes = 0))
SEND_BATCH(head_larger, (h->height++, h->row_bytes += 3u * h->width))
SEND_BATCH(head_smaller_alone, h->height--)
SEND_BATCH(head_larger_rows, h->row_bytes++)
SEND_BATCH(head_smaller_rows, h->row_bytes--)
SEND_BATCH(head_channels, h->channels = 1)
SEND_BATCH(head_pixel_type, h->pixel_type = SLOTS_F16)
SEND_BATCH(head_pixel_layout, h->pixel_layout = SLOTS_NCHW)
SEND_BATCH(head_label_type, h->label_type = SLOTS_LABEL_F32)
SEND_BATCH(head_label_width, h->label_width = 2)
SEND_BATCH(head_record_bytes, h->record_bytes = 72)
SEND_BATCH(head_row_bytes, h->row_bytes *= 2)
SEND_BATCH(head_images_in_head, h->images_offset = 64)
SEND_BATCH(head_images_odd, h->images_offset += 4)
SEND_BATCH(head_images_out, h->images_offset = memory->stride - 64)
SEND_BATCH(head_images_far, h->images_offset = UINT64_MAX - 63)
SEND_BATCH(head_labels_out, h->labels_offset = memory->stride)
SEND_BATCH(head_labels_beyond, h->labels_offset = memory->stride + 64)
SEND_BATCH(head_records_out, h->records_offset = memory->stride - 64)

static void batch_withdrawn(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_withdrawn withdrawn = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = 0};
	(void)memory;
	fake_send(fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	fake_send(fd, next, bytes, NULL, 0, -1);
}

/* ---- after a good first batch ---- */

static void same_slot_again(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_batch *batch = (struct wire_batch *)(void *)next;
	(void)memory;
	batch->serial++;
	batch->batch++;
	fake_send(fd, next, bytes, NULL, 0, -1);
}

static void same_serial_again(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes;
	struct wire_batch batch = fake_fill(&fault_shape, memory, 1, 0);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

static void serial_gap(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes;
	struct wire_batch batch = fake_fill(&fault_shape, memory, 1, 2);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

/* A right serial does not make it the right batch. */
static void send_as_second(int fd, const struct fake_memory *memory, uint64_t ordinal)
{
	struct wire_batch batch = fake_fill(&fault_shape, memory, 1, ordinal);
	batch.serial = fake_slot(memory, 1)->serial = fault_shape.first_serial + 1;
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

static void same_batch_again(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes;
	send_as_second(fd, memory, 0);
}

static void batch_left_out(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes;
	send_as_second(fd, memory, 2);
}

/* Codes that mean something of the client's own. */
#define SEND_CODE(function, code)                                                         \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		(void)next, (void)bytes, (void)memory;                                    \
		fake_send_error(fd, 0, 1, code, "the network file system is away");       \
	}

SEND_CODE(fail_again, -EAGAIN)
SEND_CODE(fail_interrupted, -EINTR)
SEND_CODE(fail_timed_out, -ETIMEDOUT)
SEND_CODE(fail_pipe, -EPIPE)

static void fail_stream(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_error(
		fd, 0, 1, -EIO, "/data/a.tar: reading failed at byte 12: Input/output error");
}

static void shut_down(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_error(fd, 0, 1, -ESHUTDOWN, "the daemon is ending: it was sent SIGTERM");
}

static void end_then_batch(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}, .epochs = 1, .batches = 1};
	(void)next, (void)bytes;
	fake_send(fd, &end.head, sizeof end, NULL, 0, -1);
	struct wire_batch batch = fake_fill(&fault_shape, memory, 1, 1);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

static void cut_end(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}};
	(void)next, (void)bytes, (void)memory;
	fake_send(fd, &end.head, sizeof end - 8, NULL, 0, -1);
}

static void answer_unasked(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_answer(fd, 77, "what?");
}

static void answer_nothing(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_answer(fd, 0, "what?");
}

/* An answer to a question given up long ago (OPEN's number will do) is no fault: the wait goes on,
 * here until the hang-up. */
static void answer_late(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_answer(fd, 2, "late");
	fake_send_error(fd, 2, 1, -EINVAL, "late too");
}

/* Without end, and without ever letting the client wait. */
static void flood_with(int fd, struct wire_head *head, size_t bytes, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	while (conn_send(fd, false, head, bytes, text, length, -1) == CONN_OK)
		continue;
}

static void flood_answers(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_answer answer = {
		.head = {.type = WIRE_ANSWER, .request = 2}, .total_bytes = 4, .text_bytes = 4};
	(void)next, (void)bytes, (void)memory;
	flood_with(fd, &answer.head, sizeof answer, "late");
}

static void flood_errors(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_error error = {.head = {.type = WIRE_ERROR, .request = 2, .stream = 1},
		.code = -EINVAL,
		.text_bytes = 4};
	(void)next, (void)bytes, (void)memory;
	flood_with(fd, &error.head, sizeof error, "late");
}

const struct fault faults_of_batch[] = {
	{"hang up before batch", BATCH, fault_hang_up, 0, -EPIPE,
		"has ended or closed the connection"},
	{"cut batch", BATCH, fault_cut, 0, -EPROTO, "malformed BATCH"},
	{"long batch", BATCH, fault_lengthen, 0, -EPROTO, "malformed BATCH"},
	{"garbage for batch", BATCH, fault_send_garbage, 0, -EPROTO, "malformed message"},
	{"batch of another stream", BATCH, fault_send_other_stream, 0, -EPROTO,
		"stream 2, which is not open"},
	{"batch with a descriptor", BATCH, fault_send_with_fd, 0, -EPROTO,
		"descriptor with a message"},
	{"unknown extent", BATCH, batch_extent, 0, -EPROTO, "an extent that it has not announced"},
	{"withdrawn extent", BATCH, batch_withdrawn, 0, -EPROTO,
		"an extent that it has not announced"},
	{"unknown slot", BATCH, batch_slot, 0, -EPROTO, "a slot that the extent does not have"},
	{"far slot", BATCH, batch_far_slot, 0, -EPROTO, "a slot that the extent does not have"},
	{"batch of no rows", BATCH, batch_no_rows, 0, -EPROTO, "impossible number of rows"},
	{"batch of many rows", BATCH, batch_many_rows, 0, -EPROTO, "impossible number of rows"},
	{"serial mismatch", BATCH, batch_serial, 0, -EPROTO, "names another batch"},
	{"epoch mismatch", BATCH, batch_epoch, 0, -EPROTO, "that is not the next one"},
	{"batch mismatch", BATCH, batch_name, 0, -EPROTO, "that is not the next one"},
	{"epoch mismatch in the head", BATCH, head_epoch, 0, -EPROTO, "names another batch"},
	{"batch mismatch in the head", BATCH, head_batch, 0, -EPROTO, "names another batch"},
	{"position mismatch", BATCH, batch_position, 0, -EPROTO, "names another batch"},
	{"count mismatch", BATCH, batch_count, 0, -EPROTO, "names another batch"},
	{"slot magic", BATCH, head_magic, 0, -EPROTO, "is not of this version"},
	{"slot version", BATCH, head_version, 0, -EPROTO, "is not of this version"},
	{"short head", BATCH, head_short, 0, -EPROTO, "is not of this version"},
	{"slot batch size", BATCH, head_batch_size, 0, -EPROTO, "not that of the stream"},
	{"slot views", BATCH, head_views, 0, -EPROTO, "not that of the stream"},
	{"slot no views", BATCH, head_no_views, 0, -EPROTO, "not that of the stream"},
	{"slot height", BATCH, head_height, 0, -EPROTO, "not that of the stream"},
	{"slot no height", BATCH, head_no_height, 0, -EPROTO, "not that of the stream"},
	{"slot width", BATCH, head_width, 0, -EPROTO, "not that of the stream"},
	{"slot no width", BATCH, head_no_width, 0, -EPROTO, "not that of the stream"},
	{"slot of larger images", BATCH, head_larger, 0, -EPROTO, "not that of the stream"},
	{"slot height alone", BATCH, head_smaller_alone, 0, -EPROTO, "not that of the stream"},
	{"slot larger rows", BATCH, head_larger_rows, 0, -EPROTO, "not that of the stream"},
	{"slot smaller rows", BATCH, head_smaller_rows, 0, -EPROTO, "not that of the stream"},
	{"slot channels", BATCH, head_channels, 0, -EPROTO, "not that of the stream"},
	{"slot pixel type", BATCH, head_pixel_type, 0, -EPROTO, "not that of the stream"},
	{"slot pixel layout", BATCH, head_pixel_layout, 0, -EPROTO, "not that of the stream"},
	{"slot label type", BATCH, head_label_type, 0, -EPROTO, "not that of the stream"},
	{"slot label width", BATCH, head_label_width, 0, -EPROTO, "not that of the stream"},
	{"slot record bytes", BATCH, head_record_bytes, 0, -EPROTO, "not that of the stream"},
	{"slot row bytes", BATCH, head_row_bytes, 0, -EPROTO, "not that of the stream"},
	{"images in the head", BATCH, head_images_in_head, 0, -EPROTO, "lead out of the slot"},
	{"images at an odd place", BATCH, head_images_odd, 0, -EPROTO, "lead out of the slot"},
	{"images out of the slot", BATCH, head_images_out, 0, -EPROTO, "lead out of the slot"},
	{"images far out", BATCH, head_images_far, 0, -EPROTO, "lead out of the slot"},
	{"labels out of the slot", BATCH, head_labels_out, 0, -EPROTO, "lead out of the slot"},
	{"labels beyond the slot", BATCH, head_labels_beyond, 0, -EPROTO, "lead out of the slot"},
	{"records out of the slot", BATCH, head_records_out, 0, -EPROTO, "lead out of the slot"},

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
