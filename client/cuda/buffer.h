/* buffer: the batches on the device, and whose each of them is.
 *
 * A buffer goes FREE -> FILLING (the pump writes to it) -> READY (its copy is enqueued, behind
 * which `ready` is recorded) -> GIVEN (to the application) -> FREE (released, with `released`
 * recorded in the application's CUDA stream); buffer_move is the only door. It may be given, and
 * even released, before its copy has begun: order between the two is kept by the events, on the
 * device. A FREE buffer is claimed again when its last copy is done (`copying`), and its next copy
 * waits for `released` on the device. So nothing of a buffer that the host writes (its pinned
 * block) is being read by the device when it is written.
 *
 * Threads: states and what is said to be under the lock, any; the rest belongs to the pump from
 * FREE to READY, to the application's thread while GIVEN. */
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
	uint64_t serial; /* order of batches, from 1; 0: never filled */
	/* on the device */
	CUdeviceptr images, labels, rows;
	CUevent ready; /* recorded behind the copies */
	CUevent released; /* recorded by the application's release */
	/* pinned, on the host: copied to `labels` and `rows` as one piece */
	int64_t *host_labels;
	struct penstock_cuda_row *host_rows;
	struct penstock_sample *host_samples;
	/* of the batch */
	uint32_t count, flags;
	uint64_t epoch, batch;
	char loop[BUFFER_STATE_BYTES]; /* penstock_stream_state behind it */
	/* the pump's own */
	bool copying; /* its copy is under way, and reads the pinned block */
	bool awaited; /* `released` was recorded, and no copy waits for it yet; under the lock */
	bool holds_slot;
	int extent; /* memory_copy */
	struct penstock_batch slot;
	/* the application's thread's own */
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
	/* where the memory is from */
	CUdeviceptr block;
	uint8_t *host_block;
	void (*release)(void *context, void *memory, size_t bytes); /* NULL: the driver's */
	void *release_context;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
};

/* Entered. 0; -ENOMEM; -EINVAL the application's allocator gave what cannot be used; -EIO. On
 * failure buffer_deinit is the caller's. */
int buffer_init(struct buffer_table *table, const struct device *device,
	const struct penstock_cuda_options *options, const struct penstock_stream_info *info);

/* Entered; the device must have finished with them. Takes a zeroed one. */
void buffer_deinit(struct buffer_table *table);

/* The one place where a buffer changes state; under the lock. */
void buffer_move(struct buffer *buffer, enum buffer_state to);

/* The READY one of the lowest serial, or NULL; under the lock. */
struct buffer *buffer_oldest(const struct buffer_table *table);

/* How many are in this state; under the lock. */
uint32_t buffer_count(const struct buffer_table *table, enum buffer_state state);

/* What the application holds as `batch`, or NULL. The application's thread. */
struct buffer *buffer_of(struct buffer_table *table, const struct penstock_cuda_batch *batch);

/* Copies labels and samples to the pinned block. */
void buffer_take_rows(struct buffer *buffer, const struct penstock_batch *batch);

/* Has `queue` copy the pinned block's labels and rows to the device. */
CUresult buffer_send_rows(
	const struct buffer_table *table, const struct buffer *buffer, CUstream queue);

/* What buffer_send_rows copies. */
size_t buffer_sent_bytes(const struct buffer_table *table);
