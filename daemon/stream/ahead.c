/* ahead: see ahead.h. */
#include "stream/ahead.h"

#include "base/util.h"
#include "dataset/dataset.h"

#include <fcntl.h>
#include <unistd.h>

/* A block of a sparse subset may reach over much more than its samples. */
#define AHEAD_SPAN_MOST (4 * BLOCKS_BYTES)

/* The kernel reads only so much of what one call asks for: the largest request of the device, which
 * is 1 MiB or more for disks and NFS. */
#define AHEAD_PIECE ((uint64_t)1 << 20)

void ahead_init(struct ahead *ret, const struct sampler *sampler, const struct dataset *dataset,
	bool direct, uint64_t rows)
{
	const struct order *order = &sampler->order[0];
	ret->order = order;
	ret->dataset = dataset;
	ret->on = sampler->parts == 1 && !sampler->endless && sampler->repeats == 1 &&
		  !sampler->weights && order->shuffle && order->window && !direct &&
		  !dataset_in_files(dataset) && dataset_shard_path(dataset, 0)[0] == '/';
	if (!ret->on)
		return;
	ret->blocks = (struct blocks){
		.samples = order->samples, .block = order->block, .window = order->window};
	ret->periods = 2 + rows / order->block;
	/* With one period all blocks are open from the beginning. */
	ret->on = blocks_periods(&ret->blocks) > 1;
}

/* Part of a shard. A file that cannot be opened is the reader's to report. */
static void ahead_range(const struct dataset *dataset, uint32_t shard, uint64_t from, uint64_t size)
{
	/* Without blocking: the name may be that of a FIFO by now. */
	const int fd = open(
		dataset_shard_path(dataset, shard), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	for (uint64_t at = 0; at < size; at += AHEAD_PIECE)
		(void)posix_fadvise(fd, (off_t)(from + at), (off_t)UTIL_MIN(size - at, AHEAD_PIECE),
			POSIX_FADV_WILLNEED);
	(void)close(fd);
}

/* A block may begin in one shard and end in the next. */
static void ahead_block(const struct ahead *ahead, uint64_t block)
{
	const struct blocks *blocks = &ahead->blocks;
	const uint64_t from = block * blocks->block;
	const uint64_t to = UTIL_MIN(from + blocks->block, blocks->samples) - 1;
	struct sample first, last;
	struct fault fault;
	if (dataset_sample(ahead->dataset, order_pick(ahead->order, from), &first, &fault) ||
		dataset_sample(ahead->dataset, order_pick(ahead->order, to), &last, &fault))
		return;
	const uint64_t end = last.offset + packed_stored(&last.packed, last.size);
	if (first.shard == last.shard) {
		if (end > first.offset && end - first.offset <= AHEAD_SPAN_MOST)
			ahead_range(ahead->dataset, first.shard, first.offset, end - first.offset);
	} else if (last.shard == first.shard + 1 && end <= AHEAD_SPAN_MOST) {
		ahead_range(ahead->dataset, first.shard, first.offset, AHEAD_SPAN_MOST);
		ahead_range(ahead->dataset, last.shard, 0, end);
	}
}

static void ahead_slot(const struct ahead *ahead, uint32_t epoch, uint64_t slot)
{
	const uint64_t count = blocks_count(&ahead->blocks);
	const struct blocks_key key = {
		ahead->order->seed, slot < count ? epoch : epoch + 1, ahead->order->part};
	ahead_block(ahead, blocks_at(&ahead->blocks, &key, slot % count));
}

/* The blocks that are open in a period, and the next ones. */
static void ahead_open(const struct ahead *ahead, uint32_t epoch, uint64_t period)
{
	const uint64_t count = blocks_count(&ahead->blocks);
	for (uint64_t part = blocks_open(&ahead->blocks); part-- > 0;)
		ahead_slot(ahead, epoch, (period + count - part) % count);
	for (uint64_t next = 1; next < ahead->periods; next++)
		ahead_slot(ahead, epoch, period + next);
}

void ahead_step(struct ahead *ahead, uint32_t epoch, uint64_t position)
{
	if (!ahead->on)
		return;
	const struct blocks_key key = {ahead->order->seed, epoch, ahead->order->part};
	const bool begun = atomic_exchange_explicit(&ahead->begun, true, memory_order_relaxed);
	const uint64_t period = blocks_period_of(&ahead->blocks, &key, position);
	if (!begun || !position)
		ahead_open(ahead, epoch, period);
	else if (blocks_begin(&ahead->blocks, &key, period) == position)
		ahead_slot(ahead, epoch, period + ahead->periods);
}
