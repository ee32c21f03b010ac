/* checkpoint: entry points into a file that has none.
 *
 * The place of an MCU's first bit in the file as it is, and the DC predictions there, taken every
 * so many MCUs while a file was decoded cleanly from its first MCU through EOI. Places are in the
 * file, not in the unstuffed bytes: then only what a crop needs has to be unstuffed later. Restart
 * markers are entry points of their own, so files with them have no checkpoints.
 *
 * Checkpoints come from an index and are never trusted: a run must end on the bit, and with the
 * predictions, where the next one says it begins (feed.h); whatever does not fit is a step back.
 * Pure; any thread. */
#pragma once

#include "decode/lane.h"

struct checkpoint {
	uint64_t bit; /* from the file's first byte; never inside a stuffed zero */
	int16_t dc[BLOCKS_COMPONENTS];
};

/* How many a file has: one for the scan's start, one for every further `interval` MCUs. */
uint32_t checkpoint_count(const struct parse *parse, uint32_t interval);

/* Turns bits counted in the scan's unstuffed bytes, as a lane knows them, into bits of the file. In
 * ascending order; `data` is the whole file. */
void checkpoint_settle(const struct parse *parse, const uint8_t *data, size_t size,
	struct checkpoint *checkpoints, size_t count);

/* Unstuffs the stretch from checkpoint `from` to checkpoint `to` (NULL: to the scan's end marker)
 * to `out`, which has room for the stretch in the file, one byte and UNSTUFF_SLACK. *ret_bits:
 * where the stretch ends, counted as lane->bit: it begins at from->bit % 8. *ret_end: offset in the
 * file of what ended it. 0 or STEPBACK_CHECKPOINT. */
int checkpoint_unstuff(unstuff_fn *unstuff, const struct parse *parse, const uint8_t *data,
	size_t size, const struct checkpoint *from, const struct checkpoint *to, uint8_t *out,
	uint64_t *ret_bits, size_t *ret_end);
