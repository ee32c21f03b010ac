/* buckets: see buckets.h. Pure functions. */
#include "order/buckets.h"

#include "base/util.h"
#include "order/permutation.h"
#include "proto/philox.h"

#include <assert.h>

__extension__ typedef unsigned __int128 buckets_wide;

/* The steps of PHILOX_BUCKETS: the key of a block's permutation, and a bucket's share of blocks. */
enum { BUCKETS_STEP_BLOCK, BUCKETS_STEP_SHARE };

uint64_t buckets_settle(struct buckets *buckets)
{
	uint64_t rows = 0;
	for (uint32_t i = 0; i < buckets->count; i++) {
		buckets->first[i] = rows;
		rows += buckets->rows[i];
	}
	return rows;
}

uint32_t buckets_of(const struct buckets *buckets, uint64_t row)
{
	uint32_t bucket = 0;
	while (row - buckets->first[bucket] >= buckets->rows[bucket]) {
		bucket++;
		assert(bucket < buckets->count);
	}
	return bucket;
}

bool buckets_cuts_equal(const struct buckets_cuts *a, const struct buckets_cuts *b)
{
	bool equal = a->count == b->count;
	for (uint32_t i = 0; equal && i < a->count; i++)
		equal = a->at[i].position == b->at[i].position &&
			a->at[i].global == b->at[i].global;
	return equal;
}

struct buckets_stretch buckets_stretch(
	const struct buckets *buckets, const uint64_t *taken, uint64_t global, bool drop_last)
{
	struct buckets_stretch stretch = {.global = global};
	assert(global);
	for (uint32_t i = 0; i < buckets->count; i++) {
		stretch.taken[i] = taken ? taken[i] : 0;
		assert(stretch.taken[i] <= buckets->rows[i]);
		uint64_t left = buckets->rows[i] - stretch.taken[i];
		stretch.batches[i] = left / global + (!drop_last && left % global != 0);
		stretch.total += stretch.batches[i];
	}
	return stretch;
}

/* ---- the order of batches ---- */

static uint64_t buckets_blocks(const struct buckets_stretch *stretch)
{
	return (stretch->total + BUCKETS_BLOCK - 1) / BUCKETS_BLOCK;
}

/* How many batches a bucket has in the blocks before `block`: its even share plus a drawn offset,
 * rounded down. The offset makes a bucket of few batches appear anywhere in the epoch. */
static uint64_t buckets_share(const struct buckets_stretch *stretch, const struct buckets_key *key,
	uint32_t bucket, uint64_t block)
{
	uint64_t blocks = buckets_blocks(stretch);
	struct philox r =
		philox_draw(key->seed, key->epoch, bucket, PHILOX_BUCKETS, BUCKETS_STEP_SHARE);
	uint64_t offset = philox_below(r.word[0], r.word[1], blocks);
	return (uint64_t)(((buckets_wide)block * stretch->batches[bucket] + offset) / blocks);
}

static uint64_t buckets_before(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t block)
{
	uint64_t before = 0;
	for (uint32_t i = 0; i < buckets->count; i++)
		before += buckets_share(stretch, key, i, block);
	return before;
}

/* The last block that begins at or before batch `number`. */
static uint64_t buckets_block_of(const struct buckets *buckets,
	const struct buckets_stretch *stretch, const struct buckets_key *key, uint64_t number)
{
	uint64_t low = 0, high = buckets_blocks(stretch) - 1;
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;
		if (buckets_before(buckets, stretch, key, middle) <= number)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* A block of batches: how many each bucket has in it, and in the blocks before it. */
struct buckets_block {
	uint64_t before[BUCKETS_MAX], count[BUCKETS_MAX];
	uint64_t start, size;
	struct permutation order;
};

static struct buckets_block buckets_block(const struct buckets *buckets,
	const struct buckets_stretch *stretch, const struct buckets_key *key, uint64_t number)
{
	struct buckets_block block = {.size = 0};
	uint64_t at = buckets_block_of(buckets, stretch, key, number);
	for (uint32_t i = 0; i < buckets->count; i++) {
		block.before[i] = buckets_share(stretch, key, i, at);
		block.count[i] = buckets_share(stretch, key, i, at + 1) - block.before[i];
		block.start += block.before[i];
		block.size += block.count[i];
	}
	struct philox r =
		philox_draw(key->seed, key->epoch, at, PHILOX_BUCKETS, BUCKETS_STEP_BLOCK);
	block.order = permutation_make(
		block.size, (uint64_t)r.word[0] << 32 | r.word[1], PHILOX_BUCKETS, 0);
	return block;
}

static uint32_t buckets_in_block(const struct buckets_block *block, uint64_t place)
{
	uint64_t value = permutation_at(&block->order, place);
	uint32_t bucket = 0;
	while (value >= block->count[bucket])
		value -= block->count[bucket++];
	return bucket;
}

/* How many batches of each bucket come before batch `number`, which is below total. Returns that
 * batch's bucket. */
static uint32_t buckets_walk(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t number, uint64_t ret_batches[BUCKETS_MAX])
{
	assert(number < stretch->total);
	if (!key->shuffle) {
		uint32_t bucket = 0;
		for (; number >= stretch->batches[bucket]; bucket++) {
			number -= stretch->batches[bucket];
			ret_batches[bucket] = stretch->batches[bucket];
		}
		ret_batches[bucket] = number;
		for (uint32_t i = bucket + 1; i < buckets->count; i++)
			ret_batches[i] = 0;
		return bucket;
	}
	const struct buckets_block block = buckets_block(buckets, stretch, key, number);
	for (uint32_t i = 0; i < buckets->count; i++)
		ret_batches[i] = block.before[i];
	for (uint64_t place = 0; place < number - block.start; place++)
		ret_batches[buckets_in_block(&block, place)]++;
	return buckets_in_block(&block, number - block.start);
}

static uint64_t buckets_rows(const struct buckets *buckets, const struct buckets_stretch *stretch,
	uint32_t bucket, uint64_t batches)
{
	uint64_t left = buckets->rows[bucket] - stretch->taken[bucket];
	return UTIL_MIN(batches * stretch->global, left);
}

struct buckets_batch buckets_batch(const struct buckets *buckets,
	const struct buckets_stretch *stretch, const struct buckets_key *key, uint64_t number)
{
	uint64_t batches[BUCKETS_MAX];
	uint32_t bucket = buckets_walk(buckets, stretch, key, number, batches);
	uint64_t before = buckets_rows(buckets, stretch, bucket, batches[bucket]);
	return (struct buckets_batch){
		.bucket = bucket,
		.first = buckets->first[bucket] + stretch->taken[bucket] + before,
		.rows = buckets_rows(buckets, stretch, bucket, batches[bucket] + 1) - before,
	};
}

void buckets_taken(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t number, uint64_t ret_taken[BUCKETS_MAX])
{
	uint64_t batches[BUCKETS_MAX];
	assert(number <= stretch->total);
	if (number < stretch->total)
		(void)buckets_walk(buckets, stretch, key, number, batches);
	for (uint32_t i = 0; i < buckets->count; i++)
		ret_taken[i] = stretch->taken[i] +
			       buckets_rows(buckets, stretch, i,
				       number < stretch->total ? batches[i] : stretch->batches[i]);
}

uint64_t buckets_left(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t number)
{
	uint64_t taken[BUCKETS_MAX], all[BUCKETS_MAX], left = 0;
	buckets_taken(buckets, stretch, key, number, taken);
	buckets_taken(buckets, stretch, key, stretch->total, all);
	for (uint32_t i = 0; i < buckets->count; i++)
		left += all[i] - taken[i];
	return left;
}
