/* fake_driver: what a test tells the fake CUDA driver, and asks it.
 *
 * The driver is loaded as libcuda.so.1; `fake_cuda` in it gives this table. All state is the
 * process's: a test that wants a fresh driver forks first. Thread: any. */
#pragma once

#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_cuda_settings {
	int devices, driver_version; /* as of cuDriverGetVersion */
	int capability; /* 90 for 9.0 */
	bool host_register; /* pinning of mapped memory is supported */
	bool read_only_register; /* ... of memory that is mapped read-only, with the flag for it */
	bool host_page_tables; /* ... without that flag too */
	uint64_t memory; /* of each device, bytes */
};

#define FAKE_CUDA_SETTINGS                                                                       \
	{                                                                                        \
		.devices = 2, .driver_version = CUDA_VERSION, .capability = 90,                  \
		.host_register = true, .read_only_register = true, .memory = (uint64_t)256 << 20 \
	}

enum { FAKE_CUDA_COPIES = 1, FAKE_CUDA_KERNELS = 2 };

struct fake_cuda_use {
	uint64_t device_bytes, pinned_bytes; /* allocated now; pinned: cuMemHostAlloc alone */
	unsigned allocations, registrations, streams, events, modules, contexts; /* alive now */
	uint64_t pageable_copies; /* that had to be staged because the memory was not pinned */
	uint64_t direct_copies; /* from registered memory */
	uint64_t launches; /* of kernels */
	bool idle; /* no stream has anything left to do */
};

struct fake_cuda {
	/* Before cuInit. */
	void (*configure)(const struct fake_cuda_settings *settings);
	/* The n-th call of this function from now on (1: the next; 0: none any more) returns
	 * `result` in place of doing what it should; functions that give something back do that
	 * all the same, as the real ones do. NULL: any function that a lost device would fail.
	 * When `lost`, the device is lost from then on. One such rule at a time. */
	void (*fail_at)(const char *symbol, uint64_t nth, CUresult result, bool lost);
	/* Whether that call came. */
	bool (*failed)(void);
	/* The device is lost now: what runs never ends, and all that touches it returns this. */
	void (*lose)(CUresult result);
	/* Streams stop in front of these kinds of work until told 0. */
	void (*hold)(unsigned kinds);
	/* Each copy takes at least so long. */
	void (*delay)(unsigned microseconds);
	/* Whether a thread captures a graph in the strictest mode: then calls that are unsafe
	 * meanwhile (allocations, waits, queries) fail in all threads that did not say that they
	 * want to be relaxed about it. */
	void (*capture)(bool under_way);
	/* Whether this stream of the current context is being captured: what is recorded in it
	 * then is part of the graph, and other work in it a fault. */
	void (*capture_stream)(CUstream stream, bool under_way);
	uint64_t (*calls)(const char *symbol);
	void (*use)(struct fake_cuda_use *ret_use);
	/* How often the caller broke a rule of the interface, each told on stderr when it happened.
	 * When there were any, or leaks, the process ends with code 86. */
	unsigned (*faults)(void);
	/* Tells on stderr what is alive: contexts, modules, streams, events, memory. */
	unsigned (*leaks)(void);
	/* For tests that break a rule on purpose: faults and leaks so far are forgiven. */
	void (*forgive)(void);
};

enum { FAKE_CUDA_EXIT = 86 };

typedef const struct fake_cuda *fake_cuda_get(void);
