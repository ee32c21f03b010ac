/* tiff_rows: a row of a tile or strip, as it is stored, to red, green and blue. Pure. */
#pragma once

#include "decode/types/tiff_directory.h"

struct planes_kernels;

/* Pixels [x, x + count) of a row. plane[p]: the row's first byte in that plane; planes[0] is all of
 * it where samples are not stored separately. */
void tiff_rows_unpack(const struct tiff_layout *layout, const struct planes_kernels *kernels,
	const uint8_t *const plane[TIFF_PLANES], uint32_t x, uint32_t count,
	uint8_t *const rgb[DECODE_PLANES]);
