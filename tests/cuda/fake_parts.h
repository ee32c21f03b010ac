/* fake_parts: declarations that the files of the fake CUDA driver share; fake_driver.c has their
 * map.
 *
 * One mutex guards all state. The lane's thread does the work itself (copies, kernels) without it.
 *
 * Order: each lane numbers its work. A clock tells, for each lane, which of its work comes
 * before something: before an event, before the work that a lane queues next, before the host's
 * next action. If two pieces of work touch the same bytes and one of them writes, their clocks
 * must order them. The fake checks this when it queues the work, so the check does not depend on
 * timing. */
#pragma once

#include "client/cuda/driver.h"
#include "client/cuda/kernels.h"
#include "cuda/fake_driver.h"

#include <pthread.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

enum { FAKE_DEVICES = 4, FAKE_LANES = 32, FAKE_STACK = 16, FAKE_GUARD = 256, FAKE_NAME = 64 };

enum call {
#define FAKE_CALL(name, symbol, type) CALL_##name,
	DRIVER_FUNCTIONS(FAKE_CALL)
#undef FAKE_CALL
		CALLS
};

struct clock {
	uint64_t at[FAKE_LANES];
};

/* ---- the objects; destroyed ones stay in their lists, so that the fake notices a late use ----
 */

struct CUctx_st {
	int device;
	unsigned retained, pushed;
	struct CUstream_st *legacy; /* the default stream, made when it is first used */
};

struct CUstream_st {
	struct CUstream_st *next;
	struct CUctx_st *context;
	unsigned lane;
	bool alive,
		/* Blocking: it waits for the default stream, and the default stream for it. */
		blocking;
	bool legacy;
	bool capturing; /* into a graph; the fake has no graphs */
};

struct CUevent_st {
	struct CUevent_st *next;
	struct CUctx_st *context;
	bool alive, timed, recorded;
	bool captured; /* last recorded in a stream that was being captured */
	unsigned lane;
	uint64_t seq; /* of the last record, in that lane */
	struct clock clock;
	uint64_t done_seq, done_ns; /* the last record that was executed */
};

struct CUmod_st {
	struct CUmod_st *next;
	struct CUctx_st *context;
	bool alive;
	struct CUfunc_st *functions;
};

struct CUfunc_st {
	struct CUfunc_st *next;
	struct CUmod_st *module;
	char name[FAKE_NAME];
	unsigned lane; /* of its last launch; the number 0 before the first */
	uint64_t seq;
};

enum block_kind { BLOCK_DEVICE, BLOCK_PINNED, BLOCK_REGISTERED };

struct access {
	unsigned lane;
	bool writes;
	uint64_t seq;
	size_t begin, end;
};

/* Memory that the device may touch. */
struct block {
	struct block *next;
	struct CUctx_st *context;
	enum block_kind kind;
	bool alive, portable;
	uintptr_t address; /* the caller's address; the CPU cannot touch a device address */
	size_t bytes;
	uint8_t *backing; /* where the bytes are, followed by FAKE_GUARD bytes for device memory
			   */
	uint64_t device_id, inode; /* the mapping of registered memory */
	struct access *access;
	size_t accesses, room;
};

/* ---- work ---- */

enum work_kind { WORK_MARK, WORK_COPY, WORK_KERNEL, WORK_HOST };

struct launch {
	char name[FAKE_NAME];
	struct kernels_grid grid;
	union {
		struct kernels_normalise normalise;
		struct kernels_targets targets;
	} argument; /* with the addresses of the backing */
};

struct work {
	enum work_kind kind;
	uint64_t seq;
	struct clock need; /* work that must be done in the other lanes */
	/* WORK_COPY */
	void *to;
	const void *from;
	size_t bytes;
	void *staged; /* freed after it */
	/* WORK_KERNEL */
	struct launch launch;
	/* WORK_MARK: of an event, or NULL */
	struct CUevent_st *event;
	/* WORK_HOST */
	void (*call)(void *argument);
	void *argument;
};

/* ---- fake_driver.c ---- */

extern pthread_mutex_t fake_lock;

/* Holds the lock until the end of the scope. */
#define FAKE_LOCKED                                                                  \
	__attribute__((cleanup(fake_unlock))) pthread_mutex_t *locked_ = &fake_lock; \
	(void)pthread_mutex_lock(locked_)
static inline void fake_unlock(pthread_mutex_t **lock)
{
	(void)pthread_mutex_unlock(*lock);
}

/* Begins the body of a call, which has the lock until it returns: returns at once where the call
 * is to fail. Declares `result`, CUDA_SUCCESS. */
#define FAKE_ENTER(call, needs_context)          \
	FAKE_ENTER_RELEASE(call, needs_context); \
	do {                                     \
		if (result != CUDA_SUCCESS)      \
			return result;           \
	} while (0)
/* The same for calls that release something: they do so whatever `result` is, and return it. */
#define FAKE_ENTER_RELEASE(call, needs_context) \
	FAKE_LOCKED;                            \
	CUresult result = fake_enter(call, needs_context)
/* Counts the call and returns its immediate error; CUDA_SUCCESS to continue. `needs_context`:
 * CUDA_ERROR_INVALID_CONTEXT without one. Locked. */
CUresult fake_enter(enum call call, bool needs_context);
/* This thread's, NULL without one. Locked. */
struct CUctx_st *fake_current(void);
const struct fake_cuda_settings *fake_settings(void);
/* The error of a lost device; CUDA_SUCCESS while the device is not lost. Locked. */
CUresult fake_lost(void);
struct CUmod_st *fake_modules(void);

/* The caller broke a rule. Locked. */
void fake_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed memory for the fake itself; ends the process if there is none. */
void *fake_room(size_t bytes);

/* ---- fake_stream.c ---- */

/* Queues work; `work` is copied. Returns its number in the lane. Locked. */
uint64_t stream_push(struct CUstream_st *stream, struct work *work);
/* The work that precedes the next work in it. Locked. */
const struct clock *stream_clock(struct CUstream_st *stream);
/* The stream of this handle, in the current context: NULL if it does not exist. Locked. */
struct CUstream_st *stream_find(CUstream handle);
/* Waits until the lane has done this work; returns the error if the device is lost. Locked, and
 * unlocks while it waits. */
CUresult stream_await(unsigned lane, uint64_t seq);
bool stream_done(unsigned lane, uint64_t seq);
/* The number of the last queued work. */
uint64_t stream_last(const struct CUstream_st *stream);
/* The number that stream_push gives next. */
uint64_t stream_next(const struct CUstream_st *stream);
void stream_hold(unsigned kinds);
void stream_delay(unsigned microseconds);
void stream_capture(struct CUstream_st *stream, bool under_way);
void stream_wake(void);
/* Ends the threads. Locked, and unlocks while it waits. */
void stream_end(void);
/* Counts, reports (if `tell`) and forgets (if `forget`) the objects of the context; NULL: of all
 * contexts. */
unsigned stream_leaks(const struct CUctx_st *context, bool tell, bool forget);
void stream_use(struct fake_cuda_use *use);

/* ---- fake_memory.c ---- */

/* Device memory at this address, of the current context: where its bytes are. NULL and a fault
 * if it is not device memory, was freed, or is too short. Locked. */
uint8_t *memory_find(CUdeviceptr address, size_t bytes, const char *what, struct block **ret_block);
/* Notes that the next work pushed to this stream touches these bytes of a block; a fault if it
 * is not ordered after the work that touched them before. Locked. */
void memory_access(struct block *block, uintptr_t address, size_t bytes, bool writes,
	struct CUstream_st *stream, const char *what);
unsigned memory_leaks(const struct CUctx_st *context, bool tell, bool forget);
void memory_use(struct fake_cuda_use *use);
/* Whether the bytes are mapped in this process. */
bool memory_is_mapped(const void *address, size_t bytes);

/* ---- fake_kernel.c ---- */

/* Whether the module has a function of this name. */
bool kernel_is_known(const char *name);
void kernel_run(const struct launch *launch);
void kernel_use(struct fake_cuda_use *use);
