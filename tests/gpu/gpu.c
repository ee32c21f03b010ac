/* gpu: see gpu.h. */
#include "tests/gpu/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void __attribute__((format(printf, 2, 0)))
gpu_say(const char *word, const char *format, va_list arguments)
{
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s: ", word);
	(void)vfprintf(stderr, format, arguments);
	(void)fputc('\n', stderr);
}

noreturn void gpu_fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	gpu_say("FAILED", format, arguments);
	va_end(arguments);
	exit(1);
}

noreturn void gpu_skip(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	gpu_say("skipped", format, arguments);
	va_end(arguments);
	exit(GPU_SKIP);
}

void gpu_must(const struct gpu *gpu, const char *call, CUresult result)
{
	const char *name = NULL, *words = NULL;

	if (result == CUDA_SUCCESS)
		return;
	(void)gpu->get_error_name(result, &name);
	(void)gpu->get_error_string(result, &words);
	gpu_fail("%s: %s (%s)", call, name ? name : "an unknown error", words ? words : "no words");
}

void gpu_done(const char *call, int result)
{
	if (result != 0)
		gpu_fail("%s returned %d: %s", call, result, penstock_error());
}

uint64_t gpu_number(const char *text)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value == 0)
		gpu_fail("%s: expected a number from 1 on", text);
	return value;
}

uint64_t gpu_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void gpu_load(struct gpu *gpu)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		gpu_skip("this needs a GPU and its driver: %s", dlerror());
#define GPU_LOAD(member, symbol, type)                   \
	*(void **)&gpu->member = dlsym(library, symbol); \
	if (!gpu->member)                                \
		gpu_fail("this driver has no %s: it is older than CUDA 11", symbol);
	GPU_FUNCTIONS(GPU_LOAD)
#undef GPU_LOAD
}

const struct gpu *gpu_open(void)
{
	static struct gpu gpu;
	CUcontext context;
	int count = 0;

	gpu_load(&gpu);
	CUresult result = gpu.init(0);
	if (result == CUDA_SUCCESS)
		result = gpu.device_get_count(&count);
	if (result != CUDA_SUCCESS || count == 0)
		gpu_skip("this needs a GPU: the driver finds none (CUresult %d)", (int)result);
	gpu_must(&gpu, "cuDeviceGet", gpu.device_get(&gpu.device, 0));
	gpu_must(&gpu, "cuDeviceGetName",
		gpu.device_get_name(gpu.name, sizeof gpu.name, gpu.device));
	gpu_must(&gpu, "cuDevicePrimaryCtxRetain", gpu.primary_ctx_retain(&context, gpu.device));
	gpu_must(&gpu, "cuCtxPushCurrent", gpu.ctx_push(context));
	return &gpu;
}

void gpu_close(const struct gpu *gpu)
{
	CUcontext context;
	gpu_must(gpu, "cuCtxPopCurrent", gpu->ctx_pop(&context));
	gpu_must(gpu, "cuDevicePrimaryCtxRelease", gpu->primary_ctx_release(gpu->device));
}

bool gpu_feed_open(struct gpu_feed *feed, const struct penstock_options *options,
	const struct penstock_cuda_options *cuda_options)
{
	gpu_done("penstock_stream_open", penstock_stream_open(options, &feed->stream));
	penstock_stream_info(feed->stream, &feed->info);
	int result = penstock_cuda_attach(feed->stream, cuda_options, &feed->cuda);
	if (result == -ENOTSUP)
		penstock_stream_close(feed->stream);
	else
		gpu_done("penstock_cuda_attach", result);
	return result == 0;
}

void gpu_feed_close(struct gpu_feed *feed)
{
	penstock_cuda_detach(feed->cuda);
	penstock_stream_close(feed->stream);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double gpu_median(double *values, uint64_t count)
{
	qsort(values, count, sizeof *values, by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- where memory is ---- */

static int node_attribute(const struct gpu *gpu, CUdevice_attribute which)
{
	int value = 0;
	return gpu->device_get_attribute(&value, which, gpu->device) == CUDA_SUCCESS ? value : 0;
}

int gpu_node(const struct gpu *gpu)
{
	char path[96], text[16] = "";
	(void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
		(unsigned)node_attribute(gpu, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
		(unsigned)node_attribute(gpu, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
		(unsigned)node_attribute(gpu, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
	FILE *file = fopen(path, "re");
	bool read = file && fgets(text, sizeof text, file);
	if (file)
		(void)fclose(file);
	return read ? (int)strtol(text, NULL, 10) : -1;
}

int gpu_node_of(const void *address)
{
	int node = -1;
	long result = syscall(SYS_get_mempolicy, &node, NULL, 0UL, address,
		(unsigned long)(MPOL_F_NODE | MPOL_F_ADDR));
	return result == 0 ? node : -1;
}
