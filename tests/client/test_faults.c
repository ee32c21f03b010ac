/* libpenstock against daemons that break the protocol in every way that a message can: whatever
 * comes, the documented error and a sentence, the same again on the next call, no leak, no crash,
 * no hang. */
#include "client/fake.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct fake_shape shape = FAKE_SHAPE;

enum step { GREETING, OPENING, EXTENT, BATCH, AFTER };

/* A daemon that does everything right up to `step` and then calls `does`, which gets the message
 * that would be next. */
struct fault {
	const char *name;
	enum step step;
	void (*does)(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory);
	int open, next; /* what the client has to return; next is not called when open fails */
	const char *sentence; /* part of what it has to say */
};

/* ---- what can be done to any message ---- */

static void hang_up(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)fd, (void)next, (void)bytes, (void)memory;
}

static void cut(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes - 8, NULL, 0, memory->fd);
}

static void lengthen(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes, "12345678", 8, memory->fd);
}

static void lie_about_length(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	next->bytes = (uint32_t)bytes + 4;
	fake_send_raw(fd, next, bytes, memory->fd);
}

static void send_garbage(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_raw(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, -1);
}

static void send_one_byte(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_raw(fd, "x", 1, -1);
}

static void send_too_long(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	static uint8_t raw[WIRE_MESSAGE_MAX + 16];
	(void)bytes, (void)memory;
	next->bytes = sizeof raw;
	memcpy(raw, next, sizeof *next);
	fake_send_raw(fd, raw, sizeof raw, -1);
}

static void send_unknown_type(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	next->type = 4711;
	fake_send(fd, next, bytes, NULL, 0, -1);
}

static void send_client_type(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_release release = {.head = {.type = WIRE_RELEASE, .stream = 1}};
	(void)next, (void)bytes, (void)memory;
	fake_send(fd, &release.head, sizeof release, NULL, 0, -1);
}

/* A descriptor with a message that has none. */
static void send_with_fd(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	fake_send(fd, next, bytes, NULL, 0, 0);
}

static void send_other_stream(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	next->stream = 2;
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
}

static void refuse(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	fake_send_error(fd, next->request, next->stream, -EACCES, "no\nroom \x1b[31m for you");
}

static void refuse_mute(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	fake_send_error(fd, next->request, next->stream, -EACCES, "");
}

static void refuse_positive(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	fake_send_error(fd, next->request, next->stream, 5, "positive");
}

static void refuse_hugely(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	fake_send_error(fd, next->request, next->stream, INT32_MIN, "no errno");
}

static void refuse_at_length(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	static char text[60000];
	(void)bytes, (void)memory;
	memset(text, 'x', sizeof text - 1);
	fake_send_error(fd, next->request, next->stream, -EACCES, text);
}

static void end_connection(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_error(fd, 0, 0, -EPROTO, "expected RELEASE of something held");
}

/* ---- WELCOME ---- */

static void version_99(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	((struct wire_welcome *)(void *)next)->version = 99;
	fake_send(fd, next, sizeof(struct wire_welcome), "9.9.0", 5, -1);
}

static void version_0(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	((struct wire_welcome *)(void *)next)->version = 0;
	fake_send(fd, next, sizeof(struct wire_welcome), "0.0.0", 5, -1);
}

static void wrong_magic(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	((struct wire_welcome *)(void *)next)->magic ^= 1;
	fake_send(fd, next, sizeof(struct wire_welcome), "0.1.0", 5, -1);
}

static void unoffered_feature(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	((struct wire_welcome *)(void *)next)->features = 1;
	fake_send(fd, next, sizeof(struct wire_welcome), "0.1.0", 5, -1);
}

static void other_request(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	next->request += 5;
	if (next->type == WIRE_WELCOME)
		fake_send(fd, next, bytes, "0.1.0", 5, -1);
	else
		fake_send(fd, next, bytes, NULL, 0, -1);
}

/* ---- OPENED ---- */

#define SEND_OPENED(function, change)                                                     \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		struct wire_opened *o = (struct wire_opened *)(void *)next;               \
		(void)memory;                                                             \
		change;                                                                   \
		fake_send(fd, next, bytes, NULL, 0, -1);                                  \
	}

SEND_OPENED(opened_no_rows, o->batch_size = 0)
SEND_OPENED(opened_many_rows, o->batch_size = 65537)
SEND_OPENED(opened_no_height, o->height = 0)
SEND_OPENED(opened_wide, o->width = UINT32_MAX)
SEND_OPENED(opened_no_slots, o->slots = 0)
SEND_OPENED(opened_many_slots, o->slots = UINT32_MAX)
SEND_OPENED(opened_rank, o->rank = 1)
SEND_OPENED(opened_no_world, o->world_size = 0)
SEND_OPENED(opened_no_views, o->views = 0)
SEND_OPENED(opened_many_views, o->views = SLOTS_VIEWS_MAX + 1)
SEND_OPENED(opened_files, o->pixel_type = SLOTS_BYTES)
SEND_OPENED(opened_no_pixel_type, o->pixel_type = 0)
SEND_OPENED(opened_far_pixel_type, o->pixel_type = UINT32_MAX)
SEND_OPENED(opened_layout, o->pixel_layout = 3)
SEND_OPENED(opened_gray, o->channels = 1)
SEND_OPENED(opened_label_type, o->label_type = 3)
SEND_OPENED(opened_two_labels, o->label_width = 2)
SEND_OPENED(opened_no_values, (o->label_type = SLOTS_LABEL_F32, o->label_width = 0))
SEND_OPENED(opened_many_values,
	(o->label_type = SLOTS_LABEL_F32, o->label_width = SLOTS_LABELS_MAX + 1))

static void open_twice(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	fake_send(fd, next, bytes, NULL, 0, -1);
	fake_send(fd, next, bytes, NULL, 0, -1);
}

static void answer_instead(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)bytes, (void)memory;
	fake_send_answer(fd, next->request, "{}");
}

static void batch_before_opened(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_batch batch = {.head = {.type = WIRE_BATCH, .stream = 1}, .count = 1};
	(void)next, (void)bytes, (void)memory;
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

/* ---- EXTENT ---- */

#define SEND_EXTENT(function, change)                                                     \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		struct wire_extent *e = (struct wire_extent *)(void *)next;               \
		change;                                                                   \
		fake_send(fd, next, bytes, NULL, 0, memory->fd);                          \
	}

SEND_EXTENT(extent_no_slots, e->slot_count = 0)
SEND_EXTENT(extent_many_slots, e->slot_count = UINT32_MAX)
SEND_EXTENT(extent_too_many_slots, e->slot_count = WIRE_SLOTS_MAX + 1; e->bytes = UINT64_MAX)
SEND_EXTENT(extent_one_slot_more, e->slot_count++)
SEND_EXTENT(extent_odd_stride, e->slot_stride -= 64)
SEND_EXTENT(extent_no_stride, e->slot_stride = 0)
SEND_EXTENT(extent_overflow, e->slot_stride = (UINT64_MAX / 4 + 1) & ~4095ull)
SEND_EXTENT(extent_smaller, e->bytes -= 4096; e->slot_count = 1)
SEND_EXTENT(extent_larger, e->bytes += 4096)
SEND_EXTENT(extent_empty, e->bytes = 0)

static void extent_without_fd(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	fake_send(fd, next, bytes, NULL, 0, -1);
}

static void extent_of_a_file(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	char name[] = "/tmp/penstock-file-XXXXXX";
	int file = mkstemp(name);
	(void)unlink(name);
	if (ftruncate(file, (off_t)memory->size) < 0)
		_exit(99);
	fake_send(fd, next, bytes, NULL, 0, file);
	(void)close(file);
}

static void extent_of_a_pipe(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	int ends[2];
	(void)memory;
	if (pipe2(ends, O_CLOEXEC) < 0)
		_exit(99);
	fake_send(fd, next, bytes, NULL, 0, ends[0]);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void send_with_seals(int fd, struct wire_head *next, size_t bytes, int seals)
{
	struct fake_memory memory = fake_memory(&shape, seals);
	fake_send(fd, next, bytes, NULL, 0, memory.fd);
}

#define SEND_SEALED(function, seals)                                                      \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		(void)memory;                                                             \
		send_with_seals(fd, next, bytes, seals);                                  \
	}

SEND_SEALED(extent_unsealed, 0)
SEND_SEALED(extent_shrinkable, FAKE_SEALS & ~F_SEAL_SHRINK)
SEND_SEALED(extent_growable, FAKE_SEALS & ~F_SEAL_GROW)
SEND_SEALED(extent_writable, FAKE_SEALS & ~0x0010)
SEND_SEALED(extent_sealable, FAKE_SEALS & ~F_SEAL_SEAL)

static void extent_twice(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
}

static void extents_without_end(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	for (uint32_t i = 0; i <= WIRE_EXTENTS_MAX; i++) {
		((struct wire_extent *)(void *)next)->extent = i;
		fake_send(fd, next, bytes, NULL, 0, memory->fd);
	}
}

static void withdraw_unknown(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_withdrawn withdrawn = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = 3};
	(void)next, (void)bytes, (void)memory;
	fake_send(fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
}

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
	struct wire_batch batch = fake_fill(&shape, memory, 1, 0);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

static void serial_gap(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes;
	struct wire_batch batch = fake_fill(&shape, memory, 1, 2);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

/* A right serial does not make it the right batch. */
static void send_as_second(int fd, const struct fake_memory *memory, uint64_t ordinal)
{
	struct wire_batch batch = fake_fill(&shape, memory, 1, ordinal);
	batch.serial = fake_slot(memory, 1)->serial = shape.first_serial + 1;
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
	struct wire_batch batch = fake_fill(&shape, memory, 1, 1);
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

/* Each is as the contract wants it. */
static void flood_extents(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_extent *extent = (struct wire_extent *)(void *)next;
	struct wire_withdrawn withdrawn = {.head = {.type = WIRE_WITHDRAWN, .stream = 1}};
	int result = CONN_OK;
	for (uint32_t i = 0; result == CONN_OK; i++) {
		extent->extent = withdrawn.extent = i;
		result = conn_send(fd, false, next, bytes, NULL, 0, memory->fd);
		if (result == CONN_OK)
			result = conn_send(
				fd, false, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	}
}

/* The process is gone; a child of it keeps the socket: no hang-up, and yet an end. */
static void die_without_hangup(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_die_without_hangup(fd);
}

/* ---- the daemon and the client around them ---- */

static void step_over(int fd, struct wire_head *head, size_t bytes, struct fake_memory *memory)
{
	const char *text = head->type == WIRE_WELCOME ? "0.1.0" : NULL;
	fake_send(fd, head, bytes, text, text ? 5 : 0, memory->fd);
}

static void serve_fault(int fd, const void *argument)
{
	const struct fault *fault = argument;
	struct fake_memory none = {.fd = -1}, memory;
	const struct conn_message *message = fake_receive(fd);
	struct wire_welcome welcome = {
		.head = {.type = WIRE_WELCOME, .request = message->head.request},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = getpid(),
		.text_bytes = 5};
	if (fault->step == GREETING) {
		fault->does(fd, &welcome.head, sizeof welcome, &none);
		return;
	}
	step_over(fd, &welcome.head, sizeof welcome, &none);
	message = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened(&shape);
	opened.head.request = message->head.request;
	opened.head.stream = 1;
	if (fault->step == OPENING) {
		fault->does(fd, &opened.head, sizeof opened, &none);
		return;
	}
	step_over(fd, &opened.head, sizeof opened, &none);
	memory = fake_memory(&shape, FAKE_SEALS);
	struct wire_extent extent = fake_extent(&shape, &memory);
	if (fault->step == EXTENT) {
		fault->does(fd, &extent.head, sizeof extent, &memory);
		return;
	}
	step_over(fd, &extent.head, sizeof extent, &memory);
	struct wire_batch batch = fake_fill(&shape, &memory, 0, 0);
	struct fake_memory no_fd = memory;
	no_fd.fd = -1;
	if (fault->step == BATCH) {
		fault->does(fd, &batch.head, sizeof batch, &no_fd);
		return;
	}
	step_over(fd, &batch.head, sizeof batch, &no_fd);
	fault->does(fd, &batch.head, sizeof batch, &memory);
}

static void want_error(const struct fault *fault, const char *call, int result, int wanted)
{
	const char *said = penstock_error();
	bool right = result == wanted && (wanted >= 0 || strstr(said, fault->sentence));
	if (!right)
		(void)fprintf(stderr,
			"%s: %s returned %d, wanted %d; it says \"%s\", wanted \"%s\"\n",
			fault->name, call, result, wanted, said, fault->sentence);
	FAKE_WANT(right);
	FAKE_WANT(strlen(said) < 1024 && !strchr(said, '\n') && !strchr(said, '\x1b'));
}

static void run_fault(const void *argument)
{
	const struct fault *fault = argument;
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch, first;
	char *text = NULL;
	if (fault->does == die_without_hangup)
		(void)signal(SIGCHLD, SIG_IGN); /* a zombie would still be a process */
	fake_start(&fake, serve_fault, fault);
	struct penstock_options options = fake_options(&fake);
	int result = penstock_stream_open(&options, &stream);
	want_error(fault, "open", result, fault->open);
	FAKE_WANT(!stream == (result < 0)); /* written only on success */
	if (result == 0) {
		if (fault->step == AFTER)
			FAKE_WANT(penstock_stream_next(stream, &first, 5000) == 0);
		for (int i = 0; i < 3; i++)
			want_error(fault, "next", penstock_stream_next(stream, &batch, 5000),
				fault->next);
		if (fault->next < 0)
			want_error(fault, "classes", penstock_stream_classes(stream, &text),
				fault->next);
		FAKE_WANT(!text);
		if (fault->step == AFTER) /* what is held stays readable, and can be given back */
			FAKE_WANT(first.labels[3] == fake_label(0, 3) &&
				  penstock_batch_release(stream, &first) == 0);
		penstock_stream_close(stream);
	}
	FAKE_WANT(fake_stop(&fake));
}

static const struct fault faults[] = {
	{"hang up on hello", GREETING, hang_up, -ECONNREFUSED, 0, "no penstockd is running"},
	{"cut welcome", GREETING, cut, -EPROTO, 0, "does not answer as penstockd"},
	{"long welcome", GREETING, lengthen, -EPROTO, 0, "does not answer as penstockd"},
	{"welcome of another length", GREETING, lie_about_length, -EPROTO, 0, "malformed message"},
	{"garbage for welcome", GREETING, send_garbage, -EPROTO, 0, "malformed message"},
	{"a byte for welcome", GREETING, send_one_byte, -EPROTO, 0, "malformed message"},
	{"too long a welcome", GREETING, send_too_long, -EPROTO, 0, "malformed message"},
	{"another type for welcome", GREETING, send_unknown_type, -EPROTO, 0,
		"does not answer as penstockd"},
	{"welcome with a descriptor", GREETING, send_with_fd, -EPROTO, 0,
		"does not answer as penstockd"},
	{"refused hello", GREETING, refuse, -EACCES, 0, "no room  [31m for you"},
	{"refused hello, mute", GREETING, refuse_mute, -EACCES, 0, "Permission denied"},
	{"refused hello, positive code", GREETING, refuse_positive, -EPROTO, 0, "malformed error"},
	{"refused hello, no errno", GREETING, refuse_hugely, -EPROTO, 0, "malformed error"},
	{"refused hello at length", GREETING, refuse_at_length, -EACCES, 0, "xxxxxxxx"},
	{"version 99", GREETING, version_99, -EPROTO, 0,
		"speaks protocol version 99, this library 1 to 1"},
	{"version 0", GREETING, version_0, -EPROTO, 0, "speaks protocol version 0"},
	{"magic", GREETING, wrong_magic, -EPROTO, 0, "does not answer as penstockd"},
	{"feature", GREETING, unoffered_feature, -EPROTO, 0, "features"},
	{"welcome for another", GREETING, other_request, -EPROTO, 0,
		"does not answer as penstockd"},

	{"hang up on open", OPENING, hang_up, -EPIPE, 0, "has ended or closed the connection"},
	{"cut opened", OPENING, cut, -EPROTO, 0, "malformed or unasked OPENED"},
	{"long opened", OPENING, lengthen, -EPROTO, 0, "malformed or unasked OPENED"},
	{"opened of another length", OPENING, lie_about_length, -EPROTO, 0, "malformed message"},
	{"garbage for opened", OPENING, send_garbage, -EPROTO, 0, "malformed message"},
	{"too long an opened", OPENING, send_too_long, -EPROTO, 0, "malformed message"},
	{"unknown type for opened", OPENING, send_unknown_type, -EPROTO, 0, "unknown type 4711"},
	{"a client's type for opened", OPENING, send_client_type, -EPROTO, 0, "unknown type 3"},
	{"opened with a descriptor", OPENING, send_with_fd, -EPROTO, 0,
		"descriptor with a message"},
	{"refused open", OPENING, refuse, -EACCES, 0, "no room  [31m for you"},
	{"refused open, positive code", OPENING, refuse_positive, -EPROTO, 0, "malformed error"},
	{"connection ended on open", OPENING, end_connection, -EPROTO, 0,
		"expected RELEASE of something held"},
	{"opened for another", OPENING, other_request, -EPROTO, 0, "malformed or unasked OPENED"},
	{"answer for opened", OPENING, answer_instead, -EPROTO, 0, "answered the opening with"},
	{"batch before opened", OPENING, batch_before_opened, -EPROTO, 0, "which is not open"},
	{"no rows", OPENING, opened_no_rows, -EPROTO, 0, "impossible shape"},
	{"many rows", OPENING, opened_many_rows, -EPROTO, 0, "impossible shape"},
	{"no height", OPENING, opened_no_height, -EPROTO, 0, "impossible shape"},
	{"too wide", OPENING, opened_wide, -EPROTO, 0, "impossible shape"},
	{"no slots", OPENING, opened_no_slots, -EPROTO, 0, "impossible shape"},
	{"many slots", OPENING, opened_many_slots, -EPROTO, 0, "impossible shape"},
	{"rank", OPENING, opened_rank, -EPROTO, 0, "impossible shape"},
	{"no world", OPENING, opened_no_world, -EPROTO, 0, "impossible shape"},
	{"no views", OPENING, opened_no_views, -EPROTO, 0, "impossible shape"},
	{"many views", OPENING, opened_many_views, -EPROTO, 0, "impossible shape"},
	{"compressed pixels", OPENING, opened_files, -ENOTSUP, 0, "does not know"},
	{"no pixel type", OPENING, opened_no_pixel_type, -ENOTSUP, 0, "does not know"},
	{"unknown pixel type", OPENING, opened_far_pixel_type, -ENOTSUP, 0, "does not know"},
	{"unknown layout", OPENING, opened_layout, -ENOTSUP, 0, "does not know"},
	{"gray", OPENING, opened_gray, -ENOTSUP, 0, "does not know"},
	{"unknown label type", OPENING, opened_label_type, -ENOTSUP, 0, "does not know"},
	{"two whole labels", OPENING, opened_two_labels, -ENOTSUP, 0, "does not know"},
	{"no label values", OPENING, opened_no_values, -ENOTSUP, 0, "does not know"},
	{"many label values", OPENING, opened_many_values, -ENOTSUP, 0, "does not know"},
	{"opened twice", OPENING, open_twice, 0, -EPROTO, "malformed or unasked OPENED"},
	{"gone while opening", OPENING, die_without_hangup, -EPIPE, 0, "died without closing"},

	{"hang up before extent", EXTENT, hang_up, 0, -EPIPE, "has ended or closed the connection"},
	{"cut extent", EXTENT, cut, 0, -EPROTO, "malformed EXTENT"},
	{"long extent", EXTENT, lengthen, 0, -EPROTO, "malformed EXTENT"},
	{"extent of another length", EXTENT, lie_about_length, 0, -EPROTO, "malformed message"},
	{"extent of another stream", EXTENT, send_other_stream, 0, -EPROTO,
		"stream 2, which is not open"},
	{"extent without memory", EXTENT, extent_without_fd, 0, -EPROTO, "without its memory"},
	{"extent of a file", EXTENT, extent_of_a_file, 0, -EPROTO, "extent"},
	{"extent of a pipe", EXTENT, extent_of_a_pipe, 0, -EPROTO, "no memfd"},
	{"unsealed", EXTENT, extent_unsealed, 0, -EPROTO, "without its seals (has 0"},
	{"shrinkable", EXTENT, extent_shrinkable, 0, -EPROTO, "without its seals"},
	{"growable", EXTENT, extent_growable, 0, -EPROTO, "without its seals"},
	{"writable", EXTENT, extent_writable, 0, -EPROTO, "without its seals"},
	{"sealable", EXTENT, extent_sealable, 0, -EPROTO, "without its seals"},
	{"extent of no slots", EXTENT, extent_no_slots, 0, -EPROTO, "of 0 slots"},
	{"extent of many slots", EXTENT, extent_many_slots, 0, -EPROTO, "of 4294967295 slots"},
	{"extent beyond the limit", EXTENT, extent_too_many_slots, 0, -EPROTO, "of 1025 slots"},
	{"extent of one slot more", EXTENT, extent_one_slot_more, 0, -EPROTO, "of 5 slots"},
	{"odd stride", EXTENT, extent_odd_stride, 0, -EPROTO, "slots of"},
	{"no stride", EXTENT, extent_no_stride, 0, -EPROTO, "slots of 0 bytes"},
	{"overflow", EXTENT, extent_overflow, 0, -EPROTO, "slots of"},
	{"memory larger than said", EXTENT, extent_smaller, 0, -EPROTO, "and sent one of"},
	{"memory smaller than said", EXTENT, extent_larger, 0, -EPROTO, "and sent one of"},
	{"no memory said", EXTENT, extent_empty, 0, -EPROTO, "in 0 bytes"},
	{"extent twice", EXTENT, extent_twice, 0, -EPROTO, "extent 0 twice"},
	{"extents without end", EXTENT, extents_without_end, 0, -EPROTO, "beyond the number"},
	{"extents that come and go without end", EXTENT, flood_extents, 0, -EPROTO,
		"messages that nobody waits for"},
	{"withdrawn before it came", EXTENT, withdraw_unknown, 0, -EPROTO, "withdrew extent 3"},

	{"hang up before batch", BATCH, hang_up, 0, -EPIPE, "has ended or closed the connection"},
	{"cut batch", BATCH, cut, 0, -EPROTO, "malformed BATCH"},
	{"long batch", BATCH, lengthen, 0, -EPROTO, "malformed BATCH"},
	{"garbage for batch", BATCH, send_garbage, 0, -EPROTO, "malformed message"},
	{"batch of another stream", BATCH, send_other_stream, 0, -EPROTO,
		"stream 2, which is not open"},
	{"batch with a descriptor", BATCH, send_with_fd, 0, -EPROTO, "descriptor with a message"},
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
	{"slot magic", BATCH, head_magic, 0, -EPROTO, "not one of this version"},
	{"slot version", BATCH, head_version, 0, -EPROTO, "not one of this version"},
	{"short head", BATCH, head_short, 0, -EPROTO, "not one of this version"},
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

	{"hang up after a batch", AFTER, hang_up, 0, -EPIPE, "has ended or closed the connection"},
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
	{"connection ended", AFTER, end_connection, 0, -EPROTO,
		"expected RELEASE of something held"},
	{"cut end", AFTER, cut_end, 0, -EPROTO, "malformed END"},
	{"batch after the end", AFTER, end_then_batch, 0, PENSTOCK_END, ""},
	{"unasked answer", AFTER, answer_unasked, 0, -EPROTO, "question that was not asked"},
	{"answer to nothing", AFTER, answer_nothing, 0, -EPROTO, "question that was not asked"},
	{"late answers", AFTER, answer_late, 0, -EPIPE, "has ended or closed the connection"},
	{"answers without end", AFTER, flood_answers, 0, -EPROTO, "messages that nobody waits for"},
	{"refusals without end", AFTER, flood_errors, 0, -EPROTO, "messages that nobody waits for"},
	{"gone without hang-up", AFTER, die_without_hangup, 0, -EPIPE, "died without closing"},
};

static void test_faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		fake_check(run_fault, &faults[i], faults[i].name);
}

/* ---- answers ---- */

struct answer {
	const char *name;
	uint64_t total;
	uint32_t text_bytes;
	size_t sent; /* inline */
	size_t memory; /* bytes of a memfd; 0: none */
	int seals;
	int result;
};

static void serve_answer(int fd, const void *argument)
{
	const struct answer *answer = argument;
	const struct conn_message *message;
	static char text[40000];
	memset(text, 'a', sizeof text);
	fake_welcome(fd);
	fake_open(fd, &shape);
	while ((message = fake_receive(fd))) {
		struct wire_answer reply = {
			.head = {.type = WIRE_ANSWER, .request = message->head.request},
			.total_bytes = answer->total,
			.text_bytes = answer->text_bytes};
		if (message->head.type != WIRE_QUERY)
			break;
		int memory = -1;
		if (answer->memory) {
			memory = memfd_create("fake-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			for (size_t left = answer->memory; left;) {
				ssize_t n = write(
					memory, text, left < sizeof text ? left : sizeof text);
				left -= n > 0 ? (size_t)n : 0;
			}
			(void)fcntl(memory, F_ADD_SEALS, answer->seals);
		}
		fake_send(fd, &reply.head, sizeof reply, text, answer->sent, memory);
		if (memory >= 0)
			(void)close(memory);
	}
}

static void run_answer(const void *argument)
{
	const struct answer *answer = argument;
	struct fake fake;
	char *text = NULL;
	fake_start(&fake, serve_answer, answer);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	for (int i = 0; i < 2; i++) { /* a bad answer spoils nothing but itself */
		int result = penstock_stream_stats(stream, &text);
		if (result != answer->result)
			(void)fprintf(
				stderr, "%s: %d: %s\n", answer->name, result, penstock_error());
		FAKE_WANT(result == answer->result);
		FAKE_WANT(!text == (result < 0));
		FAKE_WANT(!text ||
			  (strlen(text) == answer->total && strspn(text, "a") == answer->total));
		free(text);
		text = NULL;
	}
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

static void test_answers(void **state)
{
	(void)state;
	static const struct answer answers[] = {
		{"empty", 0, 0, 0, 0, 0, 0},
		{"inline", 100, 100, 100, 0, 0, 0},
		{"longest inline", WIRE_INLINE_MAX, WIRE_INLINE_MAX, WIRE_INLINE_MAX, 0, 0, 0},
		{"memfd", 1000000, 0, 0, 1000000, FAKE_SEALS, 0},
		{"memfd larger than the text", 1000000, 0, 0, 1000448, FAKE_SEALS, 0},
		{"memfd sealed against all writing", 5000, 0, 0, 5000, FAKE_SEALS | F_SEAL_WRITE,
			0},
		{"less than said", 100, 100, 99, 0, 0, -EPROTO},
		{"more than said", 100, 100, 101, 0, 0, -EPROTO},
		{"total is another", 101, 100, 100, 0, 0, -EPROTO},
		{"neither text nor memfd", 100, 0, 0, 0, 0, -EPROTO},
		{"both", 100, 100, 100, 100, FAKE_SEALS, -EPROTO},
		{"memfd too small", 5000, 0, 0, 4999, FAKE_SEALS, -EPROTO},
		{"memfd unsealed", 5000, 0, 0, 5000, 0, -EPROTO},
		{"beyond the limit", UINT64_MAX, 0, 0, 5000, FAKE_SEALS, -EPROTO},
	};
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
		fake_check(run_answer, &answers[i], answers[i].name);
}

/* A daemon that is stopped: neither the greeting nor a question hangs for ever. Its own limits are
 * long, so only one is waited for. */
static void run_stopped(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch[4];
	fake_start(&fake, fake_serve_well, &shape);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	/* All that it can announce: who stops it earlier may stop it in between. */
	for (int i = 0; i < 4; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	FAKE_WANT(kill(fake.pid, SIGSTOP) == 0);
	int status;
	FAKE_WANT(waitpid(fake.pid, &status, WUNTRACED) == fake.pid && WIFSTOPPED(status));
	for (int i = 0; i < 4; i++)
		FAKE_WANT(penstock_batch_release(stream, &batch[i]) == 0);
	FAKE_WANT(penstock_stream_next(stream, &batch[0], 100) == -ETIMEDOUT);
	FAKE_WANT(strstr(penstock_error(), "did not say why"));
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

static void test_stopped(void **state)
{
	(void)state;
	fake_check(run_stopped, NULL, "stopped");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
