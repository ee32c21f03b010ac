/* planes: coefficient blocks in, rows of the wanted region out, with libjpeg-turbo's very bytes.
 *
 * Second half of the own decoder. It dequantises and transforms (ISLOW), upsamples (fancy where
 * libjpeg-turbo does with its defaults, replication elsewhere) and converts to RGB. It works MCU
 * row by MCU row through a ring of two MCU rows of samples, which stays in cache; only blocks that
 * the region or its upsampling looks at are transformed. Edge rules apply at the image's edges,
 * never at the region's.
 *
 *   planes.[ch]           this door: geometry, ring, rows
 *   planes_kernels.[ch]   the table of inner loops, and which one runs
 *   planes_c.c            the truth, in plain C
 *   planes_avx2.c, planes_avx512.c, planes_body.h
 *                         the same for vectors of 32 and 64 bytes
 *
 * A frame that is to shrink is transformed into fewer pixels per block: 4 x 4, 2 x 2 or 1. A
 * component that is sampled more coarsely keeps more of its own pixels instead of being upsampled,
 * as long as both of its directions allow; what upsampling is left is fancy but at 1/8. All this is
 * libjpeg-turbo's with scale_num 1 and scale_denom 2, 4 or 8 (jdmaster.c, jdsample.c, jidctred.c).
 *
 * Life of an image: planes_begin says which MCUs are needed; for each row of them, from the top,
 * planes_blocks takes its blocks; then planes_ready says how many rows of pixels can be taken, and
 * they have to be taken (planes_row, or planes_rows for all of them) before the next MCU row's
 * blocks come. Dropping an image half way needs no call.
 *
 * Belongs to one thread. Memory is taken once; what does not fit is refused by planes_begin. */
#pragma once

#include "base/fault.h"
#include "decode/decode.h"
#include "decode/jpeg/blocks.h"
#include "decode/stepback.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PLANES_COMPONENTS = BLOCKS_COMPONENTS,
	PLANES_FACTOR = 4, /* largest sampling factor */
	/* Samples of two MCU rows: regions up to 16,000 pixels wide in 4:4:0, 21,000 in the
	 * other usual samplings, all of a gray image. */
	PLANES_RING_BYTES = 17 << 16,
	PLANES_GRAIN = 64, /* rows are written in whole grains of pixels */
};

enum planes_colour {
	PLANES_GRAY, /* one component; its sampling factors do not matter */
	PLANES_YCC,
	PLANES_RGB, /* three components that are R, G, B already */
};

struct planes_component {
	uint8_t h, v; /* sampling factors */
	const uint8_t *quant; /* 64 in zigzag order; read by planes_begin only */
};

struct planes_frame {
	uint32_t width, height; /* 1 to 65,535 */
	enum planes_colour colour;
	uint8_t shrink; /* halvings, 0 to DECODE_SHRINK_MAX: the image has 1/1, 1/2, 1/4 or 1/8 of
			   its pixels on each side, rounded up, and the region counts in those */
	struct planes_component component[PLANES_COMPONENTS];
};

/* A rectangle of MCUs. */
struct planes_mcus {
	uint32_t x0, y0, x1, y1;
};

struct planes;

int planes_new(struct planes **ret, struct fault *fault);
void planes_free(struct planes *planes);

/* Bytes that planes_new takes. */
uint64_t planes_bytes(void);

/* Begins an image, forgetting the one before. The region is not empty and inside the frame. 0,
 * STEPBACK_COMPONENTS where sampling factors are no integral ratios, or STEPBACK_SIZE where the
 * region does not fit the ring. */
int planes_begin(struct planes *planes, const struct planes_frame *frame,
	struct decode_region region, struct planes_mcus *ret_mcus);

/* Takes the blocks of MCU row mcu_y: the first one that planes_begin gave, then the one behind the
 * row taken last. `blocks` covers at least the row's needed MCUs, and keeps what blocks.h
 * promises of its values; nothing of it is kept. 0, or
 * STEPBACK_RANGE where a block holds values of which libjpeg-turbo's SIMD and C may make different
 * pixels; after that the image is lost. */
int planes_blocks(struct planes *planes, uint32_t mcu_y, const struct blocks *blocks);

/* Rows that can be taken now. */
uint32_t planes_ready(const struct planes *planes);

/* The next row, as decode_row_fn takes it; valid until the next call. */
void planes_row(struct planes *planes, const uint8_t *ret[PLANES_COMPONENTS]);

/* Hands over all rows that are ready. */
void planes_rows(struct planes *planes, decode_row_fn *row, void *context);
