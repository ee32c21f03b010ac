/* erase: OP_ERASE on a finished row, in the units of the row.
 *
 * All other ops work on uint8 images before the row is converted. This one comes after the
 * conversion, as RandomErasing follows ToTensor and Normalize in torchvision's recipes. It changes
 * only the row; any thread. */
#pragma once

#include "augment/op.h"
#include "pixel/pixel.h"
#include "proto/slots.h"

/* The form of a row. */
struct erase_row {
	enum slots_pixel_type type; /* SLOTS_U8, _F32, _F16, _BF16 */
	enum slots_pixel_layout layout;
	uint32_t width, height;
};

/* Fills the box of `op` (an OP_ERASE whose box is inside the row). It rounds a value to the
 * row's type, halves to even, and clips it to 0 .. 255 in a row of bytes. With box.noise each
 * value is standard normal instead: proto/erase.h draws it for that pixel and `key`, and it is
 * rounded to the row's type (reading a list refuses noise for rows of bytes). `pixels` is
 * aligned to a value. */
void op_erase(const struct op *op, const struct erase_row *row, const struct pixel_key *key,
	void *pixels);
