/* A FAKE CUDA driver, only for tests: a libcuda.so.1 that keeps "device memory" in the host's and
 * runs the kernels on the CPU. It is there so that the host's logic can be tested on machines
 * without a GPU, and is stricter than the real one: whatever breaks a rule of the interface is
 * told on stderr and fails the process. Tests find it by LD_LIBRARY_PATH; nothing installs it.
 *
 *   fake_driver.[ch]  this: versions, devices, contexts, modules; what tests tell it
 *   fake_memory.c     what the device may touch, and whether it may
 *   fake_stream.c     streams as threads, events, order
 *   fake_kernel.c     the device's functions
 *   fake_parts.h      what these share
 *
 * Semantics are those that NVIDIA's documentation of the driver interface states (CUDA Driver API,
 * sections 6.2 to 6.24). Where it leaves room, the fake takes the stricter choice: every call needs
 * a current context, freeing memory that work still uses is a fault, and a context has to be left
 * empty. Not faked: per-thread default streams (the handle CU_STREAM_PER_THREAD). Thread: any. */
#include "cuda/fake_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters are named as this house does, not as cuda.h.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const call_names[CALLS] = {
#define FAKE_NAMED(name, symbol, type) symbol,
	DRIVER_FUNCTIONS(FAKE_NAMED)
#undef FAKE_NAMED
};

/* Of a thread. All are in a list besides, so that in a forked child those of threads that it lacks
 * are no leaks. */
struct stack {
	struct stack *next;
	struct CUctx_st *context[FAKE_STACK];
	unsigned depth;
	CUstreamCaptureMode mode;
};

static struct {
	struct fake_cuda_settings settings;
	bool initialised;
	pid_t owner;
	uint64_t calls[CALLS];
	struct {
		int call; /* -1: any that a lost device would fail */
		uint64_t left;
		CUresult result;
		bool lost, came;
	} rule;
	CUresult lost;
	bool capturing;
	unsigned faults;
	struct CUctx_st context[FAKE_DEVICES];
	struct CUmod_st *modules;
	struct stack *stacks;
	pthread_key_t key;
	pthread_once_t once;
} fake = {.settings = FAKE_CUDA_SETTINGS, .once = PTHREAD_ONCE_INIT};

void *fake_room(size_t bytes)
{
	void *room = calloc(1, bytes);
	if (!room) {
		(void)fprintf(stderr, "fake CUDA: no memory\n");
		abort();
	}
	return room;
}

void fake_fault(const char *format, ...)
{
	va_list args;
	fake.faults++;
	(void)fprintf(stderr, "fake CUDA: fault: ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
}

const struct fake_cuda_settings *fake_settings(void)
{
	return &fake.settings;
}

CUresult fake_lost(void)
{
	return fake.lost;
}

struct CUmod_st *fake_modules(void)
{
	return fake.modules;
}

/* ---- which context a thread has ---- */

static void stack_end(void *argument)
{
	struct stack *stack = argument;
	(void)pthread_mutex_lock(&fake_lock);
	if (stack->depth)
		fake_fault("a thread ended with %u contexts still pushed", stack->depth);
	while (stack->depth)
		stack->context[--stack->depth]->pushed--;
	struct stack **link = &fake.stacks;
	while (*link != stack)
		link = &(*link)->next;
	*link = stack->next;
	(void)pthread_mutex_unlock(&fake_lock);
	free(stack);
}

static void make_key(void)
{
	if (pthread_key_create(&fake.key, stack_end) != 0)
		abort();
}

/* Locked. */
static struct stack *stack_mine(void)
{
	(void)pthread_once(&fake.once, make_key);
	struct stack *stack = pthread_getspecific(fake.key);
	if (!stack) {
		stack = fake_room(sizeof *stack);
		stack->next = fake.stacks;
		fake.stacks = stack;
		(void)pthread_setspecific(fake.key, stack);
	}
	return stack;
}

struct CUctx_st *fake_current(void)
{
	const struct stack *stack = stack_mine();
	return stack->depth ? stack->context[stack->depth - 1] : NULL;
}

/* ---- calls ---- */

static bool call_minds_loss(enum call call)
{
	switch (call) {
	case CALL_get_error_name:
	case CALL_get_error_string:
	case CALL_init:
	case CALL_driver_get_version:
	case CALL_device_get_count:
	case CALL_device_get:
	case CALL_device_get_name:
	case CALL_device_get_attribute:
	case CALL_primary_ctx_release:
	case CALL_ctx_push:
	case CALL_ctx_pop:
	case CALL_thread_exchange_capture_mode:
		return false;
	default:
		return true;
	}
}

static bool rule_concerns(enum call call)
{
	return fake.rule.left &&
	       (fake.rule.call == (int)call || (fake.rule.call < 0 && call_minds_loss(call)));
}

static CUresult rule_apply(enum call call)
{
	if (!rule_concerns(call) || --fake.rule.left)
		return CUDA_SUCCESS;
	fake.rule.came = true;
	if (fake.rule.lost) {
		fake.lost = fake.rule.result;
		stream_wake();
	}
	return fake.rule.result;
}

/* "Potentially unsafe" while another thread captures in the mode CU_STREAM_CAPTURE_MODE_GLOBAL
 * (cuThreadExchangeStreamCaptureMode). */
static bool call_spoils_capture(enum call call)
{
	switch (call) {
	case CALL_ctx_synchronize:
	case CALL_mem_alloc:
	case CALL_mem_free:
	case CALL_mem_host_alloc:
	case CALL_mem_free_host:
	case CALL_mem_host_register:
	case CALL_mem_host_unregister:
	case CALL_stream_synchronize:
	case CALL_event_query:
	case CALL_event_synchronize:
		return fake.capturing && stack_mine()->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	default:
		return false;
	}
}

CUresult fake_enter(enum call call, bool needs_context)
{
	fake.calls[call]++;
	CUresult result = rule_apply(call);
	if (result != CUDA_SUCCESS)
		return result;
	if (!fake.initialised && call > CALL_driver_get_version)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (needs_context && !fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (call_spoils_capture(call)) {
		fake_fault("%s spoils the capture of a graph", call_names[call]);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return call_minds_loss(call) ? fake.lost : CUDA_SUCCESS;
}

/* ---- errors ---- */

#define FAKE_ERRORS(X)                                                            \
	X(CUDA_SUCCESS, "no error")                                               \
	X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                           \
	X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                              \
	X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                     \
	X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                       \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, "device busy or unavailable")            \
	X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")             \
	X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                    \
	X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")             \
	X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                   \
	X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image for the device")         \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error")                \
	X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "PTX of an unsupported toolchain")  \
	X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                   \
	X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                         \
	X(CUDA_ERROR_NOT_READY, "device not ready")                               \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered") \
	X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                 \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "already registered")        \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered")                \
	X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                    \
	X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                    \
	X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver and library do not match")   \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while capturing") \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency on uncaptured work")   \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "dependency on the default stream") \
	X(CUDA_ERROR_CAPTURED_EVENT, "event was recorded in a capture")           \
	X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
	CUresult result;
	const char *name, *text;
} fake_errors[] = {
#define FAKE_ERROR(code, words) {code, #code, words},
	FAKE_ERRORS(FAKE_ERROR)
#undef FAKE_ERROR
};

/* Its place in the table; -1 where it is unknown. */
static int error_place(CUresult error)
{
	for (size_t i = 0; i < sizeof fake_errors / sizeof *fake_errors; i++)
		if (fake_errors[i].result == error)
			return (int)i;
	return -1;
}

static CUresult error_tell(enum call call, CUresult error, bool name, const char **ret_text)
{
	FAKE_ENTER(call, false);
	int place = error_place(error);
	*ret_text = place < 0 ? NULL : name ? fake_errors[place].name : fake_errors[place].text;
	return place < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char **ret_name)
{
	return error_tell(CALL_get_error_name, error, true, ret_name);
}

FAKE_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char **ret_text)
{
	return error_tell(CALL_get_error_string, error, false, ret_text);
}

/* ---- the driver and its devices ---- */

static void fake_end(void);

FAKE_EXPORT CUresult CUDAAPI cuInit(unsigned int flags)
{
	FAKE_ENTER(CALL_init, false);
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (fake.settings.devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!fake.initialised) {
		fake.initialised = true;
		fake.owner = getpid();
		(void)atexit(fake_end);
	}
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuDriverGetVersion(int *ret_version)
{
	FAKE_ENTER(CALL_driver_get_version, false);
	*ret_version = fake.settings.driver_version;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuDeviceGetCount(int *ret_count)
{
	FAKE_ENTER(CALL_device_get_count, false);
	*ret_count = fake.settings.devices;
	return CUDA_SUCCESS;
}

static bool device_is_known(CUdevice device)
{
	return device >= 0 && device < fake.settings.devices;
}

FAKE_EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *ret_device, int ordinal)
{
	FAKE_ENTER(CALL_device_get, false);
	if (!device_is_known(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_device = ordinal;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int room, CUdevice device)
{
	FAKE_ENTER(CALL_device_get_name, false);
	if (!device_is_known(device))
		return CUDA_ERROR_INVALID_DEVICE;
	(void)snprintf(name, (size_t)room, "Fake device %d", device);
	return CUDA_SUCCESS;
}

/* -1: one that the fake does not know. */
static int attribute_value(CUdevice_attribute attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return fake.settings.capability / 10;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return fake.settings.capability % 10;
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
		return fake.settings.host_register;
	case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
		return fake.settings.read_only_register;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
		return fake.settings.host_page_tables;
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
		return 1;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return 132;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		return 3;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: /* of no device */
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		return 255;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
	case CU_DEVICE_ATTRIBUTE_INTEGRATED:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		return 0;
	default:
		return -1;
	}
}

FAKE_EXPORT CUresult CUDAAPI cuDeviceGetAttribute(
	int *ret_value, CUdevice_attribute attribute, CUdevice device)
{
	FAKE_ENTER(CALL_device_get_attribute, false);
	if (!device_is_known(device))
		return CUDA_ERROR_INVALID_DEVICE;
	int value = attribute_value(attribute);
	if (value < 0) {
		fake_fault("the fake does not know device attribute %d", (int)attribute);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_value = value;
	return CUDA_SUCCESS;
}

/* ---- contexts ---- */

FAKE_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
	FAKE_ENTER(CALL_primary_ctx_retain, false);
	if (!device_is_known(device))
		return CUDA_ERROR_INVALID_DEVICE;
	fake.context[device].device = device;
	fake.context[device].retained++;
	*ret_context = &fake.context[device];
	return CUDA_SUCCESS;
}

static unsigned module_leaks(const struct CUctx_st *context, bool tell, bool forget)
{
	unsigned n = 0;
	for (struct CUmod_st *module = fake.modules; module; module = module->next) {
		if (!module->alive || (context && module->context != context))
			continue;
		n++;
		if (tell)
			(void)fprintf(stderr, "fake CUDA: a module is still loaded\n");
		if (forget)
			module->alive = false;
	}
	return n;
}

static unsigned count_leaks(const struct CUctx_st *context, bool tell, bool forget)
{
	return module_leaks(context, tell, forget) + stream_leaks(context, tell, forget) +
	       memory_leaks(context, tell, forget);
}

/* A context that ends takes with it what is in it; here it should have been emptied before. */
static void context_end(struct CUctx_st *context)
{
	unsigned left = count_leaks(context, true, true);
	if (left)
		fake_fault("the context of device %d ended with %u things in it", context->device,
			left);
	if (context->pushed)
		fake_fault("the context of device %d ended while it was current", context->device);
	context->legacy = NULL;
}

FAKE_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	FAKE_ENTER_RELEASE(CALL_primary_ctx_release, false);
	if (!device_is_known(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct CUctx_st *context = &fake.context[device];
	if (!context->retained) {
		fake_fault("the context of device %d was released once too often", device);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (--context->retained == 0)
		context_end(context);
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context)
{
	FAKE_ENTER(CALL_ctx_push, false);
	struct stack *stack = stack_mine();
	if (!context || !context->retained) {
		fake_fault("a context that does not exist was pushed");
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (stack->depth == FAKE_STACK) {
		fake_fault("%d contexts pushed and none popped", FAKE_STACK);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	context->pushed++;
	stack->context[stack->depth++] = context;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *ret_context)
{
	FAKE_ENTER_RELEASE(CALL_ctx_pop, false);
	struct stack *stack = stack_mine();
	if (!stack->depth) {
		fake_fault("a context was popped that was not pushed");
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	struct CUctx_st *context = stack->context[--stack->depth];
	context->pushed--;
	if (ret_context)
		*ret_context = context;
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	FAKE_ENTER(CALL_thread_exchange_capture_mode, false);
	struct stack *stack = stack_mine();
	CUstreamCaptureMode before = stack->mode;
	stack->mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* ---- modules ---- */

/* What nvcc -fatbin writes begins with this (struct fatBinaryHeader of the toolkit's
 * fatbinary_section.h and cuobjdump agree). */
enum { FATBIN_MAGIC = 0xba55ed50u };

FAKE_EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *ret_module, const void *image)
{
	uint32_t magic;
	FAKE_ENTER(CALL_module_load_data, true);
	memcpy(&magic, image, sizeof magic);
	if (magic != (uint32_t)FATBIN_MAGIC)
		return CUDA_ERROR_INVALID_IMAGE;
	if (fake.settings.driver_version / 1000 < CUDA_VERSION / 1000)
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (fake.settings.capability < 70)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	struct CUmod_st *module = fake_room(sizeof *module);
	module->context = fake_current();
	module->alive = true;
	module->next = fake.modules;
	fake.modules = *ret_module = module;
	return CUDA_SUCCESS;
}

static bool module_is_alive(const struct CUmod_st *wanted)
{
	for (const struct CUmod_st *module = fake.modules; module; module = module->next)
		if (module == wanted)
			return module->alive;
	return false;
}

FAKE_EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
	FAKE_ENTER_RELEASE(CALL_module_unload, true);
	if (!module_is_alive(module)) {
		fake_fault("a module was unloaded that is not loaded");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	for (const struct CUfunc_st *f = module->functions; f; f = f->next)
		if (!stream_done(f->lane, f->seq) && fake.lost == CUDA_SUCCESS)
			fake_fault("a module was unloaded while %s runs", f->name);
	module->alive = false;
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuModuleGetFunction(
	CUfunction *ret_function, CUmodule module, const char *name)
{
	FAKE_ENTER(CALL_module_get_function, true);
	if (!module_is_alive(module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!kernel_is_known(name))
		return CUDA_ERROR_NOT_FOUND;
	struct CUfunc_st *function = fake_room(sizeof *function);
	(void)snprintf(function->name, sizeof function->name, "%s", name);
	function->module = module;
	function->next = module->functions;
	module->functions = *ret_function = function;
	return CUDA_SUCCESS;
}

/* ---- what tests tell and ask ---- */

static int call_number(const char *symbol)
{
	for (int i = 0; i < CALLS; i++)
		if (symbol && strcmp(symbol, call_names[i]) == 0)
			return i;
	if (symbol) {
		(void)fprintf(stderr, "fake CUDA: there is no %s in driver.h\n", symbol);
		abort();
	}
	return -1;
}

static void control_configure(const struct fake_cuda_settings *settings)
{
	FAKE_LOCKED;
	if (fake.initialised || settings->devices > FAKE_DEVICES)
		abort();
	fake.settings = *settings;
}

static void control_fail(const char *symbol, uint64_t nth, CUresult result, bool lost)
{
	FAKE_LOCKED;
	fake.rule.call = call_number(symbol);
	fake.rule.left = nth;
	fake.rule.result = result;
	fake.rule.lost = lost;
	fake.rule.came = false;
}

static bool control_failed(void)
{
	FAKE_LOCKED;
	return fake.rule.came;
}

static void control_lose(CUresult result)
{
	FAKE_LOCKED;
	fake.lost = result;
	stream_wake();
}

static void control_hold(unsigned kinds)
{
	FAKE_LOCKED;
	stream_hold(kinds);
}

static void control_delay(unsigned microseconds)
{
	FAKE_LOCKED;
	stream_delay(microseconds);
}

static void control_capture(bool under_way)
{
	FAKE_LOCKED;
	fake.capturing = under_way;
}

static void control_capture_stream(CUstream stream, bool under_way)
{
	FAKE_LOCKED;
	stream_capture(stream_find(stream), under_way);
}

static uint64_t control_calls(const char *symbol)
{
	FAKE_LOCKED;
	return fake.calls[call_number(symbol)];
}

static void control_use(struct fake_cuda_use *ret_use)
{
	FAKE_LOCKED;
	memset(ret_use, 0, sizeof *ret_use);
	memory_use(ret_use);
	stream_use(ret_use);
	kernel_use(ret_use);
	ret_use->modules = module_leaks(NULL, false, false);
	for (int i = 0; i < FAKE_DEVICES; i++)
		ret_use->contexts += fake.context[i].retained;
}

static unsigned control_faults(void)
{
	FAKE_LOCKED;
	return fake.faults;
}

static unsigned all_leaks(bool tell, bool forget)
{
	unsigned leaks = count_leaks(NULL, tell, forget);
	for (int i = 0; i < FAKE_DEVICES; i++) {
		if (tell && fake.context[i].retained)
			(void)fprintf(stderr,
				"fake CUDA: the context of device %d is retained %u times\n", i,
				fake.context[i].retained);
		leaks += fake.context[i].retained;
		if (forget)
			fake.context[i].retained = 0;
	}
	return leaks;
}

static unsigned control_leaks(void)
{
	FAKE_LOCKED;
	return all_leaks(true, false);
}

static void control_forgive(void)
{
	FAKE_LOCKED;
	fake.faults = 0;
	(void)all_leaks(false, true);
}

FAKE_EXPORT fake_cuda_get fake_cuda;
const struct fake_cuda *fake_cuda(void)
{
	static const struct fake_cuda control = {control_configure, control_fail, control_failed,
		control_lose, control_hold, control_delay, control_capture, control_capture_stream,
		control_calls, control_use, control_faults, control_leaks, control_forgive};
	return &control;
}

/* At the process's end; a forked child has none of it. */
static void fake_end(void)
{
	if (getpid() != fake.owner)
		return;
	(void)pthread_mutex_lock(&fake_lock);
	bool bad = all_leaks(true, false) || fake.faults;
	stream_end();
	(void)pthread_mutex_unlock(&fake_lock);
	if (bad) {
		(void)fflush(NULL);
		_exit(FAKE_CUDA_EXIT);
	}
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
