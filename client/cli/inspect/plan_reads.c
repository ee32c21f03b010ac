/* plan_reads: see plan_reads.h. */
#include "client/cli/inspect/plan_reads.h"

#include "base/util.h"
#include "proto/philox.h"

__extension__ typedef unsigned __int128 plan_wide;

uint32_t plan_nodes(const struct plan_job *job)
{
	return (job->epoch.world_size - 1) / job->ranks_per_node + 1;
}

/* The rank that has a row of a global batch of `rows` rows (order_share). */
static uint64_t plan_rank_of(const struct order_epoch *epoch, uint64_t rows, uint64_t row)
{
	const uint64_t each = rows / epoch->world_size, more = rows % epoch->world_size;
	const uint64_t larger = more * (each + 1);
	return row < larger ? row / (each + 1) : more + (row - larger) / each;
}

uint32_t plan_node_of(const struct plan_job *job, uint64_t position)
{
	const uint64_t global = order_global(&job->epoch), used = order_left(&job->epoch, 0);
	if (position >= used)
		return plan_nodes(job);
	const uint64_t rows = UTIL_MIN(used - position / global * global, global);
	return (uint32_t)(plan_rank_of(&job->epoch, rows, position % global) / job->ranks_per_node);
}

/* The rows of a node's ranks in a global batch. */
static uint64_t plan_rows(const struct plan_job *job, uint32_t node, uint64_t rows)
{
	const uint64_t each = rows / job->epoch.world_size, more = rows % job->epoch.world_size;
	const uint64_t first = (uint64_t)node * job->ranks_per_node;
	const uint64_t end = UTIL_MIN(first + job->ranks_per_node, job->epoch.world_size);
	return (end - first) * each + UTIL_MIN(end, more) - UTIL_MIN(first, more);
}

static uint64_t plan_samples(const struct plan_job *job, uint32_t node)
{
	const uint64_t global = order_global(&job->epoch), used = order_left(&job->epoch, 0);
	return used / global * plan_rows(job, node, global) + plan_rows(job, node, used % global);
}

static double plan_mean(const struct plan_job *job)
{
	return (double)job->bytes / (double)job->epoch.samples;
}

/* The part of the dataset that a node's cache has once it is full. A single node reads the samples
 * that `drop_last` leaves out in other epochs. */
static double plan_kept(const struct plan_job *job)
{
	if (!job->bytes || job->cache_bytes >= job->bytes)
		return job->cache_bytes ? 1 : 0;
	return (double)job->cache_bytes / (double)job->bytes;
}

static uint64_t plan_round(double value)
{
	return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

struct plan_reads plan_reads_full(const struct plan_job *job, uint32_t node, bool later)
{
	const uint64_t samples = plan_samples(job, node);
	const uint64_t hits = later ? plan_round((double)samples * plan_kept(job)) : 0;
	return (struct plan_reads){
		.samples = samples,
		.hits = hits,
		.requests = samples - hits,
		.bytes = plan_round((double)(samples - hits) * plan_mean(job)),
	};
}

/* ---- by blocks ---- */

struct plan_run {
	const struct plan_job *job;
	uint32_t node;
	double kept; /* the part of samples that the cache has, spread at random */
	uint64_t gap, most; /* in samples */
	/* Sums over the blocks that were looked at. */
	uint64_t own, missing, requests, read;
	/* The present request: its first sample, and the one after its last. */
	uint64_t begin, end;
};

static void plan_end_run(struct plan_run *run)
{
	run->requests += run->end > run->begin;
	run->read += run->end - run->begin;
	run->begin = run->end = 0;
}

/* Samples of a block in the order of storage. */
static void plan_take(struct plan_run *run, uint64_t sample, uint64_t position)
{
	const struct blocks_key *key = &run->job->key;
	if (plan_node_of(run->job, position) != run->node)
		return;
	run->own++;
	const struct philox words =
		philox_draw(key->seed ^ run->node, key->epoch, sample, PHILOX_WINDOW, 1);
	if (philox_unit(words.word[0], words.word[1]) < run->kept)
		return;
	run->missing++;
	if (run->end > run->begin &&
		(sample - run->end > run->gap || sample + 1 - run->begin > run->most))
		plan_end_run(run);
	if (run->end == run->begin)
		run->begin = sample;
	run->end = sample + 1;
}

/* A block whose slot is one of the last is open at the beginning of the epoch, too: those of its
 * samples that come then are read apart from the others. */
static void plan_take_block(struct plan_run *run, uint64_t block)
{
	const struct blocks *blocks = &run->job->blocks;
	const struct blocks_key *key = &run->job->key;
	const uint64_t slot = blocks_slot_of(blocks, key, block), first = block * blocks->block;
	const uint64_t end = UTIL_MIN(first + blocks->block, blocks->samples);
	const uint64_t opened = blocks_periods(blocks) > 1 ? blocks_begin(blocks, key, slot) : 0;
	for (int early = 0; early < 2; early++) {
		for (uint64_t sample = first; sample < end; sample++) {
			const uint64_t position = blocks_position(blocks, key, sample);
			if ((position < opened) == early)
				plan_take(run, sample, position);
		}
		plan_end_run(run);
	}
}

/* One node: the cache keeps the blocks that were opened first whole. */
struct plan_reads plan_reads_blocks(const struct plan_job *job, uint32_t node, bool later)
{
	const struct blocks *blocks = &job->blocks;
	const double mean = plan_mean(job), kept = later ? plan_kept(job) : 0;
	const bool alone = plan_nodes(job) == 1;
	struct plan_run run = {.job = job, .node = node, .kept = alone ? 0 : kept};
	run.gap = mean > 0 ? (uint64_t)((double)PLAN_READS_GAP / mean) : 0;
	run.most = mean > 0 ? UTIL_MAX((uint64_t)((double)PLAN_READS_MOST / mean), (uint64_t)1)
			    : blocks->block;
	const uint64_t count = blocks_count(blocks);
	const uint64_t looks = UTIL_MIN(
		count, UTIL_MAX((uint64_t)PLAN_READS_SAMPLES / blocks->block, (uint64_t)4));
	for (uint64_t i = 0; i < looks; i++)
		plan_take_block(&run, (uint64_t)((plan_wide)i * count / looks));
	const uint64_t samples = plan_samples(job, node);
	/* What was looked at stands for all. */
	const double scale = run.own ? (double)samples / (double)run.own : 0;
	const double missing = alone ? 1 - kept : 1;
	const double hits =
		alone ? kept * (double)samples : (double)(run.own - run.missing) * scale;
	return (struct plan_reads){
		.samples = samples,
		.hits = plan_round(hits),
		.requests = plan_round((double)run.requests * scale * missing),
		.bytes = plan_round((double)run.read * scale * missing * mean),
	};
}
