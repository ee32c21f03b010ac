/* erase: OP_ERASE on a finished row, in the units of the row.
 *
 * All other ops work on uint8 images before the row is converted. This one comes after the
 * conversion, as RandomErasing follows ToTensor and Normalize in torchvision's recipes. It changes
 * only the row; any thread. */
#pragma once

#include "augment/op.h"
#include "pixel/pixel.h"
#include "proto/slots.h"

/* What a row is. */
struct erase_row {
	enum slots_pixel_type type; /* SLOTS_U8, _F32, _F16, _BF16 */
	enum slots_pixel_layout layout;
	uint32_t width, height;
};

/* Fills the box of `op` (an OP_ERASE whose box lies within the row). A value is rounded to the
 * row's type, halves to even, and clipped to 0 .. 255 in a row of bytes. With box.noise each value
 * is standard normal instead, proto/erase.h's of that pixel and `key`, before it is rounded to the
 * row's type (lists with noise for rows of bytes are refused where they are read). `pixels` is
 * aligned to a value. */
void op_erase(const struct op *op, const struct erase_row *row, const struct pixel_key *key,
	void *pixels);
