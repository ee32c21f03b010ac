/* driver: the functions of the CUDA driver that this library calls, looked up at run time.
 *
 * A map of this folder:
 *   cuda.c            the public functions of penstock/cuda.h, except those in leave.c and
 *                     launch.c
 *   leave.c           penstock_cuda_detach_within
 *   launch.c          the public functions that queue work in the application's CUDA streams
 *   attachment.[ch]   struct penstock_cuda, and what cuda.c and launch.c share
 *   pump.[ch]         the thread: stream -> copies -> buffers; returns slots
 *   pump_door.c       what the application's thread calls of the pump
 *   tap.[ch]          the stream, which both threads use
 *   buffer.[ch]       the batches on the device, and who owns each of them
 *   memory.[ch]       how the device reads the daemon's memory: registered, or through a pinned
 *                     ring
 *   ring.[ch]         that ring
 *   waiting.[ch]      how long penstock_cuda_next waited, and for what
 *   stall.[ch]        how long the application's CUDA streams waited for copies
 *   mix.[ch]          what is done to each row
 *   device.[ch]       the device, its context, the loaded kernels
 *   kernels.h, kernels.c, kernels.cu, kernels_image.c
 *                     the kernels, and how they are launched
 *   driver.[ch]       this
 *   sentence.[ch]     the text of penstock_error()
 *
 * Nothing links libcuda.so.1 or the runtime: so a program can start without a driver, and can
 * use any version of the runtime in the same process. Names and types are those of the oldest
 * version of each function, which every driver exports forever; cuda.h renames some to newer
 * versions, which must not happen here. Thread: any. */
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

/* X(name, symbol, type) */
#define DRIVER_FUNCTIONS(X)                                                                   \
	X(get_error_name, "cuGetErrorName", PFN_cuGetErrorName_v6000)                         \
	X(get_error_string, "cuGetErrorString", PFN_cuGetErrorString_v6000)                   \
	X(init, "cuInit", PFN_cuInit_v2000)                                                   \
	X(driver_get_version, "cuDriverGetVersion", PFN_cuDriverGetVersion_v2020)             \
	X(device_get_count, "cuDeviceGetCount", PFN_cuDeviceGetCount_v2000)                   \
	X(device_get, "cuDeviceGet", PFN_cuDeviceGet_v2000)                                   \
	X(device_get_name, "cuDeviceGetName", PFN_cuDeviceGetName_v2000)                      \
	X(device_get_attribute, "cuDeviceGetAttribute", PFN_cuDeviceGetAttribute_v2000)       \
	X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", PFN_cuDevicePrimaryCtxRetain_v7000) \
	X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2",                                \
		PFN_cuDevicePrimaryCtxRelease_v11000)                                         \
	X(ctx_push, "cuCtxPushCurrent_v2", PFN_cuCtxPushCurrent_v4000)                        \
	X(ctx_pop, "cuCtxPopCurrent_v2", PFN_cuCtxPopCurrent_v4000)                           \
	X(ctx_synchronize, "cuCtxSynchronize", PFN_cuCtxSynchronize_v2000)                    \
	X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode",                  \
		PFN_cuThreadExchangeStreamCaptureMode_v10010)                                 \
	X(module_load_data, "cuModuleLoadData", PFN_cuModuleLoadData_v2000)                   \
	X(module_unload, "cuModuleUnload", PFN_cuModuleUnload_v2000)                          \
	X(module_get_function, "cuModuleGetFunction", PFN_cuModuleGetFunction_v2000)          \
	X(mem_get_info, "cuMemGetInfo_v2", PFN_cuMemGetInfo_v3020)                            \
	X(mem_alloc, "cuMemAlloc_v2", PFN_cuMemAlloc_v3020)                                   \
	X(mem_free, "cuMemFree_v2", PFN_cuMemFree_v3020)                                      \
	X(mem_host_alloc, "cuMemHostAlloc", PFN_cuMemHostAlloc_v2020)                         \
	X(mem_free_host, "cuMemFreeHost", PFN_cuMemFreeHost_v2000)                            \
	X(mem_host_register, "cuMemHostRegister_v2", PFN_cuMemHostRegister_v6050)             \
	X(mem_host_unregister, "cuMemHostUnregister", PFN_cuMemHostUnregister_v4000)          \
	X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2", PFN_cuMemcpyHtoDAsync_v3020)             \
	X(stream_create, "cuStreamCreate", PFN_cuStreamCreate_v2000)                          \
	X(stream_destroy, "cuStreamDestroy_v2", PFN_cuStreamDestroy_v4000)                    \
	X(stream_synchronize, "cuStreamSynchronize", PFN_cuStreamSynchronize_v2000)           \
	X(stream_wait_event, "cuStreamWaitEvent", PFN_cuStreamWaitEvent_v3020)                \
	X(stream_is_capturing, "cuStreamIsCapturing", PFN_cuStreamIsCapturing_v10000)         \
	X(event_create, "cuEventCreate", PFN_cuEventCreate_v2000)                             \
	X(event_destroy, "cuEventDestroy_v2", PFN_cuEventDestroy_v4000)                       \
	X(event_record, "cuEventRecord", PFN_cuEventRecord_v2000)                             \
	X(event_query, "cuEventQuery", PFN_cuEventQuery_v2000)                                \
	X(event_synchronize, "cuEventSynchronize", PFN_cuEventSynchronize_v2000)              \
	X(event_elapsed_time, "cuEventElapsedTime", PFN_cuEventElapsedTime_v2000)             \
	X(launch_kernel, "cuLaunchKernel", PFN_cuLaunchKernel_v4000)

struct driver {
#define DRIVER_MEMBER(name, symbol, type) type name;
	DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Loads and initializes the driver once per process. 0; -ENODEV with a sentence: no
 * libcuda.so.1, or no device; -ENOTSUP: the driver lacks a function (which the sentence names)
 * or is too old. */
int driver_get(const struct driver **ret_driver);

/* Sets the error sentence: the call, CUDA's name and text for `result`, and what to do (NULL:
 * the usual advice for that result). Returns the errno for it: -ENOMEM, -ENODEV, -ENOTSUP,
 * -EIO... `call` reads like "cuMemAlloc of 115605504 bytes". */
int driver_fail(const struct driver *driver, CUresult result, const char *advice, const char *call,
	...) __attribute__((format(printf, 4, 5)));
