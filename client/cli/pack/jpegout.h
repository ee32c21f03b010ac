/* jpegout: JPEGs written anew: the same coefficients coded otherwise, or pixels coded for the first
 * time.
 *
 * Transcoding reads the coefficients of a file (libjpeg's jpeg_read_coefficients) and writes them
 * as one baseline scan with Huffman tables made for them and restart markers every few MCUs. The
 * quantisers and the coefficients stay, so a decoder finds the same pixels. Both ways end in a
 * buffer of the caller's of a size that is fixed: what does not fit is an outcome, so a hostile
 * file makes nothing grow. Memory beyond that is libjpeg's, and is told before it is taken.
 *
 * libjpeg leaves errors by longjmp; every call into it is made by a step function under guarded(),
 * which has no locals that a jump could spoil. Belongs to one thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/metadata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpegout;

enum jpegout_outcome {
	JPEGOUT_OK = 0,
	JPEGOUT_E_IRREGULAR = 1, /* libjpeg had to overlook or to make up something, or refuses */
	JPEGOUT_E_COLOURS = 2, /* neither gray nor three components */
	JPEGOUT_E_ROOM = 3, /* larger than the buffer */
};

/* How many MCUs from one restart marker to the next. */
struct jpegout_interval {
	uint32_t mcus; /* 0: no markers; at most JPEGOUT_MCUS_MOST */
	bool row; /* one row of MCUs, whatever `mcus` says */
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

/* Reads the header of a file that stays until jpegout_close. *ret_bytes: what the coefficients will
 * take. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_open(struct jpegout *jpegout, const uint8_t *data, size_t size, uint64_t *ret_bytes);

/* Reads all coefficients. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_read(struct jpegout *jpegout);

/* Writes what was read. May be called again, with another interval. An enum jpegout_outcome, or
 * -ENOMEM. */
int jpegout_transcode(struct jpegout *jpegout, const struct metadata *metadata,
	struct jpegout_interval interval, struct jpegout_buffer *buffer);

/* How many times as many samples the first component of the open file has as the second, across and
 * down; 1 where that is no whole number. */
void jpegout_sampling(const struct jpegout *jpegout, unsigned *ret_h, unsigned *ret_v);

/* Ends the file and gives its memory back. */
void jpegout_close(struct jpegout *jpegout);

struct jpegout_picture {
	const uint8_t *rgb; /* width x height x 3 */
	uint32_t width, height;
	bool gray; /* R, G and B are equal everywhere: one component is written */
	unsigned quality; /* 1 .. 100, libjpeg's scale */
	unsigned h, v; /* sampling of the first component, 1 to 4; the others have 1 */
};

/* Bytes that libjpeg takes for coding a picture of so many pixels with tables made for it. Pure. */
uint64_t jpegout_encode_bytes(uint32_t width, uint32_t height);

/* Codes a picture; no file may be open. An enum jpegout_outcome, or -ENOMEM. */
int jpegout_encode(struct jpegout *jpegout, const struct jpegout_picture *picture,
	const struct metadata *metadata, struct jpegout_interval interval,
	struct jpegout_buffer *buffer);
