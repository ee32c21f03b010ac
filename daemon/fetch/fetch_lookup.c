/* fetch_lookup: see fetch_lookup.h. Runs with the planner's lock. */
#include "fetch/fetch_lookup.h"

#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_share.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Inserts a request in the queue's order, which is nearly always the end. */
static void lookup_insert(struct lane *lane, struct fetch_request *request)
{
	struct fetch_request *before = lane->window_last;
	while (before && fetch_item_before(request->item, before->item))
		before = before->before;
	request->before = before;
	request->after = before ? before->after : lane->window;
	*(before ? &before->after : &lane->window) = request;
	*(request->after ? &request->after->before : &lane->window_last) = request;
	lane->window_count++;
	lane_place(lane, request->item)->window++;
}

struct fetch_item *fetch_lookup_remove(struct lane *lane, struct fetch_request *request)
{
	struct fetch_item *item = request->item;
	if (request->waiting)
		pages_unwait(request->waiting, request);
	if (request->name)
		pages_unpin(&lane->pages, request->name);
	*(request->before ? &request->before->after : &lane->window) = request->after;
	*(request->after ? &request->after->before : &lane->window_last) = request->before;
	lane->window_count--;
	lane_place(lane, item)->window--;
	request->item = NULL;
	request->next = lane->request_free;
	lane->request_free = request;
	return item;
}

void fetch_lookup_finish(struct lane *lane, struct fetch_request *request, int result)
{
	fetch_plan_finish(lane, fetch_lookup_remove(lane, request), result);
}

/* An index cannot be read: a fault that already has its sentence. */
static void lookup_fault(struct lane *lane, struct fetch_request *request, int result)
{
	fetch_state(request->item)->told = true;
	fetch_lookup_finish(lane, request, result);
}

/* Starts to read the page that the request needs. NULL if it must wait for another page, or if this
 * failed. */
static struct page *lookup_load(struct lane *lane, struct fetch_request *request)
{
	const struct dataset *dataset = request->item->dataset;
	int fd = -1;
	int rc = dataset_index_acquire(dataset, request->at.shard, &fd, request->item->fault);
	if (rc == -EAGAIN) {
		lane->retry = true;
		return NULL;
	}
	if (rc < 0) {
		lookup_fault(lane, request, rc);
		return NULL;
	}
	struct page *page = pages_claim(&lane->pages, dataset, &request->at);
	if (!page) {
		/* All pages are being loaded, for requests that were canceled since. When one of
		 * them is done, the planner tries again. */
		dataset_index_release(dataset, request->at.shard);
		return NULL;
	}
	page->op.fd = fd;
	fetch_count(&lane->counters.bytes, INDEX_PAGE);
	fetch_plan_ready(lane, &page->op);
	return page;
}

/* The page that the request needs, or NULL: the request waits, must be tried again, or is freed. */
static struct page *lookup_page(struct lane *lane, struct fetch_request *request)
{
	struct page *page = pages_find(&lane->pages, request->item->dataset, &request->at);
	if (!request->counted) {
		request->counted = true;
		fetch_count(page ? &lane->counters.index_hits : &lane->counters.index_misses, 1);
	}
	if (page && page->state == PAGE_LOADED)
		return page;
	if (!page)
		page = lookup_load(lane, request);
	if (page)
		pages_wait(page, request);
	return NULL;
}

/* The request can be read. A packed item learns here what it needs beside its stored bytes, since
 * it may get these from another sample's read. */
static void lookup_ready(struct fetch_request *request)
{
	struct fetch_item *item = request->item;
	const struct index_record *record = &request->record;
	request->state = REQUEST_READY;
	item->packed = record->packed;
	item->unpacked = record->size;
	if (record->packed.method == PACKED_NONE)
		return;
	item->label = record->label;
	item->position = request->position;
	item->shard = request->at.shard;
	fetch_state(item)->range = packed_is_part(&record->packed)
					   ? fetch_part_key(item)
					   : fetch_range_key(request->at.shard, record->offset);
}

/* Takes the record out of its page. A folder's sample then needs its name, and a sample with fields
 * or a label of several values needs the bytes after the name. */
static int lookup_record(struct fetch_request *request, struct page *page)
{
	const struct dataset *dataset = request->item->dataset;
	struct fault *fault = request->item->fault;
	int rc = dataset_record(dataset, &request->at, page->bytes, page->checked, &request->record,
		&request->position, fault);
	if (rc < 0)
		return rc;
	page->checked = true;
	if (!dataset_in_files(dataset) && !fetch_wants_name(request->item)) {
		lookup_ready(request);
		return 0;
	}
	struct dataset_page at;
	rc = dataset_locate_name(dataset, request->at.shard, &request->record, &at, fault);
	if (rc < 0)
		return rc;
	request->at = at;
	request->state = REQUEST_NAME;
	request->counted = false;
	return 0;
}

/* Puts the field in the image's place. A folder's file may have any size: it is read up to the
 * limit. FETCH_OK, FETCH_E_FIELD_MISSING, or a negative errno. */
static int lookup_field(struct fetch_request *request, const struct page *page)
{
	struct fetch_item *item = request->item;
	const uint32_t limit = item->field->limit;
	struct index_field field = {.size = limit, .present = 1};
	int rc = dataset_in_files(item->dataset)
			 ? 0
			 : dataset_field(item->dataset, request->at.shard, &request->record,
				   page->bytes, page->checked, item->place, &field, item->fault);
	if (rc < 0)
		return rc;
	request->record.offset = field.offset;
	request->record.size = UTIL_MIN(field.size, limit);
	request->record.packed = field.packed;
	item->longer = field.size > limit;
	return field.present ? FETCH_OK : FETCH_E_FIELD_MISSING;
}

/* Takes the label or the field from a name's page. A folder's path is copied later, when the file
 * is opened. */
static int lookup_name(struct fetch_request *request, struct page *page)
{
	struct fetch_item *item = request->item;
	int rc = item->field ? lookup_field(request, page) : 0;
	if (fetch_wants_values(item))
		rc = dataset_values(item->dataset, request->at.shard, &request->record, page->bytes,
			page->checked, item->values, item->fault);
	if (rc != 0)
		return rc;
	if (fetch_wants_values(item) || (item->field && !dataset_in_files(item->dataset)))
		page->checked = true;
	fetch_state(item)->labelled = true;
	if (dataset_in_files(item->dataset)) {
		page->pins++;
		request->name = page;
	}
	lookup_ready(request);
	return 0;
}

bool fetch_lookup_advance(struct lane *lane, struct fetch_request *request)
{
	assert(!request->waiting);
	while (request->state != REQUEST_READY) {
		struct page *page = lookup_page(lane, request);
		if (!page)
			return false;
		int rc = request->state == REQUEST_RECORD ? lookup_record(request, page)
							  : lookup_name(request, page);
		if (rc < 0)
			lookup_fault(lane, request, rc);
		else if (rc > 0)
			fetch_lookup_finish(lane, request, rc);
		if (rc != 0)
			return false;
	}
	return true;
}

static void lookup_start(struct lane *lane, struct fetch_item *item)
{
	struct fetch_request *request = lane->request_free;
	lane->request_free = request->next;
	*request = (struct fetch_request){.item = item, .state = REQUEST_RECORD};
	fetch_state(item)->range = 0;
	lookup_insert(lane, request);
	int rc = dataset_locate(item->dataset, item->number, &request->at);
	if (rc < 0) {
		(void)fault_set(item->fault, rc,
			"sample %llu does not exist: the dataset has %llu samples",
			(unsigned long long)item->number,
			(unsigned long long)dataset_count(item->dataset));
		lookup_fault(lane, request, rc);
		return;
	}
	(void)fetch_lookup_advance(lane, request);
}

/* Makes room for a reader's most urgent queued item if it is to be served before one of its items
 * that only waits for a buffer. */
static bool lookup_displace(struct lane *lane, const struct fetch_reader *reader)
{
	struct fetch_request *last = lane->window_last;
	while (last && (last->state != REQUEST_READY || last->item->reader != reader))
		last = last->before;
	if (!last || !fetch_item_before(reader->places[lane->number].root, last->item))
		return false;
	fetch_queue_return(&lane->queue, fetch_lookup_remove(lane, last));
	return true;
}

static bool lookup_has_room(const struct fetch_reader *reader, const void *context)
{
	const struct lane *lane = context;
	return lane->window_count < lane->window_bound &&
	       quota_allows(reader->places[lane->number].window, lane->window_count,
		       lane->window_bound, 1);
}

/* The reader whose item enters the window next; NULL: none now. */
static struct fetch_reader *lookup_next(struct lane *lane)
{
	struct fetch_reader *reader = fetch_queue_next(&lane->queue, NULL, NULL);
	if (!reader || lookup_has_room(reader, lane) || lookup_displace(lane, reader))
		return reader;
	return fetch_queue_next(&lane->queue, lookup_has_room, lane);
}

void fetch_lookup_fill(struct lane *lane)
{
	struct fetch_reader *reader;
	while ((reader = lookup_next(lane))) {
		struct fetch_item *item = fetch_queue_pop(&lane->queue, reader);
		if (!fetch_share(lane, item))
			lookup_start(lane, item);
	}
}

void fetch_lookup_loaded(struct lane *lane, struct page *page)
{
	const struct dataset *dataset = page->dataset;
	uint32_t shard = page->at.shard;
	int result = page->op.result == FETCH_OP_ENDED ? -EIO : page->op.result;
	dataset_index_release(dataset, shard);
	for (struct fetch_request *request = pages_loaded(&lane->pages, page), *next; request;
		request = next) {
		next = request->next;
		if (result == 0) {
			(void)fetch_lookup_advance(lane, request);
			continue;
		}
		(void)fault_set(request->item->fault, result,
			"the index of %s cannot be read (%s): delete the index, it will be built "
			"again",
			dataset_shard_path(dataset, shard), strerror(-result));
		lookup_fault(lane, request, result);
	}
}
