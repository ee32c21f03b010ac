/* object_stream: reading from front to back, see object.h. The ranges of a stream are a ring:
 * range number n is in place n % REMOTE_STREAM_RANGES, and the ranges from the reader's to the
 * last one that was begun are consecutive. A stream that jumps has one range under way at first,
 * and one more with each range that its reader has passed: looking at places far apart does not
 * fetch what is between them. */
#include "base/util.h"
#include "remote/interrupt.h"
#include "remote/object.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct range {
	struct remote_read read;
	bool under_way;
};

struct remote_stream {
	struct remote_object *object;
	uint8_t *memory; /* REMOTE_STREAM_BYTES; NULL before the first read */
	pthread_mutex_t lock; /* for under_way */
	pthread_cond_t turn;
	struct range ranges[REMOTE_STREAM_RANGES];
	uint64_t first, begun; /* numbers of ranges: the reader's; one after the last */
	unsigned ahead; /* ranges that may be under way */
};

int remote_stream_open(struct remote_object *object, struct remote_stream **ret)
{
	struct remote_stream *stream = calloc(1, sizeof *stream);
	if (!stream)
		return -ENOMEM;
	stream->object = remote_object_ref(object);
	stream->ahead = 1;
	(void)pthread_mutex_init(&stream->lock, NULL);
	interrupt_cond_init(&stream->turn);
	*ret = stream;
	return 0;
}

static void range_done(struct remote_read *read)
{
	struct remote_stream *stream = read->user;
	struct range *range = (struct range *)read; /* its first field */
	(void)pthread_mutex_lock(&stream->lock);
	range->under_way = false;
	(void)pthread_cond_signal(&stream->turn);
	(void)pthread_mutex_unlock(&stream->lock);
}

static struct range *range_of(struct remote_stream *stream, uint64_t number)
{
	return &stream->ranges[number % REMOTE_STREAM_RANGES];
}

/* Where the thread is interrupted, the range's read ends with -ECANCELED. */
static void range_wait(struct remote_stream *stream, uint64_t number)
{
	struct range *range = range_of(stream, number);
	bool canceled = false;
	(void)pthread_mutex_lock(&stream->lock);
	while (range->under_way) {
		interrupt_wait(&stream->turn, &stream->lock, canceled);
		if (canceled || !range->under_way || !interrupt_wanted())
			continue;
		canceled = true;
		(void)pthread_mutex_unlock(&stream->lock);
		remote_object_cancel(&range->read);
		(void)pthread_mutex_lock(&stream->lock);
	}
	(void)pthread_mutex_unlock(&stream->lock);
}

static void range_begin(struct remote_stream *stream, uint64_t number)
{
	struct range *range = range_of(stream, number);
	const uint64_t offset = number * REMOTE_STREAM_RANGE;
	const uint64_t rest = remote_object_size(stream->object) - offset;
	range->read = (struct remote_read){
		.object = stream->object,
		.buffer = stream->memory +
			  (number % REMOTE_STREAM_RANGES) * (size_t)REMOTE_STREAM_RANGE,
		.offset = offset,
		.size = (uint32_t)UTIL_MIN(rest, (uint64_t)REMOTE_STREAM_RANGE),
		.done = range_done,
		.user = stream,
	};
	range->under_way = true;
	remote_object_begin(&range->read);
}

/* Begins ranges ahead of the reader, who is in number `first`. */
static void ahead(struct remote_stream *stream)
{
	const uint64_t count = (remote_object_size(stream->object) + REMOTE_STREAM_RANGE - 1) /
			       REMOTE_STREAM_RANGE;
	for (; stream->begun < count && stream->begun < stream->first + stream->ahead;
		stream->begun++)
		range_begin(stream, stream->begun);
}

static void all_end(struct remote_stream *stream)
{
	for (uint64_t i = stream->first; i < stream->begun; i++) {
		(void)pthread_mutex_lock(&stream->lock);
		const bool under_way = range_of(stream, i)->under_way;
		(void)pthread_mutex_unlock(&stream->lock);
		if (under_way)
			remote_object_cancel(&range_of(stream, i)->read);
	}
	for (uint64_t i = stream->first; i < stream->begun; i++)
		range_wait(stream, i);
}

/* Moves the window so that `number` is its first range. */
static void move(struct remote_stream *stream, uint64_t number)
{
	if (number >= stream->begun) {
		const bool next = number == stream->begun && stream->begun;
		all_end(stream);
		stream->ahead =
			next ? UTIL_MIN(stream->ahead + 1, (unsigned)REMOTE_STREAM_RANGES) : 1;
		stream->first = stream->begun = number;
	}
	for (; stream->first < number; stream->first++) {
		range_wait(stream, stream->first);
		stream->ahead = UTIL_MIN(stream->ahead + 1, (unsigned)REMOTE_STREAM_RANGES);
	}
	ahead(stream);
}

/* Reads what one range has of it. */
static int range_read(struct remote_stream *stream, uint8_t *buffer, size_t size, uint64_t offset,
	size_t *ret_done, struct fault *fault)
{
	const uint64_t number = offset / REMOTE_STREAM_RANGE;
	const size_t from = offset % REMOTE_STREAM_RANGE;
	const size_t part = UTIL_MIN(size, REMOTE_STREAM_RANGE - from);
	move(stream, number);
	range_wait(stream, number);
	const struct remote_read *read = &range_of(stream, number)->read;
	if (read->result < 0) {
		/* The next read begins it again. */
		all_end(stream);
		stream->first = stream->begun = number;
		return fault_set(fault, read->result, "%s", read->fault.text);
	}
	memcpy(buffer, (const uint8_t *)read->buffer + from, part);
	*ret_done = part;
	return 0;
}

int remote_stream_read(struct remote_stream *stream, void *buffer, size_t size, uint64_t offset,
	struct fault *fault)
{
	const uint64_t whole = remote_object_size(stream->object);
	if (interrupt_wanted())
		return fault_set(fault, -ECANCELED, "the read was canceled");
	/* Back, or too far: the object's own answer. */
	if (offset / REMOTE_STREAM_RANGE < stream->first || offset > whole || size > whole - offset)
		return remote_object_read(stream->object, buffer, size, offset, fault);
	if (!stream->memory)
		stream->memory = malloc(REMOTE_STREAM_BYTES);
	if (!stream->memory)
		return fault_set(fault, -ENOMEM, "no memory to read ahead in a remote object");
	for (size_t done = 0; done < size;) {
		size_t part = 0;
		const int code = range_read(
			stream, (uint8_t *)buffer + done, size - done, offset + done, &part, fault);
		if (code < 0)
			return code;
		done += part;
	}
	return 0;
}

void remote_stream_close(struct remote_stream *stream)
{
	if (!stream)
		return;
	all_end(stream);
	remote_object_unref(stream->object);
	(void)pthread_mutex_destroy(&stream->lock);
	(void)pthread_cond_destroy(&stream->turn);
	free(stream->memory);
	free(stream);
}
