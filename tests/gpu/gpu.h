/* gpu: code that the programs of this folder share: the driver, a stream of batches, failing.
 *
 *   attach.c    libpenstock_cuda against the host's own batches
 *   rates.c     its copies against the card's rate
 *   kernels.c   the kernels against the CPU's and against the card's memory bandwidth
 *
 * Each is a program for a machine with a GPU; elsewhere it says so, with exit code 77.
 * Everything here ends the program on failure: a test that cannot continue has failed. Thread:
 * one. */
#pragma once

#include "client/cuda/driver.h"
#include "penstock/cuda.h"

#include <stdbool.h>
#include <stdnoreturn.h>

/* Functions besides those that the library itself calls. */
#define GPU_FUNCTIONS(X)                                                          \
	DRIVER_FUNCTIONS(X)                                                       \
	X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", PFN_cuMemcpyDtoHAsync_v3020) \
	X(launch_host_func, "cuLaunchHostFunc", PFN_cuLaunchHostFunc_v10000)

struct gpu {
#define GPU_MEMBER(name, symbol, type) type name;
	GPU_FUNCTIONS(GPU_MEMBER)
#undef GPU_MEMBER
	CUdevice device;
	char name[128];
};

enum { GPU_SKIP = 77 };

/* The driver, with device 0's primary context current, as libpenstock_cuda and PyTorch use it.
 * Ends the program with GPU_SKIP if there is no driver or no device. */
const struct gpu *gpu_open(void);
/* Releases the context, after everything made in it is destroyed. */
void gpu_close(const struct gpu *gpu);

/* Prints one line and ends the program: as failed, or as not possible on this device. */
noreturn void gpu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
noreturn void gpu_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program unless the driver's call succeeded; as gpu_must(gpu, "cuX", gpu->x(...)). */
void gpu_must(const struct gpu *gpu, const char *call, CUresult result);
/* Ends the program unless penstock's call returned 0. */
void gpu_done(const char *call, int result);

/* A number of the command line, 1 or more. */
uint64_t gpu_number(const char *text);
uint64_t gpu_now_ns(void);
/* Sorts the values. */
double gpu_median(double *values, uint64_t count);

/* The NUMA node of the device, and of the page at an address of this process; -1 where the machine
 * does not say. */
int gpu_node(const struct gpu *gpu);
int gpu_node_of(const void *address);

struct gpu_feed {
	struct penstock_stream *stream;
	struct penstock_cuda *cuda;
	struct penstock_stream_info info;
};
/* Opens the stream of `options` and attaches it with `cuda_options`. False, with the sentence in
 * penstock_error() and nothing open, if the device cannot do this (registering). */
bool gpu_feed_open(struct gpu_feed *feed, const struct penstock_options *options,
	const struct penstock_cuda_options *cuda_options);
void gpu_feed_close(struct gpu_feed *feed);
