/* parse: reads a JPEG's headers: frame, tables and first scan, or the reason to step back.
 *
 * It takes the kinds that datasets consist of: Huffman coding, baseline, extended or progressive, 8
 * bit, gray or three components, the usual samplings. Everything that libjpeg would
 * have to overlook (fill bytes, bytes between segments, lengths that do not fit, tables that are
 * present but broken) is a reason to step back, so libjpeg decodes all files that are taken here
 * without a warning. jpegwalk checks for files that only Pillow refuses. Pure: no state, no
 * allocation; any thread. */
#pragma once

#include "decode/jpeg/blocks.h"
#include "decode/stepback.h"

#include <stdbool.h>

enum parse_marker {
	PARSE_SOF0 = 0xc0,
	PARSE_SOF1 = 0xc1,
	PARSE_SOF2 = 0xc2,
	PARSE_DHT = 0xc4,
	PARSE_JPG = 0xc8,
	PARSE_SOF15 = 0xcf,
	PARSE_RST0 = 0xd0,
	PARSE_RST7 = 0xd7,
	PARSE_SOI = 0xd8,
	PARSE_EOI = 0xd9,
	PARSE_SOS = 0xda,
	PARSE_DQT = 0xdb,
	PARSE_DRI = 0xdd,
	PARSE_APP0 = 0xe0,
	PARSE_APP14 = 0xee,
	PARSE_APP15 = 0xef,
	PARSE_COM = 0xfe,
};

enum parse_color {
	PARSE_GRAY,
	PARSE_YCC,
	PARSE_RGB, /* three components that need no conversion */
};

struct parse_component {
	uint8_t h, v; /* sampling factors; 1 and 1 in a gray image, whatever the file says */
	uint8_t id; /* its number in the file */
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
	/* The image has several scans, or may have: scans/script.h reads them, from this offset on,
	 * where the first scan's header is. Of the tables, those before it are known. */
	bool progressive, several;
	size_t header;
};

/* The payload of a segment. */
struct parse_payload {
	const uint8_t *bytes;
	size_t size;
};

/* 0, or an enum stepback: _KIND, _COMPONENTS, _SCAN, _HEADER or _TABLES. Pointers in *ret point
 * into `data`. */
int parse_read(const uint8_t *data, size_t size, struct parse *ret);

/* The same for files of one scan only: others are _KIND (progressive) or _SCAN. */
int parse_read_single(const uint8_t *data, size_t size, struct parse *ret);

/* The segment at offset `at`: its marker and its payload, all of which is inside the file.
 * *ret_end: the offset after it. 0, STEPBACK_KIND or STEPBACK_HEADER where a file that is taken may
 * not have such a segment. */
int parse_segment_at(const uint8_t *data, size_t size, size_t at, unsigned *ret_marker,
	struct parse_payload *ret, size_t *ret_end);

/* The components of a scan's header: their numbers in the frame, ascending, and the numbers of
 * their tables, DC in the upper half. Returns how many, 1 to 3, or 0, and then *ret_reason. */
unsigned parse_scan_components(const struct parse *parse, struct parse_payload payload,
	uint8_t component[BLOCKS_COMPONENTS], uint8_t tables[BLOCKS_COMPONENTS], int *ret_reason);

/* Takes in a segment of Huffman codes or of the restart interval. 0, _TABLES or _HEADER. */
int parse_codes(struct parse *parse, struct parse_payload payload);
int parse_restart(struct parse *parse, struct parse_payload payload);
