/* unpack_zstd_walk: finds the parts of a Zstandard frame that samples need, while the frame is
 * unpacked from front to back.
 *
 * A block may refer to anything in the window before it and use the tables of an earlier block. But
 * images hardly compress: most blocks are stored as they are (raw), and a sample in such blocks
 * needs only these. For the others, two shadows unpack the same blocks a second time, each in a
 * frame that begins at some block, and are compared with what the whole frame unpacks to. A sample
 * that a shadow had right is a part from the shadow's first block on. A shadow that fails begins
 * anew at the next block. Where none is right, the part begins with the frame.
 *
 * One thread. Memory: three times that of unpacking the frame. */
#pragma once

#include "dataset/packed.h"
#include "unpack/unpack_shadow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

enum {
	ZSTD_WALK_ROOM = 64 << 10, /* that is unpacked at once */
	ZSTD_WALK_RECENT = 4,
	ZSTD_WALK_HEAD = 14, /* of a frame, at most */
};

/* Between two blocks. */
struct zstd_place {
	uint64_t from, total; /* stored and unpacked bytes before it */
};

struct zstd_walk {
	bool on; /* the blocks are followed: not in a frame of an unusual form, nor after one */
	bool known; /* they were from the first one on */
	uint8_t window; /* the frame's descriptor of its window */
	uint8_t unit; /* what comes next in the frame */
	bool last; /* the block is */
	bool drains; /* the unit was given to libzstd, which may hold some of its bytes back */
	uint8_t head[ZSTD_WALK_HEAD];
	unsigned head_size;
	uint64_t left; /* bytes of the unit that are to come */
	struct zstd_place now, first;
	struct zstd_place recent[ZSTD_WALK_RECENT]; /* the latest blocks, the latest last */
	/* Where the last compressed block begins and ends, and where the one before it ended. */
	uint64_t compressed_begin, compressed_end, before_end;
	uint64_t at; /* of the caller's sample */
	struct zstd_place sample; /* the block in which it begins */
	bool sampled;
	struct unpack_shadow shadow[UNPACK_SHADOWS];
	struct zstd_place begin[UNPACK_SHADOWS]; /* of the shadows */
	ZSTD_DCtx *context[UNPACK_SHADOWS]; /* theirs; NULL until they are needed */
	uint8_t out[ZSTD_WALK_ROOM];
};

/* Frees the shadows. */
void zstd_walk_deinit(struct zstd_walk *walk);

/* A stream begins, of which parts will be asked for. */
void zstd_walk_begin(struct zstd_walk *walk);

/* How many bytes may be given to libzstd now. */
size_t zstd_walk_limit(const struct zstd_walk *walk);

/* libzstd was given `size` bytes of `input` and room for `room`, at most ZSTD_WALK_ROOM; it has
 * taken `taken` and made `made` in `out`, and the frame has ended or not. */
struct zstd_walk_done {
	const uint8_t *input, *out;
	size_t size, taken, room, made;
	bool ended;
};
void zstd_walk_step(struct zstd_walk *walk, const struct zstd_walk_done *done);

/* As unpack_part_begin and _end. */
void zstd_walk_sample_begin(struct zstd_walk *walk, uint64_t at);
bool zstd_walk_sample_end(const struct zstd_walk *walk, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret);

/* The head of a frame of blocks with this window, for libzstd. */
enum { ZSTD_WALK_OPENING = 6 };
void zstd_walk_opening(uint8_t window, uint8_t ret[ZSTD_WALK_OPENING]);
