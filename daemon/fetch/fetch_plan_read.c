/* fetch_plan_read: see fetch_plan.h. A READY request becomes a read: it gets a buffer, is merged
 * with its neighbors, and gets an op. */
#include "base/clock.h"
#include "base/host/roots.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/far/openers.h"
#include "fetch/fetch_lookup.h"
#include "fetch/fetch_plan.h"
#include "fetch/fetch_share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- buffers --- */

/* The caller reads the sample itself, if it wants it. */
static enum plan_step plan_too_large(struct lane *lane, struct fetch_request *request)
{
	struct fetch_item *item = request->item;
	item->size = fetch_stored(request);
	item->packed = request->record.packed;
	item->unpacked = request->record.size;
	item->label = request->record.label;
	item->position = request->position;
	item->shard = request->at.shard;
	fetch_lookup_finish(lane, request, FETCH_E_TOO_LARGE);
	return PLAN_GONE;
}

/* A buffer of its own for a sample that would fill too much of the arena. Its memory comes from
 * the permits that all large jobs share. This must never block, because other samples would wait
 * too. */
static enum plan_step plan_large(
	struct lane *lane, struct fetch_request *request, uint64_t bytes, uint8_t **ret)
{
	struct permit *pool = lane->fetch->options.large;
	int rc = pool ? permit_try(pool, bytes) : PERMIT_E_TOO_LARGE;
	if (rc == -EAGAIN) {
		atomic_store_explicit(&lane->fetch->large_wanted, true, memory_order_relaxed);
		lane->short_of_room = true;
		return PLAN_LARGE;
	}
	if (rc == PERMIT_E_TOO_LARGE && pool)
		permit_note(pool, bytes);
	if (rc == PERMIT_E_TOO_LARGE)
		return plan_too_large(lane, request);
	void *buffer =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED) {
		permit_release(pool, bytes);
		return plan_too_large(lane, request);
	}
	*ret = buffer;
	return PLAN_READ;
}

/* The next buffer that is dropped is announced to this lane. Before the arena is told. */
static void plan_want(struct lane *lane)
{
	atomic_store_explicit(&lane->wants_room, true, memory_order_relaxed);
}

static bool plan_is_large(const struct lane *lane, uint64_t bytes)
{
	return arena_cost(bytes) > arena_bytes(&lane->fetch->arena) / 4;
}

/* A reader that has no buffer at all must not wait for those that others may never give back: what
 * they leave of the arena may be in pieces that are too small for its next sample. */
static bool plan_is_starved(const struct lane *lane, const struct fetch_reader *reader)
{
	return lane->fetch->options.large &&
	       atomic_load_explicit(&reader->held, memory_order_relaxed) == 0;
}

/* The buffer of a single request. `ret_large` is 0 if it is in the arena. A field never waits for
 * memory: its image may have the memory that it would wait for, and is not released before the
 * field is there. The caller reads such a field itself. */
static enum plan_step plan_buffer(struct lane *lane, struct fetch_request *request, uint64_t bytes,
	uint8_t **ret_buffer, uint64_t *ret_large)
{
	const bool field = request->item->field != NULL;
	*ret_large = 0;
	if (plan_is_large(lane, bytes)) {
		if (field)
			return plan_too_large(lane, request);
		*ret_large = arena_cost(bytes);
		return plan_large(lane, request, *ret_large, ret_buffer);
	}
	*ret_buffer = arena_take(&lane->fetch->arena, bytes, false);
	if (!*ret_buffer && !field) {
		plan_want(lane);
		*ret_buffer = arena_take(&lane->fetch->arena, bytes, true);
	}
	if (*ret_buffer)
		return PLAN_READ;
	if (field)
		return plan_too_large(lane, request);
	if (plan_is_starved(lane, request->item->reader)) {
		*ret_large = arena_cost(bytes);
		return plan_large(lane, request, *ret_large, ret_buffer);
	}
	fetch_count(&lane->counters.arena_waits, 1);
	lane->short_of_room = true;
	return PLAN_STOP;
}

static bool plan_has_room(
	const struct lane *lane, const struct fetch_reader *reader, uint64_t bytes)
{
	uint64_t own = atomic_load_explicit(&reader->held, memory_order_seq_cst);
	uint64_t used = atomic_load_explicit(&lane->fetch->arena.used, memory_order_relaxed);
	return quota_allows(own, used, arena_bytes(&lane->fetch->arena), arena_cost(bytes));
}

/* Whether a request's reader may have another buffer and its dataset another read. If not, the
 * later requests of the same reader wait too, so that they do not overtake it. */
static bool plan_may_read(struct lane *lane, const struct fetch_request *request)
{
	struct fetch_reader *reader = request->item->reader;
	struct fetch_place *place = lane_place(lane, request->item);
	const struct fetch_mode *mode = fetch_plan_mode(lane, request->item->dataset);
	unsigned used = mode->remote ? lane->far_used : lane->reads_used;
	unsigned bound = mode->remote ? lane->far_bound : lane->reads_bound;
	if (!quota_allows(mode->reads, used, bound, 1)) {
		place->pass = lane->pass;
		return false;
	}
	uint32_t size = fetch_stored(request);
	/* A field does not wait (plan_buffer). */
	if (request->item->field || plan_is_large(lane, size) || plan_has_room(lane, reader, size))
		return true;
	/* Before the second look: a buffer that is dropped in between would wake no thread. */
	plan_want(lane);
	arena_want(&lane->fetch->arena);
	if (plan_has_room(lane, reader, size))
		return true;
	fetch_count(&lane->counters.arena_waits, 1);
	lane->short_of_room = true;
	place->pass = lane->pass;
	return false;
}

/* --- beginning reads --- */

/* The next request of the same reader. */
static struct fetch_request *plan_neighbor(const struct fetch_request *request)
{
	struct fetch_request *next = request->after;
	while (next && next->item->reader != request->item->reader)
		next = next->after;
	return next;
}

/* Fills a read that has its buffer: `count` requests of one reader, from `request` on, leave the
 * window. The buffer's first byte is byte `begin` of the file. */
static void plan_begin(struct lane *lane, struct fetch_read *read, struct fetch_request *request,
	unsigned count, uint64_t begin)
{
	struct fetch_item **tail = &read->items;
	read->count = count;
	for (unsigned i = 0; i < count; i++) {
		struct fetch_request *after = plan_neighbor(request);
		uint64_t offset = request->record.offset - begin;
		uint32_t size = fetch_stored(request);
		struct packed packed = request->record.packed;
		uint32_t unpacked = request->record.size;
		int64_t label = request->record.label;
		uint64_t position = request->position;
		uint32_t shard = request->at.shard;
		struct fetch_item *item = fetch_lookup_remove(lane, request);
		item->data = read->buffer + offset;
		item->size = size;
		item->packed = packed;
		item->unpacked = unpacked;
		item->label = label;
		item->position = position;
		item->shard = shard;
		/* What is large waits for permits, and not for a reader's share of the arena. */
		fetch_charge(item, plan_is_large(lane, size) ? 0 : arena_cost(size));
		fetch_share_begin(lane, item);
		*tail = item;
		tail = &item->next;
		request = after;
	}
	*tail = NULL;
	fetch_plan_mode(lane, read->op.dataset)->reads++;
	fetch_count(&lane->counters.reads, 1);
	fetch_count(&lane->counters.merged, count - 1);
	fetch_count(&lane->counters.bytes, read->op.direct ? read->op.length : read->op.need);
	fetch_plan_ready(lane, &read->op);
}

static struct fetch_read *plan_take_read(
	struct lane *lane, uint8_t *buffer, uint64_t large, bool remote)
{
	struct fetch_read *read = lane->read_free;
	lane->read_free = read->next;
	(*(remote ? &lane->far_used : &lane->reads_used))++;
	*read = (struct fetch_read){.buffer = buffer, .large = large, .begun_ns = clock_ns()};
	return read;
}

/* Bytes of a shard. */
struct plan_span {
	uint64_t begin, end;
};

/* Whether the request's bytes are near the span: after it, or, of a field, on any side. The fields
 * of a sample are asked for after its image, and may be in front of it. */
static bool plan_is_near(const struct fetch_request *request, const struct plan_span *span)
{
	uint64_t from = request->record.offset, to = from + fetch_stored(request);
	if (from >= span->end)
		return from - span->end <= FETCH_MERGE_GAP;
	return request->item->field && (to >= span->begin || span->begin - to <= FETCH_MERGE_GAP);
}

/* True if `next` may share the read of a span, which then gets wider. */
static bool plan_joins(struct lane *lane, const struct fetch_request *first,
	const struct fetch_request *next, struct plan_span *span)
{
	const struct index_record *record = &next->record;
	uint64_t room = arena_bytes(&lane->fetch->arena);
	bool remote = fetch_plan_mode(lane, next->item->dataset)->remote;
	uint64_t most = remote ? UTIL_MIN((uint64_t)FAR_MERGE_BYTES, room / 16)
			       : UTIL_MIN((uint64_t)FETCH_MERGE_BYTES, room / 8);
	if (next->state != REQUEST_READY || next->item->dataset != first->item->dataset ||
		next->at.shard != first->at.shard || fetch_state(next->item)->solo ||
		!plan_is_near(next, span))
		return false;
	struct plan_span wider = {UTIL_MIN(span->begin, record->offset),
		UTIL_MAX(span->end, record->offset + fetch_stored(next))};
	if (wider.end - wider.begin > most || fetch_shares(lane, next->item))
		return false;
	*span = wider;
	return true;
}

/* The number of requests from `first` on that share one read, and what it reads. */
static unsigned plan_merge(
	struct lane *lane, const struct fetch_request *first, struct plan_span *ret)
{
	struct plan_span span = {first->record.offset, first->record.offset + fetch_stored(first)};
	unsigned count = 1;
	if (!fetch_state(first->item)->solo)
		for (const struct fetch_request *next = plan_neighbor(first);
			next && plan_joins(lane, first, next, &span); next = plan_neighbor(next))
			count++;
	*ret = span;
	return count;
}

/* The open shard, or NULL: it is being opened, or must wait for a free entry. */
static struct file *plan_file(struct lane *lane, const struct fetch_request *request)
{
	const struct dataset *dataset = request->item->dataset;
	uint32_t shard = request->at.shard;
	struct file *file = files_find(&lane->files, dataset, shard);
	if (file)
		return file->state == FILE_OPEN ? file : NULL;
	const char *path = dataset_shard_path(dataset, shard);
	const struct fetch_mode *mode = fetch_plan_mode(lane, dataset);
	file = files_claim(&lane->files, dataset, shard, path, mode->direct);
	if (!file)
		return NULL;
	file->op.remote = mode->remote;
	if (mode->remote &&
		fetch_far_new(lane, &file->op, &(struct opening_what){.url = path}) < 0) {
		/* No memory: later. */
		files_abandon(&lane->files, file);
		lane->retry = true;
		return NULL;
	}
	fetch_plan_ready(lane, &file->op);
	return NULL;
}

/* The op for a range, whose bounds are widened to the alignment of direct reads. */
static struct fetch_op plan_range_op(const struct file *file, uint64_t begin, uint64_t end)
{
	uint64_t from = begin & ~((uint64_t)file->align - 1);
	return (struct fetch_op){
		.kind = FETCH_OP_RANGE,
		.stage = FETCH_OP_READ,
		.direct = file->direct,
		.align = file->align,
		.fd = file->fd,
		.slot = file->object ? -1 : file->slot,
		.remote = file->object != NULL,
		.object = file->object,
		.offset = from,
		.length = (uint32_t)(util_align(end, file->align) - from),
		.need = (uint32_t)(end - from),
		.dataset = file->dataset,
		.shard = file->shard,
	};
}

/* Makes the read a user of the shard. Once per FETCH_VERIFY_NS, the shard is checked before the
 * read. */
static void plan_use(struct fetch_read *read, struct file *file)
{
	read->file = file;
	file->users++;
	if (!file->object && read->begun_ns - file->verified_ns >= FETCH_VERIFY_NS) {
		file->verified_ns = read->begun_ns;
		read->op.verify = true;
	}
}

/* A read of remote storage cannot begin. */
static enum plan_step plan_no_memory(
	struct lane *lane, struct fetch_read *read, struct fetch_request *request)
{
	fetch_give_back(lane->fetch, read->buffer, read->large);
	lane->far_used--;
	read->next = lane->read_free;
	lane->read_free = read;
	fetch_lookup_finish(lane, request, -ENOMEM);
	return PLAN_GONE;
}

static enum plan_step plan_range(struct lane *lane, struct fetch_request *request)
{
	struct file *file = plan_file(lane, request);
	if (!file)
		return PLAN_SKIP;
	uint64_t begin = request->record.offset, large = 0;
	struct plan_span span;
	unsigned count = plan_merge(lane, request, &span);
	struct fetch_op op = plan_range_op(file, span.begin, span.end);
	bool merged = count > 1 && plan_has_room(lane, request->item->reader, op.length);
	uint8_t *buffer = merged ? arena_take(&lane->fetch->arena, op.length, false) : NULL;
	if (!buffer) {
		count = 1;
		op = plan_range_op(file, begin, begin + fetch_stored(request));
		enum plan_step step = plan_buffer(lane, request, op.length, &buffer, &large);
		if (step != PLAN_READ)
			return step;
	}
	struct fetch_read *read = plan_take_read(lane, buffer, large, op.remote);
	op.buffer = buffer;
	op.registered = large == 0;
	read->op = op;
	if (op.remote && fetch_far_new(lane, &read->op, NULL) < 0)
		return plan_no_memory(lane, read, request);
	plan_use(read, file);
	plan_begin(lane, read, request, count, op.offset);
	return PLAN_READ;
}

/* Writes the path of the file into the buffer. 0, FETCH_E_FIELD_MISSING, or a negative errno. */
static int plan_path(const struct fetch_request *request, uint8_t *buffer)
{
	const struct fetch_item *item = request->item;
	char *path = (char *)buffer;
	int rc = dataset_name(item->dataset, request->at.shard, &request->record,
		request->name->bytes, request->name->checked, path, ARENA_PAGE, item->fault);
	if (rc == 0)
		request->name->checked = true;
	if (rc == 0 && item->field && !field_path(path, item->field->name, path, ARENA_PAGE))
		rc = FETCH_E_FIELD_MISSING;
	return rc;
}

/* The job of an op that opens a sample's own object, whose name is in the buffer. */
static int plan_far_new(
	struct lane *lane, struct fetch_read *read, const struct fetch_request *request)
{
	char etag[DATASET_ETAG];
	const char *root = dataset_shard_path(read->op.dataset, 0), *name = read->op.path;
	size_t bytes = strlen(root) + strlen(name) + 2;
	cleanup(free_ptr) char *url = malloc(bytes);
	if (!url)
		return -ENOMEM;
	bool joined = root[0] && root[strlen(root) - 1] == '/';
	(void)snprintf(url, bytes, "%s%s%s", root, joined ? "" : "/", name);
	/* The listing's ETag, with which the image is its own request. */
	if (request->item->field ||
		dataset_etag(read->op.dataset, request->at.shard, &request->record,
			request->name->bytes, request->name->checked, etag, NULL) < 0)
		etag[0] = 0;
	return fetch_far_new(lane, &read->op,
		&(struct opening_what){
			.url = url, .etag = etag[0] ? etag : NULL, .size = request->record.size});
}

/* A folder's sample or field: opened, read up to one byte more than its size, closed. Its path is
 * kept in the buffer until the file is open. */
static enum plan_step plan_file_read(struct lane *lane, struct fetch_request *request)
{
	if (lane->files_own == lane->files_own_bound)
		return PLAN_SKIP;
	const struct dataset *dataset = request->item->dataset;
	bool direct = fetch_plan_mode(lane, dataset)->direct;
	uint64_t length = (uint64_t)request->record.size + 1, large;
	if (direct)
		length = util_align(length, ARENA_PAGE);
	uint8_t *buffer;
	enum plan_step step = plan_buffer(lane, request, length, &buffer, &large);
	if (step != PLAN_READ)
		return step;
	int rc = plan_path(request, buffer);
	if (rc != 0) {
		fetch_give_back(lane->fetch, buffer, large);
		fetch_state(request->item)->told = rc < 0;
		fetch_lookup_finish(lane, request, rc);
		return PLAN_GONE;
	}
	bool remote = fetch_plan_mode(lane, dataset)->remote;
	struct fetch_read *read = plan_take_read(lane, buffer, large, remote);
	read->op = (struct fetch_op){
		.kind = FETCH_OP_FILE,
		.remote = remote,
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
	if (request->item->field) {
		read->op.unsized = true;
		read->op.need = read->op.length;
		/* The walk of the folder has checked the links of images, not those of fields. */
		read->op.nofollow = roots_apply();
	}
	if (remote && plan_far_new(lane, read, request) < 0)
		return plan_no_memory(lane, read, request);
	lane->files_own++;
	plan_begin(lane, read, request, 1, 0);
	return PLAN_READ;
}

static enum plan_step plan_read(struct lane *lane, struct fetch_request *request, bool large_waits)
{
	/* A field overtakes: its image has memory, for which the others may be waiting. */
	const bool field = request->item->field != NULL;
	if (!field && lane_place(lane, request->item)->pass == lane->pass)
		return PLAN_SKIP;
	if (fetch_shares(lane, request->item)) {
		struct fetch_item *item = fetch_lookup_remove(lane, request);
		/* The cache may have dropped the sample in between, without notice. */
		if (!fetch_share(lane, item)) {
			fetch_queue_return(&lane->queue, item);
			lane->retry = true;
		}
		return PLAN_GONE;
	}
	if (!lane->read_free)
		return PLAN_STOP;
	/* A larger sample would overflow an op's lengths after alignment. */
	if (fetch_stored(request) > UINT32_MAX - (1 << 20))
		return plan_too_large(lane, request);
	if (!field && large_waits && plan_is_large(lane, fetch_stored(request)))
		return PLAN_SKIP;
	if (!plan_may_read(lane, request))
		return PLAN_SKIP;
	if (dataset_in_files(request->item->dataset))
		return plan_file_read(lane, request);
	return plan_range(lane, request);
}

/* One lane at a time looks for room and takes it: several that find the same room for a reader
 * would together give it more than its quota. */
enum plan_step fetch_plan_read(struct lane *lane, struct fetch_request *request, bool large_waits)
{
	if (lane->queue.lanes == 1)
		return plan_read(lane, request, large_waits);
	pthread_mutex_lock(&lane->fetch->room_lock);
	enum plan_step step = plan_read(lane, request, large_waits);
	pthread_mutex_unlock(&lane->fetch->room_lock);
	return step;
}
