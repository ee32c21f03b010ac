/* machine: what this machine offers a loader: CPUs, usable memory, readers, libraries. Main
 * thread. */
#pragma once

#include "base/host/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

struct jsontext;

struct machine {
	unsigned cpus, cpus_online; /* CPUs that this process may use; CPUs that the kernel runs */
	struct cgroup_memory memory;
	uint64_t memlock_bytes; /* UINT64_MAX: unlimited */
	long page_bytes;
	bool io_uring;
	char io_uring_text[256]; /* the reader that reads would use, or why it cannot be used */
	char model[160]; /* of the processor; "not known" */
	char kernel[80], jpeg[48], png[24];
};

void machine_read(struct machine *ret);
/* The workers that a daemon would have here. */
unsigned machine_threads(void);

/* The least --memory for a penstockd on this machine that leaves `bytes` for batches, and its
 * number of decoding threads. On a machine with other CPUs it differs. */
uint64_t machine_budget_for(uint64_t bytes, unsigned *ret_threads);

void machine_print(const struct machine *machine);
void machine_json(const struct machine *machine, struct jsontext *json);
