/* fetch_mode: how each dataset is read: with O_DIRECT or through the page cache. fetch_plan_*
 * run with the planner's lock. */
#include "fetch/fetch_plan.h"

#include "base/host/cgroup.h"
#include "base/size.h"
#include "dataset/dataset.h"

#include <stdio.h>

int fetch_wants_direct(
	const struct fetch *fetch, const struct dataset *dataset, char *ret_why, unsigned room)
{
	if (fetch_far_is(dataset, 0)) {
		(void)snprintf(ret_why, room, "it is read from remote storage");
		return false;
	}
	if (fetch->options.io != FETCH_IO_AUTO) {
		bool direct = fetch->options.io == FETCH_IO_DIRECT;
		(void)snprintf(
			ret_why, room, "io: %s is configured", direct ? "direct" : "buffered");
		return direct;
	}
	struct cgroup_memory memory;
	cgroup_memory_read(&memory);
	/* Slots and trainers will use some of what is available now: an eighth is left for them. */
	uint64_t cache = memory.available - memory.available / 8, bytes = dataset_bytes(dataset);
	bool direct = bytes > cache;
	char size[16], have[16];
	(void)snprintf(ret_why, room,
		"%s %s into the %s of page cache that this cgroup can have (%s)",
		size_format(bytes, size, sizeof size), direct ? "do not fit" : "fit",
		size_format(cache, have, sizeof have), memory.source);
	return direct;
}

struct fetch_mode *fetch_plan_known(struct lane *lane, const struct dataset *dataset)
{
	for (unsigned i = 0; i < FETCH_MODES; i++)
		if (lane->modes[i].dataset == dataset)
			return &lane->modes[i];
	return NULL;
}

struct fetch_mode *fetch_plan_mode(struct lane *lane, const struct dataset *dataset)
{
	struct fetch_mode *mode = fetch_plan_known(lane, dataset);
	if (mode)
		return mode;
	char why[256];
	/* With more datasets than entries, a dataset loses its counts, and others may get less than
	 * they could. */
	mode = &lane->modes[lane->modes_next++ % FETCH_MODES];
	*mode = (struct fetch_mode){
		.dataset = dataset,
		.remote = fetch_far_is(dataset, 0),
		.direct = fetch_wants_direct(lane->fetch, dataset, why, sizeof why),
	};
	return mode;
}
