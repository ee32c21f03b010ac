/* buffer: the batches on the device, and who owns each of them.
 *
 * A buffer goes FREE -> FILLING (the pump writes to it) -> READY (its copy is enqueued, and the
 * event `ready` is recorded after it) -> GIVEN (to the application) -> FREE (released; the event
 * `released` is recorded in the application's CUDA stream). Only buffer_move changes the state. A
 * buffer may be given, and even released, before its copy has begun: the events keep the order on
 * the device. The pump claims a FREE buffer again when its last copy is done (`copying`), and its
 * next copy waits for `released` on the device. So the device never reads the part that the host
 * writes (the pinned block) while the host writes it.
 *
 * Threads: any thread may use the states and the fields marked as under the lock, with the lock
 * held; the rest belongs to the pump from FREE to READY, and to the application's thread while
 * GIVEN. */
#pragma once

#include "client/cuda/device.h"
#include "penstock/cuda.h"

#include <pthread.h>

enum buffer_state {
	BUFFER_FREE = 0,
	BUFFER_FILLING,
	BUFFER_READY,
	BUFFER_GIVEN,
};

enum { BUFFER_SLACK = 16, BUFFER_STATE_BYTES = 512 };

struct buffer {
	enum buffer_state state; /* under the lock */
	uint64_t serial; /* the order of batches, from 1; 0: never filled */
	/* on the device */
	CUdeviceptr images, labels, rows;
	CUevent ready; /* recorded after the copies */
	CUevent released; /* recorded when the application releases it */
	/* pinned host memory; one copy moves it to `labels` and `rows` */
	int64_t *host_labels;
	struct penstock_cuda_row *host_rows;
	struct penstock_sample *host_samples;
	/* of the batch */
	uint32_t count, flags;
	uint64_t epoch, batch;
	char loop[BUFFER_STATE_BYTES]; /* penstock_stream_state after this batch */
	/* only the pump uses what follows */
	bool copying; /* its copy is in progress and reads the pinned block */
	/* `released` has been recorded, and no copy waits for it yet; under the lock. */
	bool awaited;
	bool holds_slot;
	int extent; /* memory_copy */
	struct penstock_batch slot;
	/* only the application's thread uses what follows */
	bool measured; /* the wait for `ready` */
};

struct buffer_geometry {
	uint64_t image_bytes; /* of one row */
	uint32_t rows;
	size_t images, labels, table; /* bytes of each part, rounded up to BUFFER_ALIGN */
	size_t host_samples;
};

struct buffer_table {
	const struct device *device;
	struct buffer *buffer;
	uint32_t count;
	struct buffer_geometry geometry;
	uint64_t device_bytes, pinned_bytes;
	/* the allocator of the memory */
	CUdeviceptr block;
	uint8_t *host_block;
	void (*release)(void *context, void *memory, size_t bytes); /* NULL: the driver allocates */
	void *release_context;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
};

/* Device entered. 0; -ENOMEM; -EINVAL: the application's allocator returned unusable memory;
 * -EIO. On failure the caller calls buffer_deinit. */
int buffer_init(struct buffer_table *table, const struct device *device,
	const struct penstock_cuda_options *options, const struct penstock_stream_info *info);

/* Device entered; the device must have finished with the buffers. Accepts a zeroed table. */
void buffer_deinit(struct buffer_table *table);

/* Changes the state of a buffer; only this function does. Under the lock. */
void buffer_move(struct buffer *buffer, enum buffer_state to);

/* The READY buffer with the lowest serial, or NULL. Under the lock. */
struct buffer *buffer_oldest(const struct buffer_table *table);

/* The number of buffers in this state. Under the lock. */
uint32_t buffer_count(const struct buffer_table *table, enum buffer_state state);

/* The buffer that the application holds as `batch`, or NULL. The application's thread. */
struct buffer *buffer_of(struct buffer_table *table, const struct penstock_cuda_batch *batch);

/* Copies labels and samples to the pinned block. */
void buffer_take_rows(struct buffer *buffer, const struct penstock_batch *batch);

/* Enqueues in `queue` a copy of the pinned block's labels and rows to the device. */
CUresult buffer_send_rows(
	const struct buffer_table *table, const struct buffer *buffer, CUstream queue);

/* The number of bytes that buffer_send_rows copies. */
size_t buffer_sent_bytes(const struct buffer_table *table);
