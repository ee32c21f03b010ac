/* fetch: see fetch.h, which has the map. The public functions, which run on callers' threads, and
 * what both engines use: threads, delivery. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FETCH_PREAD_DEFAULT = 16, FETCH_PREAD_MOST = 64 };

static const char *const fetch_outcome_names[FETCH_OUTCOMES] = {
	[FETCH_OK] = "ok",
	[FETCH_E_MISSING] = "missing",
	[FETCH_E_SHORT] = "short",
	[FETCH_E_CHANGED] = "changed",
	[FETCH_E_IO] = "io",
	[FETCH_E_TOO_LARGE] = "too-large",
	[FETCH_E_FIELD_MISSING] = "field-missing",
	[FETCH_E_FIELD_LONG] = "field-too-long",
	[FETCH_E_UNPACK] = "unpack",
};

const char *fetch_outcome_name(enum fetch_outcome outcome)
{
	return (unsigned)outcome < FETCH_OUTCOMES ? fetch_outcome_names[outcome] : "unknown";
}

enum fetch_outcome fetch_outcome_of(int error)
{
	switch (-error) {
	case ENOENT:
		return FETCH_E_MISSING;
	case ENODATA:
		return FETCH_E_SHORT;
	case ESTALE:
		return FETCH_E_CHANGED;
	case EPROTO:
		return FETCH_E_UNPACK;
	case EIO:
	case EREMOTEIO:
	case EILSEQ:
	case EUCLEAN:
	case EBADMSG:
	case EACCES:
		return FETCH_E_IO;
	default:
		return FETCH_OK;
	}
}

void fetch_reader_init(struct fetch_reader *reader)
{
	*reader = (struct fetch_reader){0};
}

void fetch_reader_deinit(struct fetch_reader *reader)
{
	assert(atomic_load_explicit(&reader->items, memory_order_relaxed) == 0);
	assert(atomic_load_explicit(&reader->held, memory_order_relaxed) == 0);
	(void)reader;
}

/* --- threads --- */

int fetch_thread_start(struct lane *lane, size_t stack_bytes, void *(*run)(void *))
{
	sigset_t all, before;
	pthread_attr_t attr;
	sigfillset(&all);
	pthread_attr_init(&attr);
	/* The event loop handles all signals. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_attr_setstacksize(&attr, stack_bytes);
	pthread_t *thread = &lane->threads[lane->thread_count];
	int rc = pthread_create(thread, &attr, run, lane);
	/* Sanitizers keep their thread state on the stack and need a larger one. */
	if (rc == EINVAL)
		rc = pthread_create(thread, NULL, run, lane);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	(void)pthread_setname_np(*thread, "penstock-fetch");
	lane->thread_count++;
	return 0;
}

void fetch_thread_note(struct lane *lane)
{
	unsigned at = atomic_fetch_add_explicit(&lane->tid_count, 1, memory_order_relaxed);
	/* By number, because gettid() came with glibc 2.30. */
	atomic_store_explicit(&lane->tids[at], (pid_t)syscall(SYS_gettid), memory_order_relaxed);
}

void fetch_threads_join(struct lane *lane)
{
	for (unsigned i = 0; i < lane->thread_count; i++)
		(void)pthread_join(lane->threads[i], NULL);
	lane->thread_count = 0;
	atomic_store_explicit(&lane->tid_count, 0, memory_order_relaxed);
}

/* --- delivery --- */

static const char *deliver_reason(int result)
{
	switch (result) {
	case FETCH_E_MISSING:
		return "the file does not exist any more";
	case FETCH_E_SHORT:
		return "it is shorter than its index says";
	case FETCH_E_CHANGED:
		return "its size is not the one that was indexed";
	case FETCH_E_IO:
		return "the storage cannot read it: see the kernel's log";
	case FETCH_E_TOO_LARGE:
		return "it is larger than the reader's memory for large files: raise memory:";
	default:
		return strerror(-result);
	}
}

/* Writes the sentence for a result. Without the planner's lock, because it may read the sample's
 * name. */
static void deliver_fault(struct fetch_item *item)
{
	struct fault *fault = item->fault;
	struct dataset_page at;
	char path[4096 + 512];
	if (!fault || fetch_state(item)->told || item->result == -ECANCELED)
		return;
	if (item->result == -ESTALE && dataset_locate(item->dataset, item->number, &at) == 0) {
		if (dataset_verify_shard(item->dataset, at.shard, fault) == 0)
			(void)fault_set(fault, -ESTALE,
				"%s was replaced or cut off while it was read: do not change "
				"shards while they are in use",
				dataset_shard_path(item->dataset, at.shard));
		return;
	}
	if (dataset_path(item->dataset, item->number, path, sizeof path, fault) < 0)
		return;
	struct rlimit limit;
	if ((item->result == -EMFILE || item->result == -ENFILE) &&
		getrlimit(RLIMIT_NOFILE, &limit) == 0)
		(void)fault_set(fault, item->result,
			"%s cannot be opened: the limit on open files (RLIMIT_NOFILE, %llu) is "
			"reached: raise it (ulimit -n)",
			path, (unsigned long long)limit.rlim_cur);
	else
		(void)fault_set(fault, item->result, "%s: %s", path, deliver_reason(item->result));
}

void fetch_deliver(struct lane *lane, struct fetch_item *items)
{
	while (items) {
		struct fetch_item *item = items;
		items = item->next;
		item->next = NULL;
		if (item->result != FETCH_OK)
			deliver_fault(item);
		else if (!item->field)
			fetch_count(&lane->counters.samples, 1);
		fetch_count(&lane->counters.delivered, 1);
		/* Relaxed: it comes before `done`, which notifies the reader. */
		atomic_fetch_sub_explicit(&item->reader->items, 1, memory_order_relaxed);
		item->done(item);
	}
}

/* --- fields --- */

static struct fetch_field *field_find(const struct fetch *fetch, const char *name, uint32_t limit)
{
	struct fetch_field *field = fetch->fields;
	while (field && (field->limit != limit || strcmp(field->name, name) != 0))
		field = field->next;
	return field;
}

const struct fetch_field *fetch_field(struct fetch *fetch, const char *name, uint32_t limit)
{
	pthread_mutex_lock(&fetch->fields_lock);
	struct fetch_field *field = field_find(fetch, name, limit);
	uint32_t id = fetch->fields ? fetch->fields->id + 1 : 1;
	if (!field && id <= FETCH_FIELDS && (field = calloc(1, sizeof *field))) {
		(void)snprintf(field->name, sizeof field->name, "%s", name);
		field->limit = limit;
		field->id = id;
		field->next = fetch->fields;
		fetch->fields = field;
	}
	pthread_mutex_unlock(&fetch->fields_lock);
	return field;
}

static void fields_free(struct fetch *fetch)
{
	for (struct fetch_field *field = fetch->fields, *next; field; field = next) {
		next = field->next;
		free(field);
	}
}

/* --- submitting, canceling, releasing --- */

static void inbox_put(
	struct lane *lane, struct fetch_item *first, struct fetch_item **tail, uint64_t count)
{
	struct fetch_inbox *inbox = &lane->inbox;
	fetch_count(&lane->counters.submitted, count);
	pthread_mutex_lock(&inbox->lock);
	*inbox->tail = first;
	inbox->tail = tail;
	fetch_inbox_kick(inbox);
	pthread_mutex_unlock(&inbox->lock);
}

/* The lane of an item: the same for all items of a sample, and for most neighbors. */
static unsigned submit_lane(const struct fetch *fetch, const struct fetch_item *item)
{
	assert(fetch->lane_count > 0);
	uint64_t run = hash_mix((uintptr_t)item->dataset) + item->number / FETCH_RUN;
	return (unsigned)(hash_mix(run) % fetch->lane_count);
}

/* Gives each lane its items, in order. */
static void submit_parts(struct fetch *fetch, struct fetch_item *items)
{
	struct fetch_item *first[FETCH_LANES] = {0}, **tail[FETCH_LANES];
	uint64_t count[FETCH_LANES] = {0};
	for (unsigned i = 0; i < fetch->lane_count; i++)
		tail[i] = &first[i];
	for (struct fetch_item *item = items; item; item = item->next) {
		unsigned lane = submit_lane(fetch, item);
		*tail[lane] = item;
		tail[lane] = &item->next;
		count[lane]++;
	}
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		*tail[i] = NULL;
		if (first[i])
			inbox_put(fetch->lanes[i], first[i], tail[i], count[i]);
	}
}

void fetch_submit(struct fetch *fetch, struct fetch_item *items)
{
	struct fetch_item *last = NULL;
	uint64_t count = 0;
	for (struct fetch_item *item = items; item; item = item->next) {
		*fetch_state(item) = (struct fetch_state){0};
		item->data = NULL;
		item->size = 0;
		item->label = -1;
		item->longer = false;
		item->packed = (struct packed){0};
		item->unpacked = 0;
		if (item->values)
			memset(item->values,
				dataset_label_type(item->dataset) == LABEL_TYPE_CLASSES ? 0xff : 0,
				dataset_label_bytes(item->dataset));
		fetch_count(&item->reader->items, 1);
		last = item;
		count++;
	}
	if (!last)
		return;
	if (fetch->lane_count == 1)
		inbox_put(fetch->lanes[0], items, &last->next, count);
	else
		submit_parts(fetch, items);
}

void fetch_cancel(struct fetch *fetch, const struct fetch_reader *reader)
{
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		struct lane *lane = fetch->lanes[i];
		pthread_mutex_lock(&lane->lock);
		fetch_plan_cancel(lane, reader);
		pthread_mutex_unlock(&lane->lock);
		fetch_kick(lane);
	}
}

void fetch_expect(struct fetch *fetch, const struct dataset *dataset)
{
	if (!fetch->cache)
		return;
	struct lane *lane = fetch->lanes[0];
	pthread_mutex_lock(&lane->lock);
	const struct fetch_mode *mode = fetch_plan_mode(lane, dataset);
	bool kept = fetch->options.cache == FETCH_CACHE_ON || mode->direct || mode->remote;
	pthread_mutex_unlock(&lane->lock);
	if (kept)
		cache_join(fetch->cache, dataset, dataset_count(dataset), dataset_bytes(dataset));
}

bool fetch_has(const struct fetch *fetch, const struct dataset *dataset, uint64_t number)
{
	return fetch->cache && cache_has(fetch->cache, dataset, number);
}

static void lane_forget(struct lane *lane, const struct dataset *dataset)
{
	pthread_mutex_lock(&lane->lock);
	struct fetch_forgotten one = {.dataset = dataset, .next = lane->forgotten};
	lane->forgotten = &one;
	fetch_kick(lane);
	while (!one.done)
		pthread_cond_wait(&lane->settled, &lane->lock);
	pthread_mutex_unlock(&lane->lock);
}

void fetch_forget(struct fetch *fetch, const struct dataset *dataset)
{
	const struct dataset *refused = dataset;
	(void)atomic_compare_exchange_strong_explicit(
		&fetch->refused, &refused, NULL, memory_order_relaxed, memory_order_relaxed);
	for (unsigned i = 0; i < fetch->lane_count; i++)
		lane_forget(fetch->lanes[i], dataset);
	if (fetch->cache)
		cache_leave(fetch->cache, dataset);
}

void fetch_release(struct fetch *fetch, struct fetch_item *item)
{
	struct fetch_state *state = fetch_state(item);
	uint8_t *buffer = state->buffer;
	struct cache_block *block = state->block;
	if (!buffer && !block)
		return;
	state->buffer = NULL;
	state->block = NULL;
	fetch_uncharge(item);
	item->data = NULL;
	if (block)
		cache_release(fetch->cache, block);
	else
		fetch_give_back(fetch, buffer, state->large);
}

/* --- starting and ending --- */

static int lane_start(struct lane *lane, const struct fetch_engine_ops *ops, struct fault *fault)
{
	lane->ops = ops;
	unsigned reads = ops->reads ? ops->reads : lane->fetch->options.pread_threads;
	int rc = fetch_plan_init(lane, (unsigned)quota_total(reads), fault);
	if (rc < 0)
		return rc;
	rc = ops->start(lane, fault);
	if (rc < 0)
		fetch_plan_deinit(lane);
	return rc;
}

/* Accepts NULL. Its threads have ended. */
static void lane_free(struct lane *lane)
{
	if (!lane)
		return;
	fetch_plan_deinit(lane);
	fetch_far_deinit(lane);
	fetch_inbox_deinit(&lane->inbox);
	pthread_cond_destroy(&lane->settled);
	pthread_mutex_destroy(&lane->lock);
	free(lane);
}

/* Adds a lane with this engine. 0 or negative errno. */
static int lane_new(struct fetch *fetch, const struct fetch_engine_ops *ops, struct fault *fault)
{
	struct lane *lane = calloc(1, sizeof *lane);
	if (!lane)
		return fault_set(fault, -ENOMEM, "no memory for the reader");
	lane->fetch = fetch;
	lane->number = lane->queue.lane = fetch->lane_count;
	lane->queue.lanes = fetch->options.lanes;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_cond_init(&lane->settled, NULL);
	fetch_inbox_init(&lane->inbox);
	fetch_far_init(lane);
	int rc = lane_start(lane, ops, fault);
	if (rc < 0)
		lane_free(lane);
	else
		fetch->lanes[fetch->lane_count++] = lane;
	return rc;
}

/* The further rings. If one cannot be made, fewer do. */
static void fetch_multiply(struct fetch *fetch)
{
	struct fault why = {""};
	int rc = 0;
	while (rc == 0 && fetch->lane_count < fetch->options.lanes)
		rc = lane_new(fetch, &fetch_uring, &why);
	const struct lane *lane = fetch->lanes[0];
	size_t used = strlen(lane->describe);
	if (fetch->options.lanes > 1)
		(void)snprintf(fetch->describe, sizeof fetch->describe, "%.*s, %u rings%s%s)",
			(int)(used ? used - 1 : 0), lane->describe, fetch->lane_count,
			rc < 0 ? ": " : "", why.text);
}

/* FETCH_AUTO: the ring, or else threads, with the reason kept for status. */
static int fetch_choose(struct fetch *fetch, struct fault *fault)
{
	const bool forced = fetch->options.engine == FETCH_URING;
	struct fault why = {""};
	int rc = fetch->options.engine == FETCH_PREAD
			 ? -ENOSYS
			 : lane_new(fetch, &fetch_uring, forced ? fault : &why);
	if (rc == 0)
		fetch_multiply(fetch);
	if (rc == 0 || forced)
		return rc;
	/* Its threads share one planner. */
	fetch->options.lanes = 1;
	rc = lane_new(fetch, &fetch_pread, fault);
	if (rc == 0)
		(void)snprintf(fetch->describe, sizeof fetch->describe, "%s%s%s",
			fetch->lanes[0]->describe, why.text[0] ? ": " : "", why.text);
	return rc;
}

static void fetch_destroy(struct fetch *fetch)
{
	for (unsigned i = 0; i < fetch->lane_count; i++)
		lane_free(fetch->lanes[i]);
	arena_deinit(&fetch->arena);
	cache_free(fetch->cache);
	pthread_mutex_destroy(&fetch->meter.lock);
	pthread_mutex_destroy(&fetch->room_lock);
	pthread_mutex_destroy(&fetch->fields_lock);
	fields_free(fetch);
	free(fetch);
}

unsigned fetch_lanes_for(unsigned workers, uint64_t arena_bytes, uint64_t index_bytes)
{
	enum { WORKERS = FETCH_LANE_WORKERS, ARENA = 8 << 20, INDEX = 1 << 20 };
	uint64_t lanes = UTIL_MIN((workers + WORKERS - 1u) / WORKERS, (unsigned)FETCH_LANES);
	lanes = UTIL_MIN(lanes, UTIL_MIN(arena_bytes / ARENA, index_bytes / INDEX));
	return (unsigned)UTIL_MAX(lanes, UINT64_C(1));
}

int fetch_new(const struct fetch_options *options, struct fetch **ret, struct fault *fault)
{
	struct fetch *fetch = calloc(1, sizeof *fetch);
	if (!fetch)
		return fault_set(fault, -ENOMEM, "no memory for the reader");
	fetch->options = *options;
	unsigned threads = options->pread_threads ? options->pread_threads : FETCH_PREAD_DEFAULT;
	fetch->options.pread_threads = UTIL_MIN(threads, (unsigned)FETCH_PREAD_MOST);
	fetch->options.lanes = UTIL_MIN(UTIL_MAX(options->lanes, 1u), (unsigned)FETCH_LANES);
	pthread_mutex_init(&fetch->meter.lock, NULL);
	pthread_mutex_init(&fetch->room_lock, NULL);
	pthread_mutex_init(&fetch->fields_lock, NULL);
	int rc = arena_init(&fetch->arena, options->arena_bytes, fault);
	if (rc == 0 && options->ledger && options->cache != FETCH_CACHE_OFF &&
		cache_new(options->ledger, &fetch->cache) < 0)
		rc = fault_set(fault, -ENOMEM, "no memory for the cache of samples");
	if (rc == 0)
		rc = fetch_choose(fetch, fault);
	if (rc < 0) {
		fetch_destroy(fetch);
		return rc;
	}
	*ret = fetch;
	return 0;
}

unsigned fetch_place(struct fetch *fetch, const struct numa *numa)
{
	unsigned bound = 0;
	for (unsigned i = 0; i < fetch->lane_count; i++)
		for (unsigned t = 0; t < fetch->lanes[i]->thread_count; t++)
			bound += numa_bind(numa, (i + t) % numa->count,
					 fetch->lanes[i]->threads[t]) == 0;
	return bound;
}

unsigned fetch_placed(const struct fetch *fetch, const struct numa *numa, unsigned node)
{
	unsigned threads = 0;
	for (unsigned i = 0; i < fetch->lane_count; i++)
		for (unsigned t = 0; t < fetch->lanes[i]->thread_count; t++)
			threads += (i + t) % numa->count == node;
	return threads;
}

void fetch_free(struct fetch *fetch)
{
	if (!fetch)
		return;
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		struct lane *lane = fetch->lanes[i];
		pthread_mutex_lock(&lane->lock);
		lane->stopping = true;
		pthread_mutex_unlock(&lane->lock);
		fetch_kick(lane);
	}
	for (unsigned i = 0; i < fetch->lane_count; i++)
		fetch->lanes[i]->ops->join(fetch->lanes[i]);
	fetch_destroy(fetch);
}

/* --- statistics --- */

static uint64_t lane_cpu_ns(const struct lane *lane)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < lane->thread_count; i++) {
		clockid_t clock;
		struct timespec used;
		if (pthread_getcpuclockid(lane->threads[i], &clock) == 0 &&
			clock_gettime(clock, &used) == 0)
			sum += (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
	}
	return sum;
}

static bool lane_delay_ns(const struct lane *lane, uint64_t *sum)
{
	for (unsigned i = 0; i < lane->thread_count; i++) {
		uint64_t delay;
		pid_t tid = atomic_load_explicit(&lane->tids[i], memory_order_relaxed);
		if (tid && !cpu_delay_ns(tid, &delay))
			return false;
		*sum += tid ? delay : 0;
	}
	return true;
}

bool fetch_delay_ns(const struct fetch *fetch, uint64_t *ret, unsigned *ret_threads)
{
	uint64_t sum = 0;
	unsigned threads = 0;
	for (unsigned i = 0; i < fetch->lane_count; i++) {
		threads += fetch->lanes[i]->thread_count;
		if (!lane_delay_ns(fetch->lanes[i], &sum))
			return false;
	}
	*ret = sum;
	*ret_threads = threads;
	return true;
}

static uint64_t fetch_read_counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void lane_stats_add(const struct lane *lane, struct fetch_stats *sum)
{
	const struct fetch_counters *counters = &lane->counters;
	uint64_t delivered = fetch_read_counter(&counters->delivered);
	uint64_t submitted = fetch_read_counter(&counters->submitted);
	sum->samples += fetch_read_counter(&counters->samples);
	sum->reads += fetch_read_counter(&counters->reads);
	sum->bytes += fetch_read_counter(&counters->bytes);
	sum->merged += fetch_read_counter(&counters->merged);
	sum->index_hits += fetch_read_counter(&counters->index_hits);
	sum->index_misses += fetch_read_counter(&counters->index_misses);
	sum->cpu_ns += lane_cpu_ns(lane);
	sum->arena_waits += fetch_read_counter(&counters->arena_waits);
	/* The counters are read one after the other: an item submitted in between must not make
	 * the difference negative. */
	sum->inflight += submitted > delivered ? submitted - delivered : 0;
	sum->shared += fetch_read_counter(&counters->shared);
}

void fetch_stats_read(struct fetch *fetch, struct fetch_stats *ret)
{
	pthread_mutex_lock(&fetch->meter.lock);
	uint64_t now = clock_ns();
	struct gauge asked = gauge_at(&fetch->meter.asked, now),
		     short_of_room = gauge_at(&fetch->meter.short_of_room, now);
	pthread_mutex_unlock(&fetch->meter.lock);
	*ret = (struct fetch_stats){
		.arena_used = fetch_read_counter(&fetch->arena.used),
		.arena_peak = fetch_read_counter(&fetch->arena.peak),
		.asked_ns = asked.sum_ns,
		.busy_ns = asked.some_ns,
		.short_ns = short_of_room.some_ns,
	};
	for (unsigned i = 0; i < fetch->lane_count; i++)
		lane_stats_add(fetch->lanes[i], ret);
	if (fetch->cache)
		cache_stats_read(fetch->cache, &ret->cache);
}

const char *fetch_describe(const struct fetch *fetch)
{
	return fetch->describe[0] ? fetch->describe : fetch->lanes[0]->describe;
}

static bool lane_notice(struct lane *lane, char *ret_text, unsigned room)
{
	pthread_mutex_lock(&lane->lock);
	bool some = lane->notice[0] != 0;
	if (some)
		(void)snprintf(ret_text, room, "%s", lane->notice);
	lane->notice[0] = 0;
	pthread_mutex_unlock(&lane->lock);
	return some;
}

bool fetch_notice(struct fetch *fetch, char *ret_text, unsigned room)
{
	for (unsigned i = 0; i < fetch->lane_count; i++)
		if (lane_notice(fetch->lanes[i], ret_text, room))
			return true;
	return false;
}
