/* nvml: see nvml.h. Names, layouts and codes are those of NVIDIA's NVML API reference (nvmlInit_v2
 * and so on). A function of a given name does not change; new forms get a new version suffix.
 *
 * The list of processes is the exception. Before _v2 an entry was a pid and its bytes; since _v2
 * two more numbers follow. Some drivers of the 535 branch wrote one more field through _v3 before
 * NVIDIA reverted that. The buffer here has room for such entries, so that these drivers do not
 * write past it; their processes are then not found. */
#include "record/nvml.h"

#include "base/util.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_PROCESSES = 256, /* of one device */
	NVML_ENTRY_ROOM = 40, /* bytes: more than any driver writes */
};

typedef struct nvml_device_opaque *nvml_device;

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_process_v1 {
	unsigned pid;
	unsigned long long used;
};

struct nvml_process_v2 {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

struct nvml_calls {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *);
	int (*handle)(unsigned, nvml_device *);
	int (*name)(nvml_device, char *, unsigned);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*utilization)(nvml_device, struct nvml_utilization *);
	int (*processes)(nvml_device, unsigned *, void *);
	const char *(*error)(int);
};

struct nvml_user {
	uint32_t pid;
	uint64_t used;
};

struct nvml {
	void *library;
	struct nvml_calls call;
	size_t stride; /* of an entry of the list of processes */
	unsigned users;
	bool told_memory, told_busy, told_processes, told_users, told_devices;
	struct nvml_user user[RECORD_GPUS * NVML_PROCESSES];
	/* Entries as the library writes them. */
	union {
		unsigned long long aligned;
		char bytes[NVML_PROCESSES * NVML_ENTRY_ROOM];
	} list;
};

static const char *nvml_says(const struct nvml *nvml, int code)
{
	const char *text = nvml->call.error ? nvml->call.error(code) : NULL;
	return text ? text : "no reason given";
}

/* Reports each kind of failure once; otherwise some machines would report one every second. */
static void nvml_tell(
	struct nvml *nvml, bool *told, const char *what, int code, char *note, size_t room)
{
	if (*told)
		return;
	*told = true;
	(void)snprintf(
		note, room, "NVML does not report %s: %s (%d)", what, nvml_says(nvml, code), code);
}

/* ---- looking it up ---- */

/* Copies an object pointer into a function pointer: POSIX allows it, C has no cast for it. */
static bool nvml_find(void *library, const char *name, void *ret)
{
	void *symbol = dlsym(library, name);
	memcpy(ret, &symbol, sizeof symbol);
	return symbol != NULL;
}

static const char *nvml_bind(struct nvml *nvml)
{
	const struct {
		const char *name;
		void *call;
	} needed[] = {{"nvmlInit_v2", &nvml->call.init}, {"nvmlShutdown", &nvml->call.shutdown},
		{"nvmlDeviceGetCount_v2", &nvml->call.count},
		{"nvmlDeviceGetHandleByIndex_v2", &nvml->call.handle},
		{"nvmlDeviceGetMemoryInfo", &nvml->call.memory}};
	static const char *const processes[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"};
	for (size_t i = 0; i < UTIL_COUNT(needed); i++)
		if (!nvml_find(nvml->library, needed[i].name, needed[i].call))
			return needed[i].name;
	(void)nvml_find(nvml->library, "nvmlDeviceGetName", &nvml->call.name);
	(void)nvml_find(nvml->library, "nvmlDeviceGetUtilizationRates", &nvml->call.utilization);
	(void)nvml_find(nvml->library, "nvmlErrorString", &nvml->call.error);
	for (size_t i = 0; i < UTIL_COUNT(processes) && !nvml->call.processes; i++) {
		(void)nvml_find(nvml->library, processes[i], &nvml->call.processes);
		nvml->stride = i + 1 < UTIL_COUNT(processes) ? sizeof(struct nvml_process_v2)
							     : sizeof(struct nvml_process_v1);
	}
	return NULL;
}

struct nvml *nvml_open(char *ret_note, size_t room)
{
	ret_note[0] = 0;
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	struct nvml *nvml = library ? calloc(1, sizeof *nvml) : NULL;
	if (!library)
		return NULL;
	if (!nvml) {
		(void)dlclose(library);
		return NULL;
	}
	nvml->library = library;
	const char *missing = nvml_bind(nvml);
	int code = missing ? 0 : nvml->call.init();
	if (!missing && code == NVML_SUCCESS)
		return nvml;
	if (missing)
		(void)snprintf(ret_note, room,
			"GPU memory is not recorded: libnvidia-ml.so.1 has no %s: install a newer "
			"NVIDIA driver",
			missing);
	else
		(void)snprintf(ret_note, room,
			"GPU memory is not recorded: NVML does not start: %s (%d)",
			nvml_says(nvml, code), code);
	(void)dlclose(library);
	free(nvml);
	return NULL;
}

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	(void)nvml->call.shutdown();
	(void)dlclose(nvml->library);
	free(nvml);
}

/* ---- asking ---- */

static void nvml_add_user(struct nvml *nvml, uint32_t pid, uint64_t used)
{
	for (unsigned i = 0; i < nvml->users; i++) {
		struct nvml_user *user = &nvml->user[i];
		if (user->pid != pid)
			continue;
		/* An unknown amount makes the sum unknown. */
		user->used = used == UINT64_MAX || user->used == UINT64_MAX ? UINT64_MAX
									    : user->used + used;
		return;
	}
	if (nvml->users < UTIL_COUNT(nvml->user))
		nvml->user[nvml->users++] = (struct nvml_user){pid, used};
}

static void nvml_ask_processes(struct nvml *nvml, nvml_device device, char *note, size_t room)
{
	unsigned count = NVML_PROCESSES;
	int code = nvml->call.processes ? nvml->call.processes(device, &count, &nvml->list)
					: NVML_ERROR_NOT_SUPPORTED;
	if (code == NVML_ERROR_INSUFFICIENT_SIZE && !nvml->told_users) {
		nvml->told_users = true;
		(void)snprintf(note, room,
			"a GPU has %u processes; with more than %d, what each has of its memory "
			"is not recorded",
			count, NVML_PROCESSES);
	}
	if (code == NVML_ERROR_INSUFFICIENT_SIZE)
		return;
	if (code != NVML_SUCCESS) {
		nvml_tell(
			nvml, &nvml->told_processes, "which processes use a GPU", code, note, room);
		return;
	}
	for (unsigned i = 0; i < UTIL_MIN(count, (unsigned)NVML_PROCESSES); i++) {
		struct nvml_process_v1 entry; /* all versions begin with this */
		memcpy(&entry, nvml->list.bytes + i * nvml->stride, sizeof entry);
		nvml_add_user(nvml, entry.pid, entry.used);
	}
}

static void nvml_ask_device(
	struct nvml *nvml, nvml_device device, struct record_gpu *ret, char *note, size_t room)
{
	struct nvml_memory memory;
	struct nvml_utilization busy;
	int code = nvml->call.memory(device, &memory);
	if (code == NVML_SUCCESS) {
		ret->used = memory.used;
		ret->total = memory.total;
	} else {
		nvml_tell(nvml, &nvml->told_memory, "how much memory a GPU has left", code, note,
			room);
	}
	code = nvml->call.utilization ? nvml->call.utilization(device, &busy)
				      : NVML_ERROR_NOT_SUPPORTED;
	if (code == NVML_SUCCESS)
		ret->busy = (float)busy.gpu / 100;
	else
		nvml_tell(nvml, &nvml->told_busy, "how busy a GPU is", code, note, room);
	if (nvml->call.name && nvml->call.name(device, ret->name, sizeof ret->name))
		ret->name[0] = 0;
	ret->name[sizeof ret->name - 1] = 0;
}

unsigned nvml_sample(
	struct nvml *nvml, struct record_gpu ret[RECORD_GPUS], char *ret_note, size_t room)
{
	unsigned devices = 0, kept = 0;
	nvml_device device;
	ret_note[0] = 0;
	nvml->users = 0;
	int code = nvml->call.count(&devices);
	if (code != NVML_SUCCESS) {
		nvml_tell(
			nvml, &nvml->told_devices, "how many GPUs there are", code, ret_note, room);
		return 0;
	}
	for (unsigned i = 0; i < devices && kept < RECORD_GPUS; i++) {
		/* This user may not see the device, or it has fallen off the bus. */
		if (nvml->call.handle(i, &device) != NVML_SUCCESS)
			continue;
		ret[kept] = (struct record_gpu){
			.device = i, .used = UINT64_MAX, .total = UINT64_MAX, .busy = -1};
		nvml_ask_device(nvml, device, &ret[kept++], ret_note, room);
		nvml_ask_processes(nvml, device, ret_note, room);
	}
	return kept;
}

uint64_t nvml_process_bytes(const struct nvml *nvml, int32_t pid)
{
	for (unsigned i = 0; nvml && i < nvml->users; i++)
		if (nvml->user[i].pid == (uint32_t)pid)
			return nvml->user[i].used;
	return UINT64_MAX;
}
