/* kernels: what the host passes to the kernels (kernels.cu). Plain C that nvcc compiles, too.
 *
 * The kernels by name; kernels_grid gives the launch dimensions, and one struct is the only
 * parameter:
 *
 *   penstock_normalise_{f32,f16,bf16}_{nhwc,nchw}   struct kernels_normalise
 *   penstock_targets                                struct kernels_targets
 *
 * tests/cuda/reference.c defines in plain C what they compute, bit for bit except for noise, whose
 * logarithm and cosine are the device's. */
#pragma once

#include "penstock/cuda.h"

#include <stdint.h>

struct kernels_normalise {
	const uint8_t *images; /* device, aligned to 16 bytes; (rows, height, width, 3) */
	/* Device, aligned to 16 bytes; all rows that `rows` name as partners. */
	const struct penstock_cuda_row *row;
	void *out; /* device, aligned to 16 bytes; rows from number `rows` on stay unchanged */
	uint32_t rows, height, width;
	uint32_t erase_random;
	float mean[3], std[3], erase_value[3];
	uint32_t key[2]; /* key of the noise: the stream's seed, low word first */
	/* Set by kernels_normalise_prepare: 1 / std as two floats, and whether multiplying by
	 * them does not round like the quotient, so that the device has to divide. */
	float reciprocal[3], residual[3];
	uint32_t divide;
};

struct kernels_targets {
	const int64_t *label; /* device; rows */
	const struct penstock_cuda_row *row; /* device; rows */
	float *out; /* device; (rows, classes) */
	uint32_t rows, classes;
	float smoothing;
};

/* How kernels.cu divides the work. */
enum {
	KERNELS_THREADS = 192, /* of a block that normalises; a multiple of 3, so that a thread
				  that walks over an image in steps of this many units of values
				  stays with its channels */
	KERNELS_SPAN = 8 * KERNELS_THREADS, /* pixels of one row that a block processes at a time */
	KERNELS_BLOCKS = 5, /* blocks per multiprocessor at 64 registers per thread */
	KERNELS_TARGETS_THREADS = 128,
	KERNELS_GRID_MOST =
		/* The most blocks in y that devices allow; a block processes further rows in a
		 * loop. */
	65535,
	KERNELS_NOISE =
		/* PHILOX_BATCH_NOISE of proto/philox.h, which the device code does not include. */
	8,
};

struct kernels_grid {
	uint32_t blocks_x, blocks_y, threads, shared_bytes;
};

/* Sets reciprocal, residual and divide from mean and std, once per attachment. Tries all 256
 * byte values in all channels. */
void kernels_normalise_prepare(struct kernels_normalise *arguments);

const char *kernels_normalise_name(
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout);
struct kernels_grid kernels_normalise_grid(const struct kernels_normalise *arguments,
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout);
struct kernels_grid kernels_targets_grid(const struct kernels_targets *arguments);

/* The compiled kernels, for cuModuleLoadData: a fatbin of all architectures. */
extern const unsigned char kernels_image[];
/* The CUDA version that compiled them: 13000 for CUDA 13.0. */
extern const int kernels_cuda_version;
