/* fetch_pages: the bounded cache of index pages, and who waits for which.
 *
 * Records and names are read in pages of INDEX_PAGE bytes through the same engine as the samples; a
 * page that several samples wait for is read once. The least recently used page that nobody waits
 * for or has pinned makes room.
 *
 * No locks: the planner's caller holds them. */
#pragma once

#include "dataset/dataset.h"
#include "fetch/fetch_op.h"

#include <stdbool.h>
#include <stdint.h>

struct fetch_request;

enum page_state {
	PAGE_FREE, /* may become LOADING */
	PAGE_LOADING, /* its op is in flight, its index file borrowed; becomes LOADED or FREE */
	PAGE_LOADED, /* bytes as read; FREE when evicted */
};

struct page {
	struct fetch_op op; /* the read; first, so that the op is the page */
	const struct dataset *dataset;
	struct dataset_page at;
	enum page_state state;
	bool doomed; /* its dataset goes: FREE as soon as possible */
	uint32_t pins; /* requests that still want its bytes */
	struct fetch_request *waiters; /* while LOADING */
	uint8_t *bytes;
	struct page *hash_next;
	struct page *older, *newer; /* among all that are not FREE */
};

struct pages {
	struct page *page;
	unsigned count, hash_size;
	struct page **hash;
	uint8_t *bytes;
	struct page *free; /* through hash_next */
	struct page *oldest, *newest;
};

enum { PAGES_LEAST = 64 };

/* As many pages as fit into `bytes`, at least PAGES_LEAST. 0 or -ENOMEM. */
int pages_init(struct pages *pages, uint64_t bytes);
void pages_deinit(struct pages *pages);

/* The page, LOADING or LOADED; becomes the newest. NULL when it is not there. */
struct page *pages_find(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at);

/* A new entry in state LOADING, its op complete but for the file. NULL when nothing can make room.
 */
struct page *pages_claim(
	struct pages *pages, const struct dataset *dataset, const struct dataset_page *at);

/* The op is done: LOADED when it read the page. Returns those who waited, in the order in which
 * they came. */
struct fetch_request *pages_loaded(struct pages *pages, struct page *page);

/* Back to FREE: the page was not read, or does not check. Nobody waits for it or has it pinned. */
void pages_discard(struct pages *pages, struct page *page);

/* `request` waits for a LOADING page; or no longer. */
void pages_wait(struct page *page, struct fetch_request *request);
void pages_unwait(struct page *page, struct fetch_request *request);

/* Lets go of a pin. */
void pages_unpin(struct pages *pages, struct page *page);

/* Drops all of a dataset's. True when none are left, not even loading. */
bool pages_forget(struct pages *pages, const struct dataset *dataset);
