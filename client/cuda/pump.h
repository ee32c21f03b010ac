/* pump: the thread that takes batches from the stream, has the device copy them, and returns slots.
 *
 * The thread waits on the stream's descriptor, on its own eventfd, and, while a copy is in
 * progress, on a short timer after which it queries the events. It never waits inside CUDA for work
 * that the application's CUDA streams have to do first; otherwise ending the attachment could wait
 * for the application. It waits on the device only for a chunk of the ring, and it begins no copy
 * through the ring before its buffer is idle (except for the batch at which it gave up
 * registering). If the device or its access to the memory fails, the pump waits for the copies in
 * progress before it returns their slots.
 *
 * Once the attachment has ended (end or failure of the stream, an overwritten batch, a failed
 * device), it stays ended. The first reason counts, unless a later one withdraws batches that
 * the first still let through. */
#pragma once

#include "client/cuda/buffer.h"
#include "client/cuda/memory.h"
#include "client/cuda/sentence.h"
#include "client/cuda/tap.h"

struct pump {
	/* constant while the thread runs */
	const struct device *device;
	const struct penstock_cuda_options *options;
	struct memory *memory;
	struct buffer_table *buffers;
	struct penstock_stream_info info;
	int stream_fd, wake_fd;
	CUstream queue; /* the copies' */
	pthread_t thread;
	bool running;

	struct tap tap; /* the stream */

	/* under buffers->lock */
	int over; /* 0, PENSTOCK_END or -errno, with its sentence */
	uint64_t
		over_serial; /* the first batch that is no longer delivered; 0: all are delivered */
	char over_sentence[SENTENCE_BYTES];
	bool stop;
	/* How long the pump has waited for the daemon, and since when it does: 0, it does not. */
	uint64_t starved_ns, starved_since_ns;
	bool unsettled; /* a buffer was released without an event */
	uint64_t copied_bytes;

	/* the thread's own */
	uint64_t serial; /* of the last batch taken */
	uint32_t *flight; /* ring of buffers whose copy is in progress, oldest first */
	uint32_t flight_first, flight_count;
	bool listening; /* the stream had no batch, and a buffer is free */
	bool waiting_idle; /* a buffer is free, but the device still uses it */
	unsigned pause_us; /* until it queries the events again */
};

/* Starts the thread. Device entered. Everything pointed to outlives the pump. 0; -ENOMEM,
 * -EAGAIN: no thread; -EMFILE; -EIO. On failure the caller calls pump_deinit. */
int pump_init(struct pump *pump, const struct device *device,
	const struct penstock_cuda_options *options, struct memory *memory,
	struct buffer_table *buffers, struct penstock_stream *stream);

/* Ends the thread, waits until the device has finished with the buffers, and returns all slots.
 * Device entered. Accepts a zeroed pump. */
void pump_deinit(struct pump *pump);

/* In a forked child: closes its copies of descriptors. */
void pump_forget(struct pump *pump);

/* CLOCK_MONOTONIC. */
uint64_t pump_now_ns(void);

/* How long, until `now_ns`, the pump has had room for a batch that the daemon had not given. Any
 * thread. */
uint64_t pump_starved_ns(struct pump *pump, uint64_t now_ns);

/* Wakes the thread to look at what has changed. Any thread. */
void pump_wake(struct pump *pump);

/* The next batch; it is GIVEN from now on. 0; PENSTOCK_END; -errno as penstock_cuda_next. */
int pump_next(struct pump *pump, int32_t timeout_ms, struct buffer **ret_buffer);

/* Frees a GIVEN buffer; `recorded`: its event `released` has been recorded. */
void pump_release(struct pump *pump, struct buffer *buffer, bool recorded);

/* Ends the attachment with this thread's error sentence; batches from `serial` on are not
 * delivered. Any thread. */
void pump_end(struct pump *pump, int code, uint64_t serial);

/* 0, or -errno with its sentence if the device has failed. Any thread. */
int pump_check(struct pump *pump);
