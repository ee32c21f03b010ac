/* nvml: what NVIDIA's management library says of devices and of the memory that processes have on
 * them.
 *
 * libnvidia-ml.so.1 comes with the driver and is looked up at run time; nothing of it is needed to
 * build. A machine without it, an old one, or a call that fails means "not known", with one
 * sentence for the first time. In the witness alone: a driver that hangs holds up nobody else, and
 * what the library allocates is not the daemon's. */
#pragma once

#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct nvml;

/* NULL when there is nothing to ask; then `ret_note` says why, or is "" where there is simply no
 * such library. */
struct nvml *nvml_open(char *ret_note, size_t room);

/* The devices now, at most RECORD_GPUS, and which processes have how much on all of the machine's,
 * for nvml_process_bytes. `ret_note`: "" or what failed, each thing once. */
unsigned nvml_sample(
	struct nvml *nvml, struct record_gpu ret[RECORD_GPUS], char *ret_note, size_t room);

/* Of the last sample: what the process has on all devices; UINT64_MAX: not known, as for one that
 * the driver does not list (it uses no device, or its number here is not the one outside of this
 * container). NULL knows nothing. */
uint64_t nvml_process_bytes(const struct nvml *nvml, int32_t pid);

void nvml_close(struct nvml *nvml);
