/* sampler: see sampler.h. Pure functions. */
#include "order/sampler.h"

#include "order/permutation.h"
#include "proto/philox.h"

#include <assert.h>
#include <string.h>

_Static_assert((int)BUCKETS_MAX == (int)MEMBERS_CLASSES, "a class for each bucket");

__extension__ typedef unsigned __int128 sampler_wide;

/* The counter of a draw has 48 bits for the number of a block. Beyond them the permutations would
 * repeat; no run gets that far. */
#define SAMPLER_BLOCKS (((uint64_t)1 << 48) - 1)

struct sampler sampler_plain(const struct order *order)
{
	return (struct sampler){
		.length = order->samples, .repeats = 1, .parts = 1, .order = {*order}};
}

static uint64_t sampler_item(const struct sampler *sampler, uint64_t position)
{
	assert(position < sampler->length);
	return position / sampler->repeats;
}

/* The number of an item, counted through all epochs. */
static sampler_wide sampler_ordinal(const struct sampler *sampler, uint32_t epoch, uint64_t item)
{
	uint64_t each = (sampler->length + sampler->repeats - 1) / sampler->repeats;
	return (sampler_wide)epoch * each + item;
}

/* Item `ordinal` of a part's permutations, one after the other. */
static uint64_t sampler_pass(const struct order *order, sampler_wide ordinal)
{
	return order_sample(
		order, (uint32_t)(ordinal / order->samples), (uint64_t)(ordinal % order->samples));
}

/* Which part a block puts at a place, and which item of the part's quota. */
static uint32_t sampler_part(
	const struct sampler *sampler, sampler_wide block, uint64_t place, uint64_t *ret_rank)
{
	struct permutation p = permutation_make(SAMPLER_BLOCK, sampler->order[0].seed,
		PHILOX_SOURCES, (uint64_t)block & SAMPLER_BLOCKS);
	uint64_t rank = permutation_at(&p, place);
	uint32_t part = 0;
	while (rank >= sampler->quota[part])
		rank -= sampler->quota[part++];
	*ret_rank = rank;
	return part;
}

static struct sampler_pick sampler_mixed(const struct sampler *sampler, sampler_wide ordinal)
{
	sampler_wide block = ordinal / SAMPLER_BLOCK;
	uint64_t rank;
	uint32_t part = sampler_part(sampler, block, (uint64_t)(ordinal % SAMPLER_BLOCK), &rank);
	return (struct sampler_pick){
		part, sampler_pass(&sampler->order[part], block * sampler->quota[part] + rank)};
}

static uint64_t sampler_weighted(const struct sampler *sampler, struct philox words)
{
	const struct order *order = &sampler->order[0];
	return order_pick(order, alias_draw(sampler->weights, order->samples, words.word));
}

/* Which block a position is in, counted through all epochs, and its row there. */
static sampler_wide sampler_block(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint64_t *ret_row)
{
	const uint64_t rows = per_class_block(&sampler->per_class);
	assert(sampler->length % rows == 0 && position < sampler->length);
	*ret_row = position % rows;
	return (sampler_wide)epoch * (sampler->length / rows) + position / rows;
}

static uint64_t sampler_of_class(const struct sampler *sampler, uint32_t epoch, uint64_t position)
{
	uint64_t row;
	sampler_wide block = sampler_block(sampler, epoch, position, &row);
	return per_class_sample(&sampler->per_class, sampler->order[0].seed, block, row);
}

static uint64_t sampler_class_substitute(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint32_t attempt)
{
	uint64_t row, sample;
	sampler_wide block = sampler_block(sampler, epoch, position, &row);
	if (per_class_substitute(
		    &sampler->per_class, sampler->order[0].seed, block, row, attempt, &sample))
		return sample;
	return order_substitute(&sampler->order[0], epoch, position, attempt);
}

/* ---- buckets ---- */

void sampler_divide(struct sampler *sampler, uint32_t count, const struct members *members,
	const uint64_t members_of[BUCKETS_MAX])
{
	assert(sampler->parts == 1 && !sampler->endless && !sampler->weights);
	sampler->buckets = (struct buckets){.count = count};
	sampler->members = *members;
	for (uint32_t i = 0; i < count; i++)
		sampler->buckets.rows[i] = sampler->member_count[i] = members_of[i];
	sampler->length = buckets_settle(&sampler->buckets);
	assert(sampler->length == sampler->order[0].samples);
}

/* A bucket's samples in an order of their own. */
static struct order sampler_bucket(const struct sampler *sampler, uint32_t bucket)
{
	struct order order = sampler->order[0];
	order.samples = sampler->member_count[bucket];
	order.part = bucket;
	order.subset = (struct order_subset){NULL, NULL, 0, 0};
	return order;
}

static struct sampler_pick sampler_member(
	const struct sampler *sampler, uint32_t bucket, uint64_t rank)
{
	return (struct sampler_pick){
		0, order_pick(&sampler->order[0], members_find(&sampler->members, bucket, rank))};
}

/* The item of a bucket that is at a position. */
static uint64_t sampler_bucket_item(
	const struct sampler *sampler, uint64_t position, uint32_t *ret_bucket)
{
	assert(position < sampler->length);
	*ret_bucket = buckets_of(&sampler->buckets, position);
	return (position - sampler->buckets.first[*ret_bucket]) / sampler->repeats;
}

static struct sampler_pick sampler_bucketed(
	const struct sampler *sampler, uint32_t epoch, uint64_t position)
{
	uint32_t bucket;
	uint64_t item = sampler_bucket_item(sampler, position, &bucket);
	const struct order order = sampler_bucket(sampler, bucket);
	return sampler_member(sampler, bucket, order_sample(&order, epoch, item));
}

/* The key of the draw is the item's place among the rows of all buckets, so that no two items share
 * a draw. */
static struct sampler_pick sampler_bucket_substitute(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint32_t attempt)
{
	uint32_t bucket;
	uint64_t item = sampler_bucket_item(sampler, position, &bucket);
	const struct order order = sampler_bucket(sampler, bucket);
	return sampler_member(sampler, bucket,
		order_substitute(&order, epoch, sampler->buckets.first[bucket] + item, attempt));
}

uint64_t sampler_position(const struct sampler *sampler, uint32_t epoch, uint64_t place)
{
	const uint32_t bucket = members_get(&sampler->members, place);
	const struct order order = sampler_bucket(sampler, bucket);
	assert(sampler->repeats == 1);
	return sampler->buckets.first[bucket] +
	       order_position(&order, epoch, members_rank(&sampler->members, bucket, place));
}

struct sampler_pick sampler_pick(const struct sampler *sampler, uint32_t epoch, uint64_t position)
{
	const struct order *order = &sampler->order[0];
	if (sampler->buckets.count)
		return sampler_bucketed(sampler, epoch, position);
	uint64_t item = sampler_item(sampler, position);
	if (sampler->per_class.classes)
		return (struct sampler_pick){0, sampler_of_class(sampler, epoch, position)};
	if (sampler->parts > 1)
		return sampler_mixed(sampler, sampler_ordinal(sampler, epoch, item));
	if (sampler->weights)
		return (struct sampler_pick){
			0, sampler_weighted(sampler,
				   philox_draw(order->seed, epoch, item, PHILOX_WEIGHTED, 0))};
	if (sampler->endless)
		return (struct sampler_pick){
			0, sampler_pass(order, sampler_ordinal(sampler, epoch, item))};
	return (struct sampler_pick){0, order_sample(order, epoch, item)};
}

struct sampler_pick sampler_substitute(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint32_t attempt)
{
	if (sampler->buckets.count)
		return sampler_bucket_substitute(sampler, epoch, position, attempt);
	uint64_t item = sampler_item(sampler, position);
	uint32_t part = 0;
	if (sampler->per_class.classes)
		return (struct sampler_pick){
			0, sampler_class_substitute(sampler, epoch, position, attempt)};
	if (sampler->weights)
		return (struct sampler_pick){
			0, sampler_weighted(sampler, philox_draw(sampler->order[0].seed, epoch,
							     item, PHILOX_SUBSTITUTE, attempt))};
	if (sampler->parts > 1)
		part = sampler_mixed(sampler, sampler_ordinal(sampler, epoch, item)).part;
	return (struct sampler_pick){
		part, order_substitute(&sampler->order[part], epoch, item, attempt)};
}

/* Whether part a gets a place for its remainder before part b. */
static bool sampler_before(const double *remainder, uint32_t a, uint32_t b)
{
	return remainder[a] > remainder[b] || (remainder[a] == remainder[b] && a < b);
}

bool sampler_quotas(const double *weight, uint32_t parts, uint32_t *ret_quota, uint32_t *ret_part)
{
	double most = 0, sum = 0, remainder[SAMPLER_PARTS];
	uint32_t left = SAMPLER_BLOCK;
	assert(parts && parts <= SAMPLER_PARTS);
	for (uint32_t i = 0; i < parts; i++)
		most = weight[i] > most ? weight[i] : most;
	/* Divided by the largest weight, so that a sum of huge weights is finite. */
	for (uint32_t i = 0; i < parts; i++)
		sum += weight[i] / most;
	for (uint32_t i = 0; i < parts; i++) {
		double share = weight[i] / most / sum * SAMPLER_BLOCK;
		ret_quota[i] = (uint32_t)share;
		remainder[i] = share - ret_quota[i];
		left -= ret_quota[i];
	}
	assert(left <= parts);
	for (; left; left--) {
		uint32_t next = 0;
		for (uint32_t i = 1; i < parts; i++)
			if (sampler_before(remainder, i, next))
				next = i;
		ret_quota[next]++;
		remainder[next] = -1;
	}
	for (*ret_part = 0; *ret_part < parts && ret_quota[*ret_part]; ++*ret_part)
		;
	return *ret_part == parts;
}
