/* kernels: what the host passes to the device's functions (kernels.cu). Plain C, also compiled by
 * nvcc.
 *
 * The functions, by name, each launched as kernels_grid says with one struct as its only parameter:
 *
 *   penstock_normalise_{f32,f16,bf16}_{nhwc,nchw}   struct kernels_normalise
 *   penstock_targets                                struct kernels_targets
 *
 * What they compute is defined by tests/cuda/reference.c, in plain C, bit for bit but for noise
 * (whose logarithm and cosine are the device's). */
#pragma once

#include "penstock/cuda.h"

#include <stdint.h>

struct kernels_normalise {
	const uint8_t *images; /* device, aligned to 16 bytes; (rows, height, width, 3) */
	const struct penstock_cuda_row *row; /* device; of all rows that these name as partners */
	void *out; /* device, aligned to 16 bytes; rows from `rows` on are left alone */
	uint32_t rows, height, width;
	uint32_t erase_random;
	float mean[3], std[3], erase_value[3];
	uint32_t key[2]; /* of the noise: the stream's seed, its low word first */
	/* By kernels_normalise_prepare: 1 / std in two floats, and whether multiplying by them
	 * fails to give the quotient's own rounding, so that the device has to divide. */
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

/* How kernels.cu shares the work out. */
enum {
	KERNELS_THREADS = 192, /* of a block that normalises; a multiple of 3, so that a thread
				  that walks over an image in steps of this many units of values
				  stays with its channels */
	KERNELS_SPAN = 8 * KERNELS_THREADS, /* pixels of one row that a block does at a time */
	KERNELS_BLOCKS = 5, /* that a multiprocessor has at once: 64 registers for each thread */
	KERNELS_TARGETS_THREADS = 128,
	KERNELS_GRID_MOST = 65535, /* blocks in y: what devices allow; they go on from there */
	KERNELS_NOISE = 8, /* PHILOX_BATCH_NOISE of proto/philox.h, which the device does not see */
};

struct kernels_grid {
	uint32_t blocks_x, blocks_y, threads, shared_bytes;
};

/* Sets reciprocal, residual and divide from mean and std: once per attachment. Tries all 256 bytes
 * in all channels. */
void kernels_normalise_prepare(struct kernels_normalise *arguments);

const char *kernels_normalise_name(
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout);
struct kernels_grid kernels_normalise_grid(const struct kernels_normalise *arguments,
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout);
struct kernels_grid kernels_targets_grid(const struct kernels_targets *arguments);

/* The compiled functions, for cuModuleLoadData: a fatbin of all architectures. */
extern const unsigned char kernels_image[];
/* What built them: 13000 for CUDA 13.0. */
extern const int kernels_cuda_version;
