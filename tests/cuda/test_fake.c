/* The fake CUDA driver itself: that it does what CUDA documents where libpenstock_cuda relies on
 * it, and that it notices what must not be done. */
#include "client/cuda/kernels.h"
#include "client/fake.h"
#include "cuda/gpu.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 4096 };

static struct gpu gpu;
static struct driver *const cu = &gpu.driver;

static void begin(void)
{
	gpu_load(&gpu);
	gpu_begin(&gpu);
}

/* Ends a test that broke a rule on purpose. */
static void want_fault(void)
{
	FAKE_WANT(gpu.fake->faults() > 0);
	gpu.fake->hold(0);
	gpu_settle(&gpu);
	gpu.fake->forgive();
}

static void *pinned(size_t bytes, int byte)
{
	void *memory;
	GPU_WANT(cu->mem_host_alloc(&memory, bytes, 0));
	memset(memory, byte, bytes);
	return memory;
}

static void want_bytes(CUdeviceptr from, int byte)
{
	uint8_t got[BYTES], wanted[BYTES];
	memset(wanted, byte, sizeof wanted);
	GPU_WANT(gpu.copy_back(got, from, sizeof got));
	FAKE_WANT(memcmp(got, wanted, sizeof got) == 0);
}

/* ---- what it does ---- */

/* Nothing happens before its turn; a copy from pinned memory reads it when it runs. */
FAKE_TEST(copies)
{
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUevent event = gpu_event(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	uint8_t *memory = pinned(BYTES, 1);
	GPU_WANT(cu->event_query(event)); /* never recorded */
	GPU_WANT(cu->event_synchronize(event));
	gpu.fake->hold(FAKE_CUDA_COPIES);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, stream));
	GPU_WANT(cu->event_record(event, stream));
	FAKE_WANT(cu->event_query(event) == CUDA_ERROR_NOT_READY);
	memset(memory, 2, BYTES);
	gpu.fake->hold(0);
	GPU_WANT(cu->event_synchronize(event));
	GPU_WANT(cu->event_query(event));
	want_bytes(room, 2);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->mem_free_host(memory));
	GPU_WANT(cu->event_destroy(event));
	GPU_WANT(cu->stream_destroy(stream));
	gpu_end(&gpu);
}

/* A copy from pageable memory has read it when the call returns. */
FAKE_TEST(pageable)
{
	struct fake_cuda_use use;
	uint8_t memory[BYTES];
	memset(memory, 1, sizeof memory);
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	gpu.fake->hold(FAKE_CUDA_COPIES);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, stream));
	memset(memory, 2, sizeof memory);
	gpu.fake->hold(0);
	GPU_WANT(cu->stream_synchronize(stream));
	want_bytes(room, 1);
	gpu.fake->use(&use);
	FAKE_WANT(use.pageable_copies == 1 && use.direct_copies == 0);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->stream_destroy(stream));
	gpu_end(&gpu);
}

/* One stream waits for another's event as it was when the wait was queued. */
FAKE_TEST(waits)
{
	begin();
	CUstream first = gpu_stream(&gpu), second = gpu_stream(&gpu);
	CUevent event = gpu_event(&gpu), done = gpu_event(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	uint8_t *one = pinned(BYTES, 1), *two = pinned(BYTES, 2);
	gpu.fake->delay(2000);
	GPU_WANT(cu->memcpy_htod_async(room, one, BYTES, first));
	GPU_WANT(cu->event_record(event, first));
	GPU_WANT(cu->stream_wait_event(second, event, 0));
	gpu.fake->hold(FAKE_CUDA_KERNELS); /* which are none: the copies go on */
	GPU_WANT(cu->memcpy_htod_async(room, two, BYTES, second));
	GPU_WANT(cu->event_record(event, first));
	GPU_WANT(cu->event_record(done, second));
	GPU_WANT(cu->event_synchronize(done));
	want_bytes(room, 2);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->mem_free_host(one));
	GPU_WANT(cu->mem_free_host(two));
	GPU_WANT(cu->event_destroy(event));
	GPU_WANT(cu->event_destroy(done));
	GPU_WANT(cu->stream_destroy(first));
	GPU_WANT(cu->stream_destroy(second));
	gpu_end(&gpu);
}

/* The default stream and blocking ones wait for each other. */
FAKE_TEST(default)
{
	CUstream stream;
	begin();
	GPU_WANT(cu->stream_create(&stream, CU_STREAM_DEFAULT));
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	uint8_t *one = pinned(BYTES, 1), *two = pinned(BYTES, 2);
	gpu.fake->delay(1000);
	GPU_WANT(cu->memcpy_htod_async(room, one, BYTES, stream));
	GPU_WANT(cu->memcpy_htod_async(room, two, BYTES, NULL));
	GPU_WANT(cu->memcpy_htod_async(room, one, BYTES, stream));
	GPU_WANT(cu->memcpy_htod_async(room, two, BYTES, CU_STREAM_LEGACY));
	want_bytes(room, 2);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->stream_synchronize(NULL));
	GPU_WANT(cu->mem_free_host(one));
	GPU_WANT(cu->mem_free_host(two));
	GPU_WANT(cu->stream_destroy(stream));
	gpu_end(&gpu);
}

FAKE_TEST(elapsed)
{
	float milliseconds = -1;
	CUevent from, to, untimed;
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	uint8_t *one = pinned(BYTES, 1);
	GPU_WANT(cu->event_create(&from, 0));
	GPU_WANT(cu->event_create(&to, 0));
	untimed = gpu_event(&gpu);
	gpu.fake->hold(FAKE_CUDA_COPIES);
	gpu.fake->delay(3000);
	FAKE_WANT(cu->event_elapsed_time(&milliseconds, from, to) == CUDA_ERROR_INVALID_HANDLE);
	GPU_WANT(cu->event_record(from, stream));
	GPU_WANT(cu->event_record(untimed, stream));
	GPU_WANT(cu->memcpy_htod_async(room, one, BYTES, stream));
	GPU_WANT(cu->event_record(to, stream));
	FAKE_WANT(cu->event_elapsed_time(&milliseconds, from, to) == CUDA_ERROR_NOT_READY);
	FAKE_WANT(cu->event_elapsed_time(&milliseconds, untimed, to) == CUDA_ERROR_INVALID_HANDLE);
	gpu.fake->hold(0);
	GPU_WANT(cu->stream_synchronize(stream));
	GPU_WANT(cu->event_elapsed_time(&milliseconds, from, to));
	FAKE_WANT(milliseconds >= 3);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->mem_free_host(one));
	GPU_WANT(cu->event_destroy(from));
	GPU_WANT(cu->event_destroy(to));
	GPU_WANT(cu->event_destroy(untimed));
	GPU_WANT(cu->stream_destroy(stream));
	gpu_end(&gpu);
}

/* Memory of a file, mapped with these rights. */
static void *mapped(int rights)
{
	int fd = memfd_create("fake-registered", MFD_CLOEXEC);
	FAKE_WANT(fd >= 0 && ftruncate(fd, BYTES) == 0);
	void *memory = mmap(NULL, BYTES, rights, MAP_SHARED, fd, 0);
	FAKE_WANT(memory != MAP_FAILED);
	(void)close(fd);
	return memory;
}

FAKE_TEST(registered)
{
	struct fake_cuda_use use;
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *writable = mapped(PROT_READ | PROT_WRITE), *readable = mapped(PROT_READ);
	memset(writable, 7, BYTES);
	FAKE_WANT(cu->mem_host_register(readable, BYTES, 0) == CUDA_ERROR_INVALID_VALUE);
	GPU_WANT(cu->mem_host_register(readable, BYTES, CU_MEMHOSTREGISTER_READ_ONLY));
	GPU_WANT(cu->mem_host_register(writable, BYTES, 0));
	FAKE_WANT(cu->mem_host_register(writable, BYTES, 0) ==
		  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GPU_WANT(cu->memcpy_htod_async(room, writable, BYTES, stream));
	GPU_WANT(cu->stream_synchronize(stream));
	want_bytes(room, 7);
	gpu.fake->use(&use);
	FAKE_WANT(use.registrations == 2 && use.direct_copies == 1 && use.pageable_copies == 0);
	GPU_WANT(cu->mem_host_unregister(writable));
	GPU_WANT(cu->mem_host_unregister(readable));
	FAKE_WANT(cu->mem_host_unregister(readable) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	(void)munmap(writable, BYTES);
	(void)munmap(readable, BYTES);
	GPU_WANT(cu->mem_free(room));
	GPU_WANT(cu->stream_destroy(stream));
	gpu_end(&gpu);
}

FAKE_TEST(configured)
{
	static const struct fake_cuda_settings settings = {
		.devices = 1, .driver_version = 12040, .capability = 75, .memory = 3 * BYTES};
	int value;
	size_t free_bytes, total;
	CUmodule module;
	CUdeviceptr room, more;
	uint32_t image = 0xba55ed50;
	gpu_load(&gpu);
	FAKE_WANT(cu->device_get(&value, 0) == CUDA_ERROR_NOT_INITIALIZED);
	gpu.fake->configure(&settings);
	gpu_begin(&gpu);
	FAKE_WANT(cu->device_get(&value, 1) == CUDA_ERROR_INVALID_DEVICE);
	GPU_WANT(cu->driver_get_version(&value));
	FAKE_WANT(value == 12040);
	GPU_WANT(cu->device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
	FAKE_WANT(value == 5);
	FAKE_WANT(cu->module_load_data(&module, &image) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	image = 0;
	FAKE_WANT(cu->module_load_data(&module, &image) == CUDA_ERROR_INVALID_IMAGE);
	room = gpu_room(&gpu, 2 * BYTES);
	FAKE_WANT(cu->mem_alloc(&more, 2 * BYTES) == CUDA_ERROR_OUT_OF_MEMORY);
	GPU_WANT(cu->mem_get_info(&free_bytes, &total));
	FAKE_WANT(free_bytes == BYTES && total == 3 * BYTES);
	void *memory = mapped(PROT_READ | PROT_WRITE);
	FAKE_WANT(cu->mem_host_register(memory, BYTES, 0) == CUDA_ERROR_NOT_SUPPORTED);
	(void)munmap(memory, BYTES);
	GPU_WANT(cu->mem_free(room));
	gpu_end(&gpu);
}

FAKE_TEST(fails)
{
	CUdeviceptr room;
	begin();
	uint64_t before = gpu.fake->calls("cuMemAlloc_v2");
	gpu.fake->fail_at("cuMemAlloc_v2", 2, CUDA_ERROR_UNKNOWN, false);
	GPU_WANT(cu->mem_alloc(&room, 1));
	FAKE_WANT(!gpu.fake->failed());
	GPU_WANT(cu->mem_free(room));
	FAKE_WANT(cu->mem_alloc(&room, 1) == CUDA_ERROR_UNKNOWN);
	FAKE_WANT(gpu.fake->failed());
	GPU_WANT(cu->mem_alloc(&room, 1));
	FAKE_WANT(gpu.fake->calls("cuMemAlloc_v2") == before + 3);
	/* What gives back does so all the same. */
	gpu.fake->fail_at("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN, false);
	FAKE_WANT(cu->mem_free(room) == CUDA_ERROR_UNKNOWN);
	gpu_end(&gpu);
}

static void *wait_for_event(void *event)
{
	GPU_WANT(cu->ctx_push(gpu.context[0]));
	FAKE_WANT(cu->event_synchronize(event) == CUDA_ERROR_ECC_UNCORRECTABLE);
	GPU_WANT(cu->ctx_pop(NULL));
	return NULL;
}

FAKE_TEST(lost)
{
	pthread_t thread;
	const char *name;
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUevent event = gpu_event(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1);
	gpu.fake->hold(FAKE_CUDA_COPIES);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, stream));
	GPU_WANT(cu->event_record(event, stream));
	FAKE_WANT(pthread_create(&thread, NULL, wait_for_event, event) == 0);
	gpu.fake->lose(CUDA_ERROR_ECC_UNCORRECTABLE);
	(void)pthread_join(thread, NULL);
	FAKE_WANT(cu->event_query(event) == CUDA_ERROR_ECC_UNCORRECTABLE);
	FAKE_WANT(cu->mem_free(room) == CUDA_ERROR_ECC_UNCORRECTABLE);
	FAKE_WANT(cu->mem_free_host(memory) == CUDA_ERROR_ECC_UNCORRECTABLE);
	FAKE_WANT(cu->event_destroy(event) == CUDA_ERROR_ECC_UNCORRECTABLE);
	FAKE_WANT(cu->stream_destroy(stream) == CUDA_ERROR_ECC_UNCORRECTABLE);
	GPU_WANT(cu->get_error_name(CUDA_ERROR_ECC_UNCORRECTABLE, &name));
	FAKE_WANT(strcmp(name, "CUDA_ERROR_ECC_UNCORRECTABLE") == 0);
	FAKE_WANT(cu->get_error_name((CUresult)12345, &name) == CUDA_ERROR_INVALID_VALUE);
	gpu_end(&gpu);
}

/* A captured graph is spoilt by waits and allocations in threads that do not care. */
FAKE_TEST(capture)
{
	CUdeviceptr room;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	begin();
	gpu.fake->capture(true);
	GPU_WANT(cu->thread_exchange_capture_mode(&mode));
	FAKE_WANT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	GPU_WANT(cu->mem_free(gpu_room(&gpu, 1)));
	GPU_WANT(cu->thread_exchange_capture_mode(&mode));
	FAKE_WANT(mode == CU_STREAM_CAPTURE_MODE_RELAXED && gpu.fake->faults() == 0);
	FAKE_WANT(cu->mem_alloc(&room, 1) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	gpu.fake->capture(false);
	want_fault();
}

/* The kernels run in their turn, with the arguments of their launch; launches are checked. */
FAKE_TEST(launches)
{
	enum { ROWS = 2, CLASSES = 3 };
	static const struct penstock_cuda_row rows[ROWS] = {
		{.partner = 0, .weight = 1}, {.partner = 1, .weight = 1}};
	static const int64_t labels[ROWS] = {2, 0};
	static const float wanted[ROWS * CLASSES] = {0, 0, 1, 1, 0, 0};
	CUmodule module;
	CUfunction function;
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr row = gpu_room(&gpu, sizeof rows), label = gpu_room(&gpu, sizeof labels),
		    out = gpu_room(&gpu, sizeof wanted);
	static const uint32_t image = 0xba55ed50;
	GPU_WANT(cu->module_load_data(&module, &image));
	FAKE_WANT(cu->module_get_function(&function, module, "no_such") == CUDA_ERROR_NOT_FOUND);
	GPU_WANT(cu->module_get_function(&function, module, "penstock_targets"));
	struct kernels_targets a = {(const int64_t *)(uintptr_t)label,
		(const struct penstock_cuda_row *)(uintptr_t)row, (float *)(uintptr_t)out, ROWS,
		CLASSES, 0};
	struct kernels_grid g = kernels_targets_grid(&a);
	void *parameters[] = {&a};
	gpu.fake->hold(FAKE_CUDA_KERNELS);
	GPU_WANT(cu->memcpy_htod_async(row, rows, sizeof rows, stream));
	GPU_WANT(cu->memcpy_htod_async(label, labels, sizeof labels, stream));
	GPU_WANT(cu->launch_kernel(
		function, g.blocks_x, g.blocks_y, 1, g.threads, 1, 1, 0, stream, parameters, NULL));
	a.classes = 1;
	gpu.fake->hold(0);
	float *got = gpu_look(&gpu, stream, a.out, sizeof wanted);
	gpu_want_same(got, wanted, sizeof wanted);
	free(got);
	FAKE_WANT(cu->launch_kernel(function, 0, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) ==
		  CUDA_ERROR_INVALID_VALUE);
	FAKE_WANT(gpu.fake->faults() == 0);
	a.classes = CLASSES + 1; /* one more than `out` has room for */
	FAKE_WANT(cu->launch_kernel(function, 1, 2, 1, 128, 1, 1, 0, stream, parameters, NULL) ==
		  CUDA_ERROR_INVALID_VALUE);
	want_fault();
}

/* ---- what it notices ---- */

FAKE_TEST(unordered)
{
	begin();
	CUstream first = gpu_stream(&gpu), second = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES / 2, first));
	GPU_WANT(cu->memcpy_htod_async(room + BYTES / 2, memory, BYTES / 2, second));
	FAKE_WANT(gpu.fake->faults() == 0);
	gpu_settle(&gpu);
	GPU_WANT(cu->memcpy_htod_async(room + BYTES / 2 - 1, memory, 1, second));
	want_fault();
}

/* A read, then a write elsewhere that did not wait for it. */
FAKE_TEST(overtaken)
{
	begin();
	CUstream first = gpu_stream(&gpu), second = gpu_stream(&gpu);
	CUevent event = gpu_event(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1), *back = pinned(BYTES, 2);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, first));
	GPU_WANT(cu->event_record(event, first));
	GPU_WANT(cu->stream_wait_event(second, event, 0));
	GPU_WANT(gpu.copy_back_async(back, room, BYTES, second));
	FAKE_WANT(gpu.fake->faults() == 0);
	gpu_settle(&gpu); /* that it is done by chance does not make it ordered */
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, first));
	want_fault();
}

FAKE_TEST(freed_early)
{
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1);
	gpu.fake->hold(FAKE_CUDA_COPIES);
	GPU_WANT(cu->memcpy_htod_async(room, memory, BYTES, stream));
	GPU_WANT(cu->mem_free(room));
	want_fault();
}

FAKE_TEST(freed_before)
{
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1);
	GPU_WANT(cu->mem_free(room));
	FAKE_WANT(cu->memcpy_htod_async(room, memory, BYTES, stream) == CUDA_ERROR_INVALID_VALUE);
	want_fault();
}

FAKE_TEST(past_the_end)
{
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	void *memory = pinned(BYTES, 1);
	FAKE_WANT(
		cu->memcpy_htod_async(room + 1, memory, BYTES, stream) == CUDA_ERROR_INVALID_VALUE);
	want_fault();
}

FAKE_TEST(other_device)
{
	begin();
	void *memory = pinned(BYTES, 1);
	CUdeviceptr room = gpu_room(&gpu, BYTES);
	GPU_WANT(cu->ctx_push(gpu.context[1]));
	FAKE_WANT(cu->memcpy_htod_async(room, memory, BYTES, NULL) == CUDA_ERROR_INVALID_VALUE);
	want_fault();
}

FAKE_TEST(unmapped)
{
	begin();
	void *memory = mapped(PROT_READ | PROT_WRITE);
	GPU_WANT(cu->mem_host_register(memory, BYTES, 0));
	(void)munmap(memory, BYTES);
	GPU_WANT(cu->mem_host_unregister(memory));
	want_fault();
}

FAKE_TEST(destroyed)
{
	begin();
	CUstream stream = gpu_stream(&gpu);
	CUevent event = gpu_event(&gpu);
	GPU_WANT(cu->event_destroy(event));
	FAKE_WANT(cu->event_record(event, stream) == CUDA_ERROR_INVALID_HANDLE);
	want_fault();
}

FAKE_TEST(no_context)
{
	CUdeviceptr room;
	begin();
	GPU_WANT(cu->ctx_pop(NULL));
	FAKE_WANT(cu->mem_alloc(&room, 1) == CUDA_ERROR_INVALID_CONTEXT);
	FAKE_WANT(cu->stream_synchronize(NULL) == CUDA_ERROR_INVALID_CONTEXT);
	FAKE_WANT(gpu.fake->faults() == 0);
	FAKE_WANT(cu->ctx_pop(NULL) == CUDA_ERROR_INVALID_CONTEXT);
	want_fault();
}

static void *push_only(void *argument)
{
	(void)argument;
	GPU_WANT(cu->ctx_push(gpu.context[0]));
	return NULL;
}

FAKE_TEST(left_pushed)
{
	pthread_t thread;
	begin();
	FAKE_WANT(pthread_create(&thread, NULL, push_only, NULL) == 0);
	(void)pthread_join(thread, NULL);
	want_fault();
}

FAKE_TEST(context_left)
{
	begin();
	(void)gpu_room(&gpu, BYTES);
	GPU_WANT(cu->ctx_pop(NULL));
	GPU_WANT(cu->primary_ctx_release(0));
	want_fault();
}

/* A process that leaves something allocated ends with FAKE_CUDA_EXIT, whatever code it meant to end
 * with. */
static void run_leaks(const void *argument)
{
	const int *what = argument;
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		begin();
		if (*what == 0)
			(void)gpu_room(&gpu, BYTES);
		else if (*what == 1)
			(void)gpu_stream(&gpu);
		else if (*what == 2)
			(void)gpu_event(&gpu);
		else if (*what == 3)
			(void)pinned(BYTES, 0);
		GPU_WANT(cu->ctx_pop(NULL));
		if (*what != 4)
			exit(0); /* the contexts too */
		gpu.fake->forgive();
		exit(0);
	}
	FAKE_WANT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	FAKE_WANT(WEXITSTATUS(status) == (*what == 4 ? 0 : FAKE_CUDA_EXIT));
}

static void test_notices(void **state)
{
	(void)state;
	for (int what = 0; what <= 4; what++)
		fake_check(run_leaks, &what, "leaks");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_pageable),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_elapsed),
		cmocka_unit_test(test_registered),
		cmocka_unit_test(test_configured),
		cmocka_unit_test(test_fails),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_unordered),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_freed_early),
		cmocka_unit_test(test_freed_before),
		cmocka_unit_test(test_past_the_end),
		cmocka_unit_test(test_other_device),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_destroyed),
		cmocka_unit_test(test_no_context),
		cmocka_unit_test(test_left_pushed),
		cmocka_unit_test(test_context_left),
		cmocka_unit_test(test_notices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
