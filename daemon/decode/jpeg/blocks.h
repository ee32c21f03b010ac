/* blocks: where the entropy decoder leaves coefficients and the transform finds them.
 *
 * A block is 64 coefficients of int16_t in zigzag order, as they come out of the file: not
 * dequantised, the DC coefficient with its prediction added. Zigzag order lets a lane store with no
 * look-up of its own, and the transform put a whole block in its order with one permutation.
 * Blocks of an MCU lie together: the first component's h x v row by row, then the second's, the
 * third's. MCUs that were decoded in one go (a run, see plan.h) lie together; `where` finds each.
 *
 * What the transform may rely on: every block starts on a cache line, and in a lane's outcome of 0
 * |DC| <= BLOCKS_DC and |AC| <= BLOCKS_AC. What it must judge itself is the product with the
 * quantiser. The place of the last coefficient that is not zero is not kept: the transform sees it
 * in the registers into which it loads the block anyway, while sixteen lanes side by side would
 * have to scatter it. Written by one thread before it is read. */
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
	uint8_t first; /* its first block's place in the MCU */
	uint32_t width, height; /* samples of the whole image; the blocks may go beyond */
	uint32_t x0, y0, x1, y1; /* the blocks that are wanted, counted in blocks from the image's
				    corner: those under the crop and those that fancy upsampling
				    looks at */
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

/* The block of a component at column x, row y of its own grid, which must be one that is wanted. */
static inline const int16_t *blocks_at(
	const struct blocks *blocks, unsigned component, uint32_t x, uint32_t y)
{
	const struct blocks_component *c = &blocks->component[component];
	size_t row = y / c->v - blocks->mcu_y0, column = x / c->h - blocks->mcu_x0;
	size_t block = (size_t)blocks->where[row * blocks->columns + column] + c->first +
		       (y % c->v) * c->h + x % c->h;
	return blocks->coefficients + block * BLOCKS_SIZE;
}
