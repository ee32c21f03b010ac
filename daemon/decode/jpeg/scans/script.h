/* script: the scans of a file that has several: what each one sends, with which tables, and where
 * its bytes are.
 *
 * A progressive file sends the coefficients of its components in bands and from the highest bit
 * down (T.81, annex G); a sequential one may send its components one after the other. Taken are
 * scripts that send each bit of each coefficient exactly once and in order, and all of them:
 * libjpeg-turbo warns of any other order, and smooths blocks whose coefficients are not complete
 * (jdcoefct.c, smoothing_ok). Pure: no state, no allocation; any thread. */
#pragma once

#include "decode/jpeg/parse.h"

enum {
	SCRIPT_SCANS = 64, /* more than any encoder makes for three components */
	SCRIPT_LOW_MOST = 13, /* T.81, G.1.1.1.2 */
};

struct script_scan {
	uint8_t components; /* 1 .. 3 */
	uint8_t component[BLOCKS_COMPONENTS]; /* their numbers in the frame, ascending */
	uint8_t first, last; /* coefficients, in zigzag order */
	/* Bits from this one up were sent before (0: none), and now those from `low` up. */
	uint8_t high, low;
	uint32_t restart_mcus; /* 0: no restart markers */
	struct parse_code dc[BLOCKS_COMPONENTS], ac[BLOCKS_COMPONENTS]; /* those that it uses */
	size_t begin, end; /* offsets of its bytes; a marker is at `end` */
};

struct script {
	unsigned count;
	size_t end; /* after the end marker */
	struct script_scan scan[SCRIPT_SCANS];
};

/* Reads the scans of a file whose header `parse` has read and found to be `several`. 0, or an enum
 * stepback: _SCAN, _HEADER, _KIND, _TABLES or _END. Pointers in *ret point into `data`. */
int script_read(const uint8_t *data, size_t size, const struct parse *parse, struct script *ret);
