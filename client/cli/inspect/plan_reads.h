/* plan_reads: what the nodes of a job will read in an epoch, for `penstock plan`: requests, bytes,
 * and what a cache of a node spares, for a full shuffle and for one by blocks.
 *
 * The model: a node's daemon reads the samples of its ranks. With a full shuffle each sample is a
 * request. With a shuffle by blocks, a node reads the samples of a block that are its own when the
 * block is opened, in the order of storage: neighbors are one request, as long as at most
 * PLAN_READS_GAP bytes that it does not need are between them, and up to PLAN_READS_MOST bytes. A
 * node's cache keeps what it reads until it is full, and replaces nothing. Every sample has the
 * dataset's mean size.
 *
 * order.h and blocks.h say where samples are. Where an epoch has more samples than
 * PLAN_READS_SAMPLES, evenly spaced blocks stand for all.
 *
 * daemon/stream/ahead_far.h is the reader of remote shards that does this.
 *
 * Pure. */
#pragma once

#include "order/blocks.h"
#include "order/order.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_READS_GAP ((uint64_t)64 << 10)
#define PLAN_READS_MOST ((uint64_t)8 << 20)
enum { PLAN_READS_SAMPLES = 65536 };

struct plan_job {
	struct order_epoch epoch; /* without buckets */
	uint32_t ranks_per_node; /* the last node may have fewer */
	uint64_t bytes; /* of the dataset, or of the subset */
	uint64_t cache_bytes; /* of a node; 0: none */
	struct blocks blocks; /* of the epoch's samples */
	struct blocks_key key;
};

/* What one node reads in one epoch. */
struct plan_reads {
	uint64_t samples; /* that its ranks get */
	uint64_t requests, bytes; /* to storage */
	uint64_t hits; /* samples that come from the cache */
};

uint32_t plan_nodes(const struct plan_job *job);

/* The node that gets the sample at a position; plan_nodes of them where `drop_last` leaves it
 * out. */
uint32_t plan_node_of(const struct plan_job *job, uint64_t position);

/* The first epoch, and a later one, after the cache is full or has all. */
struct plan_reads plan_reads_full(const struct plan_job *job, uint32_t node, bool later);
struct plan_reads plan_reads_blocks(const struct plan_job *job, uint32_t node, bool later);
