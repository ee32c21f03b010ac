/* ahead_far: fetches the blocks of a remote dataset that a stream with `shuffle: blocks` will read
 * next, in large ranges, so that samples are not fetched with a request each.
 *
 * The samples that a block gives while it is open are fetched when the samples of the period
 * AHEAD_FAR_PERIODS before it are given to fetch: neighbors with one request, where at most
 * AHEAD_FAR_GAP bytes that are not needed are between them, of at most REMOTE_KEEP bytes. They are
 * kept in memory (remote_object_keep), and stored where the cache has room, until the block is
 * closed and its samples have been read. fetch reads the samples as ever and finds the bytes there.
 * Samples that a cache has are left out. The first samples of a stream wait until the blocks that
 * are open then have been requested.
 *
 * The memory is reserved when the stream opens: what the blocks need, or half of what is free if
 * that is less. A block that does not fit is not fetched ahead: its samples are read by requests
 * of their own. So nothing waits for this memory. Streams that keep the same bytes share them, and
 * each answers for all of them.
 *
 * Only for one source without weights, repeats and epoch_length. The ranks of a job, up to
 * AHEAD_FAR_RANKS, divide blocks and memory among them: each fetches every n-th slot for all that
 * this process serves. A slot of a rank that another node has is read sample by sample. A larger
 * job is on several nodes, where each reads too little of a block.
 *
 * Threads: one of its own, which asks servers only through others and so ends soon when it is told
 * to. ahead_far_init when the stream is opened, ahead_far_free when it is freed. ahead_far_issue
 * under the stream's lock. One lock, which comes after the stream's and that of openers, and is
 * held for a few instructions. */
#pragma once

#include "base/fault.h"
#include "order/blocks.h"
#include "order/sampler.h"

#include <stdbool.h>
#include <stdint.h>

struct ahead_far;
struct dataset;
struct fetch;
struct ledger;

#define AHEAD_FAR_GAP ((uint64_t)64 << 10)
enum { AHEAD_FAR_RANKS = 8, AHEAD_FAR_PERIODS = 4 };

struct ahead_far_options {
	const struct sampler *sampler;
	const struct dataset *dataset;
	struct fetch *fetch;
	struct ledger *ledger;
	const char *name; /* of the stream, for the ledger */
	uint32_t rank, ranks;
	uint64_t epochs; /* 0: without end */
	uint64_t rows; /* positions behind the latest that may still be read */
	/* Called once, on the thread: samples may be given to fetch from now on. */
	void (*ready)(void *context);
	void *context;
};

/* *ret is NULL where nothing is to be fetched ahead. What `options` points to must live as long.
 * `ret_notice` gets a sentence if the memory is not enough, or is left as it is. */
void ahead_far_init(const struct ahead_far_options *options, struct ahead_far **ret,
	char *ret_notice, unsigned room);

/* The sample at a position will be given to fetch; false: not before `ready`. Accepts NULL. */
bool ahead_far_issue(struct ahead_far *far, uint32_t epoch, uint64_t position);

/* Cancels what is under way. Accepts NULL. */
void ahead_far_free(struct ahead_far *far);
