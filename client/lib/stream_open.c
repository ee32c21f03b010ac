/* stream_open: opening and closing a stream.
 *
 * Thread: the application's. */
#include "client/lib/open.h"
#include "client/lib/private.h"
#include "client/lib/stream.h"

#include <errno.h>
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
