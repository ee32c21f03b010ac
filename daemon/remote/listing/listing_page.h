/* listing_page: one answer of ListObjectsV2. Pure; one thread. */
#pragma once

#include "remote/listing/listing.h"

/* Gives the objects and folders of an answer to `take`, in its order. *ret_next is its continuation
 * ("" at the end) and *ret_count the number of objects. 0; -EPROTO or -EINVAL with a sentence; what
 * `take` returned. */
int listing_page_read(const char *bytes, size_t size, listing_take_fn *take, void *context,
	char ret_next[LISTING_NEXT], uint64_t *ret_count, struct fault *fault);
