/* cuda: the public functions of penstock/cuda.h, except those in leave.c and launch.c.
 *
 * Thread: the application's, one at a time; the pump's locks guard what the pump shares with it. */
#include "client/cuda/attachment.h"
#include "client/cuda/kernels.h"
#include "client/cuda/mix.h"
#include "client/cuda/sentence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct penstock_cuda_row) == 64, "rows are 64 bytes on the device too");
_Static_assert(MEMORY_WHY_BYTES == sizeof((struct penstock_cuda_info){0}.why), "one is copied");
_Static_assert(DEVICE_NAME_BYTES == sizeof((struct penstock_cuda_info){0}.name), "one is copied");

/* ---- options ---- */

void penstock_cuda_options_init_size(struct penstock_cuda_options *options, size_t size)
{
	const struct penstock_cuda_options defaults = {
		.size = size,
		.device = -1,
		.prefetch = 2,
		.memory = PENSTOCK_CUDA_AUTO,
		.dtype = PENSTOCK_CUDA_FLOAT32,
		.layout = PENSTOCK_CUDA_NHWC,
		.mean = {0.485F, 0.456F, 0.406F},
		.std = {0.229F, 0.224F, 0.225F},
		.erase_scale = {0.02, 0.33},
		.erase_ratio = {0.3, 3.3},
		.mix = 1,
		.mix_switch = 0.5,
	};
	memset(options, 0, size);
	memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static int cuda_take_options(
	const struct penstock_cuda_options *options, struct penstock_cuda_options *ret_options)
{
	struct penstock_cuda_options mine;
	size_t size = options ? options->size : 0;
	if (size < offsetof(struct penstock_cuda_options, mean) || size > 16 * sizeof mine)
		return sentence_set(-EINVAL, "the options were not prepared: call "
					     "penstock_cuda_options_init first");
	for (size_t i = sizeof mine; i < size; i++) {
		if (((const unsigned char *)options)[i])
			return sentence_set(-EINVAL,
				"the application sets an option that libpenstock_cuda %s does not "
				"know: install the release that it was built with",
				PENSTOCK_VERSION);
	}
	penstock_cuda_options_init(&mine);
	memcpy(&mine, options, size < sizeof mine ? size : sizeof mine);
	mine.size = sizeof mine;
	int result = mix_check(&mine);
	if (result == 0)
		*ret_options = mine;
	return result;
}

/* The application's array may be gone after penstock_cuda_attach. */
static int cuda_keep_epochs(struct penstock_cuda *cuda)
{
	size_t bytes = cuda->options.epoch_count * sizeof *cuda->epochs;
	if (!bytes)
		return 0;
	cuda->epochs = malloc(bytes);
	if (!cuda->epochs)
		return sentence_set(-ENOMEM, "no memory for an attachment");
	memcpy(cuda->epochs, cuda->options.epochs, bytes);
	cuda->options.epochs = cuda->epochs;
	return 0;
}

static void cuda_free(struct penstock_cuda *cuda)
{
	free(cuda->epochs);
	free(cuda);
}

/* ---- who has which stream ---- */

/* Two threads that each believe that they own a stream would corrupt it silently. */
static pthread_mutex_t cuda_claims_lock = PTHREAD_MUTEX_INITIALIZER;
static struct penstock_cuda *cuda_claims;

/* What a forked child inherited belongs to the parent, so it does not count. */
static bool cuda_is_claimed(const struct penstock_stream *stream)
{
	for (const struct penstock_cuda *cuda = cuda_claims; cuda; cuda = cuda->next) {
		if (cuda->claimed == stream && cuda->owner == getpid())
			return true;
	}
	return false;
}

static int cuda_claim(struct penstock_cuda *cuda, struct penstock_stream *stream)
{
	if (!stream)
		return sentence_set(-EINVAL, "no stream to attach: expected an open one");
	(void)pthread_mutex_lock(&cuda_claims_lock);
	bool taken = cuda_is_claimed(stream);
	if (!taken) {
		cuda->claimed = stream;
		cuda->next = cuda_claims;
		cuda_claims = cuda;
	}
	(void)pthread_mutex_unlock(&cuda_claims_lock);
	return taken ? sentence_set(-EBUSY, "this stream is attached to a device already: open "
					    "another for another attachment, or detach that one")
		     : 0;
}

static void cuda_disclaim(const struct penstock_cuda *cuda)
{
	(void)pthread_mutex_lock(&cuda_claims_lock);
	struct penstock_cuda **place = &cuda_claims;
	while (*place && *place != cuda)
		place = &(*place)->next;
	if (*place)
		*place = cuda->next;
	(void)pthread_mutex_unlock(&cuda_claims_lock);
}

/* ---- attaching and detaching ---- */

/* What the kernels take. */
static int cuda_check_shape(const struct penstock_stream_info *info)
{
	const char *what =
		info->dtype != PENSTOCK_UINT8 || info->layout != PENSTOCK_NHWC
			? "of uint8 in layout NHWC: the device normalises and lays out "
			  "itself, so leave dtype and layout to its options"
		: info->views != 1
			? "with one view of each sample: open a stream for each view, or "
			  "copy the batches yourself"
		: info->label_type != PENSTOCK_LABEL_INT64 || info->label_width != 1
			? "with one whole label for each sample: copy the batches "
			  "yourself, or leave labels of several values out"
			: NULL;
	return what ? sentence_set(-ENOTSUP, "a device takes batches %s", what) : 0;
}

static int cuda_init_stream(struct penstock_cuda *cuda, struct penstock_stream *stream)
{
	int result = penstock_stream_state(stream, cuda->loop, sizeof cuda->loop);
	if (result < 0)
		return result;
	penstock_stream_info(stream, &cuda->stream);
	return cuda_check_shape(&cuda->stream);
}

/* The device is entered. */
static int cuda_init_parts(struct penstock_cuda *cuda, struct penstock_stream *stream)
{
	attachment_prepare(cuda);
	int result = buffer_init(&cuda->buffers, &cuda->device, &cuda->options, &cuda->stream);
	if (result == 0)
		result = memory_init(&cuda->memory, &cuda->device, cuda->options.memory,
			penstock_stream_writable(stream));
	if (result == 0)
		result = stall_init(&cuda->stall, cuda->device.driver);
	if (result == 0)
		result = pump_init(&cuda->pump, &cuda->device, &cuda->options, &cuda->memory,
			&cuda->buffers, stream);
	return result;
}

static void cuda_deinit_parts(struct penstock_cuda *cuda)
{
	pump_deinit(&cuda->pump);
	stall_deinit(&cuda->stall, cuda->device.driver);
	memory_deinit(&cuda->memory);
	buffer_deinit(&cuda->buffers);
	device_unload(&cuda->device);
}

static int cuda_init(struct penstock_cuda *cuda, struct penstock_stream *stream)
{
	int result = cuda_init_stream(cuda, stream);
	if (result == 0)
		result = device_init(&cuda->device, cuda->options.device,
			kernels_normalise_name(cuda->options.dtype, cuda->options.layout));
	if (result < 0)
		return result;
	result = device_enter(&cuda->device, &cuda->mode);
	if (result == 0) {
		result = cuda_init_parts(cuda, stream);
		if (result < 0)
			cuda_deinit_parts(cuda);
		device_leave(&cuda->device, cuda->mode);
	}
	if (result < 0)
		device_deinit(&cuda->device);
	return result;
}

int penstock_cuda_attach(struct penstock_stream *stream,
	const struct penstock_cuda_options *options, struct penstock_cuda **ret_cuda)
{
	struct penstock_cuda *cuda = calloc(1, sizeof *cuda);
	if (!cuda)
		return sentence_set(-ENOMEM, "no memory for an attachment");
	cuda->owner = getpid();
	int result = cuda_take_options(options, &cuda->options);
	if (result == 0)
		result = cuda_keep_epochs(cuda);
	if (result == 0)
		result = cuda_claim(cuda, stream);
	if (result == 0)
		result = cuda_init(cuda, stream);
	if (result < 0) {
		cuda_disclaim(cuda);
		cuda_free(cuda);
	}
	if (result == 0)
		*ret_cuda = cuda;
	return result;
}

/* In a forked child: what is this process's goes, the device is the parent's. */
static void cuda_forget(struct penstock_cuda *cuda)
{
	pump_forget(&cuda->pump);
	free(cuda->buffers.buffer);
	cuda_free(cuda);
}

void penstock_cuda_detach(struct penstock_cuda *cuda)
{
	if (!cuda)
		return;
	if (cuda->owner != getpid()) {
		cuda_disclaim(cuda);
		cuda_forget(cuda);
		return;
	}
	/* Where that fails the context is lost, and what follows may fail as well: what is the
	 * host's goes all the same. */
	bool entered = device_enter(&cuda->device, &cuda->mode) == 0;
	cuda_deinit_parts(cuda);
	if (entered)
		device_leave(&cuda->device, cuda->mode);
	device_deinit(&cuda->device);
	cuda_disclaim(cuda);
	cuda_free(cuda);
}

/* ---- batches ---- */

static void cuda_give(
	struct penstock_cuda *cuda, struct buffer *buffer, struct penstock_cuda_batch *ret_batch)
{
	buffer->measured = false;
	memcpy(cuda->loop, buffer->loop, sizeof cuda->loop);
	cuda->batches++;
	cuda->images += buffer->count;
	*ret_batch = (struct penstock_cuda_batch){
		.images = (const void *)(uintptr_t)buffer->images,
		.labels = (const int64_t *)(uintptr_t)buffer->labels,
		.rows = (const struct penstock_cuda_row *)(uintptr_t)buffer->rows,
		.ready = buffer->ready,
		.host_labels = buffer->host_labels,
		.samples = buffer->host_samples,
		.host_rows = buffer->host_rows,
		.payload = PENSTOCK_CUDA_PIXELS,
		.count = buffer->count,
		.flags = buffer->flags,
		.epoch = buffer->epoch,
		.batch = buffer->batch,
		.buffer = (uint32_t)(buffer - cuda->buffers.buffer),
		.serial = buffer->serial,
	};
}

int penstock_cuda_next(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *ret_batch, int32_t timeout_ms)
{
	struct buffer *buffer = NULL;
	int result = attachment_check(cuda);
	if (result < 0)
		return result;
	if (timeout_ms == PENSTOCK_TIMEOUT_DEFAULT)
		timeout_ms = penstock_stream_timeout_ms(cuda->pump.tap.stream);
	if (timeout_ms < 0 && timeout_ms != PENSTOCK_FOREVER)
		return sentence_set(-EINVAL,
			"timeout_ms is %d: expected milliseconds, PENSTOCK_TIMEOUT_DEFAULT or "
			"PENSTOCK_FOREVER",
			timeout_ms);
	uint64_t begun_ns = pump_now_ns(), starved_ns = pump_starved_ns(&cuda->pump, begun_ns);
	result = pump_next(&cuda->pump, timeout_ms, &buffer);
	uint64_t now_ns = pump_now_ns();
	waiting_add(&cuda->waiting, begun_ns, now_ns,
		pump_starved_ns(&cuda->pump, now_ns) - starved_ns);
	if (result == 0)
		cuda_give(cuda, buffer, ret_batch);
	return result;
}

static void cuda_forget_batch(struct penstock_cuda_batch *batch)
{
	batch->images = NULL;
	batch->labels = NULL;
	batch->rows = NULL;
	batch->ready = NULL;
	batch->host_labels = NULL;
	batch->samples = NULL;
	batch->host_rows = NULL;
}

static int cuda_record_release(
	struct penstock_cuda *cuda, const struct buffer *buffer, struct CUstream_st *queue)
{
	int result = attachment_check_queue(cuda, queue);
	if (result < 0)
		return result;
	CUresult r = cuda->device.driver->event_record(buffer->released, queue);
	return r == CUDA_SUCCESS
		       ? 0
		       : attachment_fail(cuda, r, "cuEventRecord in the stream given to release");
}

int penstock_cuda_release(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *batch, struct CUstream_st *queue)
{
	struct buffer *buffer = NULL;
	int result = attachment_enter(cuda, batch, &buffer);
	if (result < 0)
		return result;
	result = cuda_record_release(cuda, buffer, queue);
	attachment_leave(cuda);
	/* A wrong CUDA stream leaves the batch held: another may be right. */
	if (result == -EINVAL)
		return result;
	pump_release(&cuda->pump, buffer, result == 0);
	cuda_forget_batch(batch);
	return result;
}

/* ---- questions ---- */

int penstock_cuda_state(const struct penstock_cuda *cuda, char *buffer, size_t room)
{
	int result = attachment_check(cuda);
	size_t length = strlen(cuda->loop);
	if (result < 0)
		return result;
	if (length >= room)
		return sentence_set(-ENOSPC,
			"the state takes %zu bytes, the buffer has %zu: 512 always suffice",
			length + 1, room);
	memcpy(buffer, cuda->loop, length + 1);
	return (int)length;
}

int penstock_cuda_path(struct penstock_cuda *cuda, uint64_t index, char **ret_path)
{
	int result = attachment_check(cuda);
	return result < 0 ? result : tap_path(&cuda->pump.tap, index, ret_path);
}

int penstock_cuda_samples(struct penstock_cuda *cuda, uint64_t first, char **ret_lines)
{
	int result = attachment_check(cuda);
	return result < 0 ? result : tap_samples(&cuda->pump.tap, first, ret_lines);
}

/* Without the device, the stalls are those that were known before. */
static void cuda_harvest(struct penstock_cuda *cuda)
{
	if (device_enter(&cuda->device, &cuda->mode) < 0)
		return;
	stall_harvest(&cuda->stall, cuda->device.driver);
	device_leave(&cuda->device, cuda->mode);
}

int penstock_cuda_stats(struct penstock_cuda *cuda, char **ret_json)
{
	char *json = NULL;
	int result = attachment_check(cuda);
	if (result == 0)
		result = tap_stats(&cuda->pump.tap, &json);
	if (result < 0)
		return result;
	cuda_harvest(cuda);
	char *more = waiting_extend(&cuda->waiting, cuda->batches, cuda->stall.total_ns, json);
	free(json);
	if (!more)
		return sentence_set(-ENOMEM, "not enough memory for the statistics");
	*ret_json = more;
	return 0;
}

/* Writes as much of `from` as the caller's struct has room for; its first member is that size. */
static int cuda_answer(void *to, const void *from, size_t bytes)
{
	size_t size;
	memcpy(&size, to, sizeof size);
	if (size < sizeof size)
		return sentence_set(-EINVAL,
			"the size of the struct to be filled in is %zu: set its member `size` to "
			"sizeof of it",
			size);
	size_t part = size < bytes ? size : bytes;
	memcpy((char *)to + sizeof size, (const char *)from + sizeof size, part - sizeof size);
	return 0;
}

static uint64_t cuda_output_bytes(const struct penstock_cuda *cuda)
{
	const struct penstock_stream_info *s = &cuda->stream;
	const uint64_t element = cuda->options.dtype == PENSTOCK_CUDA_FLOAT32 ? 4 : 2;
	return (uint64_t)s->batch_size * s->height * s->width * s->channels * element;
}

int penstock_cuda_info(const struct penstock_cuda *cuda, struct penstock_cuda_info *ret_info)
{
	struct penstock_cuda_info info = {
		.device = cuda->device.ordinal,
		.driver = cuda->device.version,
		.capability = cuda->device.capability,
		.buffers = cuda->buffers.count,
		.device_bytes = cuda->buffers.device_bytes,
		.pinned_bytes = cuda->buffers.pinned_bytes,
		.output_bytes = cuda_output_bytes(cuda),
	};
	int result = attachment_check(cuda);
	if (result < 0)
		return result;
	memcpy(info.name, cuda->device.name, sizeof info.name);
	/* Constant but for the lock in it. */
	memory_report((struct memory *)(uintptr_t)&cuda->memory, &info);
	return cuda_answer(ret_info, &info, sizeof info);
}

int penstock_cuda_counters(struct penstock_cuda *cuda, struct penstock_cuda_counters *ret_counters)
{
	int result = attachment_check(cuda);
	if (result < 0)
		return result;
	cuda_harvest(cuda);
	struct penstock_cuda_counters counters = {.batches = cuda->batches,
		.images = cuda->images,
		.waited_ns = cuda->waiting.daemon_ns + cuda->waiting.device_ns,
		.stalled_ns = cuda->stall.total_ns,
		.waited_daemon_ns = cuda->waiting.daemon_ns,
		.waited_device_ns = cuda->waiting.device_ns};
	(void)pthread_mutex_lock(&cuda->buffers.lock);
	counters.bytes = cuda->pump.copied_bytes;
	(void)pthread_mutex_unlock(&cuda->buffers.lock);
	return cuda_answer(ret_counters, &counters, sizeof counters);
}
