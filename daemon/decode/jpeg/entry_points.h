/* entry_points: places where decoding can start in a file without restart markers.
 *
 * An entry point is the place of an MCU's first bit in the file, and the DC predictions there. They
 * are recorded at regular intervals while a file is decoded without a fault from its first MCU on,
 * or from the last entry point that is known. So those of a file are always the first ones, up to
 * the last MCU that a crop has needed so far. Places are in the file, not in the unstuffed bytes,
 * so that later only what a crop needs has to be unstuffed. An entry point also says how many zeros
 * are left out up to the next one, so that adjacent stretches can be unstuffed in one go and each
 * is found in the output. Files with restart markers need no entry points. entry_pack.h packs them
 * into bytes.
 *
 * Kept entry points may come back damaged. So no memory access depends on them, and a run must end
 * at the bit, and with the predictions, where the next entry point says that it begins (feed.h);
 * anything else is a step back. Pure; any thread. */
#pragma once

#include "decode/jpeg/lane.h"

struct entry_point {
	uint64_t bit; /* from the file's first byte; never inside a stuffed zero */
	int16_t dc[BLOCKS_COMPONENTS];
	uint16_t stuffed; /* zeros to leave out up to the next entry point; 0 after the last */
};
_Static_assert(sizeof(struct entry_point) == 16, "16 bytes each");

/* How many entry points a file has: one at the scan's start, one after every `interval` MCUs. */
uint32_t entry_point_count(const struct parse *parse, uint32_t interval);

/* Converts the places of the entry points after number `from`, which is settled, from bits of the
 * unstuffed bytes that begin with its own, as a lane counts them, to bits of the file, and counts
 * the zeros. The entry points are in ascending order; `data` is the whole file. False: too many
 * zeros between two of them to be stored, so they cannot be used. */
bool entry_point_settle(const uint8_t *data, size_t size, struct entry_point *entry_points,
	size_t from, size_t count);

/* The first entry point of a file. */
struct entry_point entry_point_first(const struct parse *parse);

/* An upper bound for the bytes that entry_point_unstuff writes for the stretches of entry points
 * `from` to `last`, out of `count` ascending ones inside the file. */
size_t entry_point_room(const struct entry_point *entry_points, uint32_t count, uint32_t from,
	uint32_t last, size_t size);

/* Unstuffs the stretches of entry points `first` to `last` (out of `count`) in one go to `out`,
 * which has room for entry_point_room and UNSTUFF_SLACK, and sets segments[0 .. last - first]. A
 * segment begins with the byte that has the entry point's bit, and ends with the byte that has the
 * next one's, or before it if that is the byte's first bit. *ret_bytes: how many were written. 0;
 * STEPBACK_ENTRY_POINT; STEPBACK_END where the last stretch of the scan is included and no end
 * marker follows; STEPBACK_SIZE. */
int entry_point_unstuff(unstuff_fn *unstuff, const struct parse *parse, const uint8_t *data,
	size_t size, const struct entry_point *entry_points, uint32_t count, uint32_t first,
	uint32_t last, uint8_t *out, struct unstuff_segment *segments, size_t *ret_bytes);
