/* reference: the results of the device's functions, in plain C. The tests compare with them; slow.
 *
 *   v(row, x, y) = erased there ? noise or erase_value : normal(byte at x, or at width - 1 - x
 *                  when the row is flipped)
 *   out(row, x, y) = in the row's cut ? v(partner, x, y)
 *                  : partner_blend != 0 ? blend v(row, x, y) + partner_blend v(partner, x, y)
 *                  : v(row, x, y)
 *   normal(b) = (b / 255 - mean) / std
 *
 * Each operation is rounded to float32, as numpy and PyTorch do it one after the other, and the
 * result once more to a shorter type, to the nearest, ties to even. Only a row with
 * PENSTOCK_CUDA_ROW_MIXED has a partner and a cut.
 *
 * Noise of the pixel at y * width + x: the draw of philox_draw(seed, epoch, position,
 * PHILOX_BATCH_NOISE, pixel), where the bits of a pixel number above 16 are above the
 * operation's low 8 bits. From its words w: u = w 2^-32 + 2^-33 in float32, angle t = w 2^-31
 * pi, and by Box and Muller r(w0) cos t(w1), r(w0) sin t(w1), r(w2) cos t(w3), r = sqrt(-2 log
 * u). */
#pragma once

#include "client/cuda/kernels.h"

#include <stdbool.h>
#include <stddef.h>

/* All pointers of the arguments are the host's here. It does not read the fields that
 * kernels_normalise_prepare sets. */
void reference_normalise(const struct kernels_normalise *arguments, enum penstock_cuda_dtype dtype,
	enum penstock_cuda_layout layout);
void reference_targets(const struct kernels_targets *arguments);

/* One pixel, before it is rounded to a shorter type. Returns whether the pixel has noise. */
bool reference_pixel(const struct kernels_normalise *arguments, uint32_t row, uint32_t x,
	uint32_t y, float ret_value[3]);

/* Bytes of a value; and the index of a pixel's value in the row's part of `out`. */
size_t reference_size(enum penstock_cuda_dtype dtype);
size_t reference_index(const struct kernels_normalise *arguments, enum penstock_cuda_layout layout,
	uint32_t x, uint32_t y, uint32_t channel);

uint16_t reference_float16(float value);
uint16_t reference_bfloat16(float value);
/* The value number `index` of an array of that type, widened. */
float reference_read(const void *values, size_t index, enum penstock_cuda_dtype dtype);
