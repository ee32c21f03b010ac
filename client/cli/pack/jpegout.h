/* jpegout: writes JPEGs: the same coefficients coded in another way, or pixels encoded.
 *
 * Transcoding reads the coefficients of a file (libjpeg's jpeg_read_coefficients) and writes them
 * as one baseline scan with Huffman tables made for them and restart markers every few MCUs. The
 * quantization tables and the coefficients stay, so a decoder gets the same pixels. Both ways write
 * into a buffer of the caller with a fixed size: too little room is an outcome, so a hostile file
 * makes nothing grow. libjpeg takes further memory, and the functions tell how much before they
 * take it.
 *
 * libjpeg reports errors by longjmp. So a step function under guarded() makes every call into
 * libjpeg; it has no locals that a jump could spoil. One thread uses a writer. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/metadata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpegout;

enum jpegout_outcome {
	JPEGOUT_OK = 0,
	JPEGOUT_E_IRREGULAR =
		1, /* libjpeg refused the file, or had to ignore or invent something */
	JPEGOUT_E_COLOURS = 2, /* neither gray nor three components */
	JPEGOUT_E_ROOM = 3, /* larger than the buffer */
};

/* The number of MCUs from one restart marker to the next. */
struct jpegout_interval {
	uint32_t mcus; /* 0: no markers; at most JPEGOUT_MCUS_MOST */
	bool row; /* one row of MCUs; `mcus` is ignored */
};
enum { JPEGOUT_MCUS_MOST = 65535 }; /* ITU-T T.81, B.2.4.4 */

struct jpegout_buffer {
	uint8_t *bytes;
	size_t room;
	size_t size; /* set by success */
};

/* 0 or -ENOMEM. */
int jpegout_new(struct jpegout **ret, struct fault *fault);
void jpegout_free(struct jpegout *jpegout);

/* Reads the header of a file; its bytes must stay until jpegout_close. *ret_bytes: the memory
 * that the coefficients will take. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_open(struct jpegout *jpegout, const uint8_t *data, size_t size, uint64_t *ret_bytes);

/* Reads all coefficients. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_read(struct jpegout *jpegout);

/* Writes the coefficients. The caller may call it again with another interval. An enum
 * jpegout_outcome, or -ENOMEM. */
int jpegout_transcode(struct jpegout *jpegout, const struct metadata *metadata,
	struct jpegout_interval interval, struct jpegout_buffer *buffer);

/* The sampling ratio of the first to the second component of the open file, horizontally and
 * vertically; 1 if it is not a whole number. */
void jpegout_sampling(const struct jpegout *jpegout, unsigned *ret_h, unsigned *ret_v);

/* Closes the file and returns its memory. */
void jpegout_close(struct jpegout *jpegout);

struct jpegout_picture {
	const uint8_t *rgb; /* width x height x 3 */
	uint32_t width, height;
	bool gray; /* R, G and B are equal everywhere: write one component */
	unsigned quality; /* 1 .. 100, on libjpeg's scale */
	unsigned h, v; /* sampling of the first component, 1 to 4; the others have 1 */
};

/* The memory that libjpeg takes to encode an image of this many pixels with optimized tables.
 * Pure. */
uint64_t jpegout_encode_bytes(uint32_t width, uint32_t height);

/* Encodes an image; no file may be open. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_encode(struct jpegout *jpegout, const struct jpegout_picture *picture,
	const struct metadata *metadata, struct jpegout_interval interval,
	struct jpegout_buffer *buffer);
