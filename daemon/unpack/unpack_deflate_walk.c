/* unpack_deflate_walk: see unpack_deflate_walk.h. */
#define ZLIB_CONST
#include "unpack/unpack_deflate_walk.h"

#include <string.h>

enum {
	BITS_RAW = -15,
	SHADOW_AGE = 128 << 10,
	/* What zlib leaves in data_type with Z_BLOCK. */
	TYPE_BITS = 7,
	TYPE_LAST = 64,
	TYPE_BOUNDARY = 128,
};

void deflate_walk_deinit(struct deflate_walk *walk)
{
	for (unsigned i = 0; i < UNPACK_SHADOWS; i++)
		if (walk->made[i])
			(void)inflateEnd(&walk->stream[i]);
	memset(walk->made, 0, sizeof walk->made);
}

void deflate_walk_begin(struct deflate_walk *walk)
{
	walk->on = true;
	walk->known = walk->sampled = false;
	walk->now = (struct deflate_place){0, 0, 0};
	walk->at = 0;
	for (unsigned i = 0; i < UNPACK_SHADOWS; i++)
		walk->shadow[i].live = false;
}

static void shadow_begin(struct deflate_walk *walk, unsigned i)
{
	z_stream *stream = &walk->stream[i];
	const uint8_t bits = walk->now.bits;
	int rc = walk->made[i] ? inflateReset2(stream, BITS_RAW) : inflateInit2(stream, BITS_RAW);
	walk->made[i] |= rc == Z_OK;
	if (rc == Z_OK && bits)
		rc = inflatePrime(stream, bits, walk->byte >> (8 - bits));
	/* Without memory there is one less. */
	walk->shadow[i] = (struct unpack_shadow){
		.live = rc == Z_OK, .begin = walk->now.total, .good = walk->now.total};
	walk->begin[i] = walk->now;
}

/* The shadow does what was done in the whole stream. */
static void shadow_step(struct deflate_walk *walk, unsigned i, const struct deflate_walk_done *done)
{
	z_stream *stream = &walk->stream[i];
	stream->next_in = done->input;
	stream->avail_in = (uInt)done->size;
	stream->next_out = walk->out;
	stream->avail_out = (uInt)done->room;
	const int rc = inflate(stream, Z_BLOCK);
	walk->shadow[i].live = (rc == Z_OK || rc == Z_BUF_ERROR) &&
			       done->size - stream->avail_in == done->taken &&
			       done->room - stream->avail_out == done->made;
	if (walk->shadow[i].live && memcmp(walk->out, done->out, done->made) != 0)
		walk->shadow[i].good = walk->now.total + done->made;
}

void deflate_walk_step(struct deflate_walk *walk, const struct deflate_walk_done *done)
{
	for (unsigned i = 0; i < UNPACK_SHADOWS; i++)
		if (walk->shadow[i].live)
			shadow_step(walk, i, done);
	walk->now.from += done->taken;
	walk->now.total += done->made;
	walk->now.bits = (uint8_t)(done->data_type & TYPE_BITS);
	if (done->taken)
		walk->byte = done->input[done->taken - 1];
	/* After the last block there is a checksum, which shadows do not have, and then perhaps
	 * another member, of which there are no parts. */
	const bool between = done->data_type & TYPE_BOUNDARY;
	walk->on = !done->ended && !(between && done->data_type & TYPE_LAST);
	if (!walk->on || !between)
		return;
	if (!walk->known)
		walk->first = walk->now;
	walk->known = true;
	const unsigned which =
		unpack_shadow_renew(walk->shadow, walk->now.total, walk->at, SHADOW_AGE);
	if (which < UNPACK_SHADOWS)
		shadow_begin(walk, which);
}

void deflate_walk_sample_begin(struct deflate_walk *walk, uint64_t at)
{
	walk->sampled = walk->known;
	walk->at = at;
}

bool deflate_walk_sample_end(const struct deflate_walk *walk, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret)
{
	if (!walk->sampled || walk->now.total < at + size)
		return false;
	const unsigned which = unpack_shadow_choose(walk->shadow, at);
	const struct deflate_place *place =
		which < UNPACK_SHADOWS ? &walk->begin[which] : &walk->first;
	const uint64_t from = place->from - (place->bits != 0);
	if (walk->now.from - from > UINT32_MAX || at - place->total + size > UINT32_MAX)
		return false;
	*ret_from = from;
	*ret = (struct packed){.stored = (uint32_t)(walk->now.from - from),
		.inner = (uint32_t)(at - place->total),
		.whole = (uint32_t)(at - place->total) + size,
		.window = place->bits,
		.method = PACKED_DEFLATE_PART};
	return true;
}
