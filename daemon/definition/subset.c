/* subset: see subset.h. */
#include "definition/subset.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subset_look {
	uint64_t hash, highest;
};

static int subset_look(void *context, struct list_file *file, uint64_t first, size_t count)
{
	struct subset_look *look = context;
	const uint64_t *value = file->value.number;
	look->hash = list_hash(look->hash, value, count);
	for (size_t i = 0; i < count; i++) {
		if (file->npy.is_signed && value[i] >> 63)
			return fault_set(file->fault, -EINVAL,
				"indices: %s: [%" PRIu64 "] is %" PRId64
				": expected the numbers of samples, from 0 to one less than the "
				"dataset has",
				file->path, first + i, (int64_t)value[i]);
		look->highest = UTIL_MAX(look->highest, value[i]);
	}
	return 0;
}

static uint32_t subset_width(uint64_t highest)
{
	return highest <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t);
}

static bool subset_is_wide(const struct list *list)
{
	return list->bytes / list->count == sizeof(uint64_t);
}

struct subset_keep {
	struct list *list;
	uint64_t hash;
};

static int subset_keep(void *context, struct list_file *file, uint64_t first, size_t count)
{
	struct subset_keep *keep = context;
	const uint64_t *value = file->value.number;
	uint32_t *narrow = keep->list->memory;
	uint64_t *wide = keep->list->memory;
	keep->hash = list_hash(keep->hash, value, count);
	if (subset_is_wide(keep->list))
		memcpy(wide + first, value, count * sizeof *wide);
	else
		for (size_t i = 0; i < count; i++)
			narrow[first + i] = (uint32_t)value[i];
	return 0;
}

/* The second pass must read the same values as the first. */
static int subset_load(struct list_shelf *shelf, struct list_file *file,
	const struct list_words *words, const struct subset_look *look, struct list **ret)
{
	struct subset_keep keep = {0};
	int result = list_new(shelf, words, LIST_INDICES, file->npy.count,
		subset_width(look->highest), &keep.list, file->fault);
	if (result)
		return result;
	keep.list->hash = look->hash;
	result = list_file_walk(file, subset_keep, &keep);
	if (!result && keep.hash != look->hash)
		result = list_file_changed(file);
	if (result) {
		list_free(shelf, keep.list);
		return result;
	}
	*ret = list_put(shelf, keep.list);
	return 0;
}

static int subset_read(struct list_shelf *shelf, struct list_file *file, struct list **ret)
{
	struct subset_look look = {0};
	char origin[4200];
	const struct list_words words = {origin, "numbers"};
	(void)snprintf(origin, sizeof origin, "indices: %s", file->path);
	int result = list_file_open(file);
	/* Refuse a list that exceeds the whole budget before reading its numbers. */
	if (!result)
		result = list_hopeless(
			shelf, &words, file->npy.count, sizeof(uint32_t), file->fault);
	if (!result)
		result = list_file_walk(file, subset_look, &look);
	if (result)
		return result;
	*ret = list_find(shelf, LIST_INDICES, file->npy.count, look.hash);
	return *ret ? 0 : subset_load(shelf, file, &words, &look, ret);
}

int subset_open(struct list_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct list **ret, struct fault *fault)
{
	struct list_file *file = malloc(sizeof *file);
	if (!file)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	file->key = "indices";
	file->path = path;
	file->kind = NPY_INTEGERS;
	file->cancel = cancel;
	file->fault = fault;
	int result = subset_read(shelf, file, ret);
	list_file_close(file);
	free(file);
	return result;
}

struct order_subset subset_numbers(const struct list *list)
{
	if (subset_is_wide(list))
		return (struct order_subset){.wide = list->memory};
	return (struct order_subset){.narrow = list->memory};
}

int subset_fits(const struct list *list, const char *path, uint64_t samples, struct fault *fault)
{
	const struct order_subset numbers = subset_numbers(list);
	for (uint64_t place = 0; place < list->count; place++) {
		uint64_t number = numbers.narrow ? numbers.narrow[place] : numbers.wide[place];
		if (number >= samples)
			return fault_set(fault, -EINVAL,
				"indices: %s: [%" PRIu64 "] is %" PRIu64
				", but the dataset has %" PRIu64
				" samples: expected numbers from 0 to %" PRIu64,
				path, place, number, samples, samples - 1);
	}
	return 0;
}
