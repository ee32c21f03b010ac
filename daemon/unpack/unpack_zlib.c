/* unpack_zlib: raw deflate (RFC 1951), zlib (RFC 1950) and gzip (RFC 1952) with zlib.
 *
 * A gzip stream may have several members, one after the other. zlib compares the checksums that
 * gzip and zlib streams have, where the stream is read to its end. */
#define ZLIB_CONST
#include "unpack/unpack_method.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum {
	BITS_RAW = -15,
	BITS_EITHER = 15 + 32, /* gzip or zlib, whichever the first bytes say */
	GZIP_MAGIC = 0x1f,
};

struct inflating {
	z_stream stream;
	bool made; /* the stream's memory is allocated */
	bool ended; /* the last member has ended */
	bool gzip; /* the first byte was that of gzip */
};

static int inflating_begin(struct unpack *unpack, int bits, struct fault *fault)
{
	struct inflating *own = unpack_state(unpack, sizeof *own);
	if (!own)
		return unpack_no_memory(unpack, fault);
	int rc = own->made ? inflateReset2(&own->stream, bits) : inflateInit2(&own->stream, bits);
	if (rc != Z_OK)
		return unpack_no_memory(unpack, fault);
	own->made = true;
	own->ended = own->gzip = false;
	return 0;
}

static int deflate_begin(struct unpack *unpack, struct fault *fault)
{
	return inflating_begin(unpack, BITS_RAW, fault);
}

static int gzip_begin(struct unpack *unpack, struct fault *fault)
{
	int rc = inflating_begin(unpack, BITS_EITHER, fault);
	const uint8_t *input = NULL;
	size_t size = 0;
	if (rc == 0)
		rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	struct inflating *own = unpack->state[unpack->packed.method];
	own->gzip = size && input[0] == GZIP_MAGIC;
	return 0;
}

/* A member has ended. Begins the next one, if there is one. */
static int inflating_next(struct unpack *unpack, struct inflating *own, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	own->ended = !own->gzip || !size || input[0] != GZIP_MAGIC;
	if (!own->ended)
		(void)inflateReset(&own->stream);
	return 0;
}

/* Feeds what there is of input once. *ret: what inflate() returned. */
static int inflating_step(struct unpack *unpack, struct inflating *own, uint8_t *out, size_t room,
	size_t *ret_made, int *ret, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	z_stream *stream = &own->stream;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	stream->next_in = input;
	stream->avail_in = (uInt)size;
	stream->next_out = out;
	stream->avail_out = (uInt)room;
	*ret = inflate(stream, Z_NO_FLUSH);
	unpack_consume(unpack, size - stream->avail_in);
	*ret_made = room - stream->avail_out;
	return 0;
}

static int zlib_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct inflating *own = unpack->state[unpack->packed.method];
	size_t made = 0;
	while (!made && !own->ended) {
		int found = Z_OK;
		int rc = inflating_step(unpack, own, out, room, &made, &found, fault);
		if (rc == 0 && found == Z_STREAM_END)
			rc = inflating_next(unpack, own, fault);
		if (rc < 0)
			return rc;
		if (found == Z_BUF_ERROR)
			return unpack_cut(unpack, fault);
		if (found == Z_MEM_ERROR)
			return unpack_no_memory(unpack, fault);
		if (found == Z_NEED_DICT)
			return unpack_damaged(unpack, "it needs a dictionary", fault);
		if (found != Z_OK && found != Z_STREAM_END)
			return unpack_damaged(
				unpack, own->stream.msg ? own->stream.msg : "not deflate", fault);
	}
	*ret_made = made;
	return 0;
}

static void zlib_unmake(void *state)
{
	struct inflating *own = state;
	if (own->made)
		(void)inflateEnd(&own->stream);
	free(own);
}

static const char *zlib_library(void)
{
	return zlibVersion();
}

const struct unpack_method unpack_deflate = {
	.name = "deflate",
	.library = zlib_library,
	.begin = deflate_begin,
	.make = zlib_make,
	.unmake = zlib_unmake,
};

const struct unpack_method unpack_gzip = {
	.name = "gzip",
	.library = zlib_library,
	.begin = gzip_begin,
	.make = zlib_make,
	.unmake = zlib_unmake,
};
