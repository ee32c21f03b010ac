/* cache: the bytes of samples that were read, kept in what the memory budget has left.
 *
 * It borrows from the ledger (ledger.h) and is the first to give way: a stream that opens takes its
 * memory from here. Until then nothing that it holds is replaced: with a random order, making room
 * for one sample by dropping another only moves the miss. So it fills during the first epoch, and
 * what found no room is read in every epoch.
 *
 * Samples lie in blocks of CACHE_BLOCK bytes, each a mapping of its own that belongs to one
 * dataset, so that giving back is unmapping and memory really returns to the system. A block whose
 * samples are lent when it has to go is found no more and unmapped when the last of them comes
 * back. Where several datasets do not fit together, each may hold a share of the room that goes by
 * its bytes; one that joins makes the others shrink to theirs.
 *
 * All that it takes, tables and heads included, is borrowed before it is mapped. Any thread; the
 * lock is held for a look into a table or the taking apart of a few blocks, never while bytes are
 * copied or memory is mapped. Datasets are only names here. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	CACHE_BLOCK = 1 << 20,
	CACHE_SLACK = 64, /* readable bytes behind each sample */
	CACHE_DATASETS = 64, /* at once; others are not kept */
};

struct cache;
struct cache_block;
struct dataset;
struct ledger;

struct cache_sample {
	uint64_t number, position;
	int64_t label;
	uint32_t shard, size;
	uint8_t *data; /* then CACHE_SLACK readable bytes */
};

struct cache_stats {
	uint64_t hits, misses; /* of cache_take; put, whether there was room or not */
	uint64_t samples, bytes; /* held now; bytes as borrowed */
	uint64_t shrinks; /* how often it had to give memory back */
};

/* Borrows from `ledger`, which outlives it. 0 or -ENOMEM. */
int cache_new(struct ledger *ledger, struct cache **ret);
/* Nothing is lent any more. Takes NULL. */
void cache_free(struct cache *cache);

/* From now on what is put of `dataset`, which has so many samples and bytes, is kept. May block
 * while others shrink. */
void cache_join(
	struct cache *cache, const struct dataset *dataset, uint64_t samples, uint64_t bytes);

/* Drops all of a dataset's; what is lent stays valid. Does nothing for one that has not joined.
 * Does not block: the memory of a large one returns a little later, by a thread of the cache's. */
void cache_leave(struct cache *cache, const struct dataset *dataset);

/* Keeps what is held of a dataset, and takes no more. */
void cache_stop(struct cache *cache, const struct dataset *dataset);

/* Lends a sample until cache_release. False where it is not held. */
bool cache_take(struct cache *cache, const struct dataset *dataset, uint64_t number,
	struct cache_sample *ret, struct cache_block **ret_block);
void cache_release(struct cache *cache, struct cache_block *block);

/* Whether a sample is held; counts as no hit. */
bool cache_has(struct cache *cache, const struct dataset *dataset, uint64_t number);

/* Copies a sample, where there is room and it is not held yet. */
void cache_put(
	struct cache *cache, const struct dataset *dataset, const struct cache_sample *sample);

void cache_stats_read(struct cache *cache, struct cache_stats *ret);
