/* stream: see stream.h. */
#include "dataset/container/parquet/stream.h"

#include "base/util.h"
#include "dataset/container/parquet/piece.h"

#include <assert.h>
#include <errno.h>

static void stream_begin(struct stream *stream, const char *path, const char *what)
{
	stream->window = NULL;
	stream->unpack = NULL;
	stream->path = path;
	stream->what = what;
	stream->base = stream->at = stream->end = 0;
	stream->piece = stream->piece_end = NULL;
}

void stream_plain(struct stream *stream, struct window *window, uint64_t base, uint64_t size,
	const char *what)
{
	stream_begin(stream, window->path, what);
	stream->window = window;
	stream->base = base;
	stream->end = size;
}

void stream_memory(struct stream *stream, const char *path, const uint8_t *bytes, size_t size,
	const char *what)
{
	stream_begin(stream, path, what);
	stream->end = size;
	stream->piece = bytes;
	stream->piece_end = bytes + size;
}

int stream_damaged(const struct stream *stream, const char *how, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: %s is damaged after %llu of its %llu bytes: %s; copy the file "
		"again from where it came from",
		stream->path, (unsigned long long)stream->base, stream->what,
		(unsigned long long)stream->at, (unsigned long long)stream->end, how);
}

/* Puts the place before a sentence of unpack.h; whatever is wrong with the data is -EINVAL. */
static int stream_fault(const struct stream *stream, int rc, struct fault *fault)
{
	const bool data = rc == -EBADMSG || rc == -ENODATA || rc == -EOPNOTSUPP;
	return fault_prefix(fault, data ? -EINVAL : rc, "%s: byte %llu: %s", stream->path,
		(unsigned long long)stream->base, stream->what);
}

int stream_packed(struct stream *stream, struct window *window, struct unpack *unpack,
	enum packed_method method, uint64_t base, uint32_t stored, uint32_t size, const char *what,
	struct fault *fault)
{
	stream_begin(stream, window->path, what);
	stream->unpack = unpack;
	stream->base = base;
	stream->end = size;
	stream->part = (struct blob_part){.blob = window->blob, .offset = base};
	/* Some writers store nothing for nothing. */
	if (!size)
		return 0;
	const struct unpack_source source = {
		.read = blob_part_read, .why = blob_error, .context = &stream->part};
	int rc = unpack_begin(unpack, method, stored, size, &source, fault);
	if (rc == 0)
		rc = unpack_parts(unpack, fault);
	return rc < 0 ? stream_fault(stream, rc, fault) : 0;
}

/* Makes the next bytes readable. */
static int stream_more(struct stream *stream, struct fault *fault)
{
	const uint64_t left = stream->end - stream->at;
	size_t size = (size_t)UTIL_MIN(left, (uint64_t)STREAM_PIECE);
	if (!left)
		return stream_damaged(stream, "its values end too early", fault);
	assert(stream->window || stream->unpack);
	if (stream->window) {
		int rc = piece_get(stream->window, stream->base + stream->at, left, stream->what,
			&stream->piece, &size, fault);
		stream->piece_end = stream->piece + (rc < 0 ? 0 : size);
		return rc;
	}
	int rc = unpack_read(stream->unpack, stream->buffer, size, &size, fault);
	if (rc < 0)
		return stream_fault(stream, rc, fault);
	stream->piece = stream->buffer;
	stream->piece_end = stream->piece + size;
	return size ? 0 : stream_damaged(stream, "its compressed bytes end too early", fault);
}

int stream_read(struct stream *stream, void *buffer, size_t size, struct fault *fault)
{
	uint8_t *out = buffer;
	while (size) {
		int rc = stream->piece == stream->piece_end ? stream_more(stream, fault) : 0;
		if (rc < 0)
			return rc;
		const size_t part = UTIL_MIN(size, (size_t)(stream->piece_end - stream->piece));
		memcpy(out, stream->piece, part);
		out += part;
		size -= part;
		stream->piece += part;
		stream->at += part;
	}
	return 0;
}

int stream_skip(struct stream *stream, uint64_t size, struct fault *fault)
{
	if (size > stream->end - stream->at)
		return stream_damaged(
			stream, "a value is longer than the bytes that are left", fault);
	const uint64_t part = UTIL_MIN(size, (uint64_t)(stream->piece_end - stream->piece));
	uint64_t rest = size - part, skipped = 0;
	int rc = 0;
	if (part)
		stream->piece += part;
	stream->at += part;
	if (rest && stream->unpack)
		rc = unpack_skip(stream->unpack, rest, &skipped, fault);
	if (rc < 0)
		return stream_fault(stream, rc, fault);
	if (rest && stream->unpack && skipped < rest)
		return stream_damaged(stream, "its compressed bytes end too early", fault);
	stream->at += rest;
	if (rest && stream->window)
		stream->piece = stream->piece_end = NULL;
	return 0;
}

/* ---- runs ---- */

void runs_init(struct runs *runs, struct stream *stream, unsigned width)
{
	*runs = (struct runs){.stream = stream, .width = width};
}

static int stream_byte(struct stream *stream, uint8_t *ret, struct fault *fault)
{
	if (stream->piece == stream->piece_end)
		return stream_read(stream, ret, 1, fault);
	stream->at++;
	*ret = *stream->piece++;
	return 0;
}

/* Reads the header of the next run. */
static int runs_begin(struct runs *runs, struct fault *fault)
{
	uint64_t head = 0;
	uint8_t byte = 0x80;
	for (unsigned shift = 0; byte & 0x80; shift += 7) {
		if (shift > 28)
			return stream_damaged(runs->stream, "a run is too long", fault);
		int rc = stream_byte(runs->stream, &byte, fault);
		if (rc < 0)
			return rc;
		head |= (uint64_t)(byte & 0x7f) << shift;
	}
	runs->packed = head & 1;
	runs->left = runs->packed ? (head >> 1) * 8 : head >> 1;
	/* Compressed, millions of them have a few bytes. */
	if (!runs->left)
		return stream_damaged(runs->stream, "a run has no values", fault);
	runs->bits = 0;
	runs->bits_count = 0;
	runs->value = 0;
	for (unsigned i = 0; !runs->packed && i < (runs->width + 7) / 8; i++) {
		int rc = stream_byte(runs->stream, &byte, fault);
		if (rc < 0)
			return rc;
		runs->value |= (uint32_t)byte << 8 * i;
	}
	return 0;
}

int runs_next(struct runs *runs, uint32_t *ret, struct fault *fault)
{
	int rc = runs->left ? 0 : runs_begin(runs, fault);
	if (rc < 0)
		return rc;
	runs->left--;
	while (runs->packed && runs->bits_count < runs->width) {
		uint8_t byte = 0;
		rc = stream_byte(runs->stream, &byte, fault);
		if (rc < 0)
			return rc;
		runs->bits |= (uint64_t)byte << runs->bits_count;
		runs->bits_count += 8;
	}
	if (runs->packed) {
		runs->value = (uint32_t)(runs->bits & ((UINT64_C(1) << runs->width) - 1));
		runs->bits >>= runs->width;
		runs->bits_count -= runs->width;
	}
	*ret = runs->value;
	return 0;
}
