/* cache: the bytes of samples that were read, kept in memory that is otherwise unused.
 *
 * It borrows from the ledger (base/host/ledger.h) and is the first to give memory back: a stream
 * that opens takes its memory from here. Until then nothing that it holds is replaced, because with
 * a random order, dropping one sample for another only moves the miss. So the cache fills during
 * the first epoch, and samples that found no room are read in every epoch.
 *
 * Samples are stored in blocks of CACHE_BLOCK bytes. Each block is a mapping of its own that
 * belongs to one dataset, so that giving memory back is unmapping, and the system really gets it.
 * If a block must go while some of its samples are lent, its samples can no longer be found, and it
 * is unmapped when the last of them is released. If several datasets do not fit together, each may
 * hold a share of the room in proportion to its bytes; when another dataset joins, the others
 * shrink to their shares.
 *
 * All memory that it takes, tables and heads included, is borrowed before it is mapped. Any thread.
 * The lock is held for a look into a table or while a few blocks are taken apart, never while bytes
 * are copied or memory is mapped. Datasets are only keys here. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	CACHE_BLOCK = 1 << 20,
	CACHE_SLACK = 64, /* readable bytes after each sample */
	CACHE_DATASETS = 64, /* at once; samples of further datasets are not kept */
};

struct cache;
struct cache_block;
struct dataset;
struct ledger;

struct cache_sample {
	uint64_t number, position;
	int64_t label;
	uint32_t shard, size;
	uint8_t *data; /* followed by CACHE_SLACK readable bytes */
};

struct cache_stats {
	uint64_t hits, misses; /* of cache_take; of cache_put, whether or not it found room */
	uint64_t samples, bytes; /* held now; bytes as borrowed */
	uint64_t shrinks; /* how often it had to give memory back */
};

/* Borrows from `ledger`, which outlives it. 0 or -ENOMEM. */
int cache_new(struct ledger *ledger, struct cache **ret);
/* All samples must have been released. Accepts NULL. */
void cache_free(struct cache *cache);

/* From now on, samples of `dataset` that are put are kept; it has `samples` samples and `bytes`
 * bytes. May block while other datasets shrink. */
void cache_join(
	struct cache *cache, const struct dataset *dataset, uint64_t samples, uint64_t bytes);

/* Drops all samples of a dataset; samples that are lent stay valid. Does nothing for a dataset that
 * has not joined. Does not block: a thread of the cache returns the memory of a large dataset a
 * little later. */
void cache_leave(struct cache *cache, const struct dataset *dataset);

/* Keeps the samples that are held of a dataset, and takes no more of it. */
void cache_stop(struct cache *cache, const struct dataset *dataset);

/* Lends a sample until cache_release. False if it is not held. */
bool cache_take(struct cache *cache, const struct dataset *dataset, uint64_t number,
	struct cache_sample *ret, struct cache_block **ret_block);
void cache_release(struct cache *cache, struct cache_block *block);

/* Whether a sample is held. Does not count as a hit. */
bool cache_has(struct cache *cache, const struct dataset *dataset, uint64_t number);

/* Copies a sample into the cache if there is room and it is not held yet. */
void cache_put(
	struct cache *cache, const struct dataset *dataset, const struct cache_sample *sample);

void cache_stats_read(struct cache *cache, struct cache_stats *ret);
