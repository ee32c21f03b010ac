/* weigh: see weigh.h. While a table is built, its cells hold the values that were read. So
 * nothing is read twice, and no other memory is needed. */
#include "definition/weigh.h"

#include "base/hash.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool weigh_is_balanced(const char *weights)
{
	return strcmp(weights, "balanced") == 0;
}

static int weigh_too_many(const struct list_words *words, uint64_t count, struct fault *fault)
{
	if (count < ALIAS_SAMPLES_MAX)
		return 0;
	return fault_set(fault, -EINVAL, "%s: expected at most %" PRIu64 " weights, got %" PRIu64,
		words->origin, ALIAS_SAMPLES_MAX - 1, count);
}

static int weigh_cancelled(struct fault *fault)
{
	return fault_set(fault, -ECANCELED, "nobody waits for it any more");
}

/* ---- a file ---- */

struct weigh_look {
	uint64_t hash;
	bool any; /* whether any weight is above 0 */
};

static int weigh_look(void *context, struct list_file *file, uint64_t first, size_t count)
{
	struct weigh_look *look = context;
	double *value = file->value.real;
	for (size_t i = 0; i < count; i++) {
		if (!isfinite(value[i]) || value[i] < 0)
			return fault_set(file->fault, -EINVAL,
				"weights: %s: [%" PRIu64
				"] is %g: expected finite numbers, 0 or more",
				file->path, first + i, value[i]);
		value[i] += 0.0; /* -0 is 0 */
		look->any |= value[i] > 0;
	}
	look->hash = list_hash(look->hash, file->value.number, count);
	return 0;
}

struct weigh_keep {
	alias_cell *cell;
	uint64_t hash;
};

static int weigh_keep(void *context, struct list_file *file, uint64_t first, size_t count)
{
	struct weigh_keep *keep = context;
	for (size_t i = 0; i < count; i++)
		keep->cell[first + i] = alias_weight(file->value.real[i] + 0.0);
	keep->hash = list_hash(keep->hash, keep->cell + first, count);
	return 0;
}

static bool weigh_stop(void *context)
{
	const struct list_file *file = context;
	return file->cancel && atomic_load_explicit(file->cancel, memory_order_relaxed);
}

static int weigh_fill(struct list_file *file, const struct weigh_look *look, struct list *list)
{
	struct weigh_keep keep = {.cell = list->memory};
	list->hash = look->hash;
	int result = list_file_walk(file, weigh_keep, &keep);
	if (!result && keep.hash != look->hash)
		result = list_file_changed(file);
	if (!result && !alias_make(keep.cell, list->count, weigh_stop, file))
		result = weigh_cancelled(file->fault);
	return result;
}

static int weigh_load(struct list_shelf *shelf, struct list_file *file,
	const struct list_words *words, const struct weigh_look *look, struct list **ret)
{
	struct list *list;
	int result = list_new(shelf, words, LIST_WEIGHTS, file->npy.count, sizeof(alias_cell),
		&list, file->fault);
	if (result)
		return result;
	result = weigh_fill(file, look, list);
	if (result) {
		list_free(shelf, list);
		return result;
	}
	*ret = list_put(shelf, list);
	return 0;
}

static int weigh_read(struct list_shelf *shelf, struct list_file *file, struct list **ret)
{
	struct weigh_look look = {0};
	char origin[4200];
	const struct list_words words = {origin, "weights"};
	(void)snprintf(origin, sizeof origin, "weights: %s", file->path);
	int result = list_file_open(file);
	if (!result)
		result = weigh_too_many(&words, file->npy.count, file->fault);
	if (!result)
		result = list_hopeless(
			shelf, &words, file->npy.count, sizeof(alias_cell), file->fault);
	if (!result)
		result = list_file_walk(file, weigh_look, &look);
	if (!result && !look.any)
		result = fault_set(file->fault, -EINVAL,
			"%s: all of its %" PRIu64 " weights are 0: expected at least one above 0",
			origin, file->npy.count);
	if (result)
		return result;
	*ret = list_find(shelf, LIST_WEIGHTS, file->npy.count, look.hash);
	return *ret ? 0 : weigh_load(shelf, file, &words, &look, ret);
}

int weigh_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault)
{
	struct list_file *file = malloc(sizeof *file);
	if (!file)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	file->key = "weights";
	file->path = path;
	file->kind = NPY_FLOATS;
	file->cancel = cancel;
	file->fault = fault;
	int result = weigh_read(shelf, file, ret);
	list_file_close(file);
	free(file);
	return result;
}

int weigh_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault)
{
	if (list->count == samples)
		return 0;
	return fault_set(fault, -EINVAL,
		"weights: %s has %" PRIu64 " weights, but there are %" PRIu64
		" samples to draw from: expected one for each, in their order (of a subset or "
		"split: in its own)",
		path, list->count, samples);
}

/* ---- balanced: counts of the classes, in a growing table with open addressing ---- */

struct weigh_class {
	uint64_t label, count; /* count 0: free */
};

struct weigh_work {
	struct list_shelf *shelf;
	const struct weigh_places *places;
	progress_fn *progress;
	void *progress_context;
	struct fault *fault;
	alias_cell *cell; /* holds labels at first */
	struct weigh_class *class;
	uint64_t room, classes; /* `room` is a power of two */
	int ledger_line;
	bool paged;
	struct dataset_page at; /* the place of `page` */
	uint8_t page[INDEX_PAGE];
};

static struct weigh_class *weigh_class(const struct weigh_work *work, uint64_t label)
{
	uint64_t at = hash_mix(label) & (work->room - 1);
	while (work->class[at].count && work->class[at].label != label)
		at = (at + 1) & (work->room - 1);
	return &work->class[at];
}

static void weigh_drop_classes(struct weigh_work *work)
{
	free(work->class);
	work->class = NULL;
	if (work->ledger_line >= 0)
		ledger_release(work->shelf->ledger, work->ledger_line);
	work->ledger_line = -1;
}

static int weigh_take_room(struct weigh_work *work, uint64_t room)
{
	uint64_t bytes = room * sizeof *work->class;
	work->class = NULL;
	work->ledger_line = -1;
	int result = 0;
	if (work->shelf->ledger)
		result = ledger_reserve(work->shelf->ledger, bytes, "classes that are counted",
			&work->ledger_line, work->fault);
	if (result)
		return fault_prefix(work->fault, result, "weights: balanced");
	work->class = calloc(room, sizeof *work->class);
	if (!work->class)
		return fault_set(
			work->fault, -ENOMEM, "weights: balanced: no memory to count classes");
	work->room = room;
	return 0;
}

static int weigh_grow(struct weigh_work *work)
{
	struct weigh_work old = *work;
	if (work->classes >= WEIGH_CLASSES)
		return fault_set(work->fault, -EINVAL,
			"weights: balanced: there are more than %d classes: write a file of "
			"weights instead",
			WEIGH_CLASSES);
	int result = weigh_take_room(work, old.room * 2);
	for (uint64_t i = 0; !result && i < old.room; i++)
		if (old.class[i].count)
			*weigh_class(work, old.class[i].label) = old.class[i];
	weigh_drop_classes(&old);
	return result;
}

static int weigh_count(struct weigh_work *work, uint64_t label)
{
	struct weigh_class *class = weigh_class(work, label);
	if (class->count++)
		return 0;
	class->label = label;
	/* At most half full. */
	return ++work->classes * 2 > work->room ? weigh_grow(work) : 0;
}

/* ---- labels, page by page of the index ---- */

/* A sample on the same page as the previous one comes from the copy, which was already checked. */
static int weigh_label(struct weigh_work *work, uint64_t number, int64_t *ret)
{
	const struct dataset *dataset = work->places->dataset;
	struct dataset_page at;
	struct index_record record = {0};
	uint64_t position;
	if (dataset_locate(dataset, number, &at) < 0)
		return fault_set(work->fault, -ERANGE, "there is no sample %" PRIu64, number);
	bool same = work->paged && at.shard == work->at.shard && at.page == work->at.page;
	if (same) {
		memcpy(&record, work->page + INDEX_PAGE_HEAD + at.slot * sizeof record,
			sizeof record);
		*ret = record.label;
		return 0;
	}
	work->at = at;
	work->paged = true;
	int result = dataset_page_read(dataset, &at, work->page, work->fault);
	if (!result)
		result = dataset_record(dataset, &at, work->page, &record, &position, work->fault);
	*ret = record.label;
	return result;
}

static uint64_t weigh_number(const struct weigh_places *places, uint64_t place)
{
	return places->number ? places->number(places->context, place) : place;
}

static bool weigh_stopped(void *context)
{
	const struct weigh_work *work = context;
	return work->progress && work->progress(work->progress_context, 0, 0, 0);
}

static int weigh_labels(struct weigh_work *work)
{
	enum { WEIGH_ROUND = 4096 };
	for (uint64_t i = 0; i < work->places->count; i++) {
		int64_t label = -1;
		uint64_t number = weigh_number(work->places, i);
		if (i % WEIGH_ROUND == 0 && work->progress &&
			work->progress(work->progress_context, i, 0, 0))
			return weigh_cancelled(work->fault);
		int result = weigh_label(work, number, &label);
		if (!result && label < 0)
			result = fault_set(work->fault, -EINVAL,
				"weights: balanced: sample %" PRIu64 " has no label", number);
		if (!result)
			result = weigh_count(work, (uint64_t)label);
		if (result)
			return result;
		work->cell[i] = (uint64_t)label;
	}
	return 0;
}

static int weigh_make(struct weigh_work *work)
{
	enum { WEIGH_ROOM = 1024 };
	int result = weigh_take_room(work, WEIGH_ROOM);
	if (!result)
		result = weigh_labels(work);
	for (uint64_t i = 0; !result && i < work->places->count; i++)
		work->cell[i] = alias_weight(1.0 / (double)weigh_class(work, work->cell[i])->count);
	weigh_drop_classes(work);
	if (!result && !alias_make(work->cell, work->places->count, weigh_stopped, work))
		result = weigh_cancelled(work->fault);
	return result;
}

static int weigh_check(const struct weigh_places *places, struct fault *fault)
{
	const struct dataset *dataset = places->dataset;
	if (!dataset_labelled(dataset))
		return fault_set(fault, -EINVAL,
			"weights: balanced needs labels, and the dataset has none: give it labels, "
			"or weights as a .npy file");
	if (dataset_label_type(dataset) != LABEL_TYPE_CLASS)
		return fault_set(fault, -EINVAL,
			"weights: balanced needs labels that are one class each: write a .npy "
			"file of weights instead");
	return 0;
}

/* Only one thread makes a table at a time; the next one then finds it on the shelf. */
static pthread_mutex_t weigh_turn = PTHREAD_MUTEX_INITIALIZER;

static int weigh_wait(struct weigh_work *work)
{
	enum { WEIGH_WAIT_NS = 20000000 };
	while (pthread_mutex_trylock(&weigh_turn)) {
		if (weigh_stopped(work))
			return weigh_cancelled(work->fault);
		(void)nanosleep(&(struct timespec){.tv_nsec = WEIGH_WAIT_NS}, NULL);
	}
	return 0;
}

static int weigh_new(struct weigh_work *work, uint64_t hash, struct list **ret)
{
	static const struct list_words words = {"weights: balanced", "weights"};
	uint64_t count = work->places->count;
	struct list *list;
	int result = list_new(
		work->shelf, &words, LIST_BALANCED, count, sizeof(alias_cell), &list, work->fault);
	if (result)
		return result;
	list->hash = hash;
	work->cell = list->memory;
	result = weigh_make(work);
	if (result) {
		list_free(work->shelf, list);
		return result;
	}
	*ret = list_put(work->shelf, list);
	return 0;
}

int weigh_balance(struct list_shelf *shelf, const struct weigh_places *places,
	progress_fn *progress, void *progress_context, struct list **ret, struct fault *fault)
{
	static const struct list_words words = {"weights: balanced", "weights"};
	uint64_t hash = hash_u64(dataset_fingerprint(places->dataset), places->hash);
	int result = weigh_check(places, fault);
	if (!result)
		result = weigh_too_many(&words, places->count, fault);
	if (result)
		return result;
	struct weigh_work *work = malloc(sizeof *work);
	if (!work)
		return fault_set(fault, -ENOMEM, "no memory to count classes");
	*work = (struct weigh_work){.shelf = shelf,
		.places = places,
		.progress = progress,
		.progress_context = progress_context,
		.fault = fault,
		.ledger_line = -1};
	result = weigh_wait(work);
	if (!result) {
		*ret = list_find(shelf, LIST_BALANCED, places->count, hash);
		if (!*ret)
			result = weigh_new(work, hash, ret);
		pthread_mutex_unlock(&weigh_turn);
	}
	free(work);
	return result;
}
