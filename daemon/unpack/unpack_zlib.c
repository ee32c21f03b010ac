/* unpack_zlib: raw deflate (RFC 1951), zlib (RFC 1950) and gzip (RFC 1952) with zlib.
 *
 * A gzip stream may have several members, one after the other. zlib compares the checksums that
 * gzip and zlib streams have, where the stream is read to its end. */
#define ZLIB_CONST
#include "unpack/unpack_method.h"

#include "base/util.h"
#include "unpack/unpack_deflate_walk.h"

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
	bool walks; /* parts will be asked for */
	struct deflate_walk *walk; /* NULL until they are */
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
	own->ended = own->gzip = own->walks = false;
	return 0;
}

static int deflate_begin(struct unpack *unpack, struct fault *fault)
{
	return inflating_begin(unpack, BITS_RAW, fault);
}

/* The first byte may belong to the block before the part. */
static int deflate_part_begin(struct unpack *unpack, struct fault *fault)
{
	int rc = inflating_begin(unpack, BITS_RAW, fault);
	const int bits = unpack->packed.window;
	const uint8_t *input;
	size_t size;
	if (rc < 0 || !bits)
		return rc;
	rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	if (!size)
		return unpack_cut(unpack, fault);
	struct inflating *own = unpack->state[unpack->packed.method];
	(void)inflatePrime(&own->stream, bits, input[0] >> (8 - bits));
	unpack_consume(unpack, 1);
	return 0;
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
	const bool walks = own->walks && own->walk->on;
	*ret = inflate(stream, walks ? Z_BLOCK : Z_NO_FLUSH);
	const size_t taken = size - stream->avail_in;
	*ret_made = room - stream->avail_out;
	const bool moved = *ret == Z_OK || *ret == Z_STREAM_END || *ret == Z_BUF_ERROR;
	if (walks && moved)
		deflate_walk_step(own->walk, &(struct deflate_walk_done){.input = input,
						     .out = out,
						     .size = size,
						     .taken = taken,
						     .room = room,
						     .made = *ret_made,
						     .data_type = stream->data_type,
						     .ended = *ret == Z_STREAM_END});
	/* From block to block it may go on within a byte. */
	if (walks && size && *ret == Z_BUF_ERROR)
		*ret = Z_OK;
	unpack_consume(unpack, taken);
	return 0;
}

static int zlib_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct inflating *own = unpack->state[unpack->packed.method];
	size_t made = 0;
	if (own->walks)
		room = UTIL_MIN(room, (size_t)DEFLATE_WALK_ROOM);
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

/* Bytes that follow the sample are not looked at. */
static int deflate_part_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	*ret_made = 0;
	return unpack->made < unpack->whole ? zlib_make(unpack, out, room, ret_made, fault) : 0;
}

static int gzip_parts(struct unpack *unpack, struct fault *fault)
{
	struct inflating *own = unpack->state[unpack->packed.method];
	if (!own->walk)
		own->walk = calloc(1, sizeof *own->walk);
	if (!own->walk)
		return unpack_no_memory(unpack, fault);
	own->walks = true;
	deflate_walk_begin(own->walk);
	return 0;
}

static void gzip_sample_begin(struct unpack *unpack, uint64_t at)
{
	const struct inflating *own = unpack->state[unpack->packed.method];
	if (own->walks)
		deflate_walk_sample_begin(own->walk, at);
}

static bool gzip_sample_end(const struct unpack *unpack, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret)
{
	const struct inflating *own = unpack->state[unpack->packed.method];
	return own->walks && deflate_walk_sample_end(own->walk, at, size, ret_from, ret);
}

static void zlib_unmake(void *state)
{
	struct inflating *own = state;
	if (own->made)
		(void)inflateEnd(&own->stream);
	if (own->walk)
		deflate_walk_deinit(own->walk);
	free(own->walk);
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

const struct unpack_method unpack_deflate_part = {
	.name = "gzip",
	.library = zlib_library,
	.begin = deflate_part_begin,
	.make = deflate_part_make,
	.unmake = zlib_unmake,
};

const struct unpack_method unpack_gzip = {
	.name = "gzip",
	.library = zlib_library,
	.begin = gzip_begin,
	.make = zlib_make,
	.parts = gzip_parts,
	.part_begin = gzip_sample_begin,
	.part_end = gzip_sample_end,
	.unmake = zlib_unmake,
};
