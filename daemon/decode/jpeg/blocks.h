/* blocks: the coefficients, which the entropy decoder writes and the transform reads.
 *
 * A block is 64 coefficients of int16_t in zigzag order, as they come from the file: not
 * dequantized, the DC coefficient with its prediction added. In zigzag order a lane stores without
 * another look-up, and the transform reorders a whole block with one permutation. The blocks of an
 * MCU are adjacent: the first component's h x v row by row, then the second's and the third's. So
 * are MCUs that were decoded in one go (a run, see mcu_plan.h); `where` finds each MCU.
 *
 * The transform may rely on this: every block starts on a cache line, and if the lane's outcome is
 * 0, |DC| <= BLOCKS_DC and |AC| <= BLOCKS_AC. It must check the product with the quantizer itself.
 * The index of the last coefficient that is not zero is not stored: the transform finds it in the
 * registers into which it loads the block anyway, while sixteen lanes side by side would have to
 * scatter it. Written by one thread before it is read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	BLOCKS_SIZE = 64, /* coefficients */
	BLOCKS_ALIGN = 64, /* bytes, of every block */
	BLOCKS_COMPONENTS = 3,
	BLOCKS_IN_MCU = 10, /* T.81, B.2.3 */
	BLOCKS_DC = 2048,
	BLOCKS_AC = 1023,
};

struct blocks_component {
	uint8_t h, v; /* blocks of an MCU across and down; 1 and 1 in a gray image */
	uint8_t first; /* the index of its first block in the MCU */
	uint32_t width, height; /* samples of the whole image; the blocks may have more */
	/* The blocks that are wanted, counted from the image's corner: those under the crop and
	 * those that fancy upsampling reads. */
	uint32_t x0, y0, x1, y1;
};

struct blocks {
	int16_t *coefficients; /* aligned to BLOCKS_ALIGN */
	const uint32_t *where; /* [rows][columns]: number of an MCU's first block */
	uint32_t mcu_x0, mcu_y0; /* the MCU of where[0][0], counted from the image's corner */
	uint32_t columns, rows; /* MCUs */
	unsigned components; /* 1 or 3 */
	unsigned in_mcu; /* blocks of an MCU */
	struct blocks_component component[BLOCKS_COMPONENTS];
};

/* The block of a component at column x, row y of its grid; it must be one that is wanted. */
static inline const int16_t *blocks_at(
	const struct blocks *blocks, unsigned component, uint32_t x, uint32_t y)
{
	const struct blocks_component *c = &blocks->component[component];
	size_t row = y / c->v - blocks->mcu_y0, column = x / c->h - blocks->mcu_x0;
	size_t block = (size_t)blocks->where[row * blocks->columns + column] + c->first +
		       (y % c->v) * c->h + x % c->h;
	return blocks->coefficients + block * BLOCKS_SIZE;
}
