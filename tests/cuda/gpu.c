/* gpu: see gpu.h. */
#include "cuda/gpu.h"

#include "client/fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In C, dlsym returns a pointer to data. */
static void gpu_find(void *library, const char *symbol, void *ret_function)
{
	void *found = dlsym(library, symbol);
	if (!found)
		(void)fprintf(stderr, "the fake driver has no %s\n", symbol);
	FAKE_WANT(found);
	memcpy(ret_function, &found, sizeof found);
}

void gpu_load(struct gpu *gpu)
{
	fake_cuda_get *get;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		(void)fprintf(stderr, "%s\n", dlerror());
	FAKE_WANT(library);
	memset(gpu, 0, sizeof *gpu);
#define GPU_FIND(name, symbol, type) gpu_find(library, symbol, &gpu->driver.name);
	DRIVER_FUNCTIONS(GPU_FIND)
#undef GPU_FIND
	gpu_find(library, "cuMemcpyDtoH_v2", &gpu->copy_back);
	gpu_find(library, "cuMemcpyDtoHAsync_v2", &gpu->copy_back_async);
	gpu_find(library, "fake_cuda", &get);
	gpu->fake = get();
}

void gpu_begin(struct gpu *gpu)
{
	int devices;
	GPU_WANT(gpu->driver.init(0));
	GPU_WANT(gpu->driver.device_get_count(&devices));
	for (int i = 0; i < devices && i < GPU_DEVICES; i++)
		GPU_WANT(gpu->driver.primary_ctx_retain(&gpu->context[i], i));
	GPU_WANT(gpu->driver.ctx_push(gpu->context[0]));
}

void gpu_want_clean(struct gpu *gpu)
{
	struct fake_cuda_use use;
	gpu->fake->use(&use);
	unsigned contexts = 0;
	for (int i = 0; i < GPU_DEVICES; i++)
		contexts += gpu->context[i] != NULL;
	FAKE_WANT(use.device_bytes == 0 && use.allocations == 0);
	FAKE_WANT(use.pinned_bytes == 0);
	FAKE_WANT(use.registrations == 0);
	FAKE_WANT(use.streams == 0 && use.events == 0);
	FAKE_WANT(use.modules == 0);
	FAKE_WANT(use.contexts == contexts);
	FAKE_WANT(gpu->fake->faults() == 0);
}

void gpu_end(struct gpu *gpu)
{
	CUcontext current;
	gpu_want_clean(gpu);
	FAKE_WANT(gpu->driver.ctx_pop(&current) == CUDA_SUCCESS && current == gpu->context[0]);
	for (int i = 0; i < GPU_DEVICES; i++)
		if (gpu->context[i])
			GPU_WANT(gpu->driver.primary_ctx_release(i));
	FAKE_WANT(gpu->fake->faults() == 0 && gpu->fake->leaks() == 0);
}

void gpu_settle(const struct gpu *gpu)
{
	struct fake_cuda_use use;
	for (gpu->fake->use(&use); !use.idle; gpu->fake->use(&use))
		(void)usleep(1000);
}

CUdeviceptr gpu_room(struct gpu *gpu, size_t bytes)
{
	CUdeviceptr room;
	GPU_WANT(gpu->driver.mem_alloc(&room, bytes));
	return room;
}

CUstream gpu_stream(struct gpu *gpu)
{
	CUstream stream;
	GPU_WANT(gpu->driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUevent gpu_event(struct gpu *gpu)
{
	CUevent event;
	GPU_WANT(gpu->driver.event_create(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

void gpu_want_same(const void *got, const void *wanted, size_t bytes)
{
	FAKE_WANT(memcmp(got, wanted, bytes) == 0);
}

void *gpu_look(struct gpu *gpu, CUstream stream, const void *from, size_t bytes)
{
	void *copy = malloc(bytes);
	FAKE_WANT(copy);
	GPU_WANT(gpu->copy_back_async(copy, (CUdeviceptr)(uintptr_t)from, bytes, stream));
	GPU_WANT(gpu->driver.stream_synchronize(stream));
	return copy;
}
