/* fetch_pages: see fetch_pages.h. Runs with the planner's lock. */
#include "fetch/fetch_pages.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/util.h"
#include "fetch/fetch_internal.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

int pages_init(struct pages *pages, uint64_t bytes)
{
	uint64_t count = UTIL_MAX(bytes / INDEX_PAGE, (uint64_t)PAGES_LEAST);
	*pages = (struct pages){
		.count = (unsigned)UTIL_MIN(count, (uint64_t)1 << 30), .hash_size = 1};
	while (pages->hash_size < pages->count)
		pages->hash_size *= 2;
	pages->page = calloc(pages->count, sizeof *pages->page);
	pages->hash = calloc(pages->hash_size, sizeof(struct page *));
	void *bytes_at = mmap(NULL, (size_t)pages->count * INDEX_PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages->bytes = bytes_at == MAP_FAILED ? NULL : bytes_at;
	if (!pages->page || !pages->hash || !pages->bytes) {
		pages_deinit(pages);
		return -ENOMEM;
	}
	for (unsigned i = pages->count; i-- > 0;) {
		pages->page[i].bytes = pages->bytes + (size_t)i * INDEX_PAGE;
		pages->page[i].hash_next = pages->free;
		pages->free = &pages->page[i];
	}
	return 0;
}

void pages_deinit(struct pages *pages)
{
	if (pages->bytes)
		(void)munmap(pages->bytes, (size_t)pages->count * INDEX_PAGE);
	free(pages->page);
	free(pages->hash);
	*pages = (struct pages){0};
}

static struct page **pages_bucket(
	struct pages *pages, const struct dataset *dataset, uint32_t shard, uint64_t number)
{
	uint64_t h = hash_mix((uintptr_t)dataset ^ (uint64_t)shard << 40 ^ number);
	return &pages->hash[h & (pages->hash_size - 1)];
}

/* Back to FREE: the page was not read, or its checksum is wrong. No request waits for it or has it
 * pinned. */
static void pages_discard(struct pages *pages, struct page *page)
{
	assert(page->pins == 0 && !page->waiters);
	struct page **at = pages_bucket(pages, page->dataset, page->at.shard, page->at.page);
	while (*at != page)
		at = &(*at)->hash_next;
	*at = page->hash_next;
	list_remove(&pages->by_age, &page->age);
	*page = (struct page){.bytes = page->bytes, .hash_next = pages->free};
	pages->free = page;
}

struct page *pages_find(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at)
{
	struct page *page = *pages_bucket(pages, dataset, at->shard, at->page);
	while (page && (page->dataset != dataset || page->at.shard != at->shard ||
			       page->at.page != at->page || page->doomed))
		page = page->hash_next;
	if (page) {
		list_remove(&pages->by_age, &page->age);
		list_append(&pages->by_age, &page->age);
	}
	return page;
}

static bool pages_evict(struct pages *pages)
{
	struct page *page = list_first(&pages->by_age, struct page, age);
	while (page && (page->state != PAGE_LOADED || page->pins > 0))
		page = list_next(page, age);
	if (page)
		pages_discard(pages, page);
	return page != NULL;
}

struct page *pages_claim(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at)
{
	if (!pages->free && !pages_evict(pages))
		return NULL;
	struct page *page = pages->free;
	pages->free = page->hash_next;
	*page = (struct page){
		.op = {.kind = FETCH_OP_PAGE,
			.stage = FETCH_OP_READ,
			.align = 1,
			.fd = -1,
			.slot = -1,
			.buffer = page->bytes,
			.offset = at->offset,
			.length = INDEX_PAGE,
			.need = INDEX_PAGE,
			.dataset = dataset},
		.dataset = dataset,
		.at = *at,
		.state = PAGE_LOADING,
		.bytes = page->bytes,
	};
	struct page **bucket = pages_bucket(pages, dataset, at->shard, at->page);
	page->hash_next = *bucket;
	*bucket = page;
	list_append(&pages->by_age, &page->age);
	return page;
}

struct fetch_request *pages_loaded(struct pages *pages, struct page *page)
{
	assert(page->state == PAGE_LOADING);
	struct fetch_request *waiters = page->waiters;
	page->waiters = NULL;
	for (struct fetch_request *request = waiters; request; request = request->next)
		request->waiting = NULL;
	if (page->op.result == 0 && !page->doomed)
		page->state = PAGE_LOADED;
	else
		pages_discard(pages, page);
	return waiters;
}

void pages_wait(struct page *page, struct fetch_request *request)
{
	struct fetch_request **at = &page->waiters;
	while (*at)
		at = &(*at)->next;
	request->next = NULL;
	request->waiting = page;
	*at = request;
}

void pages_unwait(struct page *page, struct fetch_request *request)
{
	struct fetch_request **at = &page->waiters;
	while (*at != request)
		at = &(*at)->next;
	*at = request->next;
	request->waiting = NULL;
}

void pages_unpin(struct pages *pages, struct page *page)
{
	assert(page->pins > 0);
	if (--page->pins == 0 && page->doomed)
		pages_discard(pages, page);
}

bool pages_forget(struct pages *pages, const struct dataset *dataset)
{
	bool none = true;
	list_each_removable (page, &pages->by_age, struct page, age) {
		if (page->dataset != dataset)
			continue;
		page->doomed = true;
		if (page->state == PAGE_LOADED && page->pins == 0)
			pages_discard(pages, page);
		else
			none = false;
	}
	return none;
}
