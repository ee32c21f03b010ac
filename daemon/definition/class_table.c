/* class_table: see class_table.h. The list's memory has the number of classes C, then C + 1 times
 * where a class begins, then the samples' numbers, class by class; classes by their labels, samples
 * in their order. */
#include "definition/class_table.h"

#include "base/hash.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct list_words class_table_words = {"sampling", "samples by class"};

struct class_work {
	struct class_count *count;
	uint32_t *label; /* of each place */
	int ledger_line;
	struct class_entry *sorted; /* the classes, by label */
	uint64_t *table;
	bool narrow;
};

static void class_keep_label(void *context, uint64_t place, uint32_t label)
{
	uint32_t *labels = context;
	labels[place] = label;
}

static int class_take_labels(struct class_work *work)
{
	struct class_count *count = work->count;
	uint64_t bytes = count->places->count * sizeof *work->label;
	int result = 0;
	if (count->shelf->ledger)
		result = ledger_reserve(count->shelf->ledger, bytes,
			"labels that are sorted by class", &work->ledger_line, count->fault);
	if (result)
		return fault_prefix(count->fault, result, "%s", count->origin);
	work->label = malloc(bytes);
	return work->label ? 0
			   : fault_set(count->fault, -ENOMEM,
				     "%s: no memory to sort %" PRIu64 " labels", count->origin,
				     count->places->count);
}

static void class_work_deinit(struct class_work *work)
{
	free(work->label);
	if (work->ledger_line >= 0)
		ledger_release(work->count->shelf->ledger, work->ledger_line);
}

static int class_by_label(const void *a, const void *b)
{
	const struct class_entry *x = a, *y = b;
	return (x->label > y->label) - (x->label < y->label);
}

/* Moves the counted classes to the front of the counts, sorted: they are then no longer a table. */
static void class_sort(struct class_work *work)
{
	struct class_count *count = work->count;
	uint64_t classes = 0;
	for (uint64_t i = 0; i < count->room; i++)
		if (count->entry[i].count)
			count->entry[classes++] = count->entry[i];
	qsort(count->entry, classes, sizeof *count->entry, class_by_label);
	work->sorted = count->entry;
}

static uint64_t class_rank(const struct class_work *work, uint32_t label)
{
	uint64_t low = 0, high = work->count->classes;
	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;
		if (work->sorted[middle].label <= label)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Fills the table. While samples are entered, a class's beginning is where its next one goes. */
static void class_fill(struct class_work *work)
{
	const struct class_places *places = work->count->places;
	const uint64_t classes = work->count->classes;
	uint64_t *first = work->table + 1, *wide = first + classes + 1, at = 0;
	uint32_t *narrow = (uint32_t *)wide;
	work->table[0] = classes;
	for (uint64_t i = 0; i < classes; i++) {
		first[i] = at;
		at += work->sorted[i].count;
	}
	first[classes] = at;
	for (uint64_t i = 0; i < places->count; i++) {
		uint64_t number = places->number ? places->number(places->context, i) : i;
		uint64_t *next = &first[class_rank(work, work->label[i])];
		if (work->narrow)
			narrow[(*next)++] = (uint32_t)number;
		else
			wide[(*next)++] = number;
	}
	for (uint64_t i = classes; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

static int class_enough(const struct class_count *count, uint64_t classes, uint32_t wanted)
{
	if (classes >= wanted)
		return 0;
	return fault_set(count->fault, -EINVAL,
		"sampling: classes is %" PRIu32 ", but the samples have only %" PRIu64
		" class%s: lower it to at most that many",
		wanted, classes, classes == 1 ? "" : "es");
}

static int class_make(struct class_work *work, uint64_t hash, uint32_t wanted, struct list **ret)
{
	struct class_count *count = work->count;
	const uint64_t samples = count->places->count;
	struct list *list;
	work->narrow = dataset_count(count->places->dataset) <= UINT32_MAX;
	int result = class_take_labels(work);
	if (!result)
		result = class_count_labels(count, class_keep_label, work->label);
	if (!result)
		result = class_enough(count, count->classes, wanted);
	if (!result)
		result = list_new_with(count->shelf, &class_table_words, LIST_CLASSES, samples,
			work->narrow ? sizeof(uint32_t) : sizeof(uint64_t),
			(count->classes + 2) * sizeof(uint64_t), &list, count->fault);
	if (result)
		return result;
	list->hash = hash;
	work->table = list->memory;
	class_sort(work);
	class_fill(work);
	*ret = list_put(count->shelf, list);
	return 0;
}

static int class_check(const struct class_places *places, struct fault *fault)
{
	const struct dataset *dataset = places->dataset;
	if (!dataset_labelled(dataset))
		return fault_set(fault, -EINVAL,
			"sampling needs labels, and the dataset has none: give it labels, or leave "
			"sampling out");
	if (!class_count_fits(dataset))
		return fault_set(fault, -EINVAL,
			"sampling needs labels that are one class each, or several of which the "
			"first is the class (type: classes), and the dataset's labels are "
			"multi-hot or numbers: leave sampling out, or take other labels");
	return 0;
}

/* The shelf may have the table of a stream with another P. */
static int class_known(struct class_count *count, struct list *list, uint32_t wanted)
{
	const uint64_t *table = list->memory;
	int result = class_enough(count, table[0], wanted);
	if (result)
		list_close(count->shelf, list);
	return result;
}

int class_table_open(struct list_shelf *shelf, const struct class_places *places,
	const struct per_class *want, progress_fn *progress, void *progress_context,
	struct list **ret, struct fault *fault)
{
	const uint64_t hash = hash_u64(dataset_fingerprint(places->dataset), places->hash);
	struct class_count count = {.shelf = shelf,
		.places = places,
		.origin = class_table_words.origin,
		.instead = "sampling cannot tell so many apart",
		.progress = progress,
		.progress_context = progress_context,
		.fault = fault};
	struct class_work work = {.count = &count, .ledger_line = -1};
	int result = class_check(places, fault);
	if (!result)
		result = list_hopeless(
			shelf, &class_table_words, places->count, sizeof(uint32_t), fault);
	if (!result)
		result = class_count_begin(&count);
	if (result)
		return result;
	struct list *list = list_find(shelf, LIST_CLASSES, places->count, hash);
	result = list ? class_known(&count, list, want->classes)
		      : class_make(&work, hash, want->classes, &list);
	class_work_deinit(&work);
	class_count_end(&count);
	if (!result)
		*ret = list;
	return result;
}

struct per_class class_table_view(const struct list *list, const struct per_class *want)
{
	const uint64_t *table = list->memory;
	const uint64_t head = (table[0] + 2) * sizeof *table;
	struct per_class view = {
		.classes = want->classes, .each = want->each, .all = table[0], .first = table + 1};
	const uint64_t *numbers = table + table[0] + 2;
	if ((list->bytes - head) / list->count == sizeof(uint32_t))
		view.narrow = (const uint32_t *)numbers;
	else
		view.wide = numbers;
	return view;
}
