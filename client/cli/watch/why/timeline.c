/* timeline: see timeline.h. */
#include "client/cli/watch/why/timeline.h"

#include "base/util.h"

#include <string.h>

#define TIMELINE_SECOND_NS 1000000000ull
#define TIMELINE_CPU_S (STORY_UNKNOWN / TIMELINE_SECOND_NS - 1) /* what fits as nanoseconds */
enum {
	TIMELINE_BEFORE_S = 600, /* memory_before is this long before the end */
	TIMELINE_WAITS_S = 60,
	TIMELINE_GPU_S = 5, /* a GPU is emptied as its process ends, so its fullest moment counts */
	TIMELINE_GROWTH_S = 120, /* a shorter time says nothing about growth per hour */
};

struct timeline {
	struct story_end *end;
	struct story_numbers *n;
	uint64_t before_ns; /* time of memory_before's sample */
	double waits;
	unsigned waited;
	const struct record_machine *machine;
	bool begun; /* by the order of the entries, since the clock may have been set back */
};

static void timeline_none(struct story_numbers *n)
{
	*n = (struct story_numbers){.memory_first = STORY_UNKNOWN,
		.memory_before = STORY_UNKNOWN,
		.memory_last = STORY_UNKNOWN,
		.memory_peak = STORY_UNKNOWN,
		.anonymous = STORY_UNKNOWN,
		.shared = STORY_UNKNOWN,
		.swapped = STORY_UNKNOWN,
		.cgroup = {STORY_UNKNOWN, STORY_UNKNOWN, STORY_UNKNOWN, ""},
		.cgroup_used_after = STORY_UNKNOWN,
		.lived_s = STORY_UNKNOWN,
		.cpu_ns = STORY_UNKNOWN,
		.available = STORY_UNKNOWN,
		.total = STORY_UNKNOWN,
		.swap_free = STORY_UNKNOWN,
		.disk_free = STORY_UNKNOWN,
		.pressure = {-1, -1, -1, -1, -1},
		.gpu_bytes = STORY_UNKNOWN,
		.waits = -1,
		.reserved = STORY_UNKNOWN,
		.budget = STORY_UNKNOWN,
		.daemon_resident = STORY_UNKNOWN,
		.images_per_s = -1};
}

static void timeline_peak(struct story_numbers *n, uint64_t bytes)
{
	if (bytes != STORY_UNKNOWN && (n->memory_peak == STORY_UNKNOWN || bytes > n->memory_peak))
		n->memory_peak = bytes;
}

static void timeline_memory(
	struct timeline *t, uint64_t time_ns, const struct record_memory *memory)
{
	struct story_numbers *n = t->n;
	timeline_peak(n, memory->peak);
	timeline_peak(n, memory->resident);
	/* 0: the process had already returned its memory. */
	if (memory->resident == STORY_UNKNOWN || !memory->resident)
		return;
	if (n->memory_first == STORY_UNKNOWN) {
		n->memory_first = memory->resident;
		n->first_ns = time_ns;
	}
	if (time_ns + TIMELINE_BEFORE_S * TIMELINE_SECOND_NS <= t->end->end_ns) {
		n->memory_before = memory->resident;
		t->before_ns = time_ns;
	}
	n->memory_last = memory->resident;
	n->anonymous = memory->anonymous;
	n->shared = memory->shared;
	n->swapped = memory->swapped;
	n->last_ns = time_ns;
}

static bool timeline_within(const struct timeline *t, uint64_t time_ns, uint64_t seconds)
{
	return time_ns + seconds * TIMELINE_SECOND_NS >= t->end->end_ns;
}

static void timeline_trainer(
	struct timeline *t, uint64_t time_ns, const struct record_trainer *sample)
{
	struct story_numbers *n = t->n;
	if (t->end->daemon || sample->pid != t->end->pid || !t->begun)
		return;
	timeline_memory(t, time_ns, &sample->memory);
	n->gpu_bytes = sample->gpu_bytes;
	n->place_known = true;
	n->epoch = sample->epoch;
	n->batch = sample->batch;
	n->given = sample->given;
	n->held = sample->held;
	n->slots = sample->slots;
	if (timeline_within(t, time_ns, TIMELINE_WAITS_S) && sample->waits >= 0) {
		t->waits += (double)sample->waits;
		t->waited++;
	}
}

static void timeline_daemon(
	struct timeline *t, uint64_t time_ns, const struct record_daemon *sample)
{
	struct story_numbers *n = t->n;
	n->daemon_known = true;
	n->reserved = sample->reserved;
	n->budget = sample->budget;
	n->daemon_resident = sample->memory.resident;
	n->images_per_s = sample->images_per_s;
	memcpy(n->verdict, sample->verdict, sizeof n->verdict);
	if (t->end->daemon)
		timeline_memory(t, time_ns, &sample->memory);
}

static void timeline_machine(struct timeline *t, const struct record_machine *sample)
{
	struct story_numbers *n = t->n;
	t->machine = sample;
	n->machine_known = true;
	n->available = sample->available;
	n->total = sample->total;
	n->swap_free = sample->swap_free;
	n->disk_free = sample->disk_free;
	n->pressure = sample->pressure;
}

static void timeline_gpu(struct timeline *t, uint64_t time_ns, const struct record_gpu *sample)
{
	struct story_numbers *n = t->n;
	unsigned i = 0;
	while (i < n->gpus && n->gpu[i].device != sample->device)
		i++;
	if (i == RECORD_GPUS || !timeline_within(t, time_ns, TIMELINE_GPU_S))
		return;
	struct record_gpu *gpu = &n->gpu[i];
	if (i == n->gpus) {
		n->gpus++;
		*gpu = (struct record_gpu){.device = sample->device, .busy = -1};
	}
	memcpy(gpu->name, sample->name, sizeof gpu->name);
	if (sample->used != STORY_UNKNOWN)
		gpu->used = UTIL_MAX(gpu->used, sample->used);
	gpu->total = sample->total;
	gpu->busy = sample->busy;
}

/* An earlier process may have had the same pid. */
static void timeline_attach(struct timeline *t, const struct record_attach *attach)
{
	t->begun |= attach->pid == t->end->pid && attach->start_ticks == t->end->start_ticks;
}

static void timeline_one(struct timeline *t, const struct record *record)
{
	switch (record->kind) {
	case RECORD_ATTACH:
		timeline_attach(t, &record->body.attach);
		break;
	case RECORD_START:
		t->n->budget = record->body.start.budget;
		break;
	case RECORD_TRAINER:
		timeline_trainer(t, record->time_ns, &record->body.trainer);
		break;
	case RECORD_DAEMON:
		timeline_daemon(t, record->time_ns, &record->body.daemon);
		break;
	case RECORD_MACHINE:
		timeline_machine(t, &record->body.machine);
		break;
	case RECORD_GPU:
		timeline_gpu(t, record->time_ns, &record->body.gpu);
		break;
	default:
		break;
	}
}

static void timeline_growth(struct timeline *t)
{
	struct story_numbers *n = t->n;
	bool old = t->before_ns != 0;
	uint64_t from = old ? t->before_ns : n->first_ns;
	uint64_t bytes = old ? n->memory_before : n->memory_first;
	if (!n->last_ns || n->last_ns < from + TIMELINE_GROWTH_S * TIMELINE_SECOND_NS)
		return;
	double hours = (double)(n->last_ns - from) / TIMELINE_SECOND_NS / 3600;
	n->grows = true;
	n->growth_per_hour = ((double)n->memory_last - (double)bytes) / hours;
}

/* The samples show the daemon's cgroup. The process's own cgroup was read right after its end,
 * when the kernel had already returned its memory: so its last anonymous memory is added again. */
static void timeline_cgroup(struct timeline *t)
{
	struct story_numbers *n = t->n;
	const struct record_exit *exit = t->end->exit;
	const struct record_cgroup *own = exit ? &exit->cgroup : NULL;
	if (!own && t->end->attach)
		own = &t->end->attach->cgroup;
	if (own)
		n->cgroup = *own;
	else if (t->machine && t->end->daemon)
		n->cgroup = t->machine->cgroup;
	if (!exit)
		return;
	n->cgroup_used_after = exit->cgroup.used;
	if (t->machine && strcmp(t->machine->cgroup.path, exit->cgroup.path) == 0)
		n->cgroup.used = t->machine->cgroup.used;
	else if (exit->cgroup.used != STORY_UNKNOWN && n->anonymous != STORY_UNKNOWN)
		n->cgroup.used = exit->cgroup.used + n->anonymous;
	n->cgroup.oom_kills = exit->cgroup.oom_kills;
}

static uint64_t timeline_cpu(const struct record_exit *exit)
{
	if (exit->cpu_s == STORY_UNKNOWN)
		return STORY_UNKNOWN;
	return UTIL_MAX(exit->cpu_ns, UTIL_MIN(exit->cpu_s, TIMELINE_CPU_S) * TIMELINE_SECOND_NS);
}

static void timeline_exit(struct timeline *t)
{
	struct story_numbers *n = t->n;
	const struct story_end *end = t->end;
	if (end->exit) {
		n->oom_kills = end->exit->oom_kills;
		n->lived_s = end->exit->lived_s;
		n->cpu_ns = timeline_cpu(end->exit);
		timeline_memory(t, UTIL_MAX(n->last_ns, end->since_ns), &end->exit->memory);
	}
	if (end->leave) {
		n->place_known = true;
		n->epoch = end->leave->epoch;
		n->batch = end->leave->batch;
		n->given = end->leave->given;
		n->held = end->leave->held;
	}
}

void timeline_fill(struct story_end *end, const struct record *records, size_t count)
{
	struct timeline t = {.end = end, .n = &end->numbers, .begun = !end->attach};
	timeline_none(t.n);
	for (size_t i = 0; i < count && &records[i].body.exit != end->exit; i++)
		if (end->exit || records[i].time_ns <= end->end_ns)
			timeline_one(&t, &records[i]);
	timeline_exit(&t);
	timeline_growth(&t);
	timeline_cgroup(&t);
	if (t.waited)
		t.n->waits = (float)(t.waits / t.waited);
}
