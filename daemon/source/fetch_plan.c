/* fetch_plan: which reads begin next, and what came of those that ended. See fetch_internal.h for
 * the states; all of this runs in the engines' threads, under the planner's lock. */
#include "base/clock.h"
#include "base/util.h"
#include "source/dataset.h"
#include "source/fetch_lookup.h"
#include "source/fetch_share.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* --- how a dataset is read --- */

/* A dataset's entry; NULL: nothing of it was read lately. */
static struct fetch_mode *plan_known(struct fetch *fetch, const struct dataset *dataset)
{
	for (unsigned i = 0; i < FETCH_MODES; i++)
		if (fetch->modes[i].dataset == dataset)
			return &fetch->modes[i];
	return NULL;
}

static struct fetch_mode *plan_mode(struct fetch *fetch, const struct dataset *dataset)
{
	struct fetch_mode *mode = plan_known(fetch, dataset);
	if (mode)
		return mode;
	char why[256];
	/* With more datasets than entries, one loses its counts, and others get less than they
	 * might. */
	mode = &fetch->modes[fetch->modes_next++ % FETCH_MODES];
	*mode = (struct fetch_mode){
		.dataset = dataset,
		.direct = fetch_wants_direct(fetch, dataset, why, sizeof why),
	};
	return mode;
}

/* --- lists --- */

void fetch_plan_ready(struct fetch *fetch, struct fetch_op *op)
{
	op->next = NULL;
	*fetch->ready_tail = op;
	fetch->ready_tail = &op->next;
}

void fetch_plan_finish(struct fetch *fetch, struct fetch_item *item, int result)
{
	item->result = result;
	item->next = NULL;
	*fetch->finished_tail = item;
	fetch->finished_tail = &item->next;
}

/* The meter follows what the planner knows. */
static void plan_meter(struct fetch *fetch)
{
	struct fetch_meter *meter = &fetch->meter;
	if (meter->asked.value == fetch->asked &&
		meter->short_of_room.value == fetch->short_of_room)
		return; /* only planners change it, and they hold fetch->lock */
	pthread_mutex_lock(&meter->lock);
	uint64_t now = clock_ns();
	gauge_set(&meter->asked, fetch->asked, now);
	gauge_set(&meter->short_of_room, fetch->short_of_room, now);
	pthread_mutex_unlock(&meter->lock);
}

/* Where threads are what ops take, those that hang must leave some. A ring takes any number. */
static bool plan_may_ask(struct fetch *fetch, const struct fetch_op *op)
{
	if (fetch->ops->reads)
		return true;
	const struct fetch_mode *mode = plan_mode(fetch, op->dataset);
	return quota_allows(mode->asked, fetch->asked, fetch->reads_bound, 1);
}

/* The link to the next op to be asked; what it links is NULL where there is none. */
static struct fetch_op **plan_next(struct fetch *fetch)
{
	struct fetch_op **at = &fetch->ready;
	while (*at && !plan_may_ask(fetch, *at))
		at = &(*at)->next;
	return at;
}

bool fetch_plan_more(struct fetch *fetch)
{
	return *plan_next(fetch) != NULL;
}

struct fetch_op *fetch_plan_next(struct fetch *fetch)
{
	struct fetch_op **at = plan_next(fetch), *op = *at;
	if (!op)
		return NULL;
	*at = op->next;
	if (!*at)
		fetch->ready_tail = at;
	op->next = NULL;
	fetch->asked++;
	plan_mode(fetch, op->dataset)->asked++;
	plan_meter(fetch);
	return op;
}

struct fetch_item *fetch_plan_finished(struct fetch *fetch)
{
	struct fetch_item *items = fetch->finished;
	fetch->finished = NULL;
	fetch->finished_tail = &fetch->finished;
	return items;
}

bool fetch_plan_quiet(const struct fetch *fetch)
{
	return !fetch->queue.readers && !fetch->window && !fetch->ready && !fetch->finished &&
	       fetch->asked == 0;
}

bool fetch_plan_direct(struct fetch *fetch, const struct dataset *dataset)
{
	return plan_mode(fetch, dataset)->direct;
}

static void plan_refused(struct fetch *fetch, const struct dataset *dataset)
{
	struct fetch_mode *mode = plan_mode(fetch, dataset);
	if (!mode->direct)
		return;
	mode->direct = false;
	if (fetch->cache && fetch->options.cache == FETCH_CACHE_AUTO)
		cache_stop(fetch->cache, dataset);
	(void)snprintf(fetch->notice, sizeof fetch->notice,
		"%s: its file system refuses O_DIRECT, so it is read through the page cache (io: "
		"buffered says the same)",
		dataset_shard_path(dataset, 0));
}

/* --- buffers --- */

enum plan_step {
	PLAN_READ, /* a read has begun */
	PLAN_SKIP, /* not this one now; those behind it may go */
	PLAN_STOP, /* nobody may go: buffers or reads are used up */
	PLAN_GONE, /* the item finished without a read */
	PLAN_LARGE, /* a large sample has to wait for its permit; smaller ones may go */
};

/* A buffer of its own for a sample that would fill too much of the arena. Its bytes come from the
 * pool that all large jobs share; this must never wait for it, because other samples would wait
 * with it. */
static enum plan_step plan_large(
	struct fetch *fetch, struct fetch_request *request, uint64_t bytes, uint8_t **ret)
{
	struct permit *pool = fetch->options.large;
	int rc = pool ? permit_try(pool, bytes) : PERMIT_E_TOO_LARGE;
	if (rc == -EAGAIN) {
		atomic_store_explicit(&fetch->large_wanted, true, memory_order_relaxed);
		fetch->short_of_room = true;
		return PLAN_LARGE;
	}
	if (rc == PERMIT_E_TOO_LARGE) {
		fetch_lookup_finish(fetch, request, FETCH_E_TOO_LARGE);
		return PLAN_GONE;
	}
	void *buffer =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED) {
		permit_release(pool, bytes);
		fetch_lookup_finish(fetch, request, -ENOMEM);
		return PLAN_GONE;
	}
	*ret = buffer;
	return PLAN_READ;
}

static bool plan_is_large(const struct fetch *fetch, uint64_t bytes)
{
	return arena_cost(bytes) > arena_bytes(&fetch->arena) / 4;
}

/* The buffer of one request alone. `ret_large` is 0 for the arena's. */
static enum plan_step plan_buffer(struct fetch *fetch, struct fetch_request *request,
	uint64_t bytes, uint8_t **ret_buffer, uint64_t *ret_large)
{
	if (plan_is_large(fetch, bytes)) {
		*ret_large = arena_cost(bytes);
		return plan_large(fetch, request, *ret_large, ret_buffer);
	}
	*ret_large = 0;
	*ret_buffer = arena_take(&fetch->arena, bytes, true);
	if (*ret_buffer)
		return PLAN_READ;
	fetch_count(&fetch->counters.arena_waits, 1);
	fetch->short_of_room = true;
	return PLAN_STOP;
}

static bool plan_has_room(
	const struct fetch *fetch, const struct fetch_reader *reader, uint64_t bytes)
{
	uint64_t own = atomic_load_explicit(&reader->held, memory_order_relaxed);
	uint64_t used = atomic_load_explicit(&fetch->arena.used, memory_order_relaxed);
	return quota_allows(own, used, arena_bytes(&fetch->arena), arena_cost(bytes));
}

/* Whether a request's reader may have another buffer and its dataset another read. If not, those of
 * the reader that lie behind it wait too, so that they do not overtake it. */
static bool plan_may_read(struct fetch *fetch, const struct fetch_request *request)
{
	struct fetch_reader *reader = request->item->reader;
	const struct fetch_mode *mode = plan_mode(fetch, request->item->dataset);
	if (!quota_allows(mode->reads, fetch->reads_used, fetch->reads_bound, 1)) {
		reader->pass = fetch->pass;
		return false;
	}
	uint32_t size = request->record.size;
	if (plan_is_large(fetch, size) || plan_has_room(fetch, reader, size))
		return true;
	/* Before another look: what comes back in between would wake nobody. */
	arena_want(&fetch->arena);
	if (plan_has_room(fetch, reader, size))
		return true;
	fetch_count(&fetch->counters.arena_waits, 1);
	fetch->short_of_room = true;
	reader->pass = fetch->pass;
	return false;
}

static void plan_give_back(struct fetch *fetch, uint8_t *buffer, uint64_t large)
{
	if (large) {
		(void)munmap(buffer, large);
		permit_release(fetch->options.large, large);
	} else {
		(void)arena_drop(&fetch->arena, buffer);
	}
}

/* --- beginning reads --- */

/* The next of the same reader. */
static struct fetch_request *plan_neighbour(const struct fetch_request *request)
{
	struct fetch_request *next = request->after;
	while (next && next->item->reader != request->item->reader)
		next = next->after;
	return next;
}

/* Fills a read that has its buffer: `count` requests of one reader leave the window, from `request`
 * on. Byte
 * `begin` of the file comes to the buffer's first. */
static void plan_begin(struct fetch *fetch, struct fetch_read *read, struct fetch_request *request,
	unsigned count, uint64_t begin)
{
	struct fetch_item **tail = &read->items;
	read->count = count;
	for (unsigned i = 0; i < count; i++) {
		struct fetch_request *after = plan_neighbour(request);
		uint64_t offset = request->record.offset - begin;
		uint32_t size = request->record.size;
		int64_t label = request->record.label;
		uint64_t position = request->position;
		uint32_t shard = request->at.shard;
		struct fetch_item *item = fetch_lookup_remove(fetch, request);
		item->data = read->buffer + offset;
		item->size = size;
		item->label = label;
		item->position = position;
		item->shard = shard;
		fetch_charge(item, read->large ? 0 : arena_cost(size));
		fetch_share_begin(fetch, item);
		*tail = item;
		tail = &item->next;
		request = after;
	}
	*tail = NULL;
	plan_mode(fetch, read->op.dataset)->reads++;
	fetch_count(&fetch->counters.reads, 1);
	fetch_count(&fetch->counters.merged, count - 1);
	fetch_count(&fetch->counters.bytes, read->op.direct ? read->op.length : read->op.need);
	fetch_plan_ready(fetch, &read->op);
}

static struct fetch_read *plan_take_read(struct fetch *fetch, uint8_t *buffer, uint64_t large)
{
	struct fetch_read *read = fetch->read_free;
	fetch->read_free = read->next;
	fetch->reads_used++;
	*read = (struct fetch_read){.buffer = buffer, .large = large, .begun_ns = clock_ns()};
	return read;
}

/* True when `next` may share the read that goes from `begin` to `end`. */
static bool plan_joins(struct fetch *fetch, const struct fetch_request *first,
	const struct fetch_request *next, uint64_t begin, uint64_t end)
{
	const struct index_record *record = &next->record;
	uint64_t most = UTIL_MIN((uint64_t)FETCH_MERGE_BYTES, arena_bytes(&fetch->arena) / 8);
	return next->state == REQUEST_READY && next->item->dataset == first->item->dataset &&
	       next->at.shard == first->at.shard && !fetch_state(next->item)->solo &&
	       record->offset >= end && record->offset - end <= FETCH_MERGE_GAP &&
	       record->offset + record->size - begin <= most && !fetch_shares(fetch, next->item);
}

/* How many requests from `first` on share one read, and where that ends. */
static unsigned plan_merge(
	struct fetch *fetch, const struct fetch_request *first, uint64_t *ret_end)
{
	uint64_t begin = first->record.offset, end = begin + first->record.size;
	unsigned count = 1;
	if (!fetch_state(first->item)->solo)
		for (const struct fetch_request *next = plan_neighbour(first);
			next && plan_joins(fetch, first, next, begin, end);
			next = plan_neighbour(next)) {
			end = next->record.offset + next->record.size;
			count++;
		}
	*ret_end = end;
	return count;
}

/* The open shard, or NULL: its opening has begun, or has to wait for a free entry. */
static struct file *plan_file(struct fetch *fetch, const struct fetch_request *request)
{
	const struct dataset *dataset = request->item->dataset;
	uint32_t shard = request->at.shard;
	struct file *file = files_find(&fetch->files, dataset, shard);
	if (file)
		return file->state == FILE_OPEN ? file : NULL;
	file = files_claim(&fetch->files, dataset, shard, dataset_shard_path(dataset, shard),
		plan_mode(fetch, dataset)->direct);
	if (file)
		fetch_plan_ready(fetch, &file->op);
	return NULL;
}

/* The op of a range, its bounds widened to what direct reads need. */
static struct fetch_op plan_range_op(const struct file *file, uint64_t begin, uint64_t end)
{
	uint64_t from = begin & ~((uint64_t)file->align - 1);
	return (struct fetch_op){
		.kind = FETCH_OP_RANGE,
		.stage = FETCH_OP_READ,
		.direct = file->direct,
		.align = file->align,
		.fd = file->fd,
		.slot = file->slot,
		.offset = from,
		.length = (uint32_t)(util_align(end, file->align) - from),
		.need = (uint32_t)(end - from),
		.dataset = file->dataset,
		.shard = file->shard,
	};
}

/* Counts the read among the shard's users; now and then the shard is looked at before it is read.
 */
static void plan_use(struct fetch_read *read, struct file *file)
{
	read->file = file;
	file->users++;
	if (read->begun_ns - file->verified_ns >= FETCH_VERIFY_NS) {
		file->verified_ns = read->begun_ns;
		read->op.verify = true;
	}
}

static enum plan_step plan_range(struct fetch *fetch, struct fetch_request *request)
{
	struct file *file = plan_file(fetch, request);
	if (!file)
		return PLAN_SKIP;
	uint64_t begin = request->record.offset, end, large = 0;
	unsigned count = plan_merge(fetch, request, &end);
	struct fetch_op op = plan_range_op(file, begin, end);
	bool merged = count > 1 && plan_has_room(fetch, request->item->reader, op.length);
	uint8_t *buffer = merged ? arena_take(&fetch->arena, op.length, false) : NULL;
	if (!buffer) {
		count = 1;
		op = plan_range_op(file, begin, begin + request->record.size);
		enum plan_step step = plan_buffer(fetch, request, op.length, &buffer, &large);
		if (step != PLAN_READ)
			return step;
	}
	struct fetch_read *read = plan_take_read(fetch, buffer, large);
	op.buffer = buffer;
	op.registered = large == 0;
	read->op = op;
	plan_use(read, file);
	plan_begin(fetch, read, request, count, op.offset);
	return PLAN_READ;
}

/* A folder's sample: opened, read to one byte more than its size, closed. The name waits in the
 * buffer until the file is open. */
static enum plan_step plan_file_read(struct fetch *fetch, struct fetch_request *request)
{
	if (fetch->files_own == fetch->files_own_bound)
		return PLAN_SKIP;
	const struct dataset *dataset = request->item->dataset;
	bool direct = plan_mode(fetch, dataset)->direct;
	uint64_t length = (uint64_t)request->record.size + 1, large;
	if (direct)
		length = util_align(length, ARENA_PAGE);
	uint8_t *buffer;
	enum plan_step step = plan_buffer(fetch, request, length, &buffer, &large);
	if (step != PLAN_READ)
		return step;
	int rc = dataset_name(dataset, request->at.shard, &request->record, request->name->bytes,
		(char *)buffer, ARENA_PAGE, request->item->fault);
	if (rc < 0) {
		plan_give_back(fetch, buffer, large);
		fetch_state(request->item)->told = true;
		fetch_lookup_finish(fetch, request, rc);
		return PLAN_GONE;
	}
	struct fetch_read *read = plan_take_read(fetch, buffer, large);
	read->op = (struct fetch_op){
		.kind = FETCH_OP_FILE,
		.stage = FETCH_OP_OPEN,
		.directory = dataset_root_fd(dataset),
		.path = (const char *)buffer,
		.direct = direct,
		.align = direct ? ARENA_PAGE : 1,
		.fd = -1,
		.slot = -1,
		.buffer = buffer,
		.registered = large == 0,
		.length = (uint32_t)length,
		.need = request->record.size,
		.dataset = dataset,
	};
	fetch->files_own++;
	plan_begin(fetch, read, request, 1, 0);
	return PLAN_READ;
}

/* Begins the read of a READY request and of those that join it. Large samples get their permits in
 * order: behind one that waits, no other asks. */
static enum plan_step plan_read(
	struct fetch *fetch, struct fetch_request *request, bool large_waits)
{
	if (request->item->reader->pass == fetch->pass)
		return PLAN_SKIP;
	if (fetch_shares(fetch, request->item)) {
		struct fetch_item *item = fetch_lookup_remove(fetch, request);
		/* The cache may have given way in between: nobody says so. */
		if (!fetch_share(fetch, item)) {
			fetch_queue_return(&fetch->queue, item);
			fetch->retry = true;
		}
		return PLAN_GONE;
	}
	if (!fetch->read_free)
		return PLAN_STOP;
	/* Beyond this the lengths of an op would not hold what alignment adds. */
	if (request->record.size > UINT32_MAX - (1 << 20)) {
		fetch_lookup_finish(fetch, request, FETCH_E_TOO_LARGE);
		return PLAN_GONE;
	}
	if (large_waits && plan_is_large(fetch, request->record.size))
		return PLAN_SKIP;
	if (!plan_may_read(fetch, request))
		return PLAN_SKIP;
	if (dataset_kind(request->item->dataset) == DATASET_FOLDER)
		return plan_file_read(fetch, request);
	return plan_range(fetch, request);
}

/* From the window's beginning: reads begin in the queue's order, except that nobody waits behind an
 * index page, a shard being opened, or a large sample without its permit. */
static void plan_window(struct fetch *fetch)
{
	bool large_waits = false;
	fetch->pass++;
	struct fetch_request *request = fetch->window;
	while (request) {
		struct fetch_request *before = request->before, *after = request->after;
		enum plan_step step = PLAN_SKIP;
		if (!request->waiting && fetch_lookup_advance(fetch, request))
			step = plan_read(fetch, request, large_waits);
		if (step == PLAN_STOP)
			return;
		/* Others than fetch take permits too and do not say when they give them back: look
		 * again soon. */
		if (step == PLAN_LARGE)
			large_waits = fetch->retry = true;
		/* A read may have taken its neighbours along: go on behind what lies before. */
		bool stays = step == PLAN_SKIP || step == PLAN_LARGE;
		request = stays ? after : before ? before->after : fetch->window;
	}
}

static void plan_drain(struct fetch *fetch)
{
	struct fetch_inbox *inbox = &fetch->inbox;
	pthread_mutex_lock(&inbox->lock);
	struct fetch_item *items = inbox->items;
	inbox->items = NULL;
	inbox->tail = &inbox->items;
	pthread_mutex_unlock(&inbox->lock);
	while (items) {
		struct fetch_item *next = items->next;
		if (fetch->stopping || !fetch_share_hit(fetch, items))
			fetch_queue_push(&fetch->queue, items);
		items = next;
	}
}

/* Drops what is kept of a dataset whose owner waits in fetch_forget; what is in flight first has to
 * come back. Done here, by the engine, because a ring's files may only be changed by the ring's
 * thread. */
static void plan_forget(struct fetch *fetch)
{
	bool files = files_forget(&fetch->files, fetch->forget);
	bool pages = pages_forget(&fetch->pages, fetch->forget);
	if (!files || !pages)
		return;
	struct fetch_mode *mode = plan_known(fetch, fetch->forget);
	if (mode)
		*mode = (struct fetch_mode){0};
	fetch->forget = NULL;
	pthread_cond_broadcast(&fetch->settled);
}

void fetch_plan(struct fetch *fetch)
{
	fetch->retry = fetch->short_of_room = false;
	if (fetch->forget)
		plan_forget(fetch);
	if (fetch->stopping) {
		fetch_plan_cancel(fetch, NULL);
		return;
	}
	plan_drain(fetch);
	/* Begun reads make room in the window, which may hold what can be merged with the next. */
	uint64_t before;
	do {
		fetch_lookup_fill(fetch);
		before = atomic_load_explicit(&fetch->counters.reads, memory_order_relaxed);
		plan_window(fetch);
	} while (before != atomic_load_explicit(&fetch->counters.reads, memory_order_relaxed) &&
		 fetch->queue.readers && fetch->read_free);
	plan_meter(fetch);
}

/* --- what came of them --- */

/* A file table that is full elsewhere in the process may have room once one of ours is closed. */
static bool plan_reopen(struct fetch *fetch, struct fetch_op *op)
{
	if ((op->result != -EMFILE && op->result != -ENFILE) || !files_evict(&fetch->files))
		return false;
	op->stage = FETCH_OP_OPEN;
	op->tries = 0;
	fetch_plan_ready(fetch, op);
	return true;
}

static void plan_file_opened(struct fetch *fetch, struct file *file)
{
	const struct dataset *dataset = file->dataset;
	uint32_t shard = file->shard;
	int result = file->op.result;
	if (plan_reopen(fetch, &file->op))
		return;
	if (file->op.refused)
		plan_refused(fetch, dataset);
	bool doomed = file->doomed;
	if (files_opened(&fetch->files, file, clock_ns()) || doomed)
		return;
	if (result == -ENOENT || result == -ENOTDIR)
		result = -ESTALE;
	for (struct fetch_request *request = fetch->window, *after; request; request = after) {
		after = request->after;
		if (request->state == REQUEST_READY && request->item->dataset == dataset &&
			request->at.shard == shard)
			fetch_lookup_finish(fetch, request, result);
	}
}

/* Storage says in many ways that it cannot read a place: the block layer's names for media,
 * protection and target errors, the file systems' for checksums. */
static bool plan_is_io_error(int result)
{
	return result == -EIO || result == -ENODATA || result == -EREMOTEIO || result == -EILSEQ ||
	       result == -EUCLEAN || result == -EBADMSG;
}

static int plan_outcome_file(const struct fetch_op *op)
{
	switch (op->result) {
	case 0:
		return op->got > op->need ? FETCH_E_CHANGED : FETCH_OK;
	case FETCH_OP_ENDED:
		return op->changed ? FETCH_E_CHANGED : FETCH_E_SHORT;
	case -EISDIR:
	case -ENXIO:
	case -ESPIPE:
		return FETCH_E_CHANGED;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
	case -ESTALE:
		return FETCH_E_MISSING;
	default:
		return plan_is_io_error(op->result) ? FETCH_E_IO : op->result;
	}
}

static int plan_outcome_range(const struct fetch_op *op)
{
	if (op->result == FETCH_OP_ENDED)
		return FETCH_E_SHORT;
	return plan_is_io_error(op->result) ? FETCH_E_IO : op->result;
}

/* Followers whose leader's buffer they cannot have look for themselves. */
static void plan_look_again(struct fetch *fetch, struct fetch_item *followers)
{
	for (struct fetch_item *item = followers, *next; item; item = next) {
		next = item->next;
		if (fetch->stopping)
			fetch_plan_finish(fetch, item, -ECANCELED);
		else
			fetch_queue_return(&fetch->queue, item);
	}
}

/* Followers get what their leader got. Returns how many hold the buffer now. */
static uint32_t plan_follow(
	struct fetch *fetch, const struct fetch_item *leader, struct fetch_item *followers)
{
	uint32_t count = 0;
	for (struct fetch_item *item = followers, *next; item; item = next, count++) {
		next = item->next;
		item->data = leader->data;
		item->size = leader->size;
		item->label = leader->label;
		item->shard = leader->shard;
		item->position = leader->position;
		item->read_ns = leader->read_ns;
		fetch_state(item)->buffer = fetch_state_const(leader)->buffer;
		fetch_charge(item, arena_cost(item->size));
		fetch_plan_finish(fetch, item, FETCH_OK);
	}
	return count;
}

/* A merged read failed: whose fault it is shows when each is read alone, so that no outcome depends
 * on merging. */
static void plan_split(struct fetch *fetch, struct fetch_read *read)
{
	struct fetch_item *item = read->items;
	while (item) {
		struct fetch_item *next = item->next;
		plan_look_again(fetch, fetch_share_end(fetch, item));
		fetch_state(item)->solo = true;
		fetch_uncharge(item);
		item->data = NULL;
		fetch_queue_return(&fetch->queue, item);
		item = next;
	}
	plan_give_back(fetch, read->buffer, read->large);
}

/* Each item gets its result; those that were read hold the buffer from now on. */
static void plan_deal(struct fetch *fetch, struct fetch_read *read)
{
	const struct fetch_op *op = &read->op;
	uint64_t read_ns = clock_ns() - read->begun_ns;
	uint32_t holders = 0;
	for (struct fetch_item *item = read->items, *next; item; item = next) {
		next = item->next;
		int result = fetch->stopping ? -ECANCELED
			     : read->file    ? plan_outcome_range(op)
					     : plan_outcome_file(op);
		struct fetch_item *followers = fetch_share_end(fetch, item);
		item->read_ns = read_ns;
		if (result == FETCH_OK) {
			fetch_state(item)->buffer = read->buffer;
			fetch_state(item)->large = read->large;
			holders++;
		} else {
			fetch_uncharge(item);
			item->data = NULL;
		}
		if (result == FETCH_OK && !read->large)
			holders += plan_follow(fetch, item, followers);
		else
			plan_look_again(fetch, followers);
		fetch_plan_finish(fetch, item, result);
	}
	if (holders == 0)
		plan_give_back(fetch, read->buffer, read->large);
	else if (!read->large)
		arena_share(&fetch->arena, read->buffer, holders);
}

/* A shard that ends early or is another one now is not read any further. */
static void plan_check_shard(struct fetch *fetch, struct fetch_read *read)
{
	struct fetch_op *op = &read->op;
	if (op->refused) {
		read->file->direct = false;
		read->file->align = 1;
	}
	if (op->result == FETCH_OP_ENDED && dataset_verify_shard(op->dataset, op->shard, NULL) < 0)
		op->result = -ESTALE;
	if (op->result == -ESTALE)
		files_doom(&fetch->files, read->file);
}

static void plan_read_done(struct fetch *fetch, struct fetch_read *read)
{
	struct fetch_op *op = &read->op;
	if (!read->file && op->fd < 0 && plan_reopen(fetch, op))
		return;
	if (op->refused)
		plan_refused(fetch, op->dataset);
	if (read->file)
		plan_check_shard(fetch, read);
	if (op->result != 0 && op->result != -ESTALE && read->count > 1 && !fetch->stopping)
		plan_split(fetch, read);
	else
		plan_deal(fetch, read);
	if (read->file)
		files_drop(&fetch->files, read->file);
	else
		fetch->files_own--;
	struct fetch_mode *mode = plan_known(fetch, op->dataset);
	if (mode && mode->reads > 0)
		mode->reads--;
	fetch->reads_used--;
	read->next = fetch->read_free;
	fetch->read_free = read;
}

void fetch_plan_done(struct fetch *fetch, struct fetch_op *op)
{
	assert(op->stage == FETCH_OP_DONE && fetch->asked > 0);
	fetch->asked--;
	plan_meter(fetch);
	struct fetch_mode *mode = plan_known(fetch, op->dataset);
	if (mode && mode->asked > 0)
		mode->asked--;
	switch (op->kind) {
	case FETCH_OP_PAGE:
		fetch_lookup_loaded(fetch, (struct page *)op);
		break;
	case FETCH_OP_SHARD:
		plan_file_opened(fetch, (struct file *)op);
		break;
	case FETCH_OP_RANGE:
	case FETCH_OP_FILE:
		plan_read_done(fetch, (struct fetch_read *)op);
		break;
	}
}

void fetch_plan_cancel(struct fetch *fetch, const struct fetch_reader *reader)
{
	plan_drain(fetch);
	fetch_share_cancel(fetch, reader);
	for (struct fetch_request *request = fetch->window, *after; request; request = after) {
		after = request->after;
		if (!reader || request->item->reader == reader)
			fetch_lookup_finish(fetch, request, -ECANCELED);
	}
	struct fetch_reader *next = fetch->queue.readers;
	while (next) {
		struct fetch_reader *one = next;
		next = one->next;
		while (one->root && (!reader || one == reader))
			fetch_plan_finish(fetch, fetch_queue_pop(&fetch->queue, one), -ECANCELED);
	}
}

/* --- pools --- */

static int plan_files_init(struct fetch *fetch)
{
	struct rlimit limit;
	uint64_t nofile = getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : limit.rlim_cur;
	unsigned bound = files_bound(nofile);
	fetch->files_own_bound = bound;
	return files_init(&fetch->files, bound, NULL, NULL);
}

int fetch_plan_init(struct fetch *fetch, unsigned reads, struct fault *fault)
{
	fetch->ready_tail = &fetch->ready;
	fetch->finished_tail = &fetch->finished;
	fetch->requests = calloc(FETCH_WINDOW, sizeof *fetch->requests);
	fetch->reads = calloc(reads, sizeof *fetch->reads);
	fetch->reads_bound = reads;
	fetch->reads_used = 0;
	if (!fetch->requests || !fetch->reads || plan_files_init(fetch) < 0 ||
		pages_init(&fetch->pages, fetch->options.index_bytes) < 0) {
		fetch_plan_deinit(fetch);
		return fault_set(
			fault, -ENOMEM, "no memory for the tables of the reader: lower memory:");
	}
	/* Each request loads or pins one page; three quarters of the pages stay free to be
	 * replaced. */
	unsigned most = fetch->pages.count / 4;
	fetch->window_bound =
		UTIL_MAX((unsigned)FETCH_WINDOW_LEAST, UTIL_MIN(most, (unsigned)FETCH_WINDOW));
	for (unsigned i = FETCH_WINDOW; i-- > 0;) {
		fetch->requests[i].next = fetch->request_free;
		fetch->request_free = &fetch->requests[i];
	}
	for (unsigned i = reads; i-- > 0;) {
		fetch->reads[i].next = fetch->read_free;
		fetch->read_free = &fetch->reads[i];
	}
	return 0;
}

void fetch_plan_deinit(struct fetch *fetch)
{
	files_deinit(&fetch->files);
	pages_deinit(&fetch->pages);
	free(fetch->requests);
	free(fetch->reads);
	fetch->requests = fetch->request_free = NULL;
	fetch->reads = fetch->read_free = NULL;
}
