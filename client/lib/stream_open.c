/* stream_open: opening and closing a stream, and opening it again with other samples.
 *
 * Thread: the application's. */
#include "client/lib/open.h"
#include "client/lib/private.h"
#include "client/lib/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	STREAM_TIMEOUT_MS = 120000,
	STREAM_AGAIN_MS = 100, /* before each further attempt to open */
};

/* Opening has no time limit: building a missing index may take long, and the daemon is silent
 * meanwhile. Besides an answer, the daemon's end ends the wait: it is a hang-up, and
 * connection_wait looks for it once a second too. */
static int stream_await_opened(struct penstock_stream *stream)
{
	int result = 0;
	while (result == 0 || result == -EAGAIN) {
		result = stream_take(stream);
		if (result == -EAGAIN)
			result = connection_wait(&stream->connection, CONNECTION_NEVER);
	}
	stream->awaiting = 0;
	return result == STREAM_E_ANSWERED ? stream_judge_opened(stream) : result;
}

static int stream_define(struct penstock_stream *stream, const struct penstock_options *options)
{
	struct jsontext text = {0};
	int result = open_write(options, &text);
	if (result < 0)
		jsontext_free(&text);
	else
		stream->definition = text.text.bytes;
	return result;
}

static int stream_connect(struct penstock_stream *stream, const struct penstock_options *options)
{
	struct socket_path place;
	int result = socket_path_find(options->socket, &place);
	if (result == 0)
		result = reconnect_keep(&stream->reconnect, options, &place);
	if (result < 0)
		return result;
	result = socket_path_open(&stream->connection, &place);
	if (result == CONNECTION_E_ABSENT && options->private_daemon)
		result = private_open(&stream->connection, &place, options->daemon_memory,
			options->daemon_threads);
	if (result == CONNECTION_E_ABSENT && open_is_named(options->source))
		error_set(-ECONNREFUSED,
			"no penstockd is running at %s (start the one that knows %s: penstockd "
			"--config FILE; how the last one ended: penstock why)",
			stream->connection.path, options->source);
	return result == CONNECTION_E_ABSENT ? -ECONNREFUSED : result;
}

static int stream_make_pollable(struct penstock_stream *stream)
{
	struct epoll_event event = {.events = EPOLLIN};
	stream->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	stream->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stream->poll_fd < 0 || stream->bell_fd < 0 ||
		epoll_ctl(stream->poll_fd, EPOLL_CTL_ADD, stream->bell_fd, &event) < 0)
		return error_set(-errno,
			"no descriptor for waiting on the stream: %s (raise `ulimit -n`?)",
			strerror(errno));
	return reconnect_watch(stream);
}

static void stream_free(struct penstock_stream *stream)
{
	lease_deinit(&stream->leases);
	connection_close(&stream->connection);
	reconnect_deinit(&stream->reconnect);
	if (stream->poll_fd >= 0)
		(void)close(stream->poll_fd);
	if (stream->bell_fd >= 0)
		(void)close(stream->bell_fd);
	free(stream->definition);
	free(stream);
}

static struct penstock_stream *stream_new(const struct penstock_options *options)
{
	struct penstock_stream *stream = calloc(1, sizeof *stream);
	if (!stream)
		return NULL;
	stream->connection.fd = stream->connection.message.fd = -1;
	stream->wait =
		(struct wait){.interrupt = options->interrupt, .data = options->interrupt_data};
	stream->connection.wait = &stream->wait;
	stream->connection.features = open_features(options);
	stream->poll_fd = stream->bell_fd = -1;
	reconnect_init(&stream->reconnect);
	stream->leases.writable = open_is_writable(options);
	stream->timeout_ms = options->timeout_ms ? options->timeout_ms : STREAM_TIMEOUT_MS;
	return stream;
}

static int stream_open(const struct penstock_options *options, struct penstock_stream **ret_stream)
{
	struct penstock_stream *stream = stream_new(options);
	if (!stream)
		return error_set(-ENOMEM, "no memory for a stream");
	int result = stream_define(stream, options);
	if (result == 0)
		result = stream_connect(stream, options);
	if (result == 0)
		result = stream_make_pollable(stream);
	if (result == 0)
		result = stream_send_open(stream, options->state, false);
	if (result == 0)
		result = stream_await_opened(stream);
	if (result < 0) {
		stream_free(stream);
		return result;
	}
	*ret_stream = stream;
	return 0;
}

/* Tries as often, and for as long, as after the loss of a daemon (reconnect.c). */
static int stream_open_again(
	const struct penstock_options *options, struct penstock_stream **ret_stream)
{
	struct wait wait = {.interrupt = options->interrupt, .data = options->interrupt_data};
	int64_t end_ns = options->reconnect_ms == PENSTOCK_FOREVER
				 ? CONNECTION_NEVER
				 : wait_deadline(options->reconnect_ms);
	int result = -EPIPE;
	for (uint32_t tries = 1; result == -EPIPE && wait_deadline(0) < end_ns; tries++) {
		int paused = wait_pause(&wait, STREAM_AGAIN_MS);
		if (paused < 0)
			return paused;
		result = stream_open(options, ret_stream);
		if (result == 0)
			(*ret_stream)->reconnect.started = tries;
		if (tries == options->restarts)
			break;
	}
	return result;
}

int penstock_stream_open(
	const struct penstock_options *options, struct penstock_stream **ret_stream)
{
	struct penstock_options mine;
	struct open_group group;
	int result = open_take_options(options, &mine);
	if (result == 0)
		result = open_make_group(&mine, &group);
	if (result < 0)
		return result;
	result = stream_open(&mine, ret_stream);
	if (result == -EPIPE && mine.private_daemon && mine.reconnect_ms)
		result = stream_open_again(&mine, ret_stream);
	if (result < 0)
		open_drop_group(&group);
	return result;
}

void penstock_stream_close(struct penstock_stream *stream)
{
	if (!stream)
		return;
	/* In a forked child the socket is the parent's: only this process's copies are closed. */
	if (stream->connection.owner == getpid())
		stream_send_close(stream);
	stream_free(stream);
}

/* ---- other samples from the next epoch on ----
 *
 * A definition cannot change while a stream is open, so the stream is opened again, over another
 * connection. The daemon refuses a state of another order, and only it knows the new order's hash.
 * So the stream is first opened at its beginning; if another epoch comes next, it is then opened
 * there, by a state with that hash.
 *
 * Ranks that open again meet in a new group, because the old one still has ranks that have not left
 * it yet. All ranks count the groups alike. */

enum { CHOOSE_STATE = 512 };

/* What a refusal leaves as it was. */
struct choose_before {
	char *definition;
	bool numbered; /* the group in it has a number, of an earlier choice */
	bool left; /* the daemon was left: the stream must be opened again */
	struct wire_opened opened;
	uint64_t epoch, position;
	char state[CHOOSE_STATE];
};

static int choose_check(const struct penstock_stream *stream)
{
	if (stream->failed)
		return error_set(stream->failed, "%s", stream->sentence);
	if (stream->reconnect.stage != RECONNECT_IDLE)
		return error_set(-EAGAIN,
			"the daemon is gone: call penstock_stream_next until another one is found");
	if (stream->position == 0)
		return 0;
	return error_set(-EBUSY,
		"penstock_stream_set_indices: the stream is within epoch %llu: call it before the "
		"first batch of an epoch, or after the last one (PENSTOCK_LAST)",
		(unsigned long long)stream->epoch);
}

/* Opens the stream by its present definition. 0, the daemon's refusal, or the loss of the
 * daemon. */
static int choose_open(struct penstock_stream *stream, const char *state)
{
	int result = reconnect_anew(stream);
	if (result == 0)
		result = stream_send_open(stream, state, false);
	return result == 0 ? stream_await_opened(stream) : result;
}

/* Gives the stream the definition that it had with these indices, or (`same`) with those that it
 * had, and with a group that no other opening had. */
static int choose_define(struct penstock_stream *stream, const struct choose_before *before,
	const char *indices, bool same)
{
	struct jsontext text = {0};
	const struct open_choice choice = {.indices = indices,
		.same = same,
		.numbered = before->numbered,
		.number = ++stream->chosen};
	int result = open_choose(before->definition, &choice, &text);
	if (result < 0) {
		jsontext_free(&text);
		return result;
	}
	if (stream->definition != before->definition)
		free(stream->definition);
	stream->definition = text.text.bytes;
	return 0;
}

static int choose_new(
	struct penstock_stream *stream, struct choose_before *before, const char *indices)
{
	char state[CHOOSE_STATE];
	int result = choose_define(stream, before, indices, false);
	if (result < 0)
		return result;
	before->left = true;
	result = choose_open(stream, NULL);
	if (result < 0 || stream->epoch == before->epoch)
		return result;
	stream->epoch = before->epoch;
	stream->position = 0;
	result = penstock_stream_state(stream, state, sizeof state);
	if (result >= 0)
		result = choose_define(stream, before, indices, false);
	return result < 0 ? result : choose_open(stream, state);
}

/* The stream becomes what it was. If it cannot be opened again, it has lost its daemon, or is over;
 * penstock_stream_next deals with that. */
static void choose_undo(
	struct penstock_stream *stream, const struct choose_before *before, int code)
{
	char sentence[ERROR_TEXT];
	(void)snprintf(sentence, sizeof sentence, "%s", error_text());
	stream->failed = 0;
	int result = choose_define(stream, before, NULL, true);
	if (result == 0)
		result = choose_open(stream, before->state);
	if (result < 0) {
		stream->opened = before->opened;
		stream->opened.head.type = 0;
		stream->epoch = before->epoch;
		stream->position = before->position;
		if (!stream->failed)
			(void)stream_fail(stream, result);
	}
	(void)error_set(code, "%s", sentence);
}

int penstock_stream_set_indices(struct penstock_stream *stream, const char *indices)
{
	struct choose_before before = {.left = false};
	int result = stream_check_owner(stream);
	if (result == 0)
		result = choose_check(stream);
	if (result == 0)
		result = penstock_stream_state(stream, before.state, sizeof before.state);
	if (result >= 0)
		result = open_may_choose(stream->definition);
	if (result < 0)
		return result;
	before.definition = stream->definition;
	before.numbered = stream->chosen > 0;
	before.opened = stream->opened;
	before.epoch = stream->epoch;
	before.position = stream->position;
	result = choose_new(stream, &before, indices);
	if (result < 0 && before.left)
		choose_undo(stream, &before, result);
	if (stream->definition != before.definition)
		free(before.definition);
	stream_ring(stream);
	return result;
}
