/* listing_hub: one answer of the Hub's tree of files, and the next page that its header Link names.
 * Pure; one thread. */
#pragma once

#include "remote/listing/listing.h"

/* Bytes of an endpoint without slashes at its end. */
size_t listing_hub_size(const char *hub);

/* As listing_page_read. A file's ETag is the hash that the Hub serves it with. */
int listing_hub_read(const char *bytes, size_t size, listing_take_fn *take, void *context,
	uint64_t *ret_count, struct fault *fault);

/* The URL with rel="next" of a header Link; "" where there is none. 0; -EPROTO: it is too long, or
 * does not begin with `hub`. */
int listing_hub_next(
	const char *link, const char *hub, char ret_next[LISTING_NEXT], struct fault *fault);
