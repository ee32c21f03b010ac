/* stream: see stream.h for the map of this folder.
 *
 * There is no thread in this library: messages are read when the application calls, one per call of
 * stream_take, each checked against what the stream is. BATCH messages that arrive while an answer
 * is awaited wait in the lease table. The failure that ended a stream is kept with its sentence and
 * given again to whoever asks.
 *
 * fork() is noticed by comparing getpid() with the process that opened: exact but for a recycled
 * pid of a dead parent, and without a process-wide pthread_atfork handler, which a library that may
 * be unloaded must not leave behind.
 *
 * Thread: the application's, one at a time per stream. */
#include "client/lib/stream.h"

#include "client/lib/open.h"
#include "client/lib/private.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	STREAM_TIMEOUT_MS = 120000,
	STREAM_AGAIN_MS = 100, /* before each further daemon that is to open it */
	STREAM_BATCH_MAX = 65536,
	STREAM_SIDE_MAX = 65535,
	STREAM_IDLE_MAX = 4096, /* messages in a row that bring nothing */
};

int stream_check_owner(const struct penstock_stream *stream)
{
	if (stream->connection.owner == getpid())
		return 0;
	return error_set(-EBADF,
		"this stream belongs to the parent process (pid %d): open one after fork()",
		(int)stream->connection.owner);
}

int stream_fail(struct penstock_stream *stream, int code)
{
	stream->failed = code;
	(void)snprintf(stream->sentence, sizeof stream->sentence, "%s", error_text());
	return code;
}

/* ---- messages
 * ----------------------------------------------------------------------------------------------------------
 */

static bool stream_opened_fits(const struct wire_opened *o)
{
	return o->batch_size >= 1 && o->batch_size <= STREAM_BATCH_MAX && o->height >= 1 &&
	       o->height <= STREAM_SIDE_MAX && o->width >= 1 && o->width <= STREAM_SIDE_MAX &&
	       o->channels >= 1 && o->channels <= 4 && o->slots >= 1 &&
	       o->slots <= WIRE_SLOTS_MAX && o->rank < o->world_size && o->views >= 1 &&
	       o->views <= SLOTS_VIEWS_MAX;
}

/* What the public header promises about a batch's memory. */
static bool stream_opened_readable(const struct wire_opened *o)
{
	bool known = slots_pixel_bytes(o->pixel_type) && slots_label_bytes(o->label_type);
	bool laid = o->pixel_layout == SLOTS_NHWC || o->pixel_layout == SLOTS_NCHW;
	uint32_t widest = o->label_type == SLOTS_LABEL_F32 ? SLOTS_LABELS_MAX : 1;
	return known && laid && o->channels == 3 && o->label_width >= 1 && o->label_width <= widest;
}

static int stream_on_opened(struct penstock_stream *stream)
{
	const struct wire_opened *o =
		conn_view(&stream->connection.message, WIRE_OPENED, sizeof *o, 0);
	if (!o || o->head.request != stream->awaiting || stream->opened.head.type)
		return error_set(-EPROTO, "the daemon sent a malformed or unasked OPENED");
	if (!stream_opened_fits(o))
		return error_set(-EPROTO,
			"the daemon opened a stream of impossible shape (%u x %u x %u x %u, %u "
			"views, %u slots)",
			o->batch_size, o->height, o->width, o->channels, o->views, o->slots);
	if (!stream_opened_readable(o))
		return error_set(-ENOTSUP,
			"the stream's batches have %u channels of pixel type %u in layout %u, and "
			"%u labels of type %u, which this libpenstock does not know: the daemon is "
			"of another release",
			o->channels, o->pixel_type, o->pixel_layout, o->label_width, o->label_type);
	int result = stream->reconnect.stage == RECONNECT_OPENING ? reconnect_check(stream, o) : 0;
	if (result < 0)
		return result;
	stream->opened = *o;
	stream->epoch = o->epoch;
	stream->position = o->position;
	result = lease_begin(&stream->leases, &stream->opened);
	return result < 0 ? result : STREAM_E_ANSWERED;
}

static int stream_on_error(struct penstock_stream *stream)
{
	uint32_t request = stream->connection.message.head.request;
	if (request && request == stream->awaiting)
		return STREAM_E_ANSWERED;
	int code = connection_error(&stream->connection);
	/* This trainer was detached from its group: its leases have ended. Even after END: then the
	 * batches that it has yet to ask for are lost to it. */
	if (!request && code == -ECANCELED) {
		stream->ended = stream->ended && stream->leases.waiting == 0;
		lease_lose(&stream->leases);
	}
	/* The refusal of a question that is no longer waited for is nobody's business. */
	return request && code != -EPROTO && request <= stream->connection.last_request ? 0 : code;
}

static int stream_on_answer(struct penstock_stream *stream)
{
	uint32_t request = stream->connection.message.head.request;
	if (request && request == stream->awaiting)
		return STREAM_E_ANSWERED;
	if (request && request <= stream->connection.last_request)
		return 0;
	return error_set(-EPROTO, "the daemon answered a question that was not asked");
}

static int stream_on_extent(struct penstock_stream *stream)
{
	const struct wire_extent *message =
		conn_view(&stream->connection.message, WIRE_EXTENT, sizeof *message, 0);
	if (!message)
		return error_set(-EPROTO, "the daemon sent a malformed EXTENT");
	return lease_add_extent(&stream->leases, message, stream->connection.message.fd);
}

static int stream_on_withdrawn(struct penstock_stream *stream)
{
	const struct wire_withdrawn *message =
		conn_view(&stream->connection.message, WIRE_WITHDRAWN, sizeof *message, 0);
	if (!message)
		return error_set(-EPROTO, "the daemon sent a malformed WITHDRAWN");
	return lease_withdraw(&stream->leases, message->extent);
}

static int stream_on_batch(struct penstock_stream *stream)
{
	const struct wire_batch *message =
		conn_view(&stream->connection.message, WIRE_BATCH, sizeof *message, 0);
	if (!message)
		return error_set(-EPROTO, "the daemon sent a malformed BATCH");
	return lease_announce(&stream->leases, message);
}

static int stream_on_end(struct penstock_stream *stream)
{
	if (!conn_view(&stream->connection.message, WIRE_END, sizeof(struct wire_end), 0))
		return error_set(-EPROTO, "the daemon sent a malformed END");
	stream->ended = true;
	return 0;
}

/* Messages of a stream under way, which say nothing before it is open or after its end. */
static int stream_dispatch_flow(struct penstock_stream *stream, const struct wire_head *head)
{
	if (!stream->opened.head.type || stream->ended || head->stream != STREAM_NUMBER ||
		head->request)
		return error_set(-EPROTO,
			"the daemon sent a message of type %u for stream %u, which is not open",
			head->type, head->stream);
	switch (head->type) {
	case WIRE_EXTENT:
		return stream_on_extent(stream);
	case WIRE_WITHDRAWN:
		return stream_on_withdrawn(stream);
	case WIRE_BATCH:
		return stream_on_batch(stream);
	default:
		return stream_on_end(stream);
	}
}

static int stream_dispatch(struct penstock_stream *stream)
{
	const struct conn_message *message = &stream->connection.message;
	if (message->fd >= 0 && message->head.type != WIRE_EXTENT &&
		message->head.type != WIRE_ANSWER)
		return error_set(-EPROTO, "the daemon sent a descriptor with a message of type %u",
			message->head.type);
	switch (message->head.type) {
	case WIRE_OPENED:
		return stream_on_opened(stream);
	case WIRE_ERROR:
		return stream_on_error(stream);
	case WIRE_ANSWER:
		return stream_on_answer(stream);
	case WIRE_EXTENT:
	case WIRE_WITHDRAWN:
	case WIRE_BATCH:
	case WIRE_END:
		return stream_dispatch_flow(stream, &message->head);
	default:
		return error_set(-EPROTO, "the daemon sent a message of unknown type %u",
			message->head.type);
	}
}

/* A daemon that sends without end what brings nothing would keep a call for ever, whatever its time
 * limit: reading never has to wait. What can come so honestly are answers to questions that were
 * given up, and extents. */
static int stream_judge_flood(struct penstock_stream *stream, int result)
{
	uint32_t type = stream->connection.message.head.type;
	if (result == STREAM_E_ANSWERED || type == WIRE_BATCH)
		stream->idle_messages = 0;
	else if (result == 0 && ++stream->idle_messages > STREAM_IDLE_MAX)
		return error_set(-EPROTO,
			"the daemon has sent %d messages that nobody waits for, and neither a "
			"batch nor an answer: it is broken",
			STREAM_IDLE_MAX);
	return result;
}

int stream_receive(struct penstock_stream *stream)
{
	int result = connection_receive(&stream->connection);
	if (result != 0)
		return result;
	return stream_judge_flood(stream, stream_dispatch(stream));
}

int stream_take(struct penstock_stream *stream)
{
	if (stream->failed)
		return error_set(stream->failed, "%s", stream->sentence);
	int result = stream_receive(stream);
	return result < 0 && result != -EAGAIN ? stream_fail(stream, result) : result;
}

/* ---- opening and closing
 * -----------------------------------------------------------------------------------------------
 */

int stream_judge_opened(struct penstock_stream *stream)
{
	uint32_t type = stream->connection.message.head.type;
	if (type == WIRE_ERROR)
		return connection_error(&stream->connection);
	if (type != WIRE_OPENED)
		return error_set(
			-EPROTO, "the daemon answered the opening with a message of type %u", type);
	return 0;
}

/* Opening has no time limit: a missing index takes as long as it takes, and the daemon is silent
 * meanwhile. What ends the wait besides an answer is the daemon's end, which is a hang-up, and
 * which connection_wait looks for once a second besides. */
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

int stream_send_open(struct penstock_stream *stream, const char *state, bool reconnect)
{
	struct jsontext text = {0};
	struct wire_open message = {.head = {.type = WIRE_OPEN, .stream = STREAM_NUMBER}};
	int result = open_request(stream->definition, state, reconnect, &text);
	if (result == 0) {
		message.head.request = stream->awaiting = ++stream->connection.last_request;
		message.text_bytes = (uint32_t)text.text.size;
		result = connection_send(&stream->connection, &message.head, sizeof message,
			text.text.bytes, text.text.size);
	}
	jsontext_free(&text);
	/* A daemon that hung up may have said why: that lies in the socket, and the wait finds it.
	 */
	return result < 0 ? result : 0;
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

/* As often, and for as long, as for a daemon that dies later: reconnect.c. */
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

void stream_send_close(struct penstock_stream *stream)
{
	struct wire_close message = {.head = {.type = WIRE_CLOSE, .stream = STREAM_NUMBER}};
	if (stream->connection.fd >= 0 && stream->opened.head.type)
		(void)conn_send(
			stream->connection.fd, true, &message.head, sizeof message, NULL, 0, -1);
}

void penstock_stream_close(struct penstock_stream *stream)
{
	if (!stream)
		return;
	/* In a forked child the socket is the parent's: only this process's copies go. */
	if (stream->connection.owner == getpid())
		stream_send_close(stream);
	stream_free(stream);
}

/* ---- batches
 * -----------------------------------------------------------------------------------------------------------
 */

void stream_ring(struct penstock_stream *stream)
{
	/* While it is opened again, what that waits for rings itself. */
	bool over = stream->failed && stream->reconnect.stage == RECONNECT_IDLE;
	bool wanted = stream->leases.waiting > 0 || stream->ended || over;
	uint64_t value = 1;
	if (wanted == stream->ringing)
		return;
	/* A counter that goes from 0 to 1 and back neither blocks nor fails. */
	ssize_t n = wanted ? write(stream->bell_fd, &value, sizeof value)
			   : read(stream->bell_fd, &value, sizeof value);
	if (n == (ssize_t)sizeof value)
		stream->ringing = wanted;
}

/* The state moves with what the application was given, not with what was announced. */
static void stream_advance(struct penstock_stream *stream, const struct wire_batch *batch)
{
	const struct wire_opened *o = &stream->opened;
	bool last = batch->flags & WIRE_BATCH_LAST;
	uint64_t all = (uint64_t)o->batch_size * o->world_size;
	stream->epoch = batch->epoch + last;
	stream->position = last ? 0 : batch->position - (uint64_t)o->batch_size * o->rank + all;
}

/* Reads on to what the daemon said of it, before it filled a slot again that this client had been
 * lent. */
static void stream_read_on(struct penstock_stream *stream)
{
	while (stream_take(stream) >= 0)
		continue;
}

/* An announcement was read after its slot had been filled again: this trainer was detached, or the
 * daemon has given it up, or is broken. */
static int stream_give_nothing(struct penstock_stream *stream)
{
	char sentence[ERROR_TEXT];
	(void)snprintf(sentence, sizeof sentence, "%s", error_text());
	stream_read_on(stream);
	if (stream->failed == -ECANCELED || stream->failed == -EPIPE ||
		reconnect_may(stream, stream->failed))
		return stream->failed;
	return stream_fail(stream, error_set(-EPROTO, "%s", sentence));
}

static int stream_give(struct penstock_stream *stream, struct penstock_batch *ret_batch)
{
	struct wire_batch message;
	int result = lease_give(&stream->leases, ret_batch, &message);
	if (result == LEASE_E_OVERWRITTEN)
		return stream_give_nothing(stream);
	if (result < 0)
		return stream_fail(stream, result);
	stream_advance(stream, &message);
	reconnect_succeed(&stream->reconnect);
	return 0;
}

/* What can be had without waiting: 0, PENSTOCK_END, -EAGAIN or the failure. */
static int stream_try(struct penstock_stream *stream, struct penstock_batch *ret_batch)
{
	for (;;) {
		if (stream->leases.waiting > 0)
			return stream_give(stream, ret_batch);
		if (stream->ended)
			return PENSTOCK_END;
		int result = stream_take(stream);
		if (result < 0)
			return result;
	}
}

/* The time is up: the daemon knows which stage and which file it is that takes so long. A batch
 * that comes while it says so is taken. */
static int stream_time_out(
	struct penstock_stream *stream, struct penstock_batch *ret_batch, int32_t timeout_ms)
{
	char *why = NULL;
	int result = stream_ask(stream, WIRE_QUERY_WAIT, 0, STREAM_FIGURE_OUT_MS, &why);
	if (result == -EINTR)
		return result;
	if (stream->leases.waiting > 0 || stream->ended || stream->failed) {
		free(why);
		return stream_try(stream, ret_batch);
	}
	result = error_set(-ETIMEDOUT, "no batch within %.1f s: %s", timeout_ms / 1000.0,
		result == 0 ? why
			    : "and the daemon did not say why in time; `penstock status` shows "
			      "whether it is alive");
	free(why);
	return result;
}

/* All slots are the application's, so no batch can come; but the end can, and may be under way. A
 * question's answer comes behind it. */
static int stream_dead_lock(struct penstock_stream *stream, struct penstock_batch *ret_batch)
{
	char *why = NULL;
	int result = stream_ask(stream, WIRE_QUERY_WAIT, 0, STREAM_FIGURE_OUT_MS, &why);
	free(why);
	if (result == -EINTR)
		return result;
	result = stream_try(stream, ret_batch);
	if (result != -EAGAIN)
		return result;
	return error_set(-EDEADLK,
		"this trainer holds all %u batches of the stream and asks for another: release one "
		"first, or raise prefetch",
		stream->opened.slots);
}

static int stream_next_connected(struct penstock_stream *stream, struct penstock_batch *ret_batch,
	int32_t timeout_ms, int64_t deadline_ns)
{
	for (;;) {
		int result = stream_try(stream, ret_batch);
		if (result != -EAGAIN)
			return result;
		if (timeout_ms == 0)
			return error_set(-EAGAIN, "no batch is ready");
		if (stream->leases.held == stream->opened.slots)
			return stream_dead_lock(stream, ret_batch);
		result = connection_wait(&stream->connection, deadline_ns);
		if (result == -ETIMEDOUT)
			return stream_time_out(stream, ret_batch, timeout_ms);
		if (result == -EINTR)
			return result;
		if (result < 0)
			return stream_fail(stream, result);
	}
}

static int stream_next(
	struct penstock_stream *stream, struct penstock_batch *ret_batch, int32_t timeout_ms)
{
	int64_t deadline_ns =
		timeout_ms == PENSTOCK_FOREVER ? CONNECTION_NEVER : wait_deadline(timeout_ms);
	for (;;) {
		int result = stream_next_connected(stream, ret_batch, timeout_ms, deadline_ns);
		if (!reconnect_may(stream, result))
			return result;
		result = reconnect_run(stream, deadline_ns);
		if (result == -EAGAIN && timeout_ms == 0)
			return error_set(-EAGAIN, "no batch is ready: %s", error_text());
		if (result == -EAGAIN)
			return error_set(-ETIMEDOUT, "no batch within %.1f s: %s",
				timeout_ms / 1000.0, error_text());
		if (result < 0)
			return result;
	}
}

int penstock_stream_next(
	struct penstock_stream *stream, struct penstock_batch *ret_batch, int32_t timeout_ms)
{
	int result = stream_check_owner(stream);
	if (result < 0)
		return result;
	if (timeout_ms == PENSTOCK_TIMEOUT_DEFAULT)
		timeout_ms = stream->timeout_ms;
	if (timeout_ms < 0 && timeout_ms != PENSTOCK_FOREVER)
		return error_set(-EINVAL,
			"timeout_ms is %d: expected milliseconds, PENSTOCK_TIMEOUT_DEFAULT or "
			"PENSTOCK_FOREVER",
			timeout_ms);
	result = stream_next(stream, ret_batch, timeout_ms);
	stream_ring(stream);
	return result;
}

/* A batch was filled again while the application held it. `lost`: nobody kept the daemon from it.
 */
static int stream_refuse_overwritten(
	struct penstock_stream *stream, const struct penstock_batch *batch, bool lost)
{
	if (!lost)
		stream_read_on(stream);
	stream_ring(stream);
	if (stream->failed == -ECANCELED)
		return error_set(-ECANCELED, "%s", stream->sentence);
	if (lost || stream->failed == -EPIPE)
		return error_set(-ECANCELED,
			"batch %llu of epoch %llu was lent by a daemon that has given this client "
			"up, and its memory was filled again: what was read of it must not be used",
			(unsigned long long)batch->batch, (unsigned long long)batch->epoch);
	return stream_fail(stream,
		error_set(-EPROTO,
			"the daemon filled batch %llu of epoch %llu again while it was lent: it is "
			"broken",
			(unsigned long long)batch->batch, (unsigned long long)batch->epoch));
}

static int stream_send_release(
	struct penstock_stream *stream, uint32_t extent, const struct penstock_batch *batch)
{
	struct wire_release message = {.head = {.type = WIRE_RELEASE, .stream = STREAM_NUMBER},
		.extent = extent,
		.slot = batch->slot,
		.serial = batch->serial};
	/* Not to be interrupted: who would release it then? With the daemon gone there is nobody to
	 * tell, and the next call of next says so. */
	stream->connection.wait = NULL;
	int result = connection_send(&stream->connection, &message.head, sizeof message, NULL, 0);
	stream->connection.wait = &stream->wait;
	if (result >= 0)
		return 0;
	result = stream_fail(stream, result);
	return reconnect_may(stream, result) ? 0 : result;
}

int penstock_batch_release(struct penstock_stream *stream, struct penstock_batch *batch)
{
	uint32_t extent;
	int result = stream_check_owner(stream);
	if (result < 0)
		return result;
	const struct slots_head *head = lease_head(&stream->leases, batch);
	bool intact = head && lease_is_intact(head, batch->serial);
	result = lease_return(&stream->leases, batch, &extent);
	if (result < 0)
		return result;
	batch->images = NULL;
	batch->labels = NULL;
	batch->label_values = NULL;
	batch->samples = NULL;
	if (!intact)
		return stream_refuse_overwritten(stream, batch, result == LEASE_E_LOST);
	return result == LEASE_E_LOST ? 0 : stream_send_release(stream, extent, batch);
}

int penstock_stream_writable(const struct penstock_stream *stream)
{
	return stream->leases.writable;
}

int penstock_batch_memory(const struct penstock_stream *stream, const struct penstock_batch *batch,
	const void **ret_base, size_t *ret_bytes)
{
	const struct map *map = lease_map(&stream->leases, batch);
	if (!map)
		return error_set(-EINVAL, "the batch is not held: its memory is the daemon's");
	*ret_base = map->bytes;
	*ret_bytes = map->size;
	return 0;
}

uint64_t penstock_batch_ready_ns(
	const struct penstock_stream *stream, const struct penstock_batch *batch)
{
	const struct slots_head *head = lease_head(&stream->leases, batch);
	return head ? head->ready_ns : 0;
}

/* ---- what the stream is
 * ------------------------------------------------------------------------------------------------
 */

static uint32_t stream_dtype(uint32_t pixel_type)
{
	static const uint8_t dtypes[] = {[SLOTS_U8] = PENSTOCK_UINT8,
		[SLOTS_F32] = PENSTOCK_FLOAT32,
		[SLOTS_F16] = PENSTOCK_FLOAT16,
		[SLOTS_BF16] = PENSTOCK_BFLOAT16};
	return dtypes[pixel_type];
}

void penstock_stream_info(
	const struct penstock_stream *stream, struct penstock_stream_info *ret_info)
{
	const struct wire_opened *o = &stream->opened;
	*ret_info = (struct penstock_stream_info){
		.samples = o->samples,
		.batches = o->batches,
		.fingerprint = o->fingerprint,
		.seed = o->seed,
		.epoch = o->epoch,
		.batch = o->batch,
		.batch_size = o->batch_size,
		.height = o->height,
		.width = o->width,
		.channels = o->channels,
		.classes = o->classes,
		.slots = o->slots,
		.rank = o->rank,
		.world_size = o->world_size,
		.shuffle = o->shuffle,
		.train = o->train,
		.views = o->views,
		.dtype = stream_dtype(o->pixel_type),
		.layout = o->pixel_layout == SLOTS_NCHW ? PENSTOCK_NCHW : PENSTOCK_NHWC,
		.label_type = o->label_type == SLOTS_LABEL_F32 ? PENSTOCK_LABEL_FLOAT32
							       : PENSTOCK_LABEL_INT64,
		.label_width = o->label_width,
	};
}

int penstock_stream_fd(const struct penstock_stream *stream)
{
	int result = stream_check_owner(stream);
	return result < 0 ? result : stream->poll_fd;
}

int32_t penstock_stream_timeout_ms(const struct penstock_stream *stream)
{
	return stream->timeout_ms;
}

int32_t penstock_stream_daemon_pid(const struct penstock_stream *stream)
{
	return stream->connection.daemon_pid;
}

int penstock_stream_state(const struct penstock_stream *stream, char *buffer, size_t room)
{
	const struct wire_opened *o = &stream->opened;
	int result = stream_check_owner(stream);
	if (result < 0)
		return result;
	int n = snprintf(buffer, room,
		"{\"version\":1,\"fingerprint\":\"%016llx\",\"order\":\"%016llx\",\"transform\":\"%"
		"016llx\","
		"\"seed\":%llu,\"epoch\":%llu,\"position\":%llu}",
		(unsigned long long)o->fingerprint, (unsigned long long)o->order,
		(unsigned long long)o->transform, (unsigned long long)o->seed,
		(unsigned long long)stream->epoch, (unsigned long long)stream->position);
	if (n < 0 || (size_t)n >= room)
		return error_set(-ENOSPC,
			"the state takes %d bytes, the buffer has %zu: 512 always suffice", n + 1,
			room);
	return n;
}
