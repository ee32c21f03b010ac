/* parts: see parts.h. */
#include "dataset/concat.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

void concat_add(struct concat *parts, const struct dataset *dataset)
{
	assert(parts->count < SAMPLER_PARTS);
	parts->dataset[parts->count] = dataset;
	parts->first[parts->count + 1] = parts->first[parts->count] + dataset_count(dataset);
	parts->count++;
}

uint64_t concat_samples(const struct concat *parts)
{
	return parts->first[parts->count];
}

uint64_t concat_fingerprint(const struct concat *parts)
{
	if (parts->count == 1)
		return dataset_fingerprint(parts->dataset[0]);
	uint64_t h = hash_u64(HASH_SEED, parts->count);
	for (uint32_t i = 0; i < parts->count; i++)
		h = hash_u64(h, dataset_fingerprint(parts->dataset[i]));
	return hash_mix(h);
}

struct sampler_pick concat_find(const struct concat *parts, uint64_t number)
{
	uint32_t part = 0;
	assert(number < concat_samples(parts));
	while (number >= parts->first[part + 1])
		part++;
	return (struct sampler_pick){part, number - parts->first[part]};
}

int concat_path(
	const struct concat *parts, uint64_t number, char *buffer, size_t room, struct fault *fault)
{
	if (number >= concat_samples(parts))
		return fault_set(fault, -EINVAL, "sample %" PRIu64 ": the dataset has %" PRIu64,
			number, concat_samples(parts));
	struct sampler_pick pick = concat_find(parts, number);
	return dataset_path(parts->dataset[pick.part], pick.number, buffer, room, fault);
}

#define PARTS_ADVICE                                                                            \
	"sources must agree on what a label is: give all of them the same class folders (or a " \
	"file of classes), or use labels: none"

/* The first class that one has and the other has not, or has elsewhere. */
static int parts_classes(const struct dataset *a, const struct dataset *b,
	const char *const source[2], struct fault *fault)
{
	uint32_t have = dataset_classes(a), other = dataset_classes(b);
	if (have != other)
		return fault_set(fault, -EINVAL,
			"sources: %.200s has %" PRIu32 " class names and %.200s has %" PRIu32
			": " PARTS_ADVICE,
			source[0], have, source[1], other);
	for (uint32_t i = 0; i < have; i++)
		if (strcmp(dataset_class_name(a, i), dataset_class_name(b, i)) != 0)
			return fault_set(fault, -EINVAL,
				"sources: class %" PRIu32
				" is \"%.60s\" in %.150s and \"%.60s\" in %.150s: " PARTS_ADVICE,
				i, dataset_class_name(a, i), source[0], dataset_class_name(b, i),
				source[1]);
	return 0;
}

static int parts_pair(const struct dataset *a, const struct dataset *b, const char *const source[2],
	struct fault *fault)
{
	bool labelled = dataset_labelled(a);
	if (labelled != dataset_labelled(b))
		return fault_set(fault, -EINVAL,
			"sources: %.200s has labels and %.200s has none: " PARTS_ADVICE,
			source[!labelled], source[labelled]);
	if (dataset_label_type(a) != dataset_label_type(b) ||
		dataset_label_width(a) != dataset_label_width(b))
		return fault_set(fault, -EINVAL,
			"sources: labels of %.200s have another type or another number of values "
			"(%" PRIu32 ") than those of %.200s (%" PRIu32 "): " PARTS_ADVICE,
			source[0], dataset_label_width(a), source[1], dataset_label_width(b));
	return parts_classes(a, b, source, fault);
}

int concat_agree(const struct concat *parts, const char *const *source, struct fault *fault)
{
	int result = 0;
	for (uint32_t i = 1; !result && i < parts->count; i++) {
		const char *const both[2] = {source[0], source[i]};
		result = parts_pair(parts->dataset[0], parts->dataset[i], both, fault);
	}
	return result;
}
