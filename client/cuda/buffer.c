/* buffer: see buffer.h.
 *
 * All buffers are one piece of device memory and one of pinned memory, each cut the same way:
 *
 *   device  images (+ slack that kernels may read) | labels | rows
 *   pinned                                           labels | rows | samples */
#include "client/cuda/buffer.h"

#include "client/cuda/sentence.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER_ALIGN = 256 };

static size_t buffer_round_up(uint64_t bytes)
{
	return (size_t)((bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN);
}

static struct buffer_geometry buffer_measure(const struct penstock_stream_info *info)
{
	const uint64_t image = (uint64_t)info->height * info->width * info->channels;
	const uint64_t rows = info->batch_size;
	return (struct buffer_geometry){
		.image_bytes = image,
		.rows = info->batch_size,
		.images = buffer_round_up(image * rows + BUFFER_SLACK),
		.labels = buffer_round_up(rows * sizeof(int64_t)),
		.table = buffer_round_up(rows * sizeof(struct penstock_cuda_row)),
		.host_samples = buffer_round_up(rows * sizeof(struct penstock_sample)),
	};
}

/* ---- memory ---- */

static int buffer_take_foreign(
	struct buffer_table *table, const struct penstock_cuda_options *options)
{
	void *memory = options->allocate(options->allocate_context, table->device_bytes);
	if (!memory)
		return device_fail_memory(table->device, CUDA_ERROR_OUT_OF_MEMORY,
			"options.allocate", table->device_bytes, "the batches");
	table->block = (CUdeviceptr)(uintptr_t)memory;
	table->release = options->release;
	table->release_context = options->allocate_context;
	if (table->block % BUFFER_ALIGN)
		return sentence_set(-EINVAL,
			"options.allocate returned %p: expected device memory aligned to %d bytes",
			memory, BUFFER_ALIGN);
	/* Work that was enqueued earlier may still use the memory of a caching allocator: it is
	 * ordered with the framework's CUDA streams, not with the pump's. */
	CUresult r = table->device->driver->ctx_synchronize();
	return r == CUDA_SUCCESS ? 0
				 : driver_fail(table->device->driver, r, NULL, "cuCtxSynchronize");
}

static int buffer_take_device(
	struct buffer_table *table, const struct penstock_cuda_options *options)
{
	table->device_bytes =
		table->count *
		(uint64_t)(table->geometry.images + table->geometry.labels + table->geometry.table);
	if (options->allocate)
		return buffer_take_foreign(table, options);
	CUresult r = table->device->driver->mem_alloc(&table->block, table->device_bytes);
	if (r == CUDA_SUCCESS)
		return 0;
	table->block = 0;
	return device_fail_memory(
		table->device, r, "cuMemAlloc", table->device_bytes, "the batches");
}

static int buffer_take_host(struct buffer_table *table)
{
	void *memory = NULL;
	table->pinned_bytes =
		table->count * (uint64_t)(table->geometry.labels + table->geometry.table +
					  table->geometry.host_samples);
	int result = device_pin(table->device, table->pinned_bytes, "for labels", &memory);
	if (result == 0)
		table->host_block = memory;
	return result;
}

static void buffer_cut(struct buffer_table *table)
{
	const struct buffer_geometry *g = &table->geometry;
	for (uint32_t i = 0; i < table->count; i++) {
		struct buffer *buffer = &table->buffer[i];
		uint8_t *host =
			table->host_block + (g->labels + g->table + g->host_samples) * (size_t)i;
		buffer->images = table->block + (g->images + g->labels + g->table) * (size_t)i;
		buffer->labels = buffer->images + g->images;
		buffer->rows = buffer->labels + g->labels;
		buffer->host_labels = (int64_t *)(void *)host;
		buffer->host_rows = (struct penstock_cuda_row *)(void *)(host + g->labels);
		buffer->host_samples =
			(struct penstock_sample *)(void *)(host + g->labels + g->table);
	}
}

static int buffer_make_events(struct buffer_table *table)
{
	const struct driver *driver = table->device->driver;
	const unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
	for (uint32_t i = 0; i < table->count; i++) {
		CUresult r = driver->event_create(&table->buffer[i].ready, flags);
		if (r == CUDA_SUCCESS)
			r = driver->event_create(&table->buffer[i].released, flags);
		if (r != CUDA_SUCCESS)
			return driver_fail(driver, r, NULL, "cuEventCreate");
	}
	return 0;
}

/* ---- life ---- */

static void buffer_init_lock(struct buffer_table *table)
{
	pthread_condattr_t attributes;
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&table->lock, NULL);
	(void)pthread_cond_init(&table->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

int buffer_init(struct buffer_table *table, const struct device *device,
	const struct penstock_cuda_options *options, const struct penstock_stream_info *info)
{
	*table = (struct buffer_table){
		.device = device, .count = options->prefetch + 1, .geometry = buffer_measure(info)};
	buffer_init_lock(table);
	table->buffer = calloc(table->count, sizeof *table->buffer);
	if (!table->buffer)
		return sentence_set(-ENOMEM, "not enough memory for %u buffers", table->count);
	int result = buffer_take_device(table, options);
	if (result == 0)
		result = buffer_take_host(table);
	if (result < 0)
		return result;
	buffer_cut(table);
	return buffer_make_events(table);
}

static void buffer_free_device(struct buffer_table *table)
{
	if (!table->block)
		return;
	if (table->release)
		table->release(table->release_context, (void *)(uintptr_t)table->block,
			table->device_bytes);
	else
		(void)table->device->driver->mem_free(table->block);
}

void buffer_deinit(struct buffer_table *table)
{
	if (!table->device)
		return;
	const struct driver *driver = table->device->driver;
	for (uint32_t i = 0; table->buffer && i < table->count; i++) {
		if (table->buffer[i].ready)
			(void)driver->event_destroy(table->buffer[i].ready);
		if (table->buffer[i].released)
			(void)driver->event_destroy(table->buffer[i].released);
	}
	buffer_free_device(table);
	if (table->host_block)
		(void)driver->mem_free_host(table->host_block);
	free(table->buffer);
	(void)pthread_cond_destroy(&table->changed);
	(void)pthread_mutex_destroy(&table->lock);
	*table = (struct buffer_table){0};
}

/* ---- states ---- */

void buffer_move(struct buffer *buffer, enum buffer_state to)
{
	/* The states that may precede each state. */
	static const enum buffer_state before[] = {
		[BUFFER_FREE] = BUFFER_GIVEN,
		[BUFFER_FILLING] = BUFFER_FREE,
		[BUFFER_READY] = BUFFER_FILLING,
		[BUFFER_GIVEN] = BUFFER_READY,
	};
	assert(buffer->state == before[to]);
	buffer->state = to;
}

struct buffer *buffer_oldest(const struct buffer_table *table)
{
	struct buffer *oldest = NULL;
	for (uint32_t i = 0; i < table->count; i++) {
		struct buffer *buffer = &table->buffer[i];
		if (buffer->state == BUFFER_READY && (!oldest || buffer->serial < oldest->serial))
			oldest = buffer;
	}
	return oldest;
}

uint32_t buffer_count(const struct buffer_table *table, enum buffer_state state)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < table->count; i++)
		count += table->buffer[i].state == state;
	return count;
}

struct buffer *buffer_of(struct buffer_table *table, const struct penstock_cuda_batch *batch)
{
	struct buffer *held = NULL;
	if (!batch || !batch->images || batch->buffer >= table->count)
		return NULL;
	struct buffer *buffer = &table->buffer[batch->buffer];
	(void)pthread_mutex_lock(&table->lock);
	if (buffer->state == BUFFER_GIVEN && buffer->serial == batch->serial)
		held = buffer;
	(void)pthread_mutex_unlock(&table->lock);
	return held;
}

/* ---- rows ---- */

void buffer_take_rows(struct buffer *buffer, const struct penstock_batch *batch)
{
	memcpy(buffer->host_labels, batch->labels, batch->count * sizeof *batch->labels);
	memcpy(buffer->host_samples, batch->samples, batch->count * sizeof *batch->samples);
}

CUresult buffer_send_rows(
	const struct buffer_table *table, const struct buffer *buffer, CUstream queue)
{
	return table->device->driver->memcpy_htod_async(
		buffer->labels, buffer->host_labels, buffer_sent_bytes(table), queue);
}

size_t buffer_sent_bytes(const struct buffer_table *table)
{
	return table->geometry.labels + table->geometry.table;
}
