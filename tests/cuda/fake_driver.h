/* fake_driver: the interface between tests and the fake CUDA driver.
 *
 * The driver is loaded as libcuda.so.1; `fake_cuda` in it gives this table. All state belongs to
 * the process: a test that needs a fresh driver forks first. Thread: any. */
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
	uint64_t device_bytes, pinned_bytes; /* allocated now; pinned: only cuMemHostAlloc */
	unsigned allocations, registrations, streams, events, modules, contexts; /* alive now */
	uint64_t pageable_copies; /* copies that were staged because the memory was not pinned */
	uint64_t direct_copies; /* copies from registered memory */
	uint64_t launches; /* of kernels */
	bool idle; /* no stream has work left */
};

struct fake_cuda {
	/* Before cuInit. */
	void (*configure)(const struct fake_cuda_settings *settings);
	/* The n-th call of this function from now on (1: the next; 0: none any more) returns
	 * `result` and does not do its work; functions that free or release something do so
	 * nevertheless, as the real ones do. NULL: any function that a lost device would fail.
	 * If `lost`, the device is lost from then on. Only one such rule at a time. */
	void (*fail_at)(const char *symbol, uint64_t nth, CUresult result, bool lost);
	/* Whether that call happened. */
	bool (*failed)(void);
	/* The device is lost now: running work never ends, and every call that touches the
	 * device returns this. */
	void (*lose)(CUresult result);
	/* Streams stop before these kinds of work until a call with 0. */
	void (*hold)(unsigned kinds);
	/* Each copy takes at least this long. */
	void (*delay)(unsigned microseconds);
	/* Whether a thread captures a graph in the strictest mode: then calls that are unsafe
	 * meanwhile (allocations, waits, queries) fail in all threads that have not chosen the
	 * relaxed mode. */
	void (*capture)(bool under_way);
	/* Whether this stream of the current context is being captured: an event recorded in it
	 * is then part of the graph, and other work in it is a fault. */
	void (*capture_stream)(CUstream stream, bool under_way);
	uint64_t (*calls)(const char *symbol);
	void (*use)(struct fake_cuda_use *ret_use);
	/* How often the caller broke a rule of the interface; the driver reports each on stderr
	 * at once. After any of these, or leaks, the process ends with code 86. */
	unsigned (*faults)(void);
	/* Prints on stderr what is alive: contexts, modules, streams, events, memory. */
	unsigned (*leaks)(void);
	/* For tests that break a rule on purpose: faults and leaks so far are forgiven. */
	void (*forgive)(void);
};

enum { FAKE_CUDA_EXIT = 86 };

typedef const struct fake_cuda *fake_cuda_get(void);
