/* driver: see driver.h.
 *
 * The library stays loaded: the driver cannot be unloaded from a process that has used it. What
 * went wrong with it is kept and said again to whoever asks next; only another process can do
 * better.
 *
 * A process that was forked from one that had initialised CUDA has the library and cannot use it.
 * Where that was done here it is known by the process's number; otherwise cuInit says so.
 *
 * Thread: any. */
#include "client/cuda/driver.h"

#include "client/cuda/sentence.h"
#include "penstock/penstock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVER_CALL_BYTES = 256 };

static struct driver driver_table;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static pid_t driver_owner;
static int driver_result;
static char driver_sentence[SENTENCE_BYTES];

/* ---- what results mean ---- */

struct driver_meaning {
	CUresult result;
	int code;
	const char *advice;
};

static const char DRIVER_FORKED[] =
	"a process that was forked after CUDA had been initialised cannot use it: start processes "
	"by spawn or forkserver, or fork before CUDA is first used";
static const char DRIVER_NO_DEVICE[] =
	"is there a GPU (`nvidia-smi -L`), does CUDA_VISIBLE_DEVICES name one, and was the "
	"container given it (docker run --gpus all)?";
static const char DRIVER_FULL[] = "lower prefetch or the batch size, or see what else uses the "
				  "device (nvidia-smi)";
static const char DRIVER_OLD[] =
	"the driver is too old for this library: update it, or build the library with an older "
	"CUDA toolkit";
static const char DRIVER_POISONED[] =
	"some kernel of this process, perhaps an earlier one, went wrong, and the context with it: "
	"run once with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer to see which";
static const char DRIVER_BROKEN[] =
	"the device itself is in trouble: see `nvidia-smi -q` and the kernel's log (dmesg, Xid)";
static const char DRIVER_CAPTURED[] =
	"the CUDA stream is being captured into a graph: use and release batches outside of it";
static const char DRIVER_SHARED[] =
	"the device is shared through MPS, whose server does not answer as it should or has no "
	"room: see its log (CUDA_MPS_LOG_DIRECTORY, else /var/log/nvidia-mps), then start this "
	"process again";
static const char DRIVER_UNKNOWN[] =
	"see `nvidia-smi` and the kernel's log (dmesg, Xid), and start the process again";

/* CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, CUDA_ERROR_DEVICE_UNAVAILABLE and
 * CUDA_ERROR_MPS_CLIENT_TERMINATED: younger than the oldest toolkit that builds this. */
enum { DRIVER_NEWER_WANTED = 36, DRIVER_UNAVAILABLE = 46, DRIVER_TERMINATED = 810 };

static const struct driver_meaning driver_meanings[] = {
	{CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM, DRIVER_FULL},
	{CUDA_ERROR_NOT_INITIALIZED, -ENODEV, DRIVER_FORKED},
	{CUDA_ERROR_DEINITIALIZED, -EIO, "the process is ending: detach before it does"},
	{CUDA_ERROR_STUB_LIBRARY, -ENODEV,
		"the toolkit's stub was loaded in place of the driver: take its folder `stubs` out "
		"of LD_LIBRARY_PATH"},
	{(CUresult)DRIVER_UNAVAILABLE, -EIO,
		"another process has the device to itself, or it must be reset: see nvidia-smi "
		"(compute mode, processes)"},
	{CUDA_ERROR_NO_DEVICE, -ENODEV, DRIVER_NO_DEVICE},
	{CUDA_ERROR_INVALID_DEVICE, -ENODEV, DRIVER_NO_DEVICE},
	{(CUresult)DRIVER_NEWER_WANTED, -ENOTSUP, DRIVER_OLD},
	{CUDA_ERROR_INVALID_IMAGE, -ENOTSUP, DRIVER_OLD},
	{CUDA_ERROR_NO_BINARY_FOR_GPU, -ENOTSUP, DRIVER_OLD},
	{CUDA_ERROR_INVALID_PTX, -ENOTSUP, DRIVER_OLD},
	{CUDA_ERROR_UNSUPPORTED_PTX_VERSION, -ENOTSUP, DRIVER_OLD},
	{CUDA_ERROR_JIT_COMPILER_NOT_FOUND, -ENOTSUP,
		"the library holds no machine code for this device, and the driver's compiler "
		"(libnvidia-ptxjitcompiler.so.1) is missing: install it"},
	{CUDA_ERROR_JIT_COMPILATION_DISABLED, -ENOTSUP,
		"the library holds no machine code for this device: unset CUDA_DISABLE_PTX_JIT"},
	{CUDA_ERROR_SYSTEM_NOT_READY, -EIO,
		"does nvidia-fabricmanager run? Machines with NVSwitch need it"},
	{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, -ENOTSUP,
		"libcuda.so.1 and the kernel's module are of different releases: reboot after an "
		"update, and mount the host's library into a container"},
	{CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ENOTSUP,
		"this device has no forward compatibility: take the folder `compat` out of "
		"LD_LIBRARY_PATH, or update the driver"},
	{CUDA_ERROR_MPS_CONNECTION_FAILED, -EIO, DRIVER_SHARED},
	{CUDA_ERROR_MPS_RPC_FAILURE, -EIO, DRIVER_SHARED},
	{CUDA_ERROR_MPS_SERVER_NOT_READY, -EIO, DRIVER_SHARED},
	{CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, -EIO, DRIVER_SHARED},
	{CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, -EIO, DRIVER_SHARED},
	{(CUresult)DRIVER_TERMINATED, -EIO, DRIVER_SHARED},
	{CUDA_ERROR_INVALID_CONTEXT, -EIO, "was the device reset (cudaDeviceReset)?"},
	{CUDA_ERROR_CONTEXT_IS_DESTROYED, -EIO, "was the device reset (cudaDeviceReset)?"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_LAUNCH_FAILED, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_LAUNCH_TIMEOUT, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_ASSERT, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_MISALIGNED_ADDRESS, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_INVALID_ADDRESS_SPACE, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_INVALID_PC, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_ILLEGAL_INSTRUCTION, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_HARDWARE_STACK_ERROR, -EIO, DRIVER_POISONED},
	{CUDA_ERROR_ECC_UNCORRECTABLE, -EIO, DRIVER_BROKEN},
	{CUDA_ERROR_NVLINK_UNCORRECTABLE, -EIO, DRIVER_BROKEN},
	{CUDA_ERROR_UNKNOWN, -EIO, DRIVER_BROKEN},
	{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, -EINVAL, DRIVER_CAPTURED},
	{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, -EINVAL, DRIVER_CAPTURED},
	{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, -EINVAL, DRIVER_CAPTURED},
	{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, -EINVAL, DRIVER_CAPTURED},
	{CUDA_ERROR_CAPTURED_EVENT, -EINVAL, DRIVER_CAPTURED},
};

static struct driver_meaning driver_look_up(CUresult result)
{
	for (size_t i = 0; i < sizeof driver_meanings / sizeof *driver_meanings; i++) {
		if (driver_meanings[i].result == result)
			return driver_meanings[i];
	}
	return (struct driver_meaning){result, -EIO, DRIVER_UNKNOWN};
}

int driver_fail(
	const struct driver *driver, CUresult result, const char *advice, const char *call, ...)
{
	const struct driver_meaning meaning = driver_look_up(result);
	char made[DRIVER_CALL_BYTES];
	const char *name = NULL;
	const char *words = NULL;
	va_list arguments;
	va_start(arguments, call);
	(void)vsnprintf(made, sizeof made, call, arguments);
	va_end(arguments);
	/* They leave NULL for a number that this driver does not know. */
	(void)driver->get_error_name(result, &name);
	(void)driver->get_error_string(result, &words);
	return sentence_set(meaning.code, "%s failed: %s (%d, %s): %s", made,
		name ? name : "an error without a name", (int)result,
		words ? words : "this driver does not know it", advice ? advice : meaning.advice);
}

/* ---- loading ---- */

struct driver_symbol {
	const char *name;
	size_t offset; /* in struct driver */
};

static const struct driver_symbol driver_symbols[] = {
#define DRIVER_SYMBOL(name, symbol, type) {symbol, offsetof(struct driver, name)},
	DRIVER_FUNCTIONS(DRIVER_SYMBOL)
#undef DRIVER_SYMBOL
};

static int driver_lack(void *library, const char *symbol)
{
	PFN_cuDriverGetVersion_v2020 ask;
	int version = 0;
	void *function = dlsym(library, "cuDriverGetVersion");
	memcpy(&ask, &function, sizeof ask);
	if (ask)
		(void)ask(&version);
	return sentence_set(-ENOTSUP,
		"the CUDA driver (libcuda.so.1, of CUDA %d.%d) has no function %s, which drivers "
		"have from CUDA 11 on: update it",
		version / 1000, version % 1000 / 10, symbol);
}

/* 0, or -ENOTSUP. */
static int driver_resolve(void *library, struct driver *driver)
{
	for (size_t i = 0; i < sizeof driver_symbols / sizeof *driver_symbols; i++) {
		void *function = dlsym(library, driver_symbols[i].name);
		if (!function)
			return driver_lack(library, driver_symbols[i].name);
		memcpy((char *)driver + driver_symbols[i].offset, &function, sizeof function);
	}
	return 0;
}

static int driver_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return sentence_set(-ENODEV,
			"there is no CUDA driver here (%s): install NVIDIA's driver, or give the "
			"container the GPU (docker run --gpus all)",
			dlerror());
	int result = driver_resolve(library, &driver_table);
	if (result < 0)
		return result;
	CUresult r = driver_table.init(0);
	return r == CUDA_SUCCESS ? 0 : driver_fail(&driver_table, r, NULL, "cuInit");
}

static void driver_begin(void)
{
	driver_owner = getpid();
	driver_result = driver_load();
	if (driver_result < 0)
		(void)snprintf(driver_sentence, sizeof driver_sentence, "%s", penstock_error());
}

int driver_get(const struct driver **ret_driver)
{
	(void)pthread_once(&driver_once, driver_begin);
	if (driver_result < 0)
		return sentence_set(driver_result, "%s", driver_sentence);
	if (driver_owner != getpid())
		return sentence_set(-EBADF, "CUDA was initialised by process %d: %s",
			(int)driver_owner, DRIVER_FORKED);
	*ret_driver = &driver_table;
	return 0;
}
