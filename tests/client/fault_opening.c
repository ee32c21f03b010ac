/* fault_opening: see fault.h. WELCOME and OPENED as no daemon sends them, and refusals of either.
 */
#include "client/fault.h"

#include <errno.h>
#include <string.h>

/* ---- either ---- */

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

const struct fault faults_of_opening[] = {
	{"hang up on hello", GREETING, fault_hang_up, -ECONNREFUSED, 0, "no penstockd is running"},
	{"cut welcome", GREETING, fault_cut, -EPROTO, 0, "does not answer as penstockd"},
	{"long welcome", GREETING, fault_lengthen, -EPROTO, 0, "does not answer as penstockd"},
	{"welcome of another length", GREETING, fault_lie_about_length, -EPROTO, 0,
		"malformed message"},
	{"garbage for welcome", GREETING, fault_send_garbage, -EPROTO, 0, "malformed message"},
	{"a byte for welcome", GREETING, send_one_byte, -EPROTO, 0, "malformed message"},
	{"too long a welcome", GREETING, send_too_long, -EPROTO, 0, "malformed message"},
	{"another type for welcome", GREETING, send_unknown_type, -EPROTO, 0,
		"does not answer as penstockd"},
	{"welcome with a descriptor", GREETING, fault_send_with_fd, -EPROTO, 0,
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

	{"hang up on open", OPENING, fault_hang_up, -EPIPE, 0,
		"has ended or closed the connection"},
	{"cut opened", OPENING, fault_cut, -EPROTO, 0, "malformed OPENED"},
	{"long opened", OPENING, fault_lengthen, -EPROTO, 0, "malformed OPENED"},
	{"opened of another length", OPENING, fault_lie_about_length, -EPROTO, 0,
		"malformed message"},
	{"garbage for opened", OPENING, fault_send_garbage, -EPROTO, 0, "malformed message"},
	{"too long an opened", OPENING, send_too_long, -EPROTO, 0, "malformed message"},
	{"unknown type for opened", OPENING, send_unknown_type, -EPROTO, 0, "unknown type 4711"},
	{"a client's type for opened", OPENING, send_client_type, -EPROTO, 0, "unknown type 3"},
	{"opened with a descriptor", OPENING, fault_send_with_fd, -EPROTO, 0,
		"descriptor with a message"},
	{"refused open", OPENING, refuse, -EACCES, 0, "no room  [31m for you"},
	{"refused open, positive code", OPENING, refuse_positive, -EPROTO, 0, "malformed error"},
	{"connection ended on open", OPENING, fault_end_connection, -EPROTO, 0,
		"expected RELEASE of something held"},
	{"opened for another", OPENING, other_request, -EPROTO, 0, "malformed OPENED"},
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
	{"opened twice", OPENING, open_twice, 0, -EPROTO, "malformed OPENED"},
	{"gone while opening", OPENING, fault_die_without_hangup, -EPIPE, 0,
		"died without closing"},
	{0},
};
