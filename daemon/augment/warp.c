/* warp: see warp.h. */
#include "augment/warp.h"

#include <assert.h>
#include <string.h>

static void warp_mirror(const struct op_image *from, uint8_t *to)
{
	for (uint32_t y = 0; y < from->height; y++) {
		const uint8_t *row = from->pixels + (size_t)3 * from->width * y;
		for (uint32_t x = from->width; x-- > 0; to += 3)
			memcpy(to, row + (size_t)3 * x, 3);
	}
}

static void warp_upside_down(const struct op_image *from, uint8_t *to)
{
	size_t row = (size_t)3 * from->width;
	for (uint32_t y = from->height; y-- > 0; to += row)
		memcpy(to, from->pixels + row * y, row);
}

uint64_t warp_scratch(uint32_t side)
{
	(void)side;
	return 0;
}

void warp_apply(const struct apply *apply, const struct op *op, const struct op_image *from,
	uint8_t *to)
{
	(void)apply;
	switch (op->kind) {
	case OP_FLIP_HORIZONTAL:
		warp_mirror(from, to);
		break;
	case OP_FLIP_VERTICAL:
		warp_upside_down(from, to);
		break;
	default:
		assert(!"an op that moves pixels");
	}
}
