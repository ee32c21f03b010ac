/* concat: see concat.h. */
#include "dataset/concat.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

void concat_add(struct concat *concat, const struct dataset *dataset)
{
	assert(concat->count < SAMPLER_PARTS);
	concat->dataset[concat->count] = dataset;
	concat->first[concat->count + 1] = concat->first[concat->count] + dataset_count(dataset);
	concat->count++;
}

uint64_t concat_samples(const struct concat *concat)
{
	return concat->first[concat->count];
}

/* With `instead` in place of the fingerprint of dataset `part`. */
static uint64_t fingerprint_with(const struct concat *concat, uint32_t part, uint64_t instead)
{
	if (concat->count == 1)
		return instead;
	uint64_t h = hash_u64(HASH_SEED, concat->count);
	for (uint32_t i = 0; i < concat->count; i++)
		h = hash_u64(h, i == part ? instead : dataset_fingerprint(concat->dataset[i]));
	return hash_mix(h);
}

uint64_t concat_fingerprint(const struct concat *concat)
{
	return fingerprint_with(concat, 0, dataset_fingerprint(concat->dataset[0]));
}

uint64_t concat_earlier(const struct concat *concat, uint32_t i)
{
	for (uint32_t part = 0; part < concat->count; part++) {
		uint32_t count = 0;
		uint64_t was;
		for (; (was = dataset_earlier(concat->dataset[part], count)); count++)
			if (count == i)
				return fingerprint_with(concat, part, was);
		i -= count;
	}
	return 0;
}

bool concat_was(const struct concat *concat, uint64_t fingerprint)
{
	uint64_t was;
	if (fingerprint == concat_fingerprint(concat))
		return true;
	for (uint32_t i = 0; (was = concat_earlier(concat, i)); i++)
		if (was == fingerprint)
			return true;
	return false;
}

struct sampler_pick concat_find(const struct concat *concat, uint64_t number)
{
	uint32_t part = 0;
	assert(number < concat_samples(concat));
	while (number >= concat->first[part + 1])
		part++;
	return (struct sampler_pick){part, number - concat->first[part]};
}

int concat_path(const struct concat *concat, uint64_t number, char *buffer, size_t room,
	struct fault *fault)
{
	if (number >= concat_samples(concat))
		return fault_set(fault, -EINVAL,
			"sample %" PRIu64 " does not exist: the dataset has %" PRIu64, number,
			concat_samples(concat));
	struct sampler_pick pick = concat_find(concat, number);
	return dataset_path(concat->dataset[pick.part], pick.number, buffer, room, fault);
}

#define CONCAT_ADVICE                                                                             \
	"all sources must mean the same by a label: give them the same class folders (or a file " \
	"of classes), or use labels: none"

/* Finds the first class that only one of them has, or that has another number in the other one. */
static int classes_agree(const struct dataset *a, const struct dataset *b,
	const char *const source[2], struct fault *fault)
{
	uint32_t have = dataset_classes(a), other = dataset_classes(b);
	if (have != other)
		return fault_set(fault, -EINVAL,
			"sources: %.200s has %" PRIu32 " class names and %.200s has %" PRIu32
			": " CONCAT_ADVICE,
			source[0], have, source[1], other);
	for (uint32_t i = 0; i < have; i++)
		if (strcmp(dataset_class_name(a, i), dataset_class_name(b, i)) != 0)
			return fault_set(fault, -EINVAL,
				"sources: class %" PRIu32
				" is \"%.60s\" in %.150s and \"%.60s\" in %.150s: " CONCAT_ADVICE,
				i, dataset_class_name(a, i), source[0], dataset_class_name(b, i),
				source[1]);
	return 0;
}

static int datasets_agree(const struct dataset *a, const struct dataset *b,
	const char *const source[2], struct fault *fault)
{
	bool labelled = dataset_labelled(a);
	if (labelled != dataset_labelled(b))
		return fault_set(fault, -EINVAL,
			"sources: %.200s has labels and %.200s has none: " CONCAT_ADVICE,
			source[!labelled], source[labelled]);
	if (dataset_label_type(a) != dataset_label_type(b) ||
		dataset_label_width(a) != dataset_label_width(b))
		return fault_set(fault, -EINVAL,
			"sources: labels of %.200s have another type or another number of values "
			"(%" PRIu32 ") than those of %.200s (%" PRIu32 "): " CONCAT_ADVICE,
			source[0], dataset_label_width(a), source[1], dataset_label_width(b));
	return classes_agree(a, b, source, fault);
}

int concat_agree(const struct concat *concat, const char *const *source, struct fault *fault)
{
	int result = 0;
	for (uint32_t i = 1; !result && i < concat->count; i++) {
		const char *const both[2] = {source[0], source[i]};
		result = datasets_agree(concat->dataset[0], concat->dataset[i], both, fault);
	}
	return result;
}
