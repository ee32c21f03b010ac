/* query: questions to the daemon about a stream, over the stream's connection. Batches that arrive
 * meanwhile wait in the lease table.
 *
 * Thread: that of the stream. */
#include "client/lib/stream.h"

#include <errno.h>

enum { QUERY_LIMIT_MS = 30000 };

static int query_await(struct penstock_stream *stream, int64_t limit_ms)
{
	int64_t deadline_ns = wait_deadline(limit_ms);
	for (;;) {
		int result = stream_take(stream);
		if (result == STREAM_E_ANSWERED)
			return 0;
		if (result == -EAGAIN)
			result = connection_wait(&stream->connection, deadline_ns);
		if (result == -ETIMEDOUT)
			return error_set(-ETIMEDOUT,
				"the daemon (pid %d) did not answer within %.1f s: is it stopped?",
				stream->connection.daemon_pid, (double)limit_ms / 1000);
		if (result < 0)
			return result;
	}
}

int stream_ask(struct penstock_stream *stream, uint32_t kind, uint64_t argument, int64_t limit_ms,
	char **ret_text)
{
	struct wire_query message = {.head = {.type = WIRE_QUERY,
					     .request = ++stream->connection.last_request,
					     .stream = STREAM_NUMBER},
		.kind = kind,
		.argument = argument};
	if (stream->failed)
		return error_set(stream->failed, "%s", stream->sentence);
	int result = connection_send(&stream->connection, &message.head, sizeof message, NULL, 0);
	if (result < 0)
		return result;
	stream->awaiting = message.head.request;
	result = query_await(stream, limit_ms);
	stream->awaiting = 0;
	if (result < 0)
		return result;
	if (stream->connection.message.head.type == WIRE_ERROR)
		return connection_error(&stream->connection);
	return connection_answer(&stream->connection, ret_text);
}

static int query_within(struct penstock_stream *stream, uint32_t kind, uint64_t argument,
	int64_t limit_ms, char **ret_text)
{
	int result = stream_check_owner(stream);
	if (result < 0)
		return result;
	result = stream_ask(stream, kind, argument, limit_ms, ret_text);
	stream_ring(stream);
	return result;
}

static int query_stream(
	struct penstock_stream *stream, uint32_t kind, uint64_t argument, char **ret_text)
{
	return query_within(stream, kind, argument, QUERY_LIMIT_MS, ret_text);
}

int penstock_stream_classes(struct penstock_stream *stream, char **ret_lines)
{
	return query_stream(stream, WIRE_QUERY_CLASSES, 0, ret_lines);
}

int penstock_stream_path(struct penstock_stream *stream, uint64_t index, char **ret_path)
{
	return query_stream(stream, WIRE_QUERY_PATH, index, ret_path);
}

int penstock_stream_samples(struct penstock_stream *stream, uint64_t first, char **ret_lines)
{
	return query_stream(stream, WIRE_QUERY_SAMPLES, first, ret_lines);
}

int penstock_stream_stats(struct penstock_stream *stream, char **ret_json)
{
	return query_stream(stream, WIRE_QUERY_STREAM, 0, ret_json);
}

int penstock_stream_config(struct penstock_stream *stream, char **ret_json)
{
	return query_stream(stream, WIRE_QUERY_CONFIG, 0, ret_json);
}

int penstock_stream_wait(struct penstock_stream *stream, char **ret_sentence)
{
	/* Applications ask this when their time is up. */
	return query_within(stream, WIRE_QUERY_WAIT, 0, STREAM_FIGURE_OUT_MS, ret_sentence);
}
