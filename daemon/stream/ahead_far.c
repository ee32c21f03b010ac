/* ahead_far: see ahead_far.h. */
#include "stream/ahead_far.h"

#include "base/host/ledger.h"
#include "base/size.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/far/openers.h"
#include "fetch/fetch.h"
#include "remote/object.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	AHEAD_FAR_OBJECTS = 64,
	AHEAD_FAR_STACK = 256 << 10,
	AHEAD_FAR_LOOK = 256, /* samples between looks at whether the thread must stop */
};

struct far_range {
	struct far_range *next;
	struct remote_kept *kept;
};

/* A block while it is open in an epoch. Slots below 0 are the last ones of the epoch, which are
 * open at its beginning. */
struct far_block {
	struct far_block *next;
	uint64_t epoch;
	int64_t slot;
	struct far_range *ranges;
	uint64_t bytes;
	bool wanted;
};

/* Bytes of a shard that are fetched together. */
struct far_run {
	uint32_t shard;
	uint64_t begin, end; /* equal: none */
};

struct ahead_far {
	struct ahead_far_options options;
	const struct order *order;
	struct blocks blocks;
	uint64_t room; /* bytes that are reserved */
	int line; /* of the ledger; -1: none */
	pthread_t thread;
	bool started;

	/* The thread's own. */
	struct far_block *open;
	uint64_t used; /* bytes of all blocks */
	uint64_t start; /* where the stream began, as `front` */
	struct openers *openers;
	struct far_object {
		uint32_t shard;
		struct remote_object *object; /* NULL: none */
	} objects[AHEAD_FAR_OBJECTS];

	/* Positions are counted through all epochs: epoch times samples, plus the position. */
	_Atomic uint64_t wake; /* the thread waits for a sample from there on */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t turn;
	bool begun, ready, stopping, opened;
	uint64_t front; /* the latest position that is issued */
	struct opening *opening;
	struct remote_object *object; /* that was opened */
};

static struct blocks_key far_key(const struct ahead_far *far, uint64_t epoch)
{
	return (struct blocks_key){far->order->seed, (uint32_t)epoch, far->order->part};
}

static bool far_stops(struct ahead_far *far)
{
	(void)pthread_mutex_lock(&far->lock);
	const bool stops = far->stopping;
	(void)pthread_mutex_unlock(&far->lock);
	return stops;
}

/* --- objects --- */

static void far_opened(
	void *context, int result, struct remote_object *object, const struct fault *fault)
{
	struct ahead_far *far = context;
	(void)fault; /* the reader of the samples reports it */
	(void)pthread_mutex_lock(&far->lock);
	far->object = result < 0 ? NULL : object;
	far->opened = true;
	(void)pthread_cond_signal(&far->turn);
	(void)pthread_mutex_unlock(&far->lock);
}

/* Opens a shard's object. NULL: it cannot be opened, or the stream ends. */
static struct remote_object *far_open(struct ahead_far *far, uint32_t shard)
{
	const struct opening_what what = {.url = dataset_shard_path(far->options.dataset, shard)};
	far->object = NULL;
	far->opened = false;
	if (openers_ask(far->openers, far->options.dataset, &what, far_opened, far, &far->opening) <
		0)
		return NULL;
	(void)pthread_mutex_lock(&far->lock);
	while (!far->opened && !far->stopping)
		(void)pthread_cond_wait(&far->turn, &far->lock);
	(void)pthread_mutex_unlock(&far->lock);
	/* Without the lock, which comes after that of openers. */
	(void)openers_cancel(far->openers, &far->opening);
	return far->object;
}

static struct remote_object *far_object(struct ahead_far *far, uint32_t shard)
{
	struct far_object *place = &far->objects[shard % AHEAD_FAR_OBJECTS];
	if (place->object && place->shard == shard)
		return place->object;
	remote_object_unref(place->object);
	*place = (struct far_object){.shard = shard, .object = far_open(far, shard)};
	return place->object;
}

/* --- blocks --- */

static void far_close(struct ahead_far *far, struct far_block *block)
{
	for (struct far_range *range = block->ranges, *next; range; range = next) {
		next = range->next;
		remote_kept_drop(range->kept);
		free(range);
	}
	far->used -= block->bytes;
	free(block);
}

/* Begins to fetch a run. False: the memory is not enough, or the stream ends. */
static bool far_fetch(struct ahead_far *far, struct far_block *block, struct far_run *run)
{
	const uint64_t size = run->end - run->begin;
	const uint64_t begin = run->begin;
	run->begin = run->end = 0;
	if (!size)
		return true;
	if (far_stops(far) || far->used + size + REMOTE_KEEP_MORE > far->room)
		return false;
	struct remote_object *object = far_object(far, run->shard);
	/* The reader of the samples reports why. */
	if (!object)
		return true;
	struct far_range *range = calloc(1, sizeof *range);
	if (!range || remote_object_keep(object, begin, size, &range->kept) < 0) {
		free(range);
		return false;
	}
	range->next = block->ranges;
	block->ranges = range;
	const uint64_t bytes = remote_kept_bytes(range->kept);
	block->bytes += bytes;
	far->used += bytes;
	return true;
}

/* Adds a sample to the run; where it does not belong there, the run is fetched first. */
static bool far_add(struct ahead_far *far, struct far_block *block, struct far_run *run,
	const struct sample *sample)
{
	const uint64_t begin = sample->offset;
	const uint64_t end = begin + packed_stored(&sample->packed, sample->size);
	/* Parts of a packed stream may have bytes in common. */
	const bool joins = run->end > run->begin && sample->shard == run->shard &&
			   begin >= run->begin && begin <= run->end + AHEAD_FAR_GAP &&
			   UTIL_MAX(end, run->end) - run->begin <= REMOTE_KEEP;
	if (joins) {
		run->end = UTIL_MAX(end, run->end);
		return true;
	}
	if (!far_fetch(far, block, run))
		return false;
	*run = (struct far_run){.shard = sample->shard, .begin = begin, .end = end};
	return true;
}

/* Whether the block gives the sample at a place while it is open this time, and the stream has not
 * begun after it. */
static bool far_gives(const struct ahead_far *far, const struct far_block *block,
	const struct blocks_key *key, uint64_t opened, uint64_t place)
{
	const uint64_t position = blocks_position(&far->blocks, key, place);
	if (blocks_periods(&far->blocks) > 1 && (position < opened) != (block->slot < 0))
		return false;
	return block->epoch * far->blocks.samples + position >= far->start;
}

/* The slot of an epoch; below 0 are the last ones. */
static uint64_t far_slot(const struct ahead_far *far, int64_t slot)
{
	return (uint64_t)(slot < 0 ? slot + (int64_t)blocks_count(&far->blocks) : slot);
}

static void far_fill(struct ahead_far *far, struct far_block *block)
{
	const struct ahead_far_options *options = &far->options;
	const struct blocks_key key = far_key(far, block->epoch);
	const uint64_t slot = far_slot(far, block->slot);
	const uint64_t first = blocks_at(&far->blocks, &key, slot) * far->blocks.block;
	const uint64_t end = UTIL_MIN(first + far->blocks.block, far->blocks.samples);
	const uint64_t opened =
		blocks_periods(&far->blocks) > 1 ? blocks_begin(&far->blocks, &key, slot) : 0;
	struct far_run run = {0};
	bool goes_on = true;
	for (uint64_t place = first; goes_on && place < end; place++) {
		const uint64_t number = order_pick(far->order, place);
		struct sample sample;
		struct fault fault;
		/* Samples that need no request are looked up in the index, too. */
		if (place % AHEAD_FAR_LOOK == 0 && far_stops(far))
			return;
		if (far_gives(far, block, &key, opened, place) &&
			!fetch_has(options->fetch, options->dataset, number) &&
			dataset_sample(options->dataset, number, &sample, &fault) == 0)
			goes_on = far_add(far, block, &run, &sample);
	}
	if (goes_on)
		(void)far_fetch(far, block, &run);
}

static struct far_block *far_find(const struct ahead_far *far, uint64_t epoch, int64_t slot)
{
	struct far_block *block = far->open;
	while (block && (block->epoch != epoch || block->slot != slot))
		block = block->next;
	return block;
}

static void far_mark(struct ahead_far *far, uint64_t epoch, int64_t slot)
{
	struct far_block *block = far_find(far, epoch, slot);
	if (block)
		block->wanted = true;
}

static void far_begin(struct ahead_far *far, uint64_t epoch, int64_t slot)
{
	const struct ahead_far_options *options = &far->options;
	if (far_slot(far, slot) % options->ranks != options->rank || far_find(far, epoch, slot) ||
		far_stops(far))
		return;
	struct far_block *block = calloc(1, sizeof *block);
	if (!block)
		return;
	*block = (struct far_block){.next = far->open, .epoch = epoch, .slot = slot};
	far->open = block;
	far_fill(far, block);
}

static void far_sweep(struct ahead_far *far)
{
	for (struct far_block **at = &far->open; *at;) {
		struct far_block *block = *at;
		if (block->wanted) {
			at = &block->next;
			continue;
		}
		*at = block->next;
		far_close(far, block);
	}
}

/* The period of a position, counted through all epochs. */
static uint64_t far_period(const struct ahead_far *far, uint64_t position)
{
	const uint64_t epoch = position / far->blocks.samples;
	const struct blocks_key key = far_key(far, epoch);
	return epoch * blocks_periods(&far->blocks) +
	       blocks_period_of(&far->blocks, &key, position % far->blocks.samples);
}

/* Calls `visit` for each block that is open in the periods from `first` to `last`, in the order in
 * which they are needed; some several times. */
static void far_visit(struct ahead_far *far, uint64_t first, uint64_t last,
	void (*visit)(struct ahead_far *far, uint64_t epoch, int64_t slot))
{
	const uint64_t periods = blocks_periods(&far->blocks), open = blocks_open(&far->blocks);
	for (uint64_t at = first; at <= last; at++) {
		const bool all = at == first || at % periods == 0;
		const int64_t slot = (int64_t)(at % periods);
		for (uint64_t back = all ? open : 1; back-- > 0;)
			visit(far, at / periods, slot - (int64_t)back);
	}
}

/* Drops the blocks that were read, and begins those that will be. */
static void far_step(struct ahead_far *far, uint64_t front)
{
	const uint64_t periods = blocks_periods(&far->blocks);
	const uint64_t now = far_period(far, front);
	const uint64_t rows = UTIL_MIN(far->options.rows, front - far->start);
	uint64_t last = now + AHEAD_FAR_PERIODS;
	if (far->options.epochs)
		last = UTIL_MIN(last, UTIL_MAX(far->options.epochs * periods - 1, now));
	for (struct far_block *block = far->open; block; block = block->next)
		block->wanted = false;
	far_visit(far, far_period(far, front - rows), last, far_mark);
	far_sweep(far);
	far_visit(far, now, last, far_begin);
	const uint64_t epoch = now / periods;
	const struct blocks_key key = far_key(far, epoch);
	/* Release: with ahead_far_issue. */
	atomic_store_explicit(&far->wake,
		epoch * far->blocks.samples + blocks_begin(&far->blocks, &key, now % periods + 1),
		memory_order_release);
}

/* --- the thread --- */

static void *far_run(void *context)
{
	struct ahead_far *far = context;
	(void)pthread_mutex_lock(&far->lock);
	while (!far->stopping) {
		const uint64_t front = far->front;
		if (!far->begun || (far->ready && front < atomic_load_explicit(&far->wake,
								  memory_order_relaxed))) {
			(void)pthread_cond_wait(&far->turn, &far->lock);
			continue;
		}
		const bool first = !far->ready;
		(void)pthread_mutex_unlock(&far->lock);
		if (first)
			far->start = front;
		far_step(far, front);
		(void)pthread_mutex_lock(&far->lock);
		far->ready = true;
		(void)pthread_mutex_unlock(&far->lock);
		if (first)
			far->options.ready(far->options.context);
		(void)pthread_mutex_lock(&far->lock);
	}
	(void)pthread_mutex_unlock(&far->lock);
	return NULL;
}

bool ahead_far_issue(struct ahead_far *far, uint32_t epoch, uint64_t position)
{
	if (!far)
		return true;
	const uint64_t at = epoch * far->blocks.samples + position;
	/* Acquire: with far_step. 0 until the first step is done. */
	const uint64_t wake = atomic_load_explicit(&far->wake, memory_order_acquire);
	if (at < wake)
		return true;
	(void)pthread_mutex_lock(&far->lock);
	if (!far->begun || at > far->front)
		far->front = at;
	far->begun = true;
	const bool ready = far->ready;
	(void)pthread_cond_signal(&far->turn);
	(void)pthread_mutex_unlock(&far->lock);
	return ready;
}

static int far_start(struct ahead_far *far)
{
	sigset_t all, before;
	pthread_attr_t attr;
	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, AHEAD_FAR_STACK);
	/* The event loop handles all signals. */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int code = pthread_create(&far->thread, &attr, far_run, far);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (code == 0)
		(void)pthread_setname_np(far->thread, "penstock-ahead");
	far->started = code == 0;
	return -code;
}

/* The bytes of all blocks that may be held at once: the open ones, those that are fetched ahead,
 * and those that are read late; at the end of an epoch also the first ones of the next. */
static uint64_t far_needs(const struct ahead_far *far)
{
	const struct blocks *blocks = &far->blocks;
	const struct ahead_far_options *options = &far->options;
	const uint64_t samples = dataset_count(options->dataset);
	const uint64_t mean = dataset_bytes(options->dataset) / samples + 1;
	const uint64_t held =
		2 * blocks_open(blocks) + AHEAD_FAR_PERIODS + 2 + options->rows / blocks->block;
	const uint64_t most =
		(UTIL_MIN(held, 2 * blocks_count(blocks)) + options->ranks - 1) / options->ranks;
	/* Headers between the samples, and blocks that are larger than others. */
	return most * (blocks->block * mean * 5 / 4 + REMOTE_KEEP_MORE) + REMOTE_KEEP;
}

static void far_reserve(struct ahead_far *far, char *ret_notice, unsigned room)
{
	struct ledger *ledger = far->options.ledger;
	const uint64_t needs = far_needs(far);
	const uint64_t half = ledger_free(ledger) / 2 / far->options.ranks;
	char name[LEDGER_NAME], want[32], has[32];
	struct fault fault;
	far->line = -1;
	far->room = UTIL_MIN(needs, half);
	(void)snprintf(name, sizeof name, "blocks of %.40s", far->options.name);
	if (ledger_reserve(ledger, far->room, name, &far->line, &fault) < 0)
		far->room = 0;
	if (far->room < needs)
		(void)snprintf(ret_notice, room,
			"the open blocks of window %u take %s of memory%s, and it has room for %s: "
			"the "
			"samples of the others are read by a request each: raise memory or lower "
			"window",
			far->blocks.window, size_format(needs, want, sizeof want),
			far->options.ranks > 1 ? " for each rank" : "",
			size_format(far->room, has, sizeof has));
}

static bool far_suits(const struct ahead_far_options *options)
{
	const struct sampler *sampler = options->sampler;
	const struct order *order = &sampler->order[0];
	return sampler->parts == 1 && !sampler->endless && sampler->repeats == 1 &&
	       !sampler->weights && order->shuffle && order->window && options->fetch &&
	       options->ranks <= AHEAD_FAR_RANKS && !dataset_in_files(options->dataset) &&
	       dataset_shard_path(options->dataset, 0)[0] != '/';
}

void ahead_far_init(const struct ahead_far_options *options, struct ahead_far **ret,
	char *ret_notice, unsigned room)
{
	*ret = NULL;
	if (!far_suits(options))
		return;
	struct ahead_far *far = calloc(1, sizeof *far);
	if (!far)
		return;
	far->options = *options;
	far->order = &options->sampler->order[0];
	far->blocks = (struct blocks){.samples = far->order->samples,
		.block = far->order->block,
		.window = far->order->window};
	(void)pthread_mutex_init(&far->lock, NULL);
	(void)pthread_cond_init(&far->turn, NULL);
	far_reserve(far, ret_notice, room);
	far->openers = openers_new();
	if (!far->openers || !far->room || far_start(far) < 0) {
		ahead_far_free(far);
		return;
	}
	*ret = far;
}

void ahead_far_free(struct ahead_far *far)
{
	if (!far)
		return;
	(void)pthread_mutex_lock(&far->lock);
	far->stopping = true;
	(void)pthread_cond_signal(&far->turn);
	(void)pthread_mutex_unlock(&far->lock);
	if (far->started)
		(void)pthread_join(far->thread, NULL);
	for (struct far_block *block = far->open, *next; block; block = next) {
		next = block->next;
		far_close(far, block);
	}
	for (size_t i = 0; i < AHEAD_FAR_OBJECTS; i++)
		remote_object_unref(far->objects[i].object);
	openers_free(far->openers);
	if (far->line >= 0)
		ledger_release(far->options.ledger, far->line);
	(void)pthread_cond_destroy(&far->turn);
	(void)pthread_mutex_destroy(&far->lock);
	free(far);
}
