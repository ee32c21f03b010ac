/* A (fake) driver that fails: each of its functions at each of its calls, and a device that is lost
 * at any of them. In every case the error names the call and CUDA's error and says what to do, the
 * slots return to the daemon, and nothing remains. Also drivers that cannot be used at all. */
#include "client/fake.h"
#include "cuda/loop.h"

#include <dlfcn.h>
#include <errno.h>
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

static struct loop loop;

/* ---- one call fails ---- */

struct failure {
	const char *symbol;
	uint64_t nth;
	uint32_t memory;
	bool lost;
	bool *ret_came; /* in memory that is shared with the test's own process */
};

static const char *const symbols[] = {
#define SYMBOL(name, symbol, type) symbol,
	DRIVER_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* Functions that report errors, or free something: their result changes nothing. */
static bool is_minor(const char *symbol)
{
	static const char *const minor[] = {"cuGetErrorName", "cuGetErrorString",
		"cuDevicePrimaryCtxRelease_v2", "cuCtxPopCurrent_v2", "cuModuleUnload",
		"cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuStreamDestroy_v2",
		"cuEventDestroy_v2", "cuEventElapsedTime", "cuMemGetInfo_v2", "cuCtxSynchronize",
		"cuStreamSynchronize"};
	for (size_t i = 0; i < sizeof minor / sizeof *minor; i++)
		if (strcmp(symbol, minor[i]) == 0)
			return true;
	return false;
}

/* A sentence about CUDA: which call, its name for the error, its number, and what to do. */
static void want_sentence(int code)
{
	const char *text = penstock_error();
	bool good = code < 0 && strstr(text, "failed: CUDA_ERROR_") && strstr(text, "(7") &&
		    strlen(strrchr(text, ':')) > 10;
	if (!good)
		(void)fprintf(stderr, "%d: %s\n", code, text);
	FAKE_WANT(good);
}

/* The trainer's loop until something fails. 0: nothing failed. */
static int train(CUdeviceptr out)
{
	struct penstock_cuda_batch batch;
	for (int i = 0; i < 6; i++) {
		int result = penstock_cuda_next(loop.cuda, &batch, 20000);
		if (result == 0)
			result = penstock_cuda_transform(
				loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue);
		if (result == 0)
			result = penstock_cuda_targets(
				loop.cuda, &batch, 2, 0, (float *)(uintptr_t)out, loop.queue);
		if (result == 0)
			result = penstock_cuda_release(loop.cuda, &batch, loop.queue);
		if (result < 0)
			return result;
	}
	return 0;
}

static int attach_and_train(CUdeviceptr out)
{
	int result = penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda);
	if (result < 0)
		FAKE_WANT(!loop.cuda);
	return result < 0 ? result : train(out);
}

/* The stream is as good as before. */
static void want_stream(void)
{
	struct penstock_batch batch;
	for (int i = 0; i < 10; i++) {
		LOOP_WANT(penstock_stream_next(loop.stream, &batch, 20000), 0, NULL);
		LOOP_WANT(penstock_batch_release(loop.stream, &batch), 0, NULL);
	}
}

static bool is_entrance(const char *symbol)
{
	return strcmp(symbol, "cuCtxPushCurrent_v2") == 0 ||
	       strcmp(symbol, "cuThreadExchangeStreamCaptureMode") == 0;
}

/* If a context cannot be entered, the library cannot wait for it or unload its module. The test
 * accepts that; everything else must be released. */
static void forgive_module(void)
{
	struct fake_cuda_use use;
	GPU_WANT(loop.gpu.driver.stream_destroy(loop.queue));
	loop.queue = NULL;
	loop.gpu.fake->use(&use);
	FAKE_WANT(use.modules <= 1 && use.contexts == GPU_DEVICES && use.allocations == 0);
	FAKE_WANT(use.pinned_bytes == 0 && use.registrations == 0);
	FAKE_WANT(use.streams == 0 && use.events == 0);
	loop.gpu.fake->forgive();
	memset(loop.gpu.context, 0, sizeof loop.gpu.context);
}

static void run_failure(const void *argument)
{
	const struct failure *failure = argument;
	/* An illegal address (700) makes the context unusable, as most later errors do. */
	CUresult error = failure->lost ? CUDA_ERROR_ECC_UNCORRECTABLE : CUDA_ERROR_ILLEGAL_ADDRESS;
	if (!failure->lost && strcmp(failure->symbol, "cuMemHostRegister_v2") == 0)
		error = CUDA_ERROR_NOT_PERMITTED; /* 800: an error that it may return */
	loop_begin(&loop, NULL, failure->memory);
	loop.stream = loop_stream(&loop, NULL, 0);
	gpu_begin(&loop.gpu);
	loop.queue = gpu_stream(&loop.gpu);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	loop.gpu.fake->fail_at(failure->symbol, failure->nth, error, failure->lost);
	int result = attach_and_train(out);
	*failure->ret_came = loop.gpu.fake->failed();
	if (result < 0 && !failure->lost && error == CUDA_ERROR_ILLEGAL_ADDRESS)
		want_sentence(result);
	if (result == 0 && *failure->ret_came && failure->symbol)
		FAKE_WANT(is_minor(failure->symbol) || loop.cuda);
	penstock_cuda_detach(loop.cuda);
	loop.cuda = NULL;
	*failure->ret_came = loop.gpu.fake->failed();
	loop.gpu.fake->fail_at(NULL, 0, CUDA_SUCCESS, false);
	want_stream();
	(void)loop.gpu.driver.stream_synchronize(loop.queue);
	(void)loop.gpu.driver.mem_free(out);
	if (failure->symbol && is_entrance(failure->symbol))
		forgive_module();
	loop_end(&loop);
}

enum { CALLS_MOST = 200 };

/* The first call of the function fails, then the second, and so on until no call is left; if
 * there are many calls, only some of them. */
static void sweep(struct failure failure, const char *name)
{
	failure.nth = 1;
	do {
		*failure.ret_came = false;
		fake_check(run_failure, &failure, name);
		failure.nth += failure.nth < 4 ? 1 : failure.nth / 2;
	} while (*failure.ret_came && failure.nth < CALLS_MOST);
}

static bool *shared_flag(void)
{
	bool *flag =
		mmap(NULL, sizeof *flag, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(flag, MAP_FAILED);
	return flag;
}

static void test_each_call(void **state)
{
	(void)state;
	bool *came = shared_flag();
	for (size_t m = 0; m < LOOP_MODES; m++)
		for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
			sweep((struct failure){.symbol = symbols[i],
				      .memory = loop_modes[m],
				      .ret_came = came},
				symbols[i]);
	(void)munmap(came, sizeof *came);
}

/* The device is lost at the n-th call of those that a lost device fails. */
static void test_lost(void **state)
{
	(void)state;
	bool *came = shared_flag();
	for (size_t m = 0; m < LOOP_MODES; m++)
		sweep((struct failure){.memory = loop_modes[m], .lost = true, .ret_came = came},
			"lost");
	(void)munmap(came, sizeof *came);
}

/* Lost while copies are under way and the trainer waits for a batch. */
LOOP_TEST(lost_waiting)
{
	struct penstock_cuda_batch batch;
	int result;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 3);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES);
	loop_next(&loop, &batch);
	loop.gpu.fake->lose(CUDA_ERROR_ECC_UNCORRECTABLE);
	/* Until the copying thread has noticed, next gives batches that were on their way. */
	while ((result = penstock_cuda_next(loop.cuda, &batch, 20000)) == 0)
		LOOP_WANT(penstock_cuda_release(loop.cuda, &batch, loop.queue), -EIO, "ECC");
	LOOP_WANT(result, -EIO, "CUDA_ERROR_ECC_UNCORRECTABLE (214");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 20000), -EIO, "dmesg");
	penstock_cuda_detach(loop.cuda);
	loop.cuda = NULL;
	want_stream();
	loop_end(&loop);
}

/* ---- no memory ---- */

FAKE_TEST(no_memory)
{
	struct fake_cuda_settings settings = FAKE_CUDA_SETTINGS;
	settings.memory = 8192; /* three batches of 4 x 16 x 16 x 3 bytes do not fit */
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.gpu.fake->configure(&settings);
	loop_open(&loop);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOMEM,
		"8192 of 8192 bytes free");
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOMEM,
		"CUDA_ERROR_OUT_OF_MEMORY");
	FAKE_WANT(loop.page->released == 0);
	loop.options.prefetch = 1;
	loop_attach(&loop);
	loop_train(&loop, 5);
	loop_end(&loop);
}

static void run_no_pinned_memory(const void *argument)
{
	const uint64_t *nth = argument;
	loop_begin(&loop, NULL, PENSTOCK_CUDA_RING);
	loop_open(&loop);
	loop.gpu.fake->fail_at("cuMemHostAlloc", *nth, CUDA_ERROR_OUT_OF_MEMORY, false);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOMEM, "pinned");
	loop_attach(&loop);
	loop_train(&loop, 5);
	loop_end(&loop);
}

/* Registering is refused, when attaching or for the memory itself. */
static void run_register_refused(const void *argument)
{
	const struct failure *failure = argument;
	struct penstock_cuda_batch batch;
	struct penstock_cuda_info info = {.size = sizeof info};
	loop_begin(&loop, NULL, failure->memory);
	loop.pin_memory = 0; /* then read-only is the only way */
	loop_open(&loop);
	loop.gpu.fake->fail_at(
		"cuMemHostRegister_v2", failure->nth, CUDA_ERROR_NOT_PERMITTED, false);
	int result = penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda);
	if (failure->memory == PENSTOCK_CUDA_AUTO) {
		FAKE_WANT(result == 0);
		loop_train(&loop, 10);
		FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0 && loop.gpu.fake->failed());
		FAKE_WANT(info.memory == PENSTOCK_CUDA_RING);
		FAKE_WANT(strstr(info.why, "CUDA_ERROR_NOT_PERMITTED"));
	} else {
		if (result == 0)
			result = penstock_cuda_next(loop.cuda, &batch, 20000);
		LOOP_WANT(result, -ENOTSUP, "CUDA_ERROR_NOT_PERMITTED");
	}
	loop_end(&loop);
}

static void test_memory(void **state)
{
	static const uint64_t allocations[] = {1, 2};
	(void)state;
	for (size_t i = 0; i < sizeof allocations / sizeof *allocations; i++)
		fake_check(run_no_pinned_memory, &allocations[i], "no pinned memory");
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct failure failure = {.nth = nth, .memory = PENSTOCK_CUDA_AUTO};
		fake_check(run_register_refused, &failure, "not registered, automatic");
		failure.memory = PENSTOCK_CUDA_REGISTERED;
		fake_check(run_register_refused, &failure, "not registered");
	}
}

/* ---- drivers that cannot be used ---- */

struct driver_kind {
	int capability;
	const char *symbol; /* whose first call fails */
	CUresult error;
	int code;
	const char *text;
};

static const struct driver_kind drivers[] = {
	{90, "cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, -ENOTSUP, "cuInit failed"},
	{90, "cuInit", CUDA_ERROR_NO_DEVICE, -ENODEV, "nvidia-smi"},
	{90, "cuInit", CUDA_ERROR_UNKNOWN, -EIO, "CUDA_ERROR_UNKNOWN (999"},
	{90, "cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM,
		"cuDevicePrimaryCtxRetain"},
	{90, "cuDevicePrimaryCtxRetain", CUDA_ERROR_DEVICE_UNAVAILABLE, -EIO, "another process"},
	{90, "cuDevicePrimaryCtxRetain", CUDA_ERROR_UNKNOWN, -EIO, "Prohibited"},
	{90, "cuDevicePrimaryCtxRetain", CUDA_ERROR_MPS_SERVER_NOT_READY, -EIO, "MPS"},
	{90, "cuModuleLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, -ENOTSUP, "update the driver"},
	{90, "cuModuleLoadData", (CUresult)4242, -EIO, "(4242"},
	{61, NULL, 0, -ENOTSUP, "6.1"},
};

static void run_driver(const void *argument)
{
	const struct driver_kind *kind = argument;
	struct fake_cuda_settings settings = FAKE_CUDA_SETTINGS;
	settings.capability = kind->capability;
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.gpu.fake->configure(&settings);
	loop.stream = loop_stream(&loop, NULL, 0);
	if (kind->symbol)
		loop.gpu.fake->fail_at(kind->symbol, 1, kind->error, false);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), kind->code,
		kind->text);
	FAKE_WANT(!loop.cuda && loop.page->released == 0);
	want_stream();
	loop_end(&loop);
}

FAKE_TEST(no_device)
{
	static const struct fake_cuda_settings none = {.devices = 0};
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.gpu.fake->configure(&none);
	loop.stream = loop_stream(&loop, NULL, 0);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENODEV,
		"CUDA_ERROR_NO_DEVICE");
	loop_end(&loop);
}

FAKE_TEST(device_number)
{
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop_open(&loop);
	loop.options.device = 2;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENODEV,
		"this process sees 2");
	loop_end(&loop);
}

/* Older than the toolkit: the sentence names every version. */
FAKE_TEST(old_driver)
{
	struct fake_cuda_settings settings = FAKE_CUDA_SETTINGS;
	char built[32];
	settings.driver_version = 11080;
	(void)snprintf(
		built, sizeof built, "CUDA %d.%d", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.gpu.fake->configure(&settings);
	loop_open(&loop);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOTSUP, "11.8");
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOTSUP, built);
	loop_end(&loop);
}

static void test_drivers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
		fake_check(run_driver, &drivers[i], drivers[i].text);
}

/* ---- no driver ---- */

/* Runs this program again with another folder for libcuda.so.1: the search path of dlopen is
 * fixed when a process starts. */
static int run_with(const char *folder, const char *text)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		(void)setenv("LD_LIBRARY_PATH", folder, 1);
		(void)execl("/proc/self/exe", "cuda_failures", "attach", text, (char *)NULL);
		_exit(1);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

enum { NOT_HERE = 77 };

static void run_attach(const void *argument)
{
	const char *text = argument;
	struct penstock_options options;
	struct penstock_cuda_options cuda_options;
	struct penstock_cuda *cuda = NULL;
	static struct fake fake;
	fake_start(&fake, fake_serve_well, &loop_shape);
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = fake.socket;
	options.private_daemon = 0;
	LOOP_WANT(penstock_stream_open(&options, &loop.stream), 0, NULL);
	penstock_cuda_options_init(&cuda_options);
	int code = strstr(text, "no function") ? -ENOTSUP : -ENODEV;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &cuda_options, &cuda), code, text);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &cuda_options, &cuda), code, text); /* again */
	FAKE_WANT(!cuda);
	want_stream();
	penstock_stream_close(loop.stream);
	FAKE_WANT(fake_stop(&fake));
}

static int attach_only(const char *text)
{
	/* A machine with a GPU has a driver in the system's own folders. */
	if (strstr(text, "there is no CUDA driver") && dlopen("libcuda.so.1", RTLD_LAZY))
		return NOT_HERE;
	run_attach(text);
	return 0;
}

static void test_no_driver(void **state)
{
	static const char absent[] = "there is no CUDA driver here";
	char folder[] = "/tmp/penstock-no-driver-XXXXXX", path[64];
	(void)state;
	assert_non_null(mkdtemp(folder));
	int code = run_with(folder, absent);
	if (code == NOT_HERE)
		(void)fprintf(stderr, "this machine has a driver: its absence is not tested\n");
	else
		assert_int_equal(code, 0);
	/* A file that is not a library. */
	(void)snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs("not a library\n", file) >= 0 && fclose(file) == 0);
	assert_int_equal(run_with(folder, "libcuda.so.1"), 0);
	assert_true(unlink(path) == 0 && rmdir(folder) == 0);
	assert_int_equal(run_with(FAKE_LACKING, "no function cuEventElapsedTime"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_call),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_lost_waiting),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_device_number),
		cmocka_unit_test(test_old_driver),
		cmocka_unit_test(test_drivers),
		cmocka_unit_test(test_no_driver),
	};
	if (argc == 3)
		return attach_only(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
