/* fault: see fault.h. */
#include "client/fault.h"

#include "penstock/penstock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct fake_shape fault_shape = FAKE_SHAPE;

/* ---- what can be done to any message ---- */

void fault_hang_up(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)fd, (void)next, (void)bytes, (void)memory;
}

void fault_cut(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes - 8, NULL, 0, memory->fd);
}

void fault_lengthen(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes, "12345678", 8, memory->fd);
}

void fault_lie_about_length(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	next->bytes = (uint32_t)bytes + 4;
	fake_send_raw(fd, next, bytes, memory->fd);
}

void fault_send_garbage(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_raw(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, -1);
}

void fault_send_with_fd(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	fake_send(fd, next, bytes, NULL, 0, 0);
}

void fault_send_other_stream(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	next->stream = 2;
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
}

void fault_end_connection(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)next, (void)bytes, (void)memory;
	fake_send_error(fd, 0, 0, -EPROTO, "expected RELEASE of something held");
}

void fault_die_without_hangup(
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
	struct wire_opened opened = fake_opened(&fault_shape);
	opened.head.request = message->head.request;
	opened.head.stream = 1;
	if (fault->step == OPENING) {
		fault->does(fd, &opened.head, sizeof opened, &none);
		return;
	}
	step_over(fd, &opened.head, sizeof opened, &none);
	memory = fake_memory(&fault_shape, FAKE_SEALS);
	struct wire_extent extent = fake_extent(&fault_shape, &memory);
	if (fault->step == EXTENT) {
		fault->does(fd, &extent.head, sizeof extent, &memory);
		return;
	}
	step_over(fd, &extent.head, sizeof extent, &memory);
	struct wire_batch batch = fake_fill(&fault_shape, &memory, 0, 0);
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
		if (fault->step == AFTER) /* what is held stays readable, and can be given back */
			FAKE_WANT(first.labels[3] == fake_label(0, 3) &&
				  penstock_batch_release(stream, &first) == 0);
		penstock_stream_close(stream);
	}
	FAKE_WANT(fake_stop(&fake));
}
