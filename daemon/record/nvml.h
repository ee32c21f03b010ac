/* nvml: what NVIDIA's management library reports of devices, and of the memory that processes have
 * on them.
 *
 * libnvidia-ml.so.1 comes with the driver and is looked up at run time; building does not need it.
 * A machine without it, an old version, or a call that fails means "not known", with one sentence
 * the first time. Only the witness process uses it: a driver that hangs holds up nothing else, and
 * the library's memory does not count as the daemon's. */
#pragma once

#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct nvml;

/* NULL when the library cannot be used: then `ret_note` says why, or is "" where there is no such
 * library. */
struct nvml *nvml_open(char *ret_note, size_t room);

/* Samples the devices, at most RECORD_GPUS, and, for nvml_process_bytes, the memory that each
 * process has on them. `ret_note` becomes "" or the first failure of a kind. Returns the number of
 * devices. */
unsigned nvml_sample(
	struct nvml *nvml, struct record_gpu ret[RECORD_GPUS], char *ret_note, size_t room);

/* The memory that the process had on all devices at the last sample; UINT64_MAX: not known. That
 * includes processes which the driver does not list: those without a device, and those whose pid in
 * this container differs from the pid outside. Takes NULL: nothing is known. */
uint64_t nvml_process_bytes(const struct nvml *nvml, int32_t pid);

void nvml_close(struct nvml *nvml);
