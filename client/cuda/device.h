/* device: the device, its primary context, and the kernels that were loaded into it.
 *
 * The primary context is the one that the CUDA runtime and PyTorch use, so that pointers, streams
 * and events pass between them and this library. It is made current for the length of a call and
 * taken off again: what the application had current stays so. */
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
	int version; /* of CUDA that the driver knows: 12040 */
	uint32_t capability; /* 90 for 9.0 */
	bool registers; /* memory that others made */
	bool registers_read_only; /* also where this process may not write to it */
	bool page_tables; /* reads memory through the processor's page tables */
	char name[DEVICE_NAME_BYTES];
};

/* `wanted` is options.device, `normalise` the kernel's name. Blocks for seconds when it makes the
 * context. 0; -ENODEV; -ENOTSUP; -EINVAL LOCAL_RANK; -ENOMEM; -EIO; -EBADF after fork. */
int device_init(struct device *device, int32_t wanted, const char *normalise);

/* Entered; nothing of the kernels may be running. */
void device_unload(struct device *device);

/* Outside of device_enter. Takes a zeroed one. */
void device_deinit(struct device *device);

/* Makes the context this thread's current one until device_leave, which wants the thread's mode
 * from before. Not twice. 0, or as of driver_fail. */
int device_enter(const struct device *device, CUstreamCaptureMode *ret_mode);
void device_leave(const struct device *device, CUstreamCaptureMode mode);

/* Pinned host memory; mem_free_host is the caller's. `what` ends the sentence: "for labels".
 * Entered. 0; -ENOMEM; others of driver_fail. */
int device_pin(const struct device *device, size_t bytes, const char *what, void **ret_memory);

/* As driver_fail, for an allocation of `bytes` for `what`: says how much the device has. Entered.
 */
int device_fail_memory(const struct device *device, CUresult result, const char *call, size_t bytes,
	const char *what);
