/* checkpack: a file's checkpoints as bytes that can be kept, and back.
 *
 * A pack belongs to one sequence of bytes: it holds their number and a checksum of them (XXH3 of 64
 * bits), so that another file at the same place is seen. From one checkpoint to the next the bits,
 * the zeros left out and the predictions' differences are Rice codes, whose parameters are the
 * file's own: some 1.4 % of a photograph. A pack that is damaged, of another file or impossible is
 * no pack. One that is sound and yet not true of its file, which no maker makes, shows where it
 * does not agree with itself, when a run ends at a checkpoint (feed.h); predictions that are all
 * wrong by the same do not. So whoever can write where packs are kept can change pixels, and
 * nothing else.
 *
 *   bytes  0  checksum of all that follows, up to the pack's size (XXH3's lower 32 bits)
 *          4  the pack's size, the number of checkpoints (16 bits each)
 *          8  the file's size (32 bits)
 *         12  version; MCUs between checkpoints, divided by 8, as a power of two; Rice parameters:
 *             bits, zeros, three predictions; zeros (8 bits each)
 *         24  the file's checksum (64 bits)
 *         32  the codes, least significant bit first; the first checkpoint is the scan's start
 *
 * A pack of no checkpoints says that the file can have none. The same file always gives the same
 * pack: whoever makes it, on whatever processor. Numbers are in the machine's byte order, as in the
 * index. Pure; any thread. */
#pragma once

#include "decode/jpeg/entry_points.h"

enum {
	ENTRY_PACK_INTERVAL = 8, /* MCUs; twice as many until the rest fits */
	ENTRY_PACK_POINTS = 2048, /* checkpoints of one file at most */
	ENTRY_PACK_HEAD = 32,
	ENTRY_PACK_MOST = 16 << 10, /* bytes of a pack, and of what unpack looks at, at most */
	ENTRY_PACK_SLACK = 64, /* bytes readable behind what is given to unpack, any values */
};

/* The interval at which a file is recorded: the finest with no more than ENTRY_PACK_POINTS. */
uint32_t entry_pack_interval(const struct parse *parse);

/* Packs `count` settled checkpoints, taken every entry_pack_interval, of the file `data` to `out`,
 * which has `room` bytes, up to ENTRY_PACK_MOST; where they do not fit, only every second of them,
 * every fourth and so on. The checkpoints are overwritten. `count` 0: a pack of none. Returns the
 * bytes written; 0: not even a pack of none fits, or one that is there but is no use. */
size_t entry_pack_pack(const struct parse *parse, const uint8_t *data, size_t size,
	struct entry_point *entry_points, uint32_t count, uint8_t *out, size_t room);

enum entry_pack_found {
	ENTRY_PACK_FOUND, /* checkpoints for this file */
	ENTRY_PACK_NONE, /* a pack of none: this file can have no checkpoints */
	ENTRY_PACK_EMPTY, /* nothing was ever written there */
	ENTRY_PACK_FOREIGN, /* damaged, of another version or of another file */
};

/* Takes apart what was found at a file's place: `bytes` of it, behind which ENTRY_PACK_SLACK are
 * readable. Only on ENTRY_PACK_FOUND: points[ENTRY_PACK_POINTS], *ret_count of them, each inside the
 * file and not before the one before it, and *ret_interval. */
enum entry_pack_found entry_pack_unpack(const struct parse *parse, const uint8_t *data, size_t size,
	const uint8_t *pack, size_t bytes, struct entry_point *points, uint32_t *ret_count,
	uint32_t *ret_interval);
