/* device: the device, its primary context, and the kernels loaded into it.
 *
 * The CUDA runtime and PyTorch use the primary context, so pointers, streams and events can pass
 * between them and this library. Each call makes it current and then restores the application's
 * current context. */
#pragma once

#include "client/cuda/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEVICE_NAME_BYTES = 128 };

struct device {
	const struct driver *driver;
	int32_t ordinal;
	CUdevice handle;
	CUcontext context; /* retained */
	CUmodule module;
	CUfunction normalise, targets;
	int version; /* CUDA version of the driver: 12040 */
	uint32_t capability; /* compute capability: 90 for 9.0 */
	bool registers; /* can register memory that others allocated */
	bool registers_read_only; /* also memory that this process may not write to */
	bool page_tables; /* reads memory through the CPU's page tables */
	char name[DEVICE_NAME_BYTES];
};

/* `wanted` is options.device, `normalise` the name of the kernel. Blocks for seconds if it
 * creates the context. 0; -ENODEV; -ENOTSUP; -EINVAL: LOCAL_RANK; -ENOMEM; -EIO; -EBADF: after
 * fork. */
int device_init(struct device *device, int32_t wanted, const char *normalise);

/* Device entered; no kernel may be running. */
void device_unload(struct device *device);

/* Not between device_enter and device_leave. Accepts a zeroed device. */
void device_deinit(struct device *device);

/* Makes the context current in this thread until device_leave, which needs the thread's previous
 * mode. Calls do not nest. 0, or as driver_fail. */
int device_enter(const struct device *device, CUstreamCaptureMode *ret_mode);
void device_leave(const struct device *device, CUstreamCaptureMode mode);

/* Allocates pinned host memory; the caller frees it with mem_free_host. `what` ends the error
 * sentence: "for labels". Device entered. 0; -ENOMEM; others as driver_fail. */
int device_pin(const struct device *device, size_t bytes, const char *what, void **ret_memory);

/* As driver_fail, for an allocation of `bytes` for `what`: reports how much memory the device has.
 * Device entered. */
int device_fail_memory(const struct device *device, CUresult result, const char *call, size_t bytes,
	const char *what);
