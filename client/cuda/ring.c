/* ring: see ring.h. */
#include "client/cuda/ring.h"

#include <string.h>

int ring_init(struct ring *ring, const struct device *device)
{
	const struct driver *driver = device->driver;
	void *memory = NULL;
	*ring = (struct ring){0};
	int result = device_pin(
		device, (size_t)RING_CHUNKS * RING_CHUNK_BYTES, "to copy through", &memory);
	if (result < 0)
		return result;
	ring->memory = memory;
	CUresult r = CUDA_SUCCESS;
	for (unsigned i = 0; i < RING_CHUNKS && r == CUDA_SUCCESS; i++)
		r = driver->event_create(
			&ring->sent[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
	return r == CUDA_SUCCESS ? 0 : driver_fail(driver, r, NULL, "cuEventCreate");
}

void ring_deinit(struct ring *ring, const struct device *device)
{
	for (unsigned i = 0; i < RING_CHUNKS; i++) {
		if (ring->sent[i])
			(void)device->driver->event_destroy(ring->sent[i]);
	}
	if (ring->memory)
		(void)device->driver->mem_free_host(ring->memory);
	*ring = (struct ring){0};
}

/* One chunk's worth. An event that was never recorded counts as done. */
static CUresult ring_send(struct ring *ring, const struct driver *driver, CUdeviceptr to,
	const uint8_t *from, size_t bytes, CUstream queue)
{
	const unsigned i = ring->next;
	uint8_t *chunk = ring->memory + (size_t)i * RING_CHUNK_BYTES;
	CUresult r = driver->event_synchronize(ring->sent[i]);
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(chunk, from, bytes);
	r = driver->memcpy_htod_async(to, chunk, bytes, queue);
	if (r == CUDA_SUCCESS)
		r = driver->event_record(ring->sent[i], queue);
	ring->next = (i + 1) % RING_CHUNKS;
	return r;
}

int ring_copy(struct ring *ring, const struct device *device, CUdeviceptr to, const uint8_t *from,
	size_t bytes, CUstream queue)
{
	for (size_t done = 0; done < bytes;) {
		size_t part = bytes - done < RING_CHUNK_BYTES ? bytes - done : RING_CHUNK_BYTES;
		CUresult r = ring_send(ring, device->driver, to + done, from + done, part, queue);
		if (r != CUDA_SUCCESS)
			return driver_fail(device->driver, r, NULL,
				"copying %zu bytes to the device through pinned memory", part);
		done += part;
	}
	return 0;
}
