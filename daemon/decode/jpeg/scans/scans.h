/* scans: decodes all scans of a file that has several into its blocks.
 *
 * A map of this folder:
 *   script.[ch]        the scans of a file, from its markers
 *   scan_plan.[ch]     which blocks of each scan are decoded, and what memory that takes
 *   scan_tables.[ch]   the codes of progressive scans as tables
 *   scans.[ch]         this: one scan after the other, by the fastest kernels
 *   scans_body.h       the common code of the kernels
 *   scans_c.c          that in plain C
 *   scans_bmi2.c       for x86-64: deposits bits (pdep), applies refinements by vectors of 32 bytes
 *   scans_avx512.c     the same with vectors of 64 bytes
 *
 * Only blocks of the crop's MCUs have their coefficients stored. A refining scan's bits depend on
 * which coefficients of a block are not zero, in every block before the last one that is wanted. So
 * where a component is refined, 64 bits a block keep that (its history), and other blocks have
 * nothing else. Each scan ends after the last row of blocks that is wanted: libjpeg-turbo reads on,
 * but whatever a scan has after that row changes no block before it, and the file's markers, on
 * which its outcome depends, were all read (script.h).
 *
 * Pure; any thread. */
#pragma once

#include "base/fault.h"
#include "decode/jpeg/lane.h"
#include "decode/jpeg/scans/scan_plan.h"

/* A scan in work. */
struct scans_work {
	const struct parse *parse;
	const struct script_scan *scan;
	const struct scan_plan *plan;
	const struct blocks *blocks;
	int16_t *coefficients;
	uint64_t *history[BLOCKS_COMPONENTS]; /* [rows][across]; NULL: never refined */
	const uint32_t *column[BLOCKS_COMPONENTS]; /* of each block kept in a row: see scan_plan */
	/* Tables of values, of first or of refining scans: DC and AC of each component. */
	const uint32_t *table[BLOCKS_COMPONENTS][2];
	struct huffman_code code[BLOCKS_COMPONENTS][2];
	const uint8_t *bytes; /* unstuffed; LANE_SLACK initialized bytes after them */
	const struct unstuff_segment *segments;
	size_t segment_count;
	int16_t *nowhere; /* a block for those that are not kept */
};

struct scans_kernels {
	const char *name;
	/* Each decodes one scan of its kind: DC or whole blocks; the first bits of AC coefficients;
	 * one more bit of them. 0 or an enum stepback: _CODE, _RUN, _RANGE, _SHORT, _END, _RESTART.
	 */
	int (*blocks)(const struct scans_work *work);
	int (*first)(const struct scans_work *work);
	/* The bytes have their bits in the other order. */
	int (*refine)(const struct scans_work *work);
};

extern const struct scans_kernels scans_c, scans_bmi2, scans_avx512;

/* Whether this processor deposits bits in a few cycles: those of AMD before Zen 3 take hundreds.
 * Measures some microseconds. Only where it has BMI2. */
bool scans_bmi2_pays(void);

/* The best table for this processor, or the one that PENSTOCK_KERNELS names. Errors as
 * lanes_choose. */
int scans_choose(const struct scans_kernels **ret, struct fault *fault);

/* Decodes all scans. `memory` has the plan's bytes and is aligned to BLOCKS_ALIGN; blocks->where
 * and ->coefficients are set to parts of it. 0 or an enum stepback. */
int scans_decode(const struct scans_kernels *kernels, unstuff_fn *unstuff, const uint8_t *data,
	const struct parse *parse, const struct script *script, const struct scan_plan *plan,
	uint8_t *memory, struct blocks *blocks);
