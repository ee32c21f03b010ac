/* train_cuda without a GPU: its main program, linked with the emulated GPU and with a made-up
 * libpenstock_cuda, whose "device" is the host. For tests: real streams of a real daemon, the real
 * loop, checkpoints and options.
 *
 * What is made up: transform and targets work at once and wait for nothing, nothing is prefetched,
 * and nothing is mixed. libpenstock_cuda itself has tests of its own (tests/cuda). */
#include "train_cuda_emulated.h"

#include <penstock/cuda.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct penstock_cuda {
	struct penstock_cuda_options options;
	struct penstock_stream *stream;
	struct penstock_stream_info info;
	struct penstock_batch batch; /* the one that is held */
	struct penstock_cuda_counters counters;
	char state[512]; /* after the last batch given */
};

static unsigned attachments; /* that are alive */

/* Runs after what the program does at exit: by then all must be detached. */
static void check_detached(void)
{
	if (attachments == 0)
		return;
	fprintf(stderr, "train_cuda_twin: %u attachments were left behind\n", attachments);
	_exit(99);
}

static struct ops *device; /* set by ops_device_open, before anything is transformed */

struct ops *ops_device_open(int number)
{
	if (number != 0) {
		fprintf(stderr, "train_cuda: there is no emulated GPU %d\n", number);
		exit(1);
	}
	device = ops_emulated_open();
	return device;
}

void penstock_cuda_options_init_size(struct penstock_cuda_options *options, size_t size)
{
	memset(options, 0, size);
	*options = (struct penstock_cuda_options){.size = size,
		.device = -1,
		.prefetch = 2,
		.mean = {0.485f, 0.456f, 0.406f},
		.std = {0.229f, 0.224f, 0.225f}};
}

static int take_state(struct penstock_cuda *cuda)
{
	int length = penstock_stream_state(cuda->stream, cuda->state, sizeof(cuda->state));

	return length < 0 ? length : 0;
}

int penstock_cuda_attach(struct penstock_stream *stream,
	const struct penstock_cuda_options *options, struct penstock_cuda **ret_cuda)
{
	struct penstock_cuda *cuda = calloc(1, sizeof(*cuda));

	if (!cuda)
		return -ENOMEM;
	cuda->options = *options;
	cuda->stream = stream;
	penstock_stream_info(stream, &cuda->info);
	if (options->mixup > 0 || options->cutmix > 0) {
		penstock_error_set("the made-up attachment does not mix");
		free(cuda);
		return -EINVAL;
	}
	if (attachments++ == 0 && atexit(check_detached) != 0)
		abort();
	*ret_cuda = cuda;
	return take_state(cuda);
}

void penstock_cuda_detach(struct penstock_cuda *cuda)
{
	attachments -= cuda != NULL;
	free(cuda);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int penstock_cuda_next(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *ret_batch, int32_t timeout_ms)
{
	uint64_t begin = now_ns();
	int result = penstock_stream_next(cuda->stream, &cuda->batch, timeout_ms);

	cuda->counters.waited_daemon_ns += now_ns() - begin;
	cuda->counters.waited_ns = cuda->counters.waited_daemon_ns;
	if (result != 0)
		return result;
	cuda->counters.batches++;
	cuda->counters.images += cuda->batch.count;
	*ret_batch = (struct penstock_cuda_batch){.images = cuda->batch.images,
		.labels = cuda->batch.labels,
		.host_labels = cuda->batch.labels,
		.samples = cuda->batch.samples,
		.count = cuda->batch.count,
		.flags = cuda->batch.flags,
		.epoch = cuda->batch.epoch,
		.batch = cuda->batch.batch};
	return take_state(cuda);
}

int penstock_cuda_transform(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	void *out, struct CUstream_st *queue)
{
	size_t count = (size_t)batch->count * cuda->info.height * cuda->info.width * 3;
	const uint8_t *bytes = batch->images;
	float *pixels = malloc(count * sizeof(*pixels));

	(void)queue;
	if (!pixels)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		pixels[i] = ((float)bytes[i] / 255 - cuda->options.mean[i % 3]) /
			    cuda->options.std[i % 3];
	device->to_half(device, out, pixels, count);
	free(pixels);
	return 0;
}

int penstock_cuda_targets(struct penstock_cuda *cuda, const struct penstock_cuda_batch *batch,
	uint32_t classes, float smoothing, float *out, struct CUstream_st *queue)
{
	(void)cuda;
	(void)queue;
	for (size_t i = 0; i < (size_t)batch->count * classes; i++)
		out[i] = smoothing / (float)classes +
			 (batch->labels[i / classes] == (int64_t)(i % classes) ? 1 - smoothing : 0);
	return 0;
}

int penstock_cuda_release(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *batch, struct CUstream_st *queue)
{
	(void)queue;
	batch->images = NULL;
	return penstock_batch_release(cuda->stream, &cuda->batch);
}

int penstock_cuda_state(const struct penstock_cuda *cuda, char *buffer, size_t room)
{
	if (strlen(cuda->state) >= room)
		return -ENOSPC;
	memcpy(buffer, cuda->state, strlen(cuda->state) + 1);
	return (int)strlen(cuda->state);
}

int penstock_cuda_info(const struct penstock_cuda *cuda, struct penstock_cuda_info *ret_info)
{
	*ret_info = (struct penstock_cuda_info){.size = ret_info->size,
		.device = cuda->options.device > 0 ? cuda->options.device : 0,
		.memory = PENSTOCK_CUDA_RING,
		.buffers = 1,
		.name = "an emulated one",
		.why = "the made-up attachment reads the daemon's memory"};
	if (penstock_stream_writable(cuda->stream))
		(void)strcpy(ret_info->why, "this process may write to the daemon's memory");
	return 0;
}

int penstock_cuda_counters(struct penstock_cuda *cuda, struct penstock_cuda_counters *ret_counters)
{
	size_t size = ret_counters->size;

	*ret_counters = cuda->counters;
	ret_counters->size = size;
	return 0;
}
