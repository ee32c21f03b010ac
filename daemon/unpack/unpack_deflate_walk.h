/* unpack_deflate_walk: finds the parts of a deflate stream that samples need, while it is unpacked
 * from front to back.
 *
 * A block may refer to the 32 KiB before it. Images hardly compress, so that most blocks refer to
 * little or nothing. Two shadows unpack the same blocks a second time from some block on; a sample
 * that a shadow had right is a part from the shadow's first block on. A shadow that fails begins
 * anew at the next block. Where none is right, the part begins with the stream.
 *
 * One thread. */
#pragma once

#include "dataset/packed.h"
#include "unpack/unpack_shadow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

enum { DEFLATE_WALK_ROOM = 64 << 10 /* that is unpacked at once */ };

/* Between two blocks. */
struct deflate_place {
	uint64_t from, total; /* stored and unpacked bytes before it */
	uint8_t bits; /* of the last of these stored bytes that belong to what comes */
};

struct deflate_walk {
	bool on; /* blocks are followed: those of the first member */
	bool known; /* `first` is */
	bool sampled;
	uint8_t byte; /* the last one that was taken */
	struct deflate_place now, first;
	uint64_t at; /* of the caller's sample */
	struct unpack_shadow shadow[UNPACK_SHADOWS];
	struct deflate_place begin[UNPACK_SHADOWS]; /* of the shadows */
	z_stream stream[UNPACK_SHADOWS];
	bool made[UNPACK_SHADOWS]; /* the stream's memory is allocated */
	uint8_t out[DEFLATE_WALK_ROOM];
};

void deflate_walk_deinit(struct deflate_walk *walk);

/* A stream begins, of which parts will be asked for. */
void deflate_walk_begin(struct deflate_walk *walk);

/* inflate() was given `size` bytes of `input` and room for `room`, at most DEFLATE_WALK_ROOM, with
 * Z_BLOCK; it has taken `taken`, made `made` in `out`, and left `data_type`. */
struct deflate_walk_done {
	const uint8_t *input, *out;
	size_t size, taken, room, made;
	int data_type;
	bool ended;
};
void deflate_walk_step(struct deflate_walk *walk, const struct deflate_walk_done *done);

/* As unpack_part_begin and _end. */
void deflate_walk_sample_begin(struct deflate_walk *walk, uint64_t at);
bool deflate_walk_sample_end(const struct deflate_walk *walk, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret);
