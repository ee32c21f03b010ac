/* fetch: see fetch.h, which has the map. The public functions, which run on callers' threads, and
 * what both engines use: inbox, threads, delivery. */
#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
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

/* --- the inbox --- */

static void inbox_init(struct fetch_inbox *inbox)
{
	pthread_condattr_t attr;
	pthread_mutex_init(&inbox->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&inbox->cond, &attr);
	pthread_condattr_destroy(&attr);
	inbox->tail = &inbox->items;
	inbox->eventfd = -1;
}

static void inbox_deinit(struct fetch_inbox *inbox)
{
	pthread_cond_destroy(&inbox->cond);
	pthread_mutex_destroy(&inbox->lock);
}

/* Called with the inbox's lock. Wakes one sleeper at a time: it looks at everything, and wakes the
 * next one if there is more to do than it can take. A kick that finds no sleeper is kept for the
 * next thread that would sleep. */
static void inbox_kick(struct fetch_inbox *inbox)
{
	bool wake = inbox->sleepers > 0 && !inbox->kicked;
	inbox->kicked = true;
	if (!wake)
		return;
	if (inbox->eventfd < 0)
		pthread_cond_signal(&inbox->cond);
	else
		(void)eventfd_write(inbox->eventfd, 1);
}

void fetch_kick(struct fetch *fetch)
{
	pthread_mutex_lock(&fetch->inbox.lock);
	inbox_kick(&fetch->inbox);
	pthread_mutex_unlock(&fetch->inbox.lock);
}

bool fetch_sleep_begin(struct fetch_inbox *inbox)
{
	pthread_mutex_lock(&inbox->lock);
	bool sleeps = !inbox->items && !inbox->kicked;
	if (sleeps)
		inbox->sleepers++;
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
	return sleeps;
}

void fetch_sleep_end(struct fetch_inbox *inbox)
{
	pthread_mutex_lock(&inbox->lock);
	inbox->sleepers--;
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
}

void fetch_sleep(struct fetch_inbox *inbox, bool retry)
{
	pthread_mutex_lock(&inbox->lock);
	if (!inbox->items && !inbox->kicked) {
		inbox->sleepers++;
		if (retry && !inbox->timed) {
			inbox->timed = true;
			uint64_t until = clock_ns() + FETCH_RETRY_NS;
			struct timespec at = {
				.tv_sec = (time_t)(until / 1000000000u),
				.tv_nsec = (long)(until % 1000000000u),
			};
			(void)pthread_cond_timedwait(&inbox->cond, &inbox->lock, &at);
			inbox->timed = false;
		} else {
			pthread_cond_wait(&inbox->cond, &inbox->lock);
		}
		inbox->sleepers--;
	}
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
}

/* --- threads --- */

int fetch_thread_start(struct fetch *fetch, size_t stack_bytes, void *(*run)(void *))
{
	sigset_t all, before;
	pthread_attr_t attr;
	sigfillset(&all);
	pthread_attr_init(&attr);
	/* The event loop handles all signals. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_attr_setstacksize(&attr, stack_bytes);
	pthread_t *thread = &fetch->threads[fetch->thread_count];
	int rc = pthread_create(thread, &attr, run, fetch);
	/* Sanitizers keep their thread state on the stack and need a larger one. */
	if (rc == EINVAL)
		rc = pthread_create(thread, NULL, run, fetch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	(void)pthread_setname_np(*thread, "penstock-fetch");
	fetch->thread_count++;
	return 0;
}

void fetch_thread_note(struct fetch *fetch)
{
	unsigned at = atomic_fetch_add_explicit(&fetch->tid_count, 1, memory_order_relaxed);
	/* By number, because gettid() came with glibc 2.30. */
	atomic_store_explicit(&fetch->tids[at], (pid_t)syscall(SYS_gettid), memory_order_relaxed);
}

void fetch_threads_join(struct fetch *fetch)
{
	for (unsigned i = 0; i < fetch->thread_count; i++)
		(void)pthread_join(fetch->threads[i], NULL);
	fetch->thread_count = 0;
	atomic_store_explicit(&fetch->tid_count, 0, memory_order_relaxed);
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

void fetch_deliver(struct fetch *fetch, struct fetch_item *items)
{
	while (items) {
		struct fetch_item *item = items;
		items = item->next;
		item->next = NULL;
		if (item->result != FETCH_OK)
			deliver_fault(item);
		else if (!item->field)
			fetch_count(&fetch->counters.samples, 1);
		fetch_count(&fetch->counters.delivered, 1);
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
	fetch_count(&fetch->counters.submitted, count);
	struct fetch_inbox *inbox = &fetch->inbox;
	pthread_mutex_lock(&inbox->lock);
	*inbox->tail = items;
	inbox->tail = &last->next;
	inbox_kick(inbox);
	pthread_mutex_unlock(&inbox->lock);
}

void fetch_cancel(struct fetch *fetch, const struct fetch_reader *reader)
{
	pthread_mutex_lock(&fetch->lock);
	fetch_plan_cancel(fetch, reader);
	pthread_mutex_unlock(&fetch->lock);
	fetch_kick(fetch);
}

void fetch_expect(struct fetch *fetch, const struct dataset *dataset)
{
	if (!fetch->cache)
		return;
	pthread_mutex_lock(&fetch->lock);
	const struct fetch_mode *mode = fetch_plan_mode(fetch, dataset);
	bool kept = fetch->options.cache == FETCH_CACHE_ON || mode->direct || mode->remote;
	pthread_mutex_unlock(&fetch->lock);
	if (kept)
		cache_join(fetch->cache, dataset, dataset_count(dataset), dataset_bytes(dataset));
}

void fetch_forget(struct fetch *fetch, const struct dataset *dataset)
{
	pthread_mutex_lock(&fetch->lock);
	struct fetch_forgotten one = {.dataset = dataset, .next = fetch->forgotten};
	fetch->forgotten = &one;
	fetch_kick(fetch);
	while (!one.done)
		pthread_cond_wait(&fetch->settled, &fetch->lock);
	pthread_mutex_unlock(&fetch->lock);
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
	bool wake;
	if (block) {
		cache_release(fetch->cache, block);
		wake = false;
	} else if (state->large) {
		(void)munmap(buffer, state->large);
		permit_release(fetch->options.large, state->large);
		/* Relaxed: the engine also tries again by itself (FETCH_RETRY_NS); this only makes
		 * it sooner. */
		wake = atomic_exchange_explicit(&fetch->large_wanted, false, memory_order_relaxed);
	} else {
		wake = arena_drop(&fetch->arena, buffer);
	}
	if (wake)
		fetch_kick(fetch);
}

/* --- starting and ending --- */

static int fetch_start(struct fetch *fetch, const struct fetch_engine_ops *ops, struct fault *fault)
{
	fetch->ops = ops;
	unsigned reads = ops->reads ? ops->reads : fetch->options.pread_threads;
	int rc = fetch_plan_init(fetch, (unsigned)quota_total(reads), fault);
	if (rc < 0)
		return rc;
	rc = ops->start(fetch, fault);
	if (rc < 0)
		fetch_plan_deinit(fetch);
	return rc;
}

/* FETCH_AUTO: the ring, or else threads, with the reason kept for status. */
static int fetch_choose(struct fetch *fetch, struct fault *fault)
{
	if (fetch->options.engine == FETCH_PREAD)
		return fetch_start(fetch, &fetch_pread, fault);
	struct fault why = {""};
	int rc = fetch_start(
		fetch, &fetch_uring, fetch->options.engine == FETCH_URING ? fault : &why);
	if (rc == 0 || fetch->options.engine == FETCH_URING)
		return rc;
	rc = fetch_start(fetch, &fetch_pread, fault);
	if (rc == 0) {
		size_t used = strlen(fetch->describe);
		(void)snprintf(
			fetch->describe + used, sizeof fetch->describe - used, ": %s", why.text);
	}
	return rc;
}

static void fetch_destroy(struct fetch *fetch)
{
	fetch_plan_deinit(fetch);
	fetch_far_deinit(fetch);
	arena_deinit(&fetch->arena);
	cache_free(fetch->cache);
	inbox_deinit(&fetch->inbox);
	pthread_cond_destroy(&fetch->settled);
	pthread_mutex_destroy(&fetch->meter.lock);
	pthread_mutex_destroy(&fetch->fields_lock);
	pthread_mutex_destroy(&fetch->lock);
	fields_free(fetch);
	free(fetch);
}

int fetch_new(const struct fetch_options *options, struct fetch **ret, struct fault *fault)
{
	struct fetch *fetch = calloc(1, sizeof *fetch);
	if (!fetch)
		return fault_set(fault, -ENOMEM, "no memory for the reader");
	fetch->options = *options;
	unsigned threads = options->pread_threads ? options->pread_threads : FETCH_PREAD_DEFAULT;
	fetch->options.pread_threads = UTIL_MIN(threads, (unsigned)FETCH_PREAD_MOST);
	pthread_mutex_init(&fetch->lock, NULL);
	pthread_cond_init(&fetch->settled, NULL);
	pthread_mutex_init(&fetch->meter.lock, NULL);
	pthread_mutex_init(&fetch->fields_lock, NULL);
	inbox_init(&fetch->inbox);
	fetch_far_init(fetch);
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

void fetch_free(struct fetch *fetch)
{
	if (!fetch)
		return;
	pthread_mutex_lock(&fetch->lock);
	fetch->stopping = true;
	pthread_mutex_unlock(&fetch->lock);
	fetch_kick(fetch);
	fetch->ops->join(fetch);
	fetch_destroy(fetch);
}

/* --- statistics --- */

static uint64_t fetch_cpu_ns(const struct fetch *fetch)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < fetch->thread_count; i++) {
		clockid_t clock;
		struct timespec used;
		if (pthread_getcpuclockid(fetch->threads[i], &clock) == 0 &&
			clock_gettime(clock, &used) == 0)
			sum += (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
	}
	return sum;
}

bool fetch_delay_ns(const struct fetch *fetch, uint64_t *ret, unsigned *ret_threads)
{
	uint64_t sum = 0, delay;
	for (unsigned i = 0; i < fetch->thread_count; i++) {
		pid_t tid = atomic_load_explicit(&fetch->tids[i], memory_order_relaxed);
		if (tid && !cpu_delay_ns(tid, &delay))
			return false;
		sum += tid ? delay : 0;
	}
	*ret = sum;
	*ret_threads = fetch->thread_count;
	return true;
}

static uint64_t fetch_read_counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void fetch_stats_read(struct fetch *fetch, struct fetch_stats *ret)
{
	const struct fetch_counters *counters = &fetch->counters;
	pthread_mutex_lock(&fetch->meter.lock);
	uint64_t now = clock_ns();
	struct gauge asked = gauge_at(&fetch->meter.asked, now),
		     short_of_room = gauge_at(&fetch->meter.short_of_room, now);
	pthread_mutex_unlock(&fetch->meter.lock);
	uint64_t delivered = fetch_read_counter(&counters->delivered);
	uint64_t submitted = fetch_read_counter(&counters->submitted);
	*ret = (struct fetch_stats){
		.samples = fetch_read_counter(&counters->samples),
		.reads = fetch_read_counter(&counters->reads),
		.bytes = fetch_read_counter(&counters->bytes),
		.merged = fetch_read_counter(&counters->merged),
		.index_hits = fetch_read_counter(&counters->index_hits),
		.index_misses = fetch_read_counter(&counters->index_misses),
		.cpu_ns = fetch_cpu_ns(fetch),
		.arena_used = fetch_read_counter(&fetch->arena.used),
		.arena_peak = fetch_read_counter(&fetch->arena.peak),
		.arena_waits = fetch_read_counter(&counters->arena_waits),
		/* The counters are read one after the other: an item submitted in between must not
		 * make the difference negative. */
		.inflight = submitted > delivered ? submitted - delivered : 0,
		.shared = fetch_read_counter(&counters->shared),
		.asked_ns = asked.sum_ns,
		.busy_ns = asked.some_ns,
		.short_ns = short_of_room.some_ns,
	};
	if (fetch->cache)
		cache_stats_read(fetch->cache, &ret->cache);
}

const char *fetch_describe(const struct fetch *fetch)
{
	return fetch->describe;
}

bool fetch_notice(struct fetch *fetch, char *ret_text, unsigned room)
{
	pthread_mutex_lock(&fetch->lock);
	bool some = fetch->notice[0] != 0;
	if (some)
		(void)snprintf(ret_text, room, "%s", fetch->notice);
	fetch->notice[0] = 0;
	pthread_mutex_unlock(&fetch->lock);
	return some;
}
