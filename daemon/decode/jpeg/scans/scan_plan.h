/* scan_plan: which blocks of each scan are decoded for a crop, and what memory that takes.
 *
 * A pure function of the geometry, the scans and the crop. The blocks of the crop's MCUs are kept,
 * MCU by MCU in raster order as blocks.h has them. */
#pragma once

#include "decode/jpeg/scans/script.h"

struct scan_plan_component {
	uint32_t across, down; /* blocks of the image, without those that only fill up MCUs */
	uint32_t rows; /* rows of blocks that scans of this component decode */
	uint32_t x0, x1, y0, y1; /* the blocks kept: in those rows, within the image */
	bool refined; /* it has a history */
};

struct scan_plan {
	struct scan_plan_component component[BLOCKS_COMPONENTS];
	uint32_t mcu_rows; /* that scans of several components decode */
	size_t segments_most; /* restart intervals of any scan */
	/* Offsets in the memory, all aligned to BLOCKS_ALIGN. */
	uint64_t tables, segments, bytes, nowhere, where, coefficients, end;
	uint64_t history[BLOCKS_COMPONENTS], column[BLOCKS_COMPONENTS];
	uint64_t clear; /* from here to `end` everything is zero at first */
};

/* `blocks`: the crop's, by mcu_plan_blocks. 0, or STEPBACK_SIZE where numbers of coefficients would
 * not fit into 32 bits. */
int scan_plan(const struct parse *parse, const struct script *script, const struct blocks *blocks,
	struct scan_plan *ret);

/* The number of MCUs of a scan: blocks where it has one component. */
uint64_t scan_plan_mcus(
	const struct parse *parse, const struct scan_plan *plan, const struct script_scan *scan);

/* The number of a row's first coefficient. The row is one that is kept; component `c`. */
size_t scan_plan_row(
	const struct parse *parse, const struct blocks *blocks, unsigned c, uint32_t y);
