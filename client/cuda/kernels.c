/* kernels: names, launch dimensions and constants of the kernels; see kernels.h. Thread: any. */
#include "client/cuda/kernels.h"

#include "proto/philox.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static_assert((int)KERNELS_NOISE == (int)PHILOX_BATCH_NOISE, "one numbering of operations");

static uint32_t kernels_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* Whether the device's two operations give what dividing gives, for each byte there is. That they
 * do for nearly every divisor is shown by Brisebarre, Muller and Raina ("Accelerating correctly
 * rounded floating-point division when the divisor is known in advance", IEEE Transactions on
 * Computers 53 (8), 2004); near the ends of float32's range they do not. */
static bool kernels_reciprocal_is_exact(float mean, float std, float reciprocal, float residual)
{
	for (int byte = 0; byte < 256; byte++) {
		float centred = (float)byte / 255.0f - mean;
		float product = fmaf(centred, reciprocal, centred * residual);
		if (kernels_bits(product) != kernels_bits(centred / std))
			return false;
	}
	return true;
}

void kernels_normalise_prepare(struct kernels_normalise *arguments)
{
	arguments->divide = 0;
	for (int c = 0; c < 3; c++) {
		float std = arguments->std[c], reciprocal = 1.0f / std;
		/* The product of two floats is exact in double, and so is the difference. */
		float residual = (float)((1.0 - (double)reciprocal * (double)std) / (double)std);
		arguments->reciprocal[c] = reciprocal;
		arguments->residual[c] = residual;
		if (!kernels_reciprocal_is_exact(arguments->mean[c], std, reciprocal, residual))
			arguments->divide = 1;
	}
}

const char *kernels_normalise_name(enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout)
{
	static const char *const names[][2] = {
		[PENSTOCK_CUDA_FLOAT32] = {[PENSTOCK_CUDA_NHWC] = "penstock_normalise_f32_nhwc",
			[PENSTOCK_CUDA_NCHW] = "penstock_normalise_f32_nchw"},
		[PENSTOCK_CUDA_FLOAT16] = {[PENSTOCK_CUDA_NHWC] = "penstock_normalise_f16_nhwc",
			[PENSTOCK_CUDA_NCHW] = "penstock_normalise_f16_nchw"},
		[PENSTOCK_CUDA_BFLOAT16] = {[PENSTOCK_CUDA_NHWC] = "penstock_normalise_bf16_nhwc",
			[PENSTOCK_CUDA_NCHW] = "penstock_normalise_bf16_nchw"},
	};
	return names[dtype][layout];
}

static uint32_t kernels_blocks(uint64_t items, uint32_t each)
{
	return (uint32_t)((items + each - 1) / each);
}

static uint32_t kernels_blocks_y(uint32_t rows)
{
	return rows < KERNELS_GRID_MOST ? rows : KERNELS_GRID_MOST;
}

struct kernels_grid kernels_normalise_grid(const struct kernels_normalise *arguments,
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout)
{
	(void)dtype;
	(void)layout;
	uint64_t pixels = (uint64_t)arguments->height * arguments->width;
	return (struct kernels_grid){
		.blocks_x = kernels_blocks(pixels, KERNELS_SPAN),
		.blocks_y = kernels_blocks_y(arguments->rows),
		.threads = KERNELS_THREADS,
	};
}

struct kernels_grid kernels_targets_grid(const struct kernels_targets *arguments)
{
	return (struct kernels_grid){
		.blocks_x = kernels_blocks(arguments->classes, KERNELS_TARGETS_THREADS),
		.blocks_y = kernels_blocks_y(arguments->rows),
		.threads = KERNELS_TARGETS_THREADS,
	};
}
