/* parse: reads a JPEG's headers: frame, tables and scan, or the reason to step back.
 *
 * It takes the kinds that datasets consist of: baseline or extended Huffman coding, 8 bit, one scan
 * of all components, gray or three components, the usual samplings. Everything that libjpeg would
 * have to overlook (fill bytes, bytes between segments, lengths that do not fit, tables that are
 * present but broken) is a reason to step back, so libjpeg decodes all files that are taken here
 * without a warning. jpegwalk checks for files that only Pillow refuses. Pure: no state, no
 * allocation; any thread. */
#pragma once

#include "decode/jpeg/blocks.h"
#include "decode/stepback.h"

enum parse_color {
	PARSE_GRAY,
	PARSE_YCC,
	PARSE_RGB, /* three components that need no conversion */
};

struct parse_component {
	uint8_t h, v; /* sampling factors; 1 and 1 in a gray image, whatever the file says */
	uint8_t quant, dc, ac; /* numbers of its tables */
};

struct parse_code {
	const uint8_t *counts; /* 16, in the file; NULL: not given */
	const uint8_t *symbols; /* after the counts */
	unsigned symbol_count; /* 0 .. 256 */
};

struct parse {
	uint32_t width, height; /* 1 .. 65500, libjpeg's limit */
	uint32_t mcus_across, mcus_down;
	uint32_t restart_mcus; /* 0: no restart markers */
	unsigned components; /* 1 or 3 */
	unsigned h_max, v_max;
	unsigned in_mcu; /* blocks of an MCU, up to BLOCKS_IN_MCU */
	enum parse_color color;
	struct parse_component component[BLOCKS_COMPONENTS];
	const uint8_t *quant[4]; /* 64 bytes in zigzag order, in the file; NULL: not given */
	struct parse_code dc[4], ac[4];
	size_t scan; /* offset of the first entropy-coded byte */
};

/* 0, or an enum stepback: _KIND, _COMPONENTS, _SCAN, _HEADER or _TABLES. Pointers in *ret point
 * into `data`. */
int parse_read(const uint8_t *data, size_t size, struct parse *ret);
