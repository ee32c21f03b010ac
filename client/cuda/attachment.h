/* attachment: what is behind struct penstock_cuda, and what its doors (cuda.c, launch.c) share. */
#pragma once

#include "client/cuda/buffer.h"
#include "client/cuda/device.h"
#include "client/cuda/kernels.h"
#include "client/cuda/memory.h"
#include "client/cuda/pump.h"
#include "client/cuda/stall.h"
#include "penstock/cuda.h"

#include <sys/types.h>

struct penstock_cuda {
	struct penstock_cuda *next; /* of those that this process has attached */
	struct penstock_stream *claimed;
	pid_t owner; /* fork() leaves the child without the thread, and without CUDA */
	struct penstock_cuda_options options;
	struct penstock_stream_info stream;
	struct device device;
	CUstreamCaptureMode mode; /* of the thread whose call it is, while the device is entered */
	struct memory memory;
	struct buffer_table buffers;
	struct stall stall;
	struct pump pump;
	struct kernels_normalise normalise; /* but for what differs from batch to batch */
	char loop[BUFFER_STATE_BYTES]; /* behind the last batch given */
	uint64_t batches, images, waited_ns;
};

/* 0, or -EBADF in a process that is not the one that attached. */
int attachment_check(const struct penstock_cuda *cuda);

/* Sets `normalise` from the options and the stream. */
void attachment_prepare(struct penstock_cuda *cuda);

/* The buffer that the application holds as `batch`, and the device entered. 0; -EBADF; -EINVAL;
 * -EIO. */
int attachment_enter(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	struct buffer **ret_buffer);
void attachment_leave(struct penstock_cuda *cuda);

/* Before anything is queued in the application's CUDA stream: batches cannot be part of a graph,
 * whose events would say nothing about them, nor may be asked for. 0; -EINVAL where it is being
 * captured, which goes on; or as of attachment_fail. */
int attachment_check_queue(struct penstock_cuda *cuda, struct CUstream_st *queue);

/* The errno for what a call in the application's CUDA stream returned: -EINVAL where it is the
 * stream that is wrong; otherwise the device has failed, and the attachment is over. */
int attachment_fail(struct penstock_cuda *cuda, CUresult result, const char *call);
