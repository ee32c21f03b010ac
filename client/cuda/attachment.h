/* attachment: struct penstock_cuda, and what its public functions (cuda.c, launch.c) share. */
#pragma once

#include "client/cuda/buffer.h"
#include "client/cuda/device.h"
#include "client/cuda/kernels.h"
#include "client/cuda/memory.h"
#include "client/cuda/pump.h"
#include "client/cuda/stall.h"
#include "client/cuda/waiting.h"
#include "penstock/cuda.h"

#include <sys/types.h>

struct penstock_cuda {
	struct penstock_cuda *next; /* in the list of this process's attachments */
	struct penstock_stream *claimed;
	pid_t owner; /* a forked child has neither the thread nor CUDA */
	struct penstock_cuda_options options;
	struct penstock_mix_epoch *epochs; /* of the options */
	struct penstock_stream_info stream;
	struct device device;
	CUstreamCaptureMode mode; /* the calling thread's, while the device is entered */
	struct memory memory;
	struct buffer_table buffers;
	struct stall stall;
	struct pump pump;
	struct kernels_normalise normalise; /* without what differs from batch to batch */
	char loop[BUFFER_STATE_BYTES]; /* the state after the last delivered batch */
	uint64_t batches, images;
	struct waiting waiting;
};

/* 0, or -EBADF in a process other than the one that attached. */
int attachment_check(const struct penstock_cuda *cuda);

/* Sets `normalise` from the options and the stream. */
void attachment_prepare(struct penstock_cuda *cuda);

/* Finds the buffer that the application holds as `batch`, and enters the device. 0; -EBADF;
 * -EINVAL; -EIO. */
int attachment_enter(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	struct buffer **ret_buffer);
void attachment_leave(struct penstock_cuda *cuda);

/* To call before anything is queued in the application's CUDA stream. A batch cannot be part of
 * a graph: the events of a graph tell nothing about it, and events of a capturing stream must
 * not be queried. 0; -EINVAL if the stream is being captured, and the capture continues; or as
 * attachment_fail. */
int attachment_check_queue(struct penstock_cuda *cuda, struct CUstream_st *queue);

/* The errno for the result of a call in the application's CUDA stream: -EINVAL if the stream is
 * wrong; otherwise the device has failed, and the attachment ends. */
int attachment_fail(struct penstock_cuda *cuda, CUresult result, const char *call);
