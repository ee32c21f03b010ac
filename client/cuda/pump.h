/* pump: the thread that takes batches from the stream, has the device copy them, and gives slots
 * back.
 *
 * The thread waits on the stream's descriptor, on its own eventfd, and, while a copy is under way,
 * on a short timer after which it asks the events: never inside CUDA for what the application's
 * CUDA streams have to do first, or an end of the attachment could wait for the application. The
 * one wait on the device is for a chunk of the ring, and no copy through the ring is begun before
 * its buffer is idle (but for the batch at which registering was given up). When the device or its
 * way to the memory has failed, what is under way is waited for before its slots go back.
 *
 * Once over (the stream's end or failure, an overwritten batch, a failed device) it stays so: the
 * first to say so counts, unless a later one withdraws batches that the first still let through. */
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
	uint64_t over_serial; /* of the first batch that is not given any more; 0: none is */
	char over_sentence[SENTENCE_BYTES];
	bool stop;
	bool unsettled; /* a buffer was released without an event */
	uint64_t copied_bytes;

	/* the thread's own */
	uint64_t serial; /* of the last batch taken */
	uint32_t *flight; /* ring of buffers whose copy is under way, oldest first */
	uint32_t flight_first, flight_count;
	bool listening; /* the stream had nothing, and there is room */
	bool waiting_idle; /* there is a free buffer, which the device still uses */
	unsigned pause_us; /* before the events are asked again */
};

/* Starts the thread. Entered. All that is pointed to outlives the pump. 0; -ENOMEM, -EAGAIN no
 * thread; -EMFILE; -EIO. On failure pump_deinit is the caller's. */
int pump_init(struct pump *pump, const struct device *device,
	const struct penstock_cuda_options *options, struct memory *memory,
	struct buffer_table *buffers, struct penstock_stream *stream);

/* Ends the thread, waits for what the device does with the buffers and gives all slots back.
 * Entered. Takes a zeroed one. */
void pump_deinit(struct pump *pump);

/* In a forked child: closes its copies of descriptors. */
void pump_forget(struct pump *pump);

/* Has the thread look at what has changed. Any thread. */
void pump_wake(struct pump *pump);

/* The next batch, GIVEN from now on. 0; PENSTOCK_END; -errno, as of penstock_cuda_next. */
int pump_next(struct pump *pump, int32_t timeout_ms, struct buffer **ret_buffer);

/* A GIVEN buffer, whose `released` has been recorded if `recorded`, is FREE. */
void pump_release(struct pump *pump, struct buffer *buffer, bool recorded);

/* Ends the attachment with this thread's sentence: batches from `serial` on are not given. Any
 * thread. */
void pump_end(struct pump *pump, int code, uint64_t serial);

/* 0, or -errno with its sentence when the device has failed. Any thread. */
int pump_check(struct pump *pump);
