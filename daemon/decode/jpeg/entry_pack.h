/* entry_pack: a file's entry points as bytes that can be kept, and back.
 *
 * A pack belongs to one file: it has the file's size and a checksum (XXH3 of 64 bits) of its bytes,
 * so that another file in its place is noticed. From one entry point to the next, the bits, the
 * zeros left out and the differences of the predictions are stored as Rice codes, with parameters
 * chosen for the file: about 1.4 % of a photograph. A pack that is damaged, impossible or of
 * another file is rejected. A pack with a right checksum can still be wrong if it was forged. That
 * shows when a run ends at an entry point with other values (feed.h), except where all predictions
 * are wrong by the same amount. So a user who can write where packs are kept can change pixels, and
 * nothing else.
 *
 *   bytes  0  checksum of all that follows, up to the pack's size (XXH3's lower 32 bits)
 *          4  the pack's size, the number of entry points (16 bits each)
 *          8  the file's size (32 bits)
 *         12  version; MCUs between entry points, divided by 8, as a power of two; Rice parameters:
 *             bits, zeros, three predictions; zeros (8 bits each)
 *         24  the file's checksum (64 bits)
 *         32  the codes, least significant bit first; the first entry point is the scan's start
 *
 * The codes of an entry point are the lower bits of its five values, as many as the parameters say,
 * and then the five quotients in unary. Both parts nearly always fit one load each, so that reading
 * them is a chain of five steps.
 *
 * A pack without entry points says that the file can have none. One that has not all of the file's
 * has the first ones. The same entry points of a file always give the same pack, on every
 * processor. Numbers are in the machine's byte order, as in the index. Pure; any
 * thread. */
#pragma once

#include "decode/jpeg/checksum.h"
#include "decode/jpeg/entry_points.h"

enum {
	ENTRY_PACK_INTERVAL = 8, /* MCUs; doubled until the entry points fit */
	ENTRY_PACK_POINTS = 2048, /* entry points of one file at most */
	ENTRY_PACK_HEAD = 32,
	ENTRY_PACK_MOST = 16 << 10, /* bytes of a pack at most; unpack reads no more */
	/* Any bytes after what is given to unpack, which are read, and after pack's `out`, which
	 * are written. */
	ENTRY_PACK_SLACK = 64,
};

/* The interval at which a file is recorded: the finest with no more than ENTRY_PACK_POINTS. */
uint32_t entry_pack_interval(const struct parse *parse);

/* Packs `count` settled entry points, the first of the file `data`, one every `interval`, to `out`,
 * which has `room` bytes, at most ENTRY_PACK_MOST, and ENTRY_PACK_SLACK after them. Where they do
 * not fit, it packs only every second, every fourth and so on. Overwrites the entry points. `count`
 * 0: a pack of none. Returns the bytes written; 0: not even a pack of none fits, or no useful one
 * does. Any of the functions may be `checksum`. */
size_t entry_pack_pack(const uint8_t *data, size_t size, checksum_fn *checksum,
	struct entry_point *entry_points, uint32_t count, uint32_t interval, uint8_t *out,
	size_t room);

enum entry_pack_found {
	ENTRY_PACK_FOUND, /* entry points for this file */
	ENTRY_PACK_NONE, /* a pack of none: this file can have no entry points */
	ENTRY_PACK_EMPTY, /* no pack was ever written there */
	ENTRY_PACK_FOREIGN, /* damaged, of another version or of another file */
};

/* Unpacks what is kept for a file: `bytes` bytes, after which ENTRY_PACK_SLACK are readable. Only
 * on ENTRY_PACK_FOUND it sets *ret_interval and *ret_count of points[ENTRY_PACK_POINTS], which are
 * inside the file and in ascending order. */
enum entry_pack_found entry_pack_unpack(const struct parse *parse, const uint8_t *data, size_t size,
	checksum_fn *checksum, const uint8_t *pack, size_t bytes, struct entry_point *points,
	uint32_t *ret_count, uint32_t *ret_interval);
