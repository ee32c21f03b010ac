/* checkpoint: entry points into a file that has none.
 *
 * The place of an MCU's first bit in the file as it is, and the DC predictions there, taken every
 * so many MCUs while a file was decoded cleanly from its first MCU through EOI. Places are in the
 * file, not in the unstuffed bytes: then only what a crop needs has to be unstuffed later. How many
 * zeros are left out between two of them is kept as well, so that neighbours are unstuffed in one
 * go and each is found in what comes out. Restart markers are entry points of their own, so files
 * with them have no checkpoints. checkpack.h packs them into bytes.
 *
 * Checkpoints are kept somewhere and come back as they may: no memory depends on what they say, and
 * a run must end on the bit, and with the predictions, where the next one says it begins (feed.h);
 * whatever does not fit is a step back.
 * Pure; any thread. */
#pragma once

#include "decode/jpeg/lane.h"

struct entry_point {
	uint64_t bit; /* from the file's first byte; never inside a stuffed zero */
	int16_t dc[BLOCKS_COMPONENTS];
	uint16_t stuffed; /* zeros to leave out from here to the next one; 0 behind the last */
};
_Static_assert(sizeof(struct entry_point) == 16, "checkpoint");

/* How many a file has: one for the scan's start, one for every further `interval` MCUs. */
uint32_t entry_point_count(const struct parse *parse, uint32_t interval);

/* Turns bits counted in the scan's unstuffed bytes, as a lane knows them, into bits of the file,
 * and counts the zeros. In ascending order; `data` is the whole file. False: more zeros between two
 * of them than can be noted, so that they are of no use. */
bool entry_point_settle(const struct parse *parse, const uint8_t *data, size_t size,
	struct entry_point *entry_points, size_t count);

/* At least the bytes that entry_point_unstuff writes for all stretches from checkpoint `from` up to
 * and with that of `last`, out of `count` ascending ones that lie inside the file. */
size_t entry_point_room(const struct entry_point *entry_points, uint32_t count, uint32_t from,
	uint32_t last, size_t size);

/* Unstuffs the stretches of checkpoints `first` to `last` (out of `count`) in one go to `out`,
 * which has room for entry_point_room and UNSTUFF_SLACK, and notes in segments[0 .. last - first]
 * where each lies in it: a segment begins with the byte that has the checkpoint's bit and ends with
 * the one that has the next one's, if that is not its first bit. *ret_bytes: how many were written.
 * 0; STEPBACK_ENTRY_POINT; STEPBACK_END where the last stretch of the scan is among them and no end
 * marker follows; STEPBACK_SIZE. */
int entry_point_unstuff(unstuff_fn *unstuff, const struct parse *parse, const uint8_t *data,
	size_t size, const struct entry_point *entry_points, uint32_t count, uint32_t first,
	uint32_t last, uint8_t *out, struct unstuff_segment *segments, size_t *ret_bytes);
