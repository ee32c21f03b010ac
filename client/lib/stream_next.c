/* stream_next: taking the next batch, and releasing one.
 *
 * Thread: the application's, one at a time per stream. */
#include "client/lib/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The state follows what the application was given, not what was announced. */
static void stream_advance(struct penstock_stream *stream, const struct wire_batch *batch)
{
	const struct wire_opened *o = &stream->opened;
	bool last = batch->flags & WIRE_BATCH_LAST;
	uint64_t all = (uint64_t)o->batch_size * o->world_size;
	stream->epoch = batch->epoch + last;
	stream->position = last ? 0 : batch->position - (uint64_t)o->batch_size * o->rank + all;
}

/* Reads on, up to what the daemon said before it filled a leased slot again. */
static void stream_read_on(struct penstock_stream *stream)
{
	while (stream_take(stream) >= 0)
		continue;
}

/* An announcement was read after its slot had been filled again: the daemon has detached this
 * trainer, has lost its connection, or is broken. */
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

/* Takes what is available without waiting: 0, PENSTOCK_END, -EAGAIN or the failure. */
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

/* The digits of the seconds of a timeout behind the point: 0.05 s is not 0.1 s. */
static int stream_digits(int32_t timeout_ms)
{
	return timeout_ms % 100 ? 3 : 1;
}

/* The time is up. The daemon knows which stage and which file takes so long. A batch that comes
 * while it answers is taken. */
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
	result = error_set(-ETIMEDOUT, "no batch within %.*f s: %s", stream_digits(timeout_ms),
		timeout_ms / 1000.0,
		result == 0 ? why
			    : "the daemon did not say why in time; `penstock status` shows "
			      "whether it is alive");
	free(why);
	return result;
}

/* The application holds all slots, so no batch can come. But the end may be on its way: an answer
 * comes after it. */
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
			return error_set(-ETIMEDOUT, "no batch within %.*f s: %s",
				stream_digits(timeout_ms), timeout_ms / 1000.0, error_text());
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

/* A batch was filled again while the application held it. `lost`: the daemon was free to do so. */
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
			"batch %llu of epoch %llu was leased from a daemon that has lost this "
			"client, and its memory was filled again: do not use what was read of it",
			(unsigned long long)batch->batch, (unsigned long long)batch->epoch);
	return stream_fail(stream,
		error_set(-EPROTO,
			"the daemon filled batch %llu of epoch %llu again while it was leased: it "
			"is broken",
			(unsigned long long)batch->batch, (unsigned long long)batch->epoch));
}

static int stream_send_release(
	struct penstock_stream *stream, uint32_t extent, const struct penstock_batch *batch)
{
	struct wire_release message = {.head = {.type = WIRE_RELEASE, .stream = STREAM_NUMBER},
		.extent = extent,
		.slot = batch->slot,
		.serial = batch->serial};
	/* Must not be interrupted, or the batch would never be released. If the daemon is gone, the
	 * next call of next says so. */
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

int penstock_batch_field(const struct penstock_stream *stream, const struct penstock_batch *batch,
	uint32_t field, uint32_t sample, const void **ret_bytes, size_t *ret_size)
{
	const uint8_t *data;
	const uint32_t *lengths;
	if (field >= stream->tail.fields)
		return stream_no_field(stream, field);
	if (sample >= stream->opened.batch_size)
		return error_set(-EINVAL,
			"sample %u does not exist: a batch has %u samples, from 0", sample,
			stream->opened.batch_size);
	if (!lease_field(&stream->leases, batch, field, &data, &lengths))
		return error_set(-EINVAL, "the batch is not held: its memory is the daemon's");
	/* Read once: a daemon that is broken may change it. */
	const uint32_t size = __atomic_load_n(&lengths[sample], __ATOMIC_RELAXED);
	const uint64_t most = stream->tail.field[field].max_bytes;
	if (size > most)
		return error_set(-EPROTO,
			"field %s of sample %u has %u bytes, beyond the %llu that it may have: the "
			"daemon is broken",
			stream->tail.field[field].name, sample, size, (unsigned long long)most);
	*ret_bytes = data + slots_field_stride(most) * sample;
	*ret_size = size;
	return 0;
}
