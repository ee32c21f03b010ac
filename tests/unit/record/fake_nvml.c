/* fake_nvml: a made-up libnvidia-ml.so.1. It has no NVIDIA code and no device, only the names,
 * layouts and codes of NVIDIA's NVML reference, and reports what a test sets. It is built several
 * times: FAKE_VERSION is the newest version of the list of processes that it has (1: the one
 * without a number), and 0 makes a library that is too old to be of use.
 *
 * In a daemon (tests/e2e) no test sets it up. Then it has one device, and the processes are those
 * of the file that PENSTOCK_FAKE_NVML names, a line "PID BYTES" each. */
#include "unit/record/fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_API __attribute__((visibility("default")))

enum { SUCCESS = 0, NOT_FOUND = 6, TOO_SMALL = 7 };

struct fake_memory {
	unsigned long long total, free, used;
};

struct fake_busy {
	unsigned gpu, memory;
};

struct fake_entry_v1 {
	unsigned pid;
	unsigned long long used;
};

struct fake_entry_v2 {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

static struct fake_nvml fake = {.devices = 1, .device[0] = {.total = 8ull << 30, .gpu = 50}};

FAKE_API fake_nvml_get fake_nvml;
FAKE_API int nvmlInit_v2(void);
FAKE_API int nvmlShutdown(void);
FAKE_API const char *nvmlErrorString(int code);
FAKE_API int nvmlDeviceGetCount_v2(unsigned *count);
FAKE_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
FAKE_API int nvmlDeviceGetName(void *device, char *name, unsigned room);
FAKE_API int nvmlDeviceGetMemoryInfo(void *device, struct fake_memory *memory);
FAKE_API int nvmlDeviceGetUtilizationRates(void *device, struct fake_busy *busy);
FAKE_API int nvmlDeviceGetComputeRunningProcesses(
	void *device, unsigned *count, struct fake_entry_v1 *entry);
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v2(
	void *device, unsigned *count, struct fake_entry_v2 *entry);
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *count, struct fake_entry_v2 *entry);

struct fake_nvml *fake_nvml(void)
{
	return &fake;
}

int nvmlInit_v2(void)
{
	return fake.init;
}

int nvmlShutdown(void)
{
	fake.shut++;
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	return code == 9 ? "Driver Not Loaded" : "made-up error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = fake.devices;
	return fake.count_error;
}

/* Handles are numbers from 1, so that a handle that was never set is noticed. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = (void *)(size_t)(index + 1);
	return index < fake.devices ? fake.device[index].handle : NOT_FOUND;
}

static size_t fake_index(const void *device)
{
	if (!device || (size_t)device > FAKE_DEVICES)
		abort();
	return (size_t)device - 1;
}

int nvmlDeviceGetName(void *device, char *name, unsigned room)
{
	(void)snprintf(name, room, "Made-up %zu", fake_index(device));
	return SUCCESS;
}

#if FAKE_VERSION > 0
int nvmlDeviceGetMemoryInfo(void *device, struct fake_memory *memory)
{
	size_t i = fake_index(device);
	*memory = (struct fake_memory){fake.device[i].total,
		fake.device[i].total - fake.device[i].used, fake.device[i].used};
	return fake.device[i].memory;
}
#endif

int nvmlDeviceGetUtilizationRates(void *device, struct fake_busy *busy)
{
	*busy = (struct fake_busy){fake.device[fake_index(device)].gpu, 1};
	return fake.device[fake_index(device)].busy;
}

static void fake_read_file(void)
{
	const char *path = getenv("PENSTOCK_FAKE_NVML");
	FILE *file = path ? fopen(path, "re") : NULL;
	if (!file)
		return;
	unsigned count = 0;
	struct fake_process *p = fake.device[0].process;
	while (count < FAKE_PROCESSES &&
		fscanf(file, "%u %llu", &p[count].pid, &p[count].used) == 2)
		count++;
	fake.device[0].process_count = count;
	(void)fclose(file);
}

/* The part that all versions share; returns the code to return. */
static int fake_begin(size_t index, unsigned *count)
{
	unsigned room = *count;
	fake_read_file();
	*count = fake.device[index].process_count;
	if (fake.device[index].processes)
		return fake.device[index].processes;
	return *count > room ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, struct fake_entry_v1 *entry)
{
	size_t i = fake_index(device);
	int code = fake_begin(i, count);
	for (unsigned k = 0; k < *count && code == SUCCESS; k++)
		entry[k] = (struct fake_entry_v1){
			fake.device[i].process[k].pid, fake.device[i].process[k].used};
	return code;
}

#if FAKE_VERSION >= 2
int nvmlDeviceGetComputeRunningProcesses_v2(
	void *device, unsigned *count, struct fake_entry_v2 *entry)
{
	size_t i = fake_index(device);
	int code = fake_begin(i, count);
	for (unsigned k = 0; k < *count && code == SUCCESS; k++)
		entry[k] = (struct fake_entry_v2){
			fake.device[i].process[k].pid, fake.device[i].process[k].used, ~0u, ~0u};
	return code;
}
#endif

#if FAKE_VERSION >= 3
int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *count, struct fake_entry_v2 *entry)
{
	return nvmlDeviceGetComputeRunningProcesses_v2(device, count, entry);
}
#endif
