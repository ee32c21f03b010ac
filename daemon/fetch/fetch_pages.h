/* fetch_pages: the bounded cache of index pages, and the requests that wait for each page.
 *
 * Records and names are read in pages of INDEX_PAGE bytes by the same engine as the samples. A page
 * that several samples need is read once. The least recently used page that no request waits for or
 * has pinned makes room.
 *
 * No locks: the callers hold the planner's lock. */
#pragma once

#include "base/list.h"
#include "dataset/dataset.h"
#include "fetch/fetch_op.h"

#include <stdbool.h>
#include <stdint.h>

struct fetch_request;

enum page_state {
	PAGE_FREE, /* may become LOADING */
	PAGE_LOADING, /* its op is in flight, its index file borrowed; becomes LOADED or FREE */
	PAGE_LOADED, /* bytes as read; FREE after eviction */
};

struct page {
	struct fetch_op op; /* first, so that a pointer to the op is one to the page */
	const struct dataset *dataset;
	struct dataset_page at;
	enum page_state state;
	bool doomed; /* its dataset is forgotten: FREE as soon as possible */
	bool checked; /* LOADED, and its checksum was found to be right */
	uint32_t pins; /* requests that still need its bytes */
	struct fetch_request *waiters; /* while LOADING */
	uint8_t *bytes;
	struct page *hash_next;
	struct list_node age; /* in `by_age`, unless it is FREE */
};

struct pages {
	struct page *page;
	unsigned count, hash_size;
	struct page **hash;
	uint8_t *bytes;
	struct page *free; /* linked by hash_next */
	struct list_head by_age; /* the oldest first */
};

enum { PAGES_LEAST = 64 };

/* Makes room for the pages that fit into `bytes`, at least PAGES_LEAST. 0 or -ENOMEM. */
int pages_init(struct pages *pages, uint64_t bytes);
void pages_deinit(struct pages *pages);

/* The page, LOADING or LOADED, which becomes the newest; NULL if it is not in the cache. */
struct page *pages_find(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at);

/* A new entry in state LOADING, whose op is complete except for the file. NULL if no page can make
 * room. */
struct page *pages_claim(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at);

/* The op is done: the page is LOADED if it was read. Returns the requests that waited, in the order
 * in which they came. */
struct fetch_request *pages_loaded(struct pages *pages, struct page *page);

/* `request` begins, or ceases, to wait for a LOADING page. */
void pages_wait(struct page *page, struct fetch_request *request);
void pages_unwait(struct page *page, struct fetch_request *request);

/* Releases a pin. */
void pages_unpin(struct pages *pages, struct page *page);

/* Drops all pages of a dataset. True if none is left, not even in state LOADING. */
bool pages_forget(struct pages *pages, const struct dataset *dataset);
