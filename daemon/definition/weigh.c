/* weigh: see weigh.h. While a table is built, its cells hold the values that were read. So
 * nothing is read twice, and no other memory is needed. */
#include "definition/weigh.h"

#include "base/hash.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- balanced ---- */

static void weigh_keep_label(void *context, uint64_t place, uint32_t label)
{
	alias_cell *cell = context;
	cell[place] = label;
}

static bool weigh_balance_stopped(void *context)
{
	return class_count_stopped(context);
}

static int weigh_make(struct class_count *count, alias_cell *cell)
{
	int result = class_count_labels(count, weigh_keep_label, cell);
	for (uint64_t i = 0; !result && i < count->places->count; i++)
		cell[i] = alias_weight(1.0 / (double)class_count_of(count, (uint32_t)cell[i]));
	class_count_deinit(count);
	if (!result && !alias_make(cell, count->places->count, weigh_balance_stopped, count))
		result = weigh_cancelled(count->fault);
	return result;
}

static int weigh_check(const struct class_places *places, struct fault *fault)
{
	const struct dataset *dataset = places->dataset;
	if (!dataset_labelled(dataset))
		return fault_set(fault, -EINVAL,
			"weights: balanced needs labels, and the dataset has none: give it labels, "
			"or weights as a .npy file");
	if (!class_count_fits(dataset))
		return fault_set(fault, -EINVAL,
			"weights: balanced needs labels that are one class each, or several of "
			"which the first is the class (type: classes): write a .npy file of "
			"weights instead");
	return 0;
}

static int weigh_new(struct class_count *count, uint64_t hash, struct list **ret)
{
	static const struct list_words words = {"weights: balanced", "weights"};
	struct list_shelf *shelf = count->shelf;
	struct list *list;
	int result = list_new(shelf, &words, LIST_BALANCED, count->places->count,
		sizeof(alias_cell), &list, count->fault);
	if (result)
		return result;
	list->hash = hash;
	result = weigh_make(count, list->memory);
	if (result) {
		list_free(shelf, list);
		return result;
	}
	*ret = list_put(shelf, list);
	return 0;
}

int weigh_balance(struct list_shelf *shelf, const struct class_places *places,
	progress_fn *progress, void *progress_context, struct list **ret, struct fault *fault)
{
	static const struct list_words words = {"weights: balanced", "weights"};
	uint64_t hash = hash_u64(dataset_fingerprint(places->dataset), places->hash);
	int result = weigh_check(places, fault);
	if (!result)
		result = weigh_too_many(&words, places->count, fault);
	if (result)
		return result;
	struct class_count count = {.shelf = shelf,
		.places = places,
		.origin = words.origin,
		.instead = "write a file of weights instead",
		.progress = progress,
		.progress_context = progress_context,
		.fault = fault};
	result = class_count_begin(&count);
	if (result)
		return result;
	*ret = list_find(shelf, LIST_BALANCED, places->count, hash);
	if (!*ret)
		result = weigh_new(&count, hash, ret);
	class_count_end(&count);
	return result;
}
