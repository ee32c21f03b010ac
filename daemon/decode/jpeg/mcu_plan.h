/* plan: which MCUs to decode for a crop, where to enter, and where their blocks go.
 *
 * A pure function of the geometry, the crop and the entry points: no bitstream is needed to test
 * it. Entry points lie every `interval` MCUs (restart markers, or checkpoints); at each of them a
 * run begins, so that runs can be decoded side by side. Where there are none, all runs are one
 * chain. MCUs that only lie in the way are decoded but not kept; a few of them are kept where that
 * is cheaper than a run of their own.
 *
 * Large crops are done in bands of MCU rows, each with a plan of its own: what the blocks of a band
 * take is then bounded (mcu_plan_rows). The place where a band's last run ended is the next band's
 * entry point `resume`. */
#pragma once

#include "decode/decode.h"
#include "decode/jpeg/parse.h"

enum {
	MCU_PLAN_KEEP = 8, /* up to so many MCUs in the way are kept with those behind them */
};
#define MCU_PLAN_ON UINT32_MAX /* entry: goes on where the run before it ended, in the same lane */
#define MCU_PLAN_RESUME (UINT32_MAX - 1) /* entry: the place where the band before ended */
#define MCU_PLAN_NOWHERE UINT32_MAX /* block: nobody wants these */

struct mcu_plan_run {
	uint32_t mcu, mcus; /* first, in raster order, and how many */
	uint32_t entry; /* number of the entry point, MCU_PLAN_ON or MCU_PLAN_RESUME */
	uint32_t
		block; /* number of its first block, or MCU_PLAN_NOWHERE. One spare block follows. */
};

struct mcu_plan_request {
	uint32_t interval; /* MCUs between entry points; 0: only the scan's start is one */
	uint32_t entries; /* how many there are, with the scan's start; at least 1 */
	uint32_t piece; /* runs end at multiples of so many MCUs; 0: wherever they like */
	uint32_t resume; /* where the band before ended; 0: this is the first band */
	bool whole; /* decode every MCU from the resume point on, kept or not */
	bool last; /* with `whole`: this is the last band; go on to the image's end */
};

/* What a crop needs: all of *ret but coefficients and where. The crop lies inside the image and is
 * not empty. */
void mcu_plan_blocks(const struct parse *parse, struct decode_region crop, struct blocks *ret);

/* The most runs and blocks (the spare ones included) that a band of so many rows can take;
 * not more rows than the crop has. */
size_t mcu_plan_runs_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows);
uint64_t mcu_plan_blocks_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows);

/* How many MCU rows of the crop a band can have at most, when it has room for so many blocks and
 * runs; 0: not even one. */
uint32_t mcu_plan_rows(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint64_t blocks, size_t runs);

/* Runs for the rows blocks->mcu_y0 .. + rows of a band, in ascending order, into runs[capacity],
 * and where[rows][columns]. 0, or STEPBACK_SIZE when runs or block numbers do not suffice.
 * *ret_blocks: how many blocks the coefficients need, the spare ones included. */
int mcu_plan_runs(const struct parse *parse, const struct blocks *band,
	const struct mcu_plan_request *request, struct mcu_plan_run *runs, size_t capacity,
	uint32_t *where, size_t *ret_runs, size_t *ret_blocks);
