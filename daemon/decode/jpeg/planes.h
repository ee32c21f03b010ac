/* planes: takes coefficient blocks and makes the rows of the wanted region, with exactly
 * libjpeg-turbo's bytes.
 *
 * The second half of penstock's decoder. It dequantizes and transforms (ISLOW), upsamples (fancy
 * where libjpeg-turbo does by default, replication elsewhere) and converts to RGB. It works one MCU
 * row at a time, in a ring of two MCU rows of samples that stays in the cache. Only blocks that the
 * region or its upsampling reads are transformed. Edge rules apply at the image's edges, never at
 * the region's. The inner loops are in kernels/planes_*.
 *
 * A shrunk frame is transformed into fewer pixels per block: 4 x 4, 2 x 2 or 1. A component that is
 * sampled more coarsely keeps more of its pixels instead of being upsampled, as far as both
 * directions allow; upsampling that is still needed is fancy, except at 1/8. All this equals
 * libjpeg-turbo with scale_num 1 and scale_denom 2, 4 or 8 (jdmaster.c, jdsample.c, jidctred.c).
 *
 * Order of calls for an image: planes_begin says which MCUs are needed. For each row of them, from
 * the top, planes_blocks takes its blocks; then planes_ready says how many rows of pixels are
 * ready, and the caller must take them (planes_row, or planes_rows for all) before the next MCU
 * row's blocks. Dropping an image halfway needs no call.
 *
 * Belongs to one thread. Memory is allocated once; planes_begin refuses frames that do not fit. */
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
	/* Samples of two MCU rows: enough for regions up to 16,000 pixels wide in 4:4:0, 21,000 in
	 * the other usual samplings, and any width in a gray image. */
	PLANES_RING_BYTES = 17 << 16,
	PLANES_GRAIN = 64, /* pixels; rows are written in multiples of it */
};

enum planes_color {
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
	enum planes_color color;
	/* Halvings, 0 to DECODE_SHRINK_MAX: the image has 1/1, 1/2, 1/4 or 1/8 of its pixels on
	 * each side, rounded up, and the region counts in those. */
	uint8_t shrink;
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

/* Begins an image, and forgets the one before. The region is not empty and inside the frame. 0;
 * STEPBACK_COMPONENTS where sampling factors are not integral ratios; STEPBACK_SIZE where the
 * region does not fit the ring. */
int planes_begin(struct planes *planes, const struct planes_frame *frame,
	struct decode_region region, struct planes_mcus *ret_mcus);

/* Takes the blocks of MCU row mcu_y: at first the first row that planes_begin gave, then the row
 * after the one taken last. `blocks` has at least the row's needed MCUs, with values as blocks.h
 * guarantees them, and is not kept. 0, or STEPBACK_RANGE where a block has values from which
 * libjpeg-turbo's SIMD and C may make different pixels; then the image cannot go on. */
int planes_blocks(struct planes *planes, uint32_t mcu_y, const struct blocks *blocks);

/* How many rows can be taken now. */
uint32_t planes_ready(const struct planes *planes);

/* The next row, as decode_row_fn takes it; valid until the next call. */
void planes_row(struct planes *planes, const uint8_t *ret[PLANES_COMPONENTS]);

/* Hands over all rows that are ready. */
void planes_rows(struct planes *planes, decode_row_fn *row, void *context);
