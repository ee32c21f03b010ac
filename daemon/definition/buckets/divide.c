/* divide: see divide.h. The list's memory has DIVIDE_HEAD numbers, then the table. */
#include "definition/buckets/divide.h"

#include "base/hash.h"
#include "base/util.h"
#include "dataset/dimensions.h"
#include "decode/measure.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The numbers in front of the table. */
enum { DIVIDE_HASH, DIVIDE_UNREADABLE, DIVIDE_COUNTS, DIVIDE_HEAD = DIVIDE_COUNTS + BUCKETS_MAX };

static const struct list_words divide_words = {"buckets", "words of the table"};

struct divide_work {
	struct list_shelf *shelf;
	const struct dataset *dataset;
	const struct bucket_keys *buckets;
	progress_fn *progress;
	void *progress_context;
	const struct order *order; /* which samples are divided */
	struct fault *fault;
	struct members members; /* of the whole dataset */
	uint64_t unreadable;
	char *notice;
	/* Only where the stream reads a part of the dataset: the memory of `members`. */
	uint64_t *memory;
	int ledger_line;
};

/* Whether the place of a sample is its number. */
static bool divide_is_whole(const struct divide_work *work)
{
	const struct order_subset *subset = &work->order->subset;
	return !subset->narrow && !subset->wide && !subset->of;
}

static uint64_t divide_places_hash(const struct order *order)
{
	uint64_t h = hash_u64(HASH_SEED, order->samples);
	const struct order_subset *subset = &order->subset;
	if (subset->of)
		h = hash_u64(hash_u64(h, subset->of), subset->from);
	if (subset->narrow)
		h = hash_bytes(h, subset->narrow, order->samples * sizeof *subset->narrow);
	if (subset->wide)
		h = hash_bytes(h, subset->wide, order->samples * sizeof *subset->wide);
	return h;
}

static void divide_take(
	void *context, uint64_t first, const struct dimension *dimension, size_t count)
{
	struct divide_work *work = context;
	for (size_t i = 0; i < count; i++)
		members_set(&work->members, first + i,
			bucket_keys_nearest(
				work->buckets, dimension[i].width, dimension[i].height));
}

/* Memory for the table of the whole dataset, where the stream's is another one. */
static int divide_room(struct divide_work *work, uint64_t samples)
{
	uint64_t words = members_words(samples, work->buckets->count);
	int result = 0;
	if (work->shelf->ledger)
		result = ledger_reserve(work->shelf->ledger, words * sizeof *work->memory,
			"buckets of a whole dataset", &work->ledger_line, work->fault);
	if (result)
		return fault_prefix(work->fault, result, "buckets");
	work->memory = calloc(words, sizeof *work->memory);
	return work->memory ? 0
			    : fault_set(work->fault, -ENOMEM,
				      "buckets: no memory to divide %llu samples",
				      (unsigned long long)samples);
}

static int divide_measure(struct divide_work *work)
{
	const struct dimensions_job job = {
		.dataset = work->dataset,
		.measure = measure_image,
		.take = divide_take,
		.context = work,
		.progress = work->progress,
		.progress_context = work->progress_context,
	};
	return dimensions_walk(&job, &work->unreadable, work->notice, DIVIDE_NOTICE, work->fault);
}

static int divide_make(struct divide_work *work, struct list *list)
{
	const uint64_t samples = dataset_count(work->dataset), places = work->order->samples;
	const bool whole = divide_is_whole(work);
	uint64_t *head = list->memory;
	struct members table = members_lay(places, work->buckets->count, head + DIVIDE_HEAD);
	int result = whole ? 0 : divide_room(work, samples);
	if (result)
		return result;
	work->members = whole ? table : members_lay(samples, work->buckets->count, work->memory);
	result = divide_measure(work);
	if (result)
		return result;
	for (uint64_t place = 0; !whole && place < places; place++)
		members_set(
			&table, place, members_get(&work->members, order_pick(work->order, place)));
	members_count(&table, head + DIVIDE_COUNTS);
	head[DIVIDE_UNREADABLE] = work->unreadable;
	head[DIVIDE_HASH] = hash_mix(hash_bytes(
		HASH_SEED, head + DIVIDE_COUNTS, list->bytes - DIVIDE_COUNTS * sizeof *head));
	return 0;
}

static int divide_new(struct divide_work *work, uint64_t words, uint64_t hash, struct list **ret)
{
	struct list *list;
	int result = list_new(work->shelf, &divide_words, LIST_BUCKETS, words, sizeof(uint64_t),
		&list, work->fault);
	if (result)
		return result;
	list->hash = hash;
	result = divide_make(work, list);
	free(work->memory);
	if (work->ledger_line >= 0)
		ledger_release(work->shelf->ledger, work->ledger_line);
	if (result) {
		list_free(work->shelf, list);
		return result;
	}
	*ret = list_put(work->shelf, list);
	return 0;
}

/* Only one thread measures at a time; the next one then finds the table on the shelf. */
static pthread_mutex_t divide_turn = PTHREAD_MUTEX_INITIALIZER;

static int divide_wait(const struct divide_work *work)
{
	enum { DIVIDE_WAIT_NS = 20000000 };
	while (pthread_mutex_trylock(&divide_turn)) {
		if (work->progress && work->progress(work->progress_context, 0, 0, 0))
			return fault_set(work->fault, -ECANCELED, "nobody waits for it any more");
		(void)nanosleep(&(struct timespec){.tv_nsec = DIVIDE_WAIT_NS}, NULL);
	}
	return 0;
}

int divide_sampler(struct list_shelf *shelf, const struct dataset *dataset,
	const struct bucket_keys *buckets, progress_fn *progress, void *progress_context,
	struct sampler *sampler, struct list **ret, char ret_notice[DIVIDE_NOTICE],
	struct fault *fault)
{
	const struct order *order = &sampler->order[0];
	struct divide_work work = {.shelf = shelf,
		.dataset = dataset,
		.buckets = buckets,
		.progress = progress,
		.progress_context = progress_context,
		.order = order,
		.fault = fault,
		.notice = ret_notice,
		.ledger_line = -1};
	const uint64_t words = DIVIDE_HEAD + members_words(order->samples, buckets->count);
	uint64_t hash = hash_u64(dataset_fingerprint(dataset), divide_places_hash(order));
	struct list *list;
	ret_notice[0] = 0;
	hash = hash_mix(bucket_keys_hash(buckets, hash));
	int result = list_hopeless(shelf, &divide_words, words, sizeof(uint64_t), fault);
	if (!result)
		result = divide_wait(&work);
	if (result)
		return result;
	list = list_find(shelf, LIST_BUCKETS, words, hash);
	if (!list)
		result = divide_new(&work, words, hash, &list);
	(void)pthread_mutex_unlock(&divide_turn);
	if (result)
		return result;
	uint64_t *head = list->memory;
	const struct members table =
		members_lay(order->samples, buckets->count, head + DIVIDE_HEAD);
	sampler_divide(sampler, buckets->count, &table, head + DIVIDE_COUNTS);
	*ret = list;
	return 0;
}

uint64_t divide_hash(const struct list *list)
{
	return ((const uint64_t *)list->memory)[DIVIDE_HASH];
}

uint64_t divide_unreadable(const struct list *list)
{
	return ((const uint64_t *)list->memory)[DIVIDE_UNREADABLE];
}
