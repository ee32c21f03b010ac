/* mcu_plan: which MCUs to decode for a crop, where to enter, and where their blocks go.
 *
 * A pure function of the geometry, the crop and the entry points, so tests need no bitstream. An
 * entry point (a restart marker, or a kept one) follows every `interval` MCUs. A run begins at
 * each, so that runs can be decoded side by side. Without entry points all runs are one chain. MCUs
 * that only precede wanted ones are decoded but not kept; a few of them are kept where that is
 * cheaper than a run of their own.
 *
 * Large crops are decoded in bands of MCU rows, each with its own plan, so that the memory for
 * blocks is bounded (mcu_plan_rows). The place where a band's last run ended is the next band's
 * entry point `resume`. */
#pragma once

#include "decode/decode.h"
#include "decode/jpeg/parse.h"

enum {
	MCU_PLAN_KEEP = 8, /* up to so many unwanted MCUs are kept with those after them */
};
#define MCU_PLAN_ON UINT32_MAX /* entry: continues where the run before it ended, in that lane */
#define MCU_PLAN_RESUME (UINT32_MAX - 1) /* entry: the place where the band before ended */
#define MCU_PLAN_NOWHERE UINT32_MAX /* block: not wanted */

struct mcu_plan_run {
	uint32_t mcu, mcus; /* the first, in raster order, and how many */
	uint32_t entry; /* number of the entry point, MCU_PLAN_ON or MCU_PLAN_RESUME */
	uint32_t
		/* Number of its first block, or MCU_PLAN_NOWHERE. One spare block follows. */
		block;
};

struct mcu_plan_request {
	uint32_t interval; /* MCUs between entry points; 0: only the scan's start is one */
	uint32_t entries; /* how many exist, with the scan's start; at least 1 */
	uint32_t piece; /* runs end at multiples of so many MCUs; 0: anywhere */
	uint32_t resume; /* where the band before ended; 0: this is the first band */
};

/* Sets all of *ret except coefficients and where. The crop is inside the image and not empty. */
void mcu_plan_blocks(const struct parse *parse, struct decode_region crop, struct blocks *ret);

/* The most runs and blocks (including the spare ones) that a band of `rows` rows can take; `rows`
 * is at most the crop's. */
size_t mcu_plan_runs_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows);
uint64_t mcu_plan_blocks_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows);

/* How many MCU rows of the crop fit into a band that has room for so many blocks and runs; 0: not
 * even one. */
uint32_t mcu_plan_rows(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint64_t blocks, size_t runs);

/* Plans the runs for the rows blocks->mcu_y0 .. + rows of a band, in ascending order, into
 * runs[capacity], and sets where[rows][columns]. 0, or STEPBACK_SIZE when runs or block numbers do
 * not suffice. *ret_blocks: how many blocks the coefficients need, including the spare ones. */
int mcu_plan_runs(const struct parse *parse, const struct blocks *band,
	const struct mcu_plan_request *request, struct mcu_plan_run *runs, size_t capacity,
	uint32_t *where, size_t *ret_runs, size_t *ret_blocks);
