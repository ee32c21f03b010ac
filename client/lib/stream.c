/* stream: see stream.h.
 *
 * This library has no thread: messages are read when the application calls, one per call of
 * stream_take, and each is checked against what the stream is. BATCH messages that arrive while an
 * answer is awaited wait in the lease table. The failure that ended a stream is kept with its
 * sentence, and every later call returns it.
 *
 * fork() is noticed by comparing getpid() with the process that opened the stream. That is exact
 * but for a recycled pid of a dead parent, and needs no process-wide pthread_atfork handler, which
 * a library that may be unloaded must not leave behind.
 *
 * Thread: the application's, one at a time per stream. */
#include "client/lib/stream.h"

#include "client/lib/open.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
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

/* ---- messages ---- */

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
	return known && laid && o->channels == 3 && o->label_width >= 1 &&
	       o->label_width <= SLOTS_LABELS_MAX;
}

/* Whether the groups of a tail are of the views and sizes that OPENED has. */
static bool stream_groups_fit(const struct wire_opened *o, const struct opened_tail *tail)
{
	uint32_t views = 0;
	for (uint32_t i = 0; i < tail->groups; i++) {
		const struct wire_group *group = &tail->group[i];
		if (group->views < 1 || group->views > o->views - views || group->height < 1 ||
			group->height > o->height || group->width < 1 || group->width > o->width)
			return false;
		views += group->views;
	}
	return !tail->groups || views == o->views;
}

/* Says in messages what opened the stream again. */
static const char *stream_opener(const struct penstock_stream *stream)
{
	return stream->reconnect.stage == RECONNECT_OPENING
		       ? ", which has replaced the one that was gone,"
		       : "";
}

/* Whether the groups of an OPENED are those that the stream had before it was opened again. */
static int stream_check_same_groups(
	const struct penstock_stream *stream, const struct opened_tail *tail)
{
	const struct opened_tail *was = &stream->tail;
	bool same = was->groups == tail->groups;
	for (uint32_t i = 0; same && i < tail->groups; i++)
		same = tail->group[i].views == was->group[i].views &&
		       tail->group[i].height == was->group[i].height &&
		       tail->group[i].width == was->group[i].width &&
		       strcmp(tail->group[i].name, was->group[i].name) == 0;
	return same ? 0
		    : error_set(-ESTALE,
			      "the daemon at %s%s opened another stream: its groups of views "
			      "differ; has the configuration changed?",
			      stream->connection.path, stream_opener(stream));
}

/* Whether the fields of an OPENED are those that the stream had before it was opened again. */
static int stream_check_same_fields(
	const struct penstock_stream *stream, const struct opened_tail *tail)
{
	const struct opened_tail *was = &stream->tail;
	bool same = was->fields == tail->fields;
	for (uint32_t i = 0; same && i < tail->fields; i++)
		same = was->field[i].max_bytes == tail->field[i].max_bytes &&
		       strcmp(was->field[i].name, tail->field[i].name) == 0;
	return same ? 0
		    : error_set(-ESTALE,
			      "the daemon at %s%s opened another stream: its fields differ; has "
			      "the configuration changed?",
			      stream->connection.path, stream_opener(stream));
}

struct stream_number {
	const char *name;
	uint64_t was, is;
};

static int stream_check_numbers(
	const struct penstock_stream *stream, const struct stream_number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (numbers[i].was == numbers[i].is)
			continue;
		return error_set(-ESTALE,
			"the daemon at %s%s opened another stream: %s is %" PRIu64
			", expected %" PRIu64 "; has the dataset or the configuration changed?",
			stream->connection.path, stream_opener(stream), numbers[i].name,
			numbers[i].is, numbers[i].was);
	}
	return 0;
}

/* Whether an OPENED, after a reconnect, is of the stream that was lost, at its next batch: 0, or
 * -ESTALE with a sentence that says what differs. */
static int stream_check_same(const struct penstock_stream *stream, const struct wire_opened *opened)
{
	const struct wire_opened *was = &stream->opened;
	const struct stream_number numbers[] = {
		{"fingerprint", was->fingerprint, opened->fingerprint},
		{"order", was->order, opened->order},
		{"transform", was->transform, opened->transform},
		{"seed", was->seed, opened->seed},
		{"salt", was->salt, opened->salt},
		{"rank", was->rank, opened->rank},
		{"world_size", was->world_size, opened->world_size},
		{"epoch", stream->epoch, opened->epoch},
		{"position", stream->position, opened->position},
	};
	return stream_check_numbers(stream, numbers, sizeof numbers / sizeof *numbers);
}

/* Whether the batches of a stream that was opened again are laid out as before: those that the
 * application still holds are read by the new layout. */
static int stream_check_same_layout(const struct penstock_stream *stream,
	const struct wire_opened *opened, const struct opened_tail *tail)
{
	const struct wire_opened *was = &stream->opened;
	const struct stream_number numbers[] = {
		{"batch_size", was->batch_size, opened->batch_size},
		{"views", was->views, opened->views},
		{"height", was->height, opened->height},
		{"width", was->width, opened->width},
		{"pixel_type", was->pixel_type, opened->pixel_type},
		{"pixel_layout", was->pixel_layout, opened->pixel_layout},
		{"label_width", was->label_width, opened->label_width},
		{"label_type", was->label_type, opened->label_type},
	};
	int result = stream_check_numbers(stream, numbers, sizeof numbers / sizeof *numbers);
	if (result == 0)
		result = stream_check_same_groups(stream, tail);
	return result == 0 ? stream_check_same_fields(stream, tail) : result;
}

/* Whether the cuts begin at 0, grow, and end with the present global batch. */
static bool stream_cuts_fit(const struct wire_opened *o, const struct opened_tail *tail)
{
	const struct wire_cut *cut = tail->cut;
	if (!tail->cuts)
		return true;
	for (uint32_t i = 0; i < tail->cuts; i++)
		if (!cut[i].global || cut[i].position > o->position ||
			(i ? cut[i].position <= cut[i - 1].position : cut[i].position != 0))
			return false;
	return cut[tail->cuts - 1].global == (uint64_t)o->batch_size * o->world_size;
}

/* The message as OPENED, and its tail; NULL: it is malformed, or the tail has what was not
 * offered. */
static const struct wire_opened *stream_view_opened(
	const struct connection *connection, struct opened_tail *ret_tail)
{
	const struct conn_message *message = &connection->message;
	const size_t size = sizeof(struct wire_opened);
	if (message->head.type != WIRE_OPENED || message->size < size ||
		!opened_tail_read(message->bytes + size, message->size - size, ret_tail))
		return NULL;
	const uint64_t used = (ret_tail->groups ? WIRE_FEATURE_GROUPS : 0u) |
			      (ret_tail->fields ? WIRE_FEATURE_FIELDS : 0u) |
			      (ret_tail->cuts ? WIRE_FEATURE_BUCKETS : 0u);
	if (used & ~connection->agreed)
		return NULL;
	return (const struct wire_opened *)(const void *)message->bytes;
}

static int stream_on_opened(struct penstock_stream *stream)
{
	struct opened_tail tail;
	const struct wire_opened *o = stream_view_opened(&stream->connection, &tail);
	if (!o || o->head.request != stream->awaiting || stream->opened.head.type)
		return error_set(-EPROTO,
			"the daemon sent a malformed OPENED, or one that was not asked for");
	if (!stream_groups_fit(o, &tail) || !stream_cuts_fit(o, &tail))
		return error_set(-EPROTO,
			"the daemon sent a malformed OPENED: its groups of views or its cuts do "
			"not fit");
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
	const bool reconnected = stream->reconnect.stage == RECONNECT_OPENING;
	int result = reconnected ? stream_check_same(stream, o) : 0;
	if (result == 0 && (reconnected || stream->chosen))
		result = stream_check_same_layout(stream, o, &tail);
	if (result < 0)
		return result;
	stream->opened = *o;
	stream->tail = tail;
	stream->epoch = o->epoch;
	stream->position = o->position;
	result = lease_begin(&stream->leases, &stream->opened, &stream->tail);
	return result < 0 ? result : STREAM_E_ANSWERED;
}

static int stream_on_error(struct penstock_stream *stream)
{
	uint32_t request = stream->connection.message.head.request;
	if (request && request == stream->awaiting)
		return STREAM_E_ANSWERED;
	int code = connection_error(&stream->connection);
	/* This trainer was detached from its group: its leases have ended, even after END: then it
	 * loses the batches that it has not asked for yet. */
	if (!request && code == -ECANCELED) {
		stream->ended = stream->ended && stream->leases.waiting == 0;
		lease_lose(&stream->leases);
	}
	/* A refusal of a question that is no longer waited for is ignored. */
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

/* Messages of an open stream, which must not come before it is open or after its end. */
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

/* A daemon that sends useless messages without end would keep a call for ever, whatever its time
 * limit, since reading never has to wait. Honest useless messages are answers to questions that
 * were given up, and extents. */
static int stream_judge_flood(struct penstock_stream *stream, int result)
{
	uint32_t type = stream->connection.message.head.type;
	if (result == STREAM_E_ANSWERED || type == WIRE_BATCH)
		stream->idle_messages = 0;
	else if (result == 0 && ++stream->idle_messages > STREAM_IDLE_MAX)
		return error_set(-EPROTO,
			"the daemon has sent %d messages that were not asked for, and neither a "
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

/* ---- what is sent ---- */

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
	/* A daemon that hung up may have said why: its message is in the socket, and the wait finds
	 * it. */
	return result < 0 ? result : 0;
}

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

void stream_send_close(struct penstock_stream *stream)
{
	struct wire_close message = {.head = {.type = WIRE_CLOSE, .stream = STREAM_NUMBER}};
	if (stream->connection.fd >= 0 && stream->opened.head.type)
		(void)conn_send(
			stream->connection.fd, true, &message.head, sizeof message, NULL, 0, -1);
}

void stream_ring(struct penstock_stream *stream)
{
	/* While the stream is opened again, the descriptors of that are watched themselves. */
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

/* ---- what the stream is ---- */

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
		.salt = o->salt,
	};
}

uint32_t penstock_stream_groups(const struct penstock_stream *stream)
{
	return stream->tail.groups;
}

int penstock_stream_group(
	const struct penstock_stream *stream, uint32_t group, struct penstock_view_group *ret_group)
{
	uint32_t first = 0;
	if (!stream->tail.groups)
		return error_set(-EINVAL,
			"group %u does not exist: the stream's views are not divided into groups",
			group);
	if (group >= stream->tail.groups)
		return error_set(-EINVAL,
			"group %u does not exist: the stream has %u groups of views, from 0", group,
			stream->tail.groups);
	for (uint32_t i = 0; i < group; i++)
		first += stream->tail.group[i].views;
	*ret_group = (struct penstock_view_group){.first_view = first,
		.views = stream->tail.group[group].views,
		.height = stream->tail.group[group].height,
		.width = stream->tail.group[group].width};
	memcpy(ret_group->name, stream->tail.group[group].name, sizeof ret_group->name);
	return 0;
}

const void *penstock_batch_images(
	const struct penstock_stream *stream, const struct penstock_batch *batch, uint32_t group)
{
	return group < stream->tail.groups ? lease_images(&stream->leases, batch, group)
	       : group == 0 && lease_head(&stream->leases, batch) ? batch->images
								  : NULL;
}

_Static_assert(sizeof((struct penstock_field *)0)->name == WIRE_NAME, "a name as it is sent");
uint32_t penstock_stream_fields(const struct penstock_stream *stream)
{
	return stream->tail.fields;
}

int stream_no_field(const struct penstock_stream *stream, uint32_t field)
{
	return error_set(-EINVAL, "field %u does not exist: the stream has %u fields%s", field,
		stream->tail.fields,
		stream->tail.fields ? ", from 0" : " (options.fields names them)");
}

int penstock_stream_field(
	const struct penstock_stream *stream, uint32_t field, struct penstock_field *ret_field)
{
	if (field >= stream->tail.fields)
		return stream_no_field(stream, field);
	const struct wire_field *from = &stream->tail.field[field];
	ret_field->max_bytes = (size_t)from->max_bytes;
	memcpy(ret_field->name, from->name, sizeof ret_field->name);
	return 0;
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

/* Longer than that of the most cuts. */
enum { STREAM_CUTS_TEXT = 16 + WIRE_CUTS_MAX * 40 };

/* How the epoch of the next batch is cut: ,"cuts":[[0,256]]; "" without buckets. A later epoch than
 * that of OPENED is cut with the present global batch only. */
static const char *stream_write_cuts(
	const struct penstock_stream *stream, char buffer[STREAM_CUTS_TEXT])
{
	const struct wire_opened *o = &stream->opened;
	const struct wire_cut whole = {0, (uint64_t)o->batch_size * o->world_size};
	const bool first = stream->epoch == o->epoch;
	const struct wire_cut *cut = first ? stream->tail.cut : &whole;
	const uint32_t count = !stream->tail.cuts ? 0 : first ? stream->tail.cuts : 1;
	size_t at = 0;
	buffer[0] = 0;
	for (uint32_t i = 0; i < count; i++)
		at += (size_t)snprintf(buffer + at, STREAM_CUTS_TEXT - at, "%s[%llu,%llu]%s",
			i ? "," : ",\"cuts\":[", (unsigned long long)cut[i].position,
			(unsigned long long)cut[i].global, i + 1 == count ? "]" : "");
	return buffer;
}

int penstock_stream_state(const struct penstock_stream *stream, char *buffer, size_t room)
{
	const struct wire_opened *o = &stream->opened;
	int result = stream_check_owner(stream);
	if (result < 0)
		return result;
	char cuts[STREAM_CUTS_TEXT];
	int n = snprintf(buffer, room,
		"{\"version\":1,\"fingerprint\":\"%016llx\",\"order\":\"%016llx\",\"transform\":\"%"
		"016llx\","
		"\"seed\":%llu,\"epoch\":%llu,\"position\":%llu%s}",
		(unsigned long long)o->fingerprint, (unsigned long long)o->order,
		(unsigned long long)o->transform, (unsigned long long)o->seed,
		(unsigned long long)stream->epoch, (unsigned long long)stream->position,
		stream_write_cuts(stream, cuts));
	if (n < 0 || (size_t)n >= room)
		return error_set(-ENOSPC,
			"the state takes %d bytes, and the buffer has %zu: 512 are always enough",
			n + 1, room);
	return n;
}
