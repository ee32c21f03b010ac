/* lane: one stream of entropy-coded blocks: its tables, its place, its output; and the drivers that
 * decode several side by side.
 *
 * A symbol tells where the next begins, so one stream alone leaves most of the processor idle while
 * it waits for its own look-ups. Drivers therefore hold several lanes: 1 (the reference), 4 in one
 * thread's scalar code, 32 in two vectors of 16. Lanes know nothing of each other. They are fed
 * through a callback with runs of MCUs, from several entry points of one image or from several
 * images in flight, and a lane that fails reports it and takes the next run.
 *
 * No bounds are checked per symbol: a block cannot take more than LANE_SLACK bytes, and after each
 * the place is compared with the end. Whether the run stayed inside its data is exact. Stores never
 * leave the run's blocks and the spare block behind them. Thread: the caller's. */
#pragma once

#include "base/fault.h"
#include "decode/jpeg/huffman.h"
#include "decode/jpeg/unstuff.h"

enum {
	LANE_SLACK = 256, /* bytes behind a segment's end that must be readable; any values, but
			     initialised. 63 symbols of 27 bits, a DC, and what is read ahead. */
	LANES_MOST = 32,
};

/* What has to be left of the segment behind the run. */
enum lane_ends {
	LANE_GOES_ON, /* anything */
	LANE_ENDS, /* fewer than 8 bits: a marker follows */
	LANE_ENDS_HERE, /* nothing: the next checkpoint follows */
};

struct lane {
	/* The run, set by the callback. A run that goes on where the lane's last one ended leaves
	 * bytes, bits, bit and dc alone. */
	const struct huffman *huffman;
	const uint8_t *bytes; /* the segment, unstuffed */
	uint64_t bits; /* its length */
	uint64_t bit; /* the place in it where the run begins, at most `bits`; behind the run: where
			 it ended */
	int32_t dc[BLOCKS_COMPONENTS]; /* predictions, before and behind the run */
	int16_t *
		blocks; /* mcus x in_mcu blocks and a spare one, aligned; NULL: nobody wants them */
	uint32_t mcus; /* at least 1; mcus x in_mcu fits 32 bits */
	enum lane_ends ends;
	int outcome; /* behind the run: 0 or an enum stepback: _CODE, _RUN, _RANGE, _SHORT, _END,
			_ENTRY_POINT. Which one comes first may differ between drivers. */
	/* The callback's own. */
	void *owner;
	size_t run, run_end;
};

/* Called for each lane with owner NULL at first, then whenever its run has ended. Looks at the
 * outcome, sets the next run and returns true; false: nothing left for this lane. Must not call the
 * driver. */
typedef bool lane_next_fn(void *context, struct lane *lane);

/* What lanes work on lies in one stretch of memory of 256 MB or less, for each of bytes, tables and
 * blocks; a lane outside the first one's reach is decoded all the same, but slowly. */
struct lanes {
	const char *name; /* "c", "avx2", "avx512" */
	enum huffman_kind kind; /* of the tables that the lanes' huffman must have */
	unsigned width; /* lanes side by side */
	/* Returns when the callback has refused every lane. */
	void (*decode)(lane_next_fn *next, void *context);
	unstuff_fn *unstuff;
	/* What to take instead, tables and all, for an image by itself that has fewer chains of
	 * runs than this; NULL: this is best for any number. */
	const struct lanes *few;
	unsigned few_below;
};

/* One lane, bit by bit, no tables: the truth for all others, in tests. */
extern const struct lanes lanes_ref;
extern const struct lanes lanes_c, lanes_avx2, lanes_avx512;

/* The fastest table on this processor by a measurement of a few milliseconds (made once), or the
 * one that the environment variable PENSTOCK_KERNELS names, as for pixel/kernels.h. 0, -EINVAL for
 * an unknown name, -ENOTSUP for one that this processor cannot run. Any thread. */
int lanes_choose(const struct lanes **ret, struct fault *fault);

/* The chosen one, or what suits better where only so many chains can be decoded side by side. */
const struct lanes *lanes_for(const struct lanes *chosen, size_t chains);

/* The i-th table that this processor can run; NULL behind the last. */
const struct lanes *lanes_at(unsigned i);

/* Decodes one run by the reference's rule. */
void lane_decode_ref(struct lane *lane);

/* Shared by the drivers: ends a run at `bit`, with what its blocks gave so far. */
static inline void lane_end(struct lane *lane, uint64_t bit, int outcome)
{
	lane->bit = bit;
	if (!outcome && bit > lane->bits)
		outcome = STEPBACK_SHORT;
	if (!outcome && lane->ends == LANE_ENDS && lane->bits - bit >= 8)
		outcome = STEPBACK_END;
	if (!outcome && lane->ends == LANE_ENDS_HERE && lane->bits != bit)
		outcome = STEPBACK_ENTRY_POINT;
	lane->outcome = outcome;
}

/* Nonzero when a prediction left the range of 8-bit images. */
static inline uint32_t lane_dc_strange(int32_t dc)
{
	return ((uint32_t)dc + BLOCKS_DC) >> 12;
}
