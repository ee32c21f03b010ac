/* launch: the public functions of penstock/cuda.h that queue work in the application's CUDA
 * streams.
 *
 * Each call first makes the stream wait for the batch's copy: waiting twice costs the device almost
 * nothing, and the second call may use another stream. Thread: the application's. */
#include "client/cuda/attachment.h"
#include "client/cuda/kernels.h"
#include "client/cuda/sentence.h"

#include <errno.h>
#include <string.h>

enum { LAUNCH_ALIGN = 16 };

static int launch_check_output(const void *out, const char *what, size_t align)
{
	if (out && (uintptr_t)out % align == 0)
		return 0;
	return sentence_set(-EINVAL,
		"%s is %p: expected device memory aligned to %zu bytes, as cudaMalloc gives it",
		what, out, align);
}

/* Only the first wait for a batch is measured: later waits find the copy done. */
static int launch_await(
	struct penstock_cuda *cuda, struct buffer *buffer, struct CUstream_st *queue)
{
	int result = attachment_check_queue(cuda, queue);
	if (result < 0)
		return result;
	CUresult r = stall_wait(
		&cuda->stall, cuda->device.driver, queue, buffer->ready, !buffer->measured);
	buffer->measured = true;
	return r == CUDA_SUCCESS
		       ? 0
		       : attachment_fail(cuda, r, "having the CUDA stream wait for a batch's copy");
}

int penstock_cuda_wait(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	struct CUstream_st *queue)
{
	struct buffer *buffer = NULL;
	int result = attachment_enter(cuda, batch, &buffer);
	if (result < 0)
		return result;
	result = pump_check(&cuda->pump);
	if (result == 0)
		result = launch_await(cuda, buffer, queue);
	attachment_leave(cuda);
	return result;
}

static int launch(struct penstock_cuda *cuda, CUfunction function, struct kernels_grid grid,
	void *arguments, struct CUstream_st *queue)
{
	void *parameters[] = {arguments};
	CUresult r = cuda->device.driver->launch_kernel(function, grid.blocks_x, grid.blocks_y, 1,
		grid.threads, 1, 1, grid.shared_bytes, queue, parameters, NULL);
	return r == CUDA_SUCCESS ? 0 : attachment_fail(cuda, r, "cuLaunchKernel");
}

int penstock_cuda_transform(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	void *out, struct CUstream_st *queue)
{
	struct buffer *buffer = NULL;
	int result = attachment_enter(cuda, batch, &buffer);
	if (result < 0)
		return result;
	result = pump_check(&cuda->pump);
	if (result == 0)
		result = launch_check_output(out, "`out`", LAUNCH_ALIGN);
	if (result == 0)
		result = launch_await(cuda, buffer, queue);
	if (result == 0) {
		struct kernels_normalise arguments = cuda->normalise;
		arguments.images = (const uint8_t *)(uintptr_t)buffer->images;
		arguments.row = (const struct penstock_cuda_row *)(uintptr_t)buffer->rows;
		arguments.out = out;
		arguments.rows = buffer->count;
		result = launch(cuda, cuda->device.normalise,
			kernels_normalise_grid(
				&arguments, cuda->options.dtype, cuda->options.layout),
			&arguments, queue);
	}
	attachment_leave(cuda);
	return result;
}

static int launch_check_targets(uint32_t classes, float smoothing, const float *out)
{
	if (classes == 0)
		return sentence_set(
			-EINVAL, "classes is 0: expected the number of columns of the targets");
	if (!(smoothing >= 0 && smoothing <= 1))
		return sentence_set(-EINVAL, "smoothing is %g: expected 0 to 1", (double)smoothing);
	return launch_check_output(out, "`out`", sizeof *out);
}

int penstock_cuda_targets(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	uint32_t classes, float smoothing, float *out, struct CUstream_st *queue)
{
	struct buffer *buffer = NULL;
	int result = attachment_enter(cuda, batch, &buffer);
	if (result < 0)
		return result;
	result = pump_check(&cuda->pump);
	if (result == 0)
		result = launch_check_targets(classes, smoothing, out);
	if (result == 0)
		result = launch_await(cuda, buffer, queue);
	if (result == 0) {
		struct kernels_targets arguments = {
			.label = (const int64_t *)(uintptr_t)buffer->labels,
			.row = (const struct penstock_cuda_row *)(uintptr_t)buffer->rows,
			.out = out,
			.rows = buffer->count,
			.classes = classes,
			.smoothing = smoothing,
		};
		result = launch(cuda, cuda->device.targets, kernels_targets_grid(&arguments),
			&arguments, queue);
	}
	attachment_leave(cuda);
	return result;
}
