/* stall: see stall.h. */
#include "client/cuda/stall.h"

int stall_init(struct stall *stall, const struct driver *driver)
{
	CUresult r = CUDA_SUCCESS;
	*stall = (struct stall){0};
	for (unsigned i = 0; i < STALL_PAIRS && r == CUDA_SUCCESS; i++) {
		r = driver->event_create(&stall->before[i], CU_EVENT_DEFAULT);
		if (r == CUDA_SUCCESS)
			r = driver->event_create(&stall->after[i], CU_EVENT_DEFAULT);
	}
	return r == CUDA_SUCCESS ? 0 : driver_fail(driver, r, NULL, "cuEventCreate");
}

void stall_deinit(struct stall *stall, const struct driver *driver)
{
	for (unsigned i = 0; i < STALL_PAIRS; i++) {
		if (stall->before[i])
			(void)driver->event_destroy(stall->before[i]);
		if (stall->after[i])
			(void)driver->event_destroy(stall->after[i]);
	}
	*stall = (struct stall){0};
}

static CUresult stall_wait_measured(
	struct stall *stall, const struct driver *driver, CUstream queue, CUevent event)
{
	unsigned i = (stall->first + stall->count) % STALL_PAIRS;
	CUresult r = driver->event_record(stall->before[i], queue);
	if (r == CUDA_SUCCESS)
		r = driver->stream_wait_event(queue, event, 0);
	if (r == CUDA_SUCCESS)
		r = driver->event_record(stall->after[i], queue);
	if (r == CUDA_SUCCESS)
		stall->count++;
	return r;
}

CUresult stall_wait(struct stall *stall, const struct driver *driver, CUstream queue, CUevent event,
	bool measure)
{
	stall_harvest(stall, driver);
	if (!measure || stall->count == STALL_PAIRS)
		return driver->stream_wait_event(queue, event, 0);
	return stall_wait_measured(stall, driver, queue, event);
}

void stall_harvest(struct stall *stall, const struct driver *driver)
{
	while (stall->count > 0) {
		float ms = 0;
		unsigned i = stall->first;
		CUresult r = driver->event_query(stall->after[i]);
		if (r == CUDA_ERROR_NOT_READY)
			return;
		/* Other code reports a failed device; its pairs are not measurements. */
		if (r == CUDA_SUCCESS &&
			driver->event_elapsed_time(&ms, stall->before[i], stall->after[i]) ==
				CUDA_SUCCESS &&
			ms > 0)
			stall->total_ns += (uint64_t)((double)ms * 1e6);
		stall->first = (i + 1) % STALL_PAIRS;
		stall->count--;
	}
}
