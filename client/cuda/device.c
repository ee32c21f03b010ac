/* device: see device.h. Thread: that which attaches and detaches; entering and leaving any. */
#include "client/cuda/device.h"

#include "client/cuda/kernels.h"
#include "client/cuda/sentence.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_ADVICE_BYTES = 400 };

/* ---- which ---- */

static int device_local_rank(int32_t *ret_ordinal)
{
	const char *text = getenv("LOCAL_RANK");
	char *end = NULL;
	if (!text || !*text) {
		*ret_ordinal = 0;
		return 0;
	}
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || value > INT32_MAX)
		return sentence_set(-EINVAL,
			"LOCAL_RANK is \"%s\": expected the number of this process on its machine, "
			"as torchrun sets it, or options.device to name the device",
			text);
	*ret_ordinal = (int32_t)value;
	return 0;
}

static int device_check_count(const struct device *device, bool from_rank)
{
	int count = 0;
	CUresult r = device->driver->device_get_count(&count);
	if (r != CUDA_SUCCESS)
		return driver_fail(device->driver, r, NULL, "cuDeviceGetCount");
	if (device->ordinal < count)
		return 0;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	return sentence_set(-ENODEV,
		"there is no device %d (%s): this process sees %d, numbered from 0 "
		"(CUDA_VISIBLE_DEVICES is %s)%s",
		device->ordinal, from_rank ? "LOCAL_RANK" : "options.device", count,
		visible ? visible : "not set",
		from_rank ? "; where each process is shown a device of its own, set "
			    "options.device to 0"
			  : "");
}

static int device_pick(struct device *device, int32_t wanted)
{
	int result = 0;
	device->ordinal = wanted;
	if (wanted < 0)
		result = device_local_rank(&device->ordinal);
	return result < 0 ? result : device_check_count(device, wanted < 0);
}

/* ---- what it is ---- */

static int device_ask(const struct device *device, CUdevice_attribute attribute, int *ret_value)
{
	CUresult r = device->driver->device_get_attribute(ret_value, attribute, device->handle);
	/* A driver from before the attribute calls it an invalid value: it cannot do it, then. */
	if (r == CUDA_ERROR_INVALID_VALUE) {
		*ret_value = 0;
		return 0;
	}
	return r == CUDA_SUCCESS ? 0
				 : driver_fail(device->driver, r, NULL,
					   "cuDeviceGetAttribute of %d", (int)attribute);
}

static int device_ask_all(struct device *device)
{
	int major = 0, minor = 0, registers = 0, read_only = 0, tables = 0;
	const struct {
		CUdevice_attribute attribute;
		int *value;
	} questions[] = {
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
		{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &registers},
		{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, &read_only},
		{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, &tables},
	};
	int result = 0;
	for (size_t i = 0; i < sizeof questions / sizeof *questions && result == 0; i++)
		result = device_ask(device, questions[i].attribute, questions[i].value);
	device->capability = (uint32_t)(major * 10 + minor);
	device->registers = registers;
	device->registers_read_only = read_only;
	device->page_tables = tables;
	return result;
}

static int device_describe(struct device *device)
{
	const struct driver *driver = device->driver;
	CUresult r = driver->device_get(&device->handle, device->ordinal);
	if (r == CUDA_SUCCESS)
		r = driver->device_get_name(device->name, sizeof device->name, device->handle);
	if (r == CUDA_SUCCESS)
		r = driver->driver_get_version(&device->version);
	return r == CUDA_SUCCESS
		       ? device_ask_all(device)
		       : driver_fail(driver, r, NULL, "asking for device %d", device->ordinal);
}

/* ---- its kernels ---- */

static int device_fail_load(const struct device *device, CUresult r)
{
	char advice[DEVICE_ADVICE_BYTES];
	(void)snprintf(advice, sizeof advice,
		"%s has compute capability %u.%u and a driver of CUDA %d.%d, and this library's "
		"kernels were built by CUDA %d.%d: update the driver, or build the library with "
		"CUDA 12.8 or 12.9 (for this device: PENSTOCK_CUDA_ARCHITECTURES=%u)",
		device->name, device->capability / 10, device->capability % 10,
		device->version / 1000, device->version % 1000 / 10, kernels_cuda_version / 1000,
		kernels_cuda_version % 1000 / 10, device->capability);
	bool too_new = driver_fail(device->driver, r, NULL, "cuModuleLoadData") == -ENOTSUP;
	return driver_fail(
		device->driver, r, too_new ? advice : NULL, "cuModuleLoadData of the kernels");
}

static int device_find(const struct device *device, const char *name, CUfunction *ret_function)
{
	CUresult r = device->driver->module_get_function(ret_function, device->module, name);
	return r == CUDA_SUCCESS
		       ? 0
		       : driver_fail(device->driver, r, NULL, "cuModuleGetFunction of %s", name);
}

static int device_load(struct device *device, const char *normalise)
{
	CUresult r = device->driver->module_load_data(&device->module, kernels_image);
	if (r != CUDA_SUCCESS) {
		device->module = NULL;
		return device_fail_load(device, r);
	}
	int result = device_find(device, normalise, &device->normalise);
	return result < 0 ? result : device_find(device, "penstock_targets", &device->targets);
}

/* ---- life ---- */

static int device_retain(struct device *device)
{
	CUresult r = device->driver->primary_ctx_retain(&device->context, device->handle);
	if (r == CUDA_SUCCESS)
		return 0;
	device->context = NULL;
	return driver_fail(device->driver, r,
		r == CUDA_ERROR_UNKNOWN
			? "is it closed to all processes (nvidia-smi -q -d COMPUTE: mode "
			  "Prohibited)? Otherwise it is itself in trouble: see the kernel's log "
			  "(dmesg, Xid)"
			: NULL,
		"cuDevicePrimaryCtxRetain of device %d (%s)", device->ordinal, device->name);
}

static int device_open(struct device *device, int32_t wanted, const char *normalise)
{
	CUstreamCaptureMode mode;
	int result = device_pick(device, wanted);
	if (result == 0)
		result = device_describe(device);
	if (result == 0)
		result = device_retain(device);
	if (result == 0)
		result = device_enter(device, &mode);
	if (result < 0)
		return result;
	result = device_load(device, normalise);
	if (result < 0)
		device_unload(device);
	device_leave(device, mode);
	return result;
}

int device_init(struct device *device, int32_t wanted, const char *normalise)
{
	*device = (struct device){0};
	int result = driver_get(&device->driver);
	if (result < 0)
		return result;
	result = device_open(device, wanted, normalise);
	if (result < 0)
		device_deinit(device);
	return result;
}

void device_unload(struct device *device)
{
	if (device->module)
		(void)device->driver->module_unload(device->module);
	device->module = NULL;
}

void device_deinit(struct device *device)
{
	/* Still loaded where the context could not be entered: the application may be in it. */
	device_unload(device);
	if (device->context)
		(void)device->driver->primary_ctx_release(device->handle);
	*device = (struct device){0};
}

int device_enter(const struct device *device, CUstreamCaptureMode *ret_mode)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	*ret_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUresult r = device->driver->ctx_push(device->context);
	if (r != CUDA_SUCCESS)
		return driver_fail(device->driver, r, NULL, "cuCtxPushCurrent");
	/* Where this fails, calls go on as the thread's mode has them. */
	if (device->driver->thread_exchange_capture_mode(&mode) == CUDA_SUCCESS)
		*ret_mode = mode;
	return 0;
}

void device_leave(const struct device *device, CUstreamCaptureMode mode)
{
	CUcontext context;
	(void)device->driver->thread_exchange_capture_mode(&mode);
	(void)device->driver->ctx_pop(&context);
}

int device_fail_memory(const struct device *device, CUresult result, const char *call, size_t bytes,
	const char *what)
{
	size_t free_bytes = 0, total_bytes = 0;
	char advice[DEVICE_ADVICE_BYTES];
	bool known = device->driver->mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS;
	(void)snprintf(advice, sizeof advice,
		"device %d (%s) has %zu of %zu bytes free: lower prefetch or the batch size, or "
		"see "
		"what else uses the device (nvidia-smi)",
		device->ordinal, device->name, free_bytes, total_bytes);
	return driver_fail(device->driver, result,
		known && result == CUDA_ERROR_OUT_OF_MEMORY ? advice : NULL,
		"%s of %zu bytes for %s", call, bytes, what);
}

int device_pin(const struct device *device, size_t bytes, const char *what, void **ret_memory)
{
	void *memory = NULL;
	CUresult r = device->driver->mem_host_alloc(&memory, bytes, 0);
	if (r != CUDA_SUCCESS)
		return driver_fail(device->driver, r,
			r == CUDA_ERROR_OUT_OF_MEMORY
				? "the host has no more memory that can be pinned: free some"
				: NULL,
			"cuMemHostAlloc of %zu bytes %s", bytes, what);
	*ret_memory = memory;
	return 0;
}
