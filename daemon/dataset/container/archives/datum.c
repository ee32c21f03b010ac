/* datum: see datum.h. */
#include "dataset/container/archives/datum.h"

#include "base/util.h"

#include <errno.h>

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, WIRE_FLOAT = 5, PIECE = 256 };

/* A message that is being read, in small pieces. */
struct message {
	const struct blob *blob;
	uint64_t at, end; /* of the rest in the file */
	uint64_t piece_at;
	size_t piece_size;
	uint8_t piece[PIECE];
};

/* 1 and the next byte; 0 at the end; -errno. */
static int byte_take(struct message *message, uint8_t *ret)
{
	if (message->at == message->end)
		return 0;
	if (message->at < message->piece_at ||
		message->at - message->piece_at >= message->piece_size) {
		const size_t most = (size_t)UTIL_MIN((uint64_t)PIECE, message->end - message->at);
		const ssize_t n = blob_read(message->blob, message->piece, most, message->at);
		if (n <= 0)
			return n < 0 ? (int)n : -ENODATA;
		message->piece_at = message->at;
		message->piece_size = (size_t)n;
	}
	*ret = message->piece[message->at++ - message->piece_at];
	return 1;
}

/* 1 and a varint; 0: there is none, or it is longer than 64 bits; -errno. */
static int number_take(struct message *message, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = 0;
		int rc = byte_take(message, &byte);
		if (rc <= 0)
			return rc;
		if (shift == 63 && byte > 1)
			return 0;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return 1;
		}
	}
	return 0;
}

static bool skip(struct message *message, uint64_t bytes)
{
	if (bytes > message->end - message->at)
		return false;
	message->at += bytes;
	return true;
}

static int bytes_take(struct message *message, uint64_t field, struct datum *datum)
{
	uint64_t size;
	int rc = number_take(message, &size);
	if (rc <= 0)
		return rc;
	const uint64_t at = message->at;
	if (!skip(message, size))
		return 0;
	if (field == 6) {
		datum->floats |= size > 0;
		return size % 4 == 0;
	}
	datum->data = true;
	datum->data_at = at;
	datum->data_size = size;
	return 1;
}

static int value_take(struct message *message, uint64_t field, struct datum *datum)
{
	uint64_t value;
	int rc = number_take(message, &value);
	if (rc <= 0)
		return rc;
	switch (field) {
	case 1:
		datum->channels = value;
		return 1;
	case 2:
		datum->height = value;
		return 1;
	case 3:
		datum->width = value;
		return 1;
	case 5:
		/* A negative int32 has ten bytes. */
		datum->label = (int64_t)value;
		datum->labelled = true;
		return 1;
	case 7:
		datum->encoded = value != 0;
		return value <= 1;
	default:
		return 0;
	}
}

static int field_take(struct message *message, struct datum *datum)
{
	uint64_t tag;
	int rc = number_take(message, &tag);
	if (rc <= 0)
		return rc;
	const uint64_t field = tag >> 3, wire = tag & 7;
	if (wire == WIRE_NUMBER)
		return value_take(message, field, datum);
	if (wire == WIRE_BYTES && (field == 4 || field == 6))
		return bytes_take(message, field, datum);
	if (wire != WIRE_FLOAT || field != 6)
		return 0;
	datum->floats = true;
	return skip(message, 4);
}

int datum_read(const struct blob *blob, uint64_t at, uint64_t size, struct datum *ret)
{
	struct message message = {.blob = blob, .at = at, .end = at + size};
	*ret = (struct datum){0};
	if (size == 0)
		return 0;
	while (message.at < message.end) {
		int rc = field_take(&message, ret);
		if (rc <= 0)
			return rc;
	}
	return 1;
}
