/* attachment: see attachment.h. Thread: the application's. */
#include "client/cuda/attachment.h"

#include "client/cuda/sentence.h"
#include "proto/philox.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int attachment_check(const struct penstock_cuda *cuda)
{
	if (cuda->owner == getpid())
		return 0;
	return sentence_set(-EBADF,
		"the stream was attached to a device by process %d: CUDA does not survive fork(); "
		"start processes by spawn or forkserver, and attach in each of them",
		(int)cuda->owner);
}

int attachment_enter(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	struct buffer **ret_buffer)
{
	int result = attachment_check(cuda);
	if (result < 0)
		return result;
	struct buffer *buffer = buffer_of(&cuda->buffers, batch);
	if (!buffer)
		return sentence_set(-EINVAL, "this batch is not held: it was released before, or "
					     "was never given by this attachment");
	result = device_enter(&cuda->device, &cuda->mode);
	if (result == 0)
		*ret_buffer = buffer;
	else
		pump_end(&cuda->pump, result, 0);
	return result;
}

void attachment_leave(struct penstock_cuda *cuda)
{
	device_leave(&cuda->device, cuda->mode);
}

int attachment_check_queue(struct penstock_cuda *cuda, struct CUstream_st *queue)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = cuda->device.driver->stream_is_capturing(queue, &status);
	if (r != CUDA_SUCCESS)
		return attachment_fail(cuda, r, "cuStreamIsCapturing");
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return 0;
	return sentence_set(-EINVAL,
		"the CUDA stream is being captured into a graph, which would be run again without "
		"its batch: use and release batches outside of it");
}

int attachment_fail(struct penstock_cuda *cuda, CUresult result, const char *call)
{
	const struct driver *driver = cuda->device.driver;
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
		result == CUDA_ERROR_INVALID_CONTEXT) {
		(void)driver_fail(driver, result,
			"is the CUDA stream one of the attachment's device? (The handle of a "
			"destroyed stream is undefined.)",
			"%s", call);
		return -EINVAL;
	}
	int code = driver_fail(driver, result, NULL, "%s", call);
	if (code != -EINVAL)
		pump_end(&cuda->pump, code, 0);
	return code;
}

void attachment_prepare(struct penstock_cuda *cuda)
{
	const struct penstock_cuda_options *o = &cuda->options;
	struct kernels_normalise *normalise = &cuda->normalise;
	const uint64_t seed = philox_salted(cuda->stream.seed, cuda->stream.salt);
	*normalise = (struct kernels_normalise){
		.height = cuda->stream.height,
		.width = cuda->stream.width,
		.erase_random = (uint32_t)o->erase_random,
		.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
	};
	memcpy(normalise->mean, o->mean, sizeof normalise->mean);
	memcpy(normalise->std, o->std, sizeof normalise->std);
	memcpy(normalise->erase_value, o->erase_value, sizeof normalise->erase_value);
	kernels_normalise_prepare(normalise);
}
