/* lane: one stream of entropy-coded blocks: its tables, its place, its output; and the drivers that
 * decode several lanes side by side.
 *
 * A symbol says where the next one begins, so a single stream leaves most of the processor idle
 * while it waits for its look-ups. Drivers therefore have several lanes: 1 (the reference), 4 in
 * one thread's scalar code, or 32 in two vectors of 16. Lanes do not depend on each other. A
 * callback gives them runs of MCUs, from several entry points of one image or from several images
 * in flight. A lane that fails reports it and takes the next run.
 *
 * No bounds are checked per symbol: a block cannot take more than LANE_SLACK bytes, and the place
 * is compared with the end after each block. So it is known exactly whether a run stayed inside its
 * data. Stores never leave the run's blocks and the spare block after them.
 *
 * A run can also be part of a chunk (chunk_plan.h): then it is not known whether a block begins
 * where it begins, nor which MCU of the image is its first. The driver notes where each of its MCUs
 * ends, ends the run at a bit rather than after a number of MCUs, and leaves DC differences in the
 * blocks, because the predictions are not known either. Thread: the caller's. */
#pragma once

#include "base/fault.h"
#include "decode/jpeg/checksum.h"
#include "decode/jpeg/huffman.h"
#include "decode/jpeg/unstuff.h"

enum {
	/* Bytes after a segment's end that must be readable and initialized, to any values: 63
	 * symbols of 27 bits, a DC, and the bytes that are read ahead. */
	LANE_SLACK = 256,
	LANES_MOST = 32,
};

/* How many bits of the segment must be left after the run. */
enum lane_ends {
	LANE_GOES_ON, /* any number */
	LANE_ENDS, /* fewer than 8: a marker follows */
	LANE_ENDS_HERE, /* none: the next entry point follows */
};

struct lane {
	/* The run, set by the callback. A run that continues where the lane's last run ended leaves
	 * bytes, bits, bit and dc as they are. */
	const struct huffman *huffman;
	const uint8_t *bytes; /* the segment, unstuffed */
	uint64_t bits; /* its length */
	uint64_t bit; /* where the run begins, at most `bits`; after the run: where it ended */
	int32_t dc[BLOCKS_COMPONENTS]; /* predictions, before and after the run */
	int16_t *blocks; /* mcus x in_mcu blocks and a spare one, aligned; NULL: not wanted */
	uint32_t mcus; /* at least 1; mcus x in_mcu fits 32 bits */
	enum lane_ends ends;
	/* Not NULL: the run is part of a chunk. Where to note the bit at each MCU's end, for up to
	 * `mcus`. The run ends at the first MCU's end after the bit `stop`, or after `mcus`. `dc`
	 * and `ends` are not used, `blocks` is not NULL. */
	uint32_t *marks;
	uint64_t stop;
	uint32_t complete; /* after such a run, also after one that failed: MCUs noted */
	/* After the run: 0 or an enum stepback: _CODE, _RUN, _RANGE, _SHORT, _END, _ENTRY_POINT.
	 * Which one is found first may differ between drivers. */
	int outcome;
	/* Used by the callback. */
	void *owner;
	size_t run, run_end;
};

/* Called for each lane, at first with owner NULL, then whenever its run has ended. Handles the
 * outcome, sets the next run and returns true; false: no run is left for this lane. While other
 * lanes work, a driver may ask again for it, with owner NULL. Must not call the driver. */
typedef bool lane_next_fn(void *context, struct lane *lane);

/* The bytes of all lanes should be within 256 MB of memory, and so should their tables and their
 * blocks. A lane that is farther away from the first one is decoded too, but slowly. */
struct lanes {
	const char *name; /* "c", "avx2", "avx512" */
	enum huffman_kind kind; /* the form of the tables that it needs */
	unsigned width; /* lanes side by side */
	/* Returns when the callback has refused every lane that had a run. */
	void (*decode)(lane_next_fn *next, void *context);
	unstuff_fn *unstuff;
	checksum_fn *checksum;
	/* The driver to use instead, with its form of tables, for images with fewer than few_below
	 * chains of runs in all; NULL: none. */
	const struct lanes *few;
	unsigned few_below;
	/* The driver for images that are decoded in chunks, with the same form of tables. It takes
	 * all other runs, too. Itself in such a driver. NULL: no gain from chunks, as four scalar
	 * lanes have enough with four images in flight. */
	const struct lanes *chunks;
};

/* One lane, bit by bit, without tables: the reference for all others, in tests. */
extern const struct lanes lanes_ref;
extern const struct lanes lanes_c, lanes_avx2, lanes_avx512, lanes_avx512_chunks;

/* The fastest table on this processor by a measurement of a few milliseconds (made once), or the
 * one that the environment variable PENSTOCK_KERNELS names, as for pixel/kernels.h. 0, -EINVAL for
 * an unknown name, -ENOTSUP for one that this processor cannot run. Any thread. */
int lanes_choose(const struct lanes **ret, struct fault *fault);

/* The chosen driver's one for chunks if it is faster than the one that would decode the same images
 * in order, by another such race, or if PENSTOCK_KERNELS names it; NULL: decode them in order. Any
 * thread. */
const struct lanes *lanes_choose_chunks(const struct lanes *chosen);

/* The chosen driver, or the one that suits better where only `chains` chains can be decoded side by
 * side. */
const struct lanes *lanes_for(const struct lanes *chosen, size_t chains);

/* The i-th driver that this processor can run; NULL after the last. */
const struct lanes *lanes_at(unsigned i);

/* Decodes one run by the reference's rule. */
void lane_decode_ref(struct lane *lane);

/* Shared by the drivers: ends a run at `bit`; `outcome` is that of its blocks. */
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
