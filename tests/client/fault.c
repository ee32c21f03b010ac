/* fault: see fault.h. */
#include "client/fault.h"

#include "penstock/penstock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct fake_shape fault_shape = FAKE_SHAPE;

void fault_send(const struct fault_turn *turn, int pass_fd)
{
	fake_send(turn->fd, turn->next, turn->bytes, NULL, 0, pass_fd);
}

/* ---- faults of any message ---- */

void fault_hang_up(const struct fault_turn *t)
{
	(void)t;
}

void fault_cut(const struct fault_turn *t)
{
	fake_send(t->fd, t->next, t->bytes - 8, NULL, 0, t->memory->fd);
}

void fault_lengthen(const struct fault_turn *t)
{
	fake_send(t->fd, t->next, t->bytes, "12345678", 8, t->memory->fd);
}

void fault_lie_about_length(const struct fault_turn *t)
{
	t->next->bytes = (uint32_t)t->bytes + 4;
	fake_send_raw(t->fd, t->next, t->bytes, t->memory->fd);
}

void fault_send_garbage(const struct fault_turn *t)
{
	fake_send_raw(t->fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, -1);
}

void fault_send_with_fd(const struct fault_turn *t)
{
	fault_send(t, 0);
}

void fault_send_other_stream(const struct fault_turn *t)
{
	t->next->stream = 2;
	fault_send(t, t->memory->fd);
}

void fault_end_connection(const struct fault_turn *t)
{
	fake_send_error(t->fd, 0, 0, -EPROTO, "expected RELEASE of something held");
}

void fault_die_without_hangup(const struct fault_turn *t)
{
	fake_die_without_hangup(t->fd);
}

/* ---- the daemon and the client ---- */

/* Sends the message of a step; at the fault's step, calls the fault instead, and the daemon is
 * done. */
static bool is_over(const struct fault *fault, enum fault_step step, const struct fault_turn *turn)
{
	const char *text = step == GREETING ? "0.1.0" : NULL;
	if (fault->step == step)
		fault->does(turn);
	else
		fake_send(turn->fd, turn->next, turn->bytes, text, text ? 5 : 0, turn->memory->fd);
	return fault->step == step;
}

static void serve_fault(int fd, const void *argument)
{
	const struct fault *fault = argument;
	struct fake_memory none = {.fd = -1};
	const struct conn_message *message = fake_receive(fd);
	struct wire_welcome welcome = {
		.head = {.type = WIRE_WELCOME, .request = message->head.request},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = getpid(),
		.text_bytes = 5};
	if (is_over(fault, GREETING,
		    &(struct fault_turn){fd, &welcome.head, sizeof welcome, &none}))
		return;
	message = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened(&fault_shape);
	opened.head.request = message->head.request;
	opened.head.stream = 1;
	if (is_over(fault, OPENING, &(struct fault_turn){fd, &opened.head, sizeof opened, &none}))
		return;
	struct fake_memory memory = fake_memory(&fault_shape, FAKE_SEALS), no_fd = memory;
	struct wire_extent extent = fake_extent(&fault_shape, &memory);
	if (is_over(fault, EXTENT, &(struct fault_turn){fd, &extent.head, sizeof extent, &memory}))
		return;
	no_fd.fd = -1;
	struct wire_batch batch = fake_fill(&fault_shape, &memory, 0, 0);
	if (!is_over(fault, BATCH, &(struct fault_turn){fd, &batch.head, sizeof batch, &no_fd}))
		fault->does(&(struct fault_turn){fd, &batch.head, sizeof batch, &memory});
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

void fault_run(const void *argument)
{
	const struct fault *fault = argument;
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch, first;
	char *text = NULL;
	if (fault->does == fault_die_without_hangup)
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
		if (fault->step ==
			AFTER) /* a batch that is held stays readable, and can be released */
			FAKE_WANT(first.labels[3] == fake_label(0, 3) &&
				  penstock_batch_release(stream, &first) == 0);
		penstock_stream_close(stream);
	}
	FAKE_WANT(fake_stop(&fake));
}
