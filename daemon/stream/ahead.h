/* ahead: tells the kernel which blocks a stream with `shuffle: blocks` will read next, so that they
 * are read into the page cache in large pieces instead of sample by sample.
 *
 * Only for local shards that are read through the page cache (io: buffered, or auto where the
 * dataset fits): direct reads would not find the blocks there. Only for one source without repeats
 * and epoch_length, where a position belongs to one period. In a split group, the rank whose slice
 * has the first sample of a period asks for the block that follows.
 *
 * Threads: ahead_init when the stream is opened, ahead_step on workers. It may block on a full
 * queue of the device, which holds up one worker. */
#pragma once

#include "order/blocks.h"
#include "order/sampler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dataset;

struct ahead {
	bool on;
	struct blocks blocks;
	const struct order *order;
	const struct dataset *dataset;
	uint64_t periods; /* how many blocks before its period a block is asked for */
	atomic_bool begun;
};

/* `rows`: how many samples of all ranks may be in flight. The sampler and the dataset must live as
 * long as `ret`. `direct`: whether the dataset is read with O_DIRECT. */
void ahead_init(struct ahead *ret, const struct sampler *sampler, const struct dataset *dataset,
	bool direct, uint64_t rows);

/* The sample at a position of an epoch has been read. */
void ahead_step(struct ahead *ahead, uint32_t epoch, uint64_t position);
