/* machine: what this machine offers a loader: processors, memory that may be used, readers,
 * libraries. Main thread. */
#pragma once

#include "base/host/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

struct jsontext;

struct machine {
	unsigned cpus, cpus_online; /* that this process may use; that the kernel runs */
	struct cgroup_memory memory;
	uint64_t memlock_bytes; /* UINT64_MAX: unlimited */
	long page_bytes;
	bool io_uring;
	char io_uring_text[256]; /* what reads would use, or why it cannot be used */
	char kernel[80], jpeg[48], png[24];
};

void machine_read(struct machine *ret);
/* Workers that a daemon would have here. */
unsigned machine_threads(void);

/* The least --memory of a penstockd here that leaves `bytes` for batches, and with how many
 * decoding threads. Elsewhere, with other CPUs, it is another. */
uint64_t machine_budget_for(uint64_t bytes, unsigned *ret_threads);

void machine_print(const struct machine *machine);
void machine_json(const struct machine *machine, struct jsontext *json);
