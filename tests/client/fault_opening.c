/* fault_opening: see fault.h. WELCOME and OPENED messages that no daemon sends, and refusals. */
#include "client/fault.h"

#include <errno.h>
#include <string.h>

/* ---- either ---- */

static void send_one_byte(const struct fault_turn *t)
{
	fake_send_raw(t->fd, "x", 1, -1);
}

static void send_too_long(const struct fault_turn *t)
{
	static uint8_t raw[WIRE_MESSAGE_MAX + 16];
	t->next->bytes = sizeof raw;
	memcpy(raw, t->next, sizeof *t->next);
	fake_send_raw(t->fd, raw, sizeof raw, -1);
}

static void send_unknown_type(const struct fault_turn *t)
{
	t->next->type = 4711;
	fault_send(t, -1);
}

static void send_client_type(const struct fault_turn *t)
{
	struct wire_release release = {.head = {.type = WIRE_RELEASE, .stream = 1}};
	fake_send(t->fd, &release.head, sizeof release, NULL, 0, -1);
}

#define REFUSE(function, code, text)                                                   \
	static void function(const struct fault_turn *t)                               \
	{                                                                              \
		fake_send_error(t->fd, t->next->request, t->next->stream, code, text); \
	}
REFUSE(refuse, -EACCES, "no\nroom \x1b[31m for you")
REFUSE(refuse_mute, -EACCES, "")
REFUSE(refuse_positive, 5, "positive")
REFUSE(refuse_hugely, INT32_MIN, "no errno")

static void refuse_at_length(const struct fault_turn *t)
{
	static char text[60000];
	memset(text, 'x', sizeof text - 1);
	fake_send_error(t->fd, t->next->request, t->next->stream, -EACCES, text);
}

/* ---- WELCOME ---- */

#define SEND_WELCOME(function, change, release)                                  \
	static void function(const struct fault_turn *t)                         \
	{                                                                        \
		struct wire_welcome *w = (struct wire_welcome *)(void *)t->next; \
		change;                                                          \
		fake_send(t->fd, t->next, sizeof *w, release, 5, -1);            \
	}
SEND_WELCOME(version_99, w->version = 99, "9.9.0")
SEND_WELCOME(version_0, w->version = 0, "0.0.0")
SEND_WELCOME(wrong_magic, w->magic ^= 1, "0.1.0")
SEND_WELCOME(unoffered_feature, w->features = 1ull << 40, "0.1.0")

static void other_request(const struct fault_turn *t)
{
	t->next->request += 5;
	if (t->next->type == WIRE_WELCOME)
		fake_send(t->fd, t->next, t->bytes, "0.1.0", 5, -1);
	else
		fault_send(t, -1);
}

/* ---- OPENED ---- */

/* Changes of the message `o`, and the client's codes and sentences. */
#define CHANGES(X)                                                                              \
	X(opened_no_rows, o->batch_size = 0, -EPROTO, "impossible shape")                       \
	X(opened_many_rows, o->batch_size = 65537, -EPROTO, "impossible shape")                 \
	X(opened_no_height, o->height = 0, -EPROTO, "impossible shape")                         \
	X(opened_wide, o->width = UINT32_MAX, -EPROTO, "impossible shape")                      \
	X(opened_no_slots, o->slots = 0, -EPROTO, "impossible shape")                           \
	X(opened_many_slots, o->slots = UINT32_MAX, -EPROTO, "impossible shape")                \
	X(opened_rank, o->rank = 1, -EPROTO, "impossible shape")                                \
	X(opened_no_world, o->world_size = 0, -EPROTO, "impossible shape")                      \
	X(opened_no_views, o->views = 0, -EPROTO, "impossible shape")                           \
	X(opened_many_views, o->views = SLOTS_VIEWS_MAX + 1, -EPROTO, "impossible shape")       \
	X(opened_files, o->pixel_type = SLOTS_BYTES, -ENOTSUP, "does not know")                 \
	X(opened_no_pixel_type, o->pixel_type = 0, -ENOTSUP, "does not know")                   \
	X(opened_far_pixel_type, o->pixel_type = UINT32_MAX, -ENOTSUP, "does not know")         \
	X(opened_layout, o->pixel_layout = 3, -ENOTSUP, "does not know")                        \
	X(opened_gray, o->channels = 1, -ENOTSUP, "does not know")                              \
	X(opened_label_type, o->label_type = 3, -ENOTSUP, "does not know")                      \
	X(opened_many_labels, o->label_width = SLOTS_LABELS_MAX + 1, -ENOTSUP, "does not know") \
	X(opened_no_values, (o->label_type = SLOTS_LABEL_F32, o->label_width = 0), -ENOTSUP,    \
		"does not know")                                                                \
	X(opened_many_values,                                                                   \
		(o->label_type = SLOTS_LABEL_F32, o->label_width = SLOTS_LABELS_MAX + 1),       \
		-ENOTSUP, "does not know")

#define SEND_OPENED(function, change, code, sentence)                          \
	static void function(const struct fault_turn *t)                       \
	{                                                                      \
		struct wire_opened *o = (struct wire_opened *)(void *)t->next; \
		change;                                                        \
		fault_send(t, -1);                                             \
	}
CHANGES(SEND_OPENED)

static void open_twice(const struct fault_turn *t)
{
	fault_send(t, -1);
	fault_send(t, -1);
}

static void answer_instead(const struct fault_turn *t)
{
	fake_send_answer(t->fd, t->next->request, "{}");
}

static void batch_before_opened(const struct fault_turn *t)
{
	struct wire_batch batch = {.head = {.type = WIRE_BATCH, .stream = 1}, .count = 1};
	fake_send(t->fd, &batch.head, sizeof batch, NULL, 0, -1);
}

#define CHANGE_FAULT(function, change, code, sentence) \
	{#function, OPENING, function, code, 0, sentence},

const struct fault faults_of_opening[] = {
	CHANGES(CHANGE_FAULT){"hang up on hello", GREETING, fault_hang_up, -ECONNREFUSED, 0,
		"no penstockd is running"},
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
	{"opened twice", OPENING, open_twice, 0, -EPROTO, "malformed OPENED"},
	{"gone while opening", OPENING, fault_die_without_hangup, -EPIPE, 0,
		"died without closing"},
	{0},
};
