/* gpu: the application's side of the fake driver: loads it, has a context and CUDA streams of its
 * own as a framework would, memory, and looks at what is in it. For one process that fake_check
 * forked. Whatever fails here fails the test. */
#pragma once

#include "client/cuda/driver.h"
#include "cuda/fake_driver.h"

#include <stddef.h>
#include <stdint.h>

enum { GPU_DEVICES = 2 };

struct gpu {
	const struct fake_cuda *fake;
	struct driver driver;
	CUresult(CUDAAPI *copy_back)(void *to, CUdeviceptr from, size_t bytes);
	CUresult(CUDAAPI *copy_back_async)(
		void *to, CUdeviceptr from, size_t bytes, CUstream stream);
	CUcontext context[GPU_DEVICES];
};

#define GPU_WANT(call) FAKE_WANT((call) == CUDA_SUCCESS)

/* Loads the driver, and nothing else: for fake->configure and the like. */
void gpu_load(struct gpu *gpu);
/* After that: initializes, retains the contexts, and makes that of device 0 current. */
void gpu_begin(struct gpu *gpu);
/* Undoes gpu_begin; then nothing may be left and no rule have been broken. */
void gpu_end(struct gpu *gpu);
/* Nothing may be left but what gpu_begin made. */
void gpu_want_clean(struct gpu *gpu);
/* Waits until all streams are idle. */
void gpu_settle(const struct gpu *gpu);

CUdeviceptr gpu_room(struct gpu *gpu, size_t bytes);
CUstream gpu_stream(struct gpu *gpu);
CUevent gpu_event(struct gpu *gpu);
/* The same bytes, floats too. */
void gpu_want_same(const void *got, const void *wanted, size_t bytes);
/* Device memory after all that was queued in `stream` so far; the caller frees. */
void *gpu_look(struct gpu *gpu, CUstream stream, const void *from, size_t bytes);
