/* class_count: see class_count.h. */
#include "definition/class_count.h"

#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct class_reader {
	bool paged;
	struct dataset_page at; /* the place of `page` */
	uint8_t page[INDEX_PAGE];
};

int class_count_cancelled(struct fault *fault)
{
	return fault_set(fault, -ECANCELED, "nobody waits for it any more");
}

bool class_count_stopped(struct class_count *count)
{
	return count->progress && count->progress(count->progress_context, 0, 0, 0);
}

/* ---- turns ---- */

static pthread_mutex_t class_turn = PTHREAD_MUTEX_INITIALIZER;

int class_count_begin(struct class_count *count)
{
	enum { CLASS_WAIT_NS = 20000000 };
	count->ledger_line = -1;
	count->reader = calloc(1, sizeof *count->reader);
	if (!count->reader)
		return fault_set(
			count->fault, -ENOMEM, "%s: no memory to count classes", count->origin);
	while (pthread_mutex_trylock(&class_turn)) {
		if (class_count_stopped(count)) {
			free(count->reader);
			return class_count_cancelled(count->fault);
		}
		(void)nanosleep(&(struct timespec){.tv_nsec = CLASS_WAIT_NS}, NULL);
	}
	return 0;
}

void class_count_end(struct class_count *count)
{
	class_count_deinit(count);
	free(count->reader);
	pthread_mutex_unlock(&class_turn);
}

/* ---- the counts, in a growing table with open addressing ---- */

static struct class_entry *class_find(const struct class_count *count, uint32_t label)
{
	uint64_t at = hash_mix(label) & (count->room - 1);
	while (count->entry[at].count && count->entry[at].label != label)
		at = (at + 1) & (count->room - 1);
	return &count->entry[at];
}

uint64_t class_count_of(const struct class_count *count, uint32_t label)
{
	return class_find(count, label)->count;
}

void class_count_deinit(struct class_count *count)
{
	free(count->entry);
	count->entry = NULL;
	if (count->ledger_line >= 0)
		ledger_release(count->shelf->ledger, count->ledger_line);
	count->ledger_line = -1;
}

static int class_take_room(struct class_count *count, uint64_t room)
{
	uint64_t bytes = room * sizeof *count->entry;
	count->entry = NULL;
	count->ledger_line = -1;
	int result = 0;
	if (count->shelf->ledger)
		result = ledger_reserve(count->shelf->ledger, bytes, "classes that are counted",
			&count->ledger_line, count->fault);
	if (result)
		return fault_prefix(count->fault, result, "%s", count->origin);
	count->entry = calloc(room, sizeof *count->entry);
	if (!count->entry)
		return fault_set(
			count->fault, -ENOMEM, "%s: no memory to count classes", count->origin);
	count->room = room;
	return 0;
}

static int class_grow(struct class_count *count)
{
	struct class_count old = *count;
	if (count->classes >= CLASS_COUNT_MOST)
		return fault_set(count->fault, -EINVAL, "%s: there are more than %d classes: %s",
			count->origin, CLASS_COUNT_MOST, count->instead);
	int result = class_take_room(count, old.room * 2);
	for (uint64_t i = 0; !result && i < old.room; i++)
		if (old.entry[i].count)
			*class_find(count, old.entry[i].label) = old.entry[i];
	class_count_deinit(&old);
	return result;
}

static int class_add(struct class_count *count, uint32_t label)
{
	struct class_entry *entry = class_find(count, label);
	if (entry->count++)
		return 0;
	entry->label = label;
	/* At most half full. */
	return ++count->classes * 2 > count->room ? class_grow(count) : 0;
}

/* ---- labels, page by page of the index ---- */

/* A sample on the same page as the previous one comes from the copy, which was already checked. */
static int class_label(struct class_count *count, uint64_t number, int64_t *ret)
{
	const struct dataset *dataset = count->places->dataset;
	struct class_reader *reader = count->reader;
	struct dataset_page at;
	struct index_record record = {0};
	uint64_t position;
	if (dataset_locate(dataset, number, &at) < 0)
		return fault_set(count->fault, -ERANGE, "there is no sample %" PRIu64, number);
	bool same = reader->paged && at.shard == reader->at.shard && at.page == reader->at.page;
	if (same) {
		*ret = index_page_class(reader->page, at.slot);
		return 0;
	}
	reader->at = at;
	reader->paged = true;
	int result = dataset_page_read(dataset, &at, reader->page, count->fault);
	if (!result)
		result = dataset_record(
			dataset, &at, reader->page, false, &record, &position, count->fault);
	*ret = record.label;
	return result;
}

bool class_count_fits(const struct dataset *dataset)
{
	const enum label_type type = dataset_label_type(dataset);
	return type == LABEL_TYPE_CLASS || type == LABEL_TYPE_CLASSES;
}

static uint64_t class_number(const struct class_places *places, uint64_t place)
{
	return places->number ? places->number(places->context, place) : place;
}

int class_count_labels(struct class_count *count,
	void (*take)(void *context, uint64_t place, uint32_t label), void *context)
{
	enum { CLASS_ROUND = 4096, CLASS_ROOM = 1024 };
	int result = class_take_room(count, CLASS_ROOM);
	for (uint64_t i = 0; !result && i < count->places->count; i++) {
		int64_t label = -1;
		uint64_t number = class_number(count->places, i);
		if (i % CLASS_ROUND == 0 && count->progress &&
			count->progress(count->progress_context, i, 0, 0))
			return class_count_cancelled(count->fault);
		result = class_label(count, number, &label);
		if (!result && label < 0)
			result = fault_set(count->fault, -EINVAL,
				"%s: sample %" PRIu64 " has no label", count->origin, number);
		if (!result)
			result = class_add(count, (uint32_t)label);
		if (!result)
			take(context, i, (uint32_t)label);
	}
	return result;
}
