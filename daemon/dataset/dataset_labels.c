/* dataset_labels: checks the labels of a rule once all indexes of a dataset exist: whether the
 * shards agree, whether each line of the manifest was used once, how wide a row is, and how the
 * classes are called. Part of dataset_open; one thread, blocks. */
#include "dataset/dataset_impl.h"

#include "base/hash.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

/* Writes the path of a shard's first sample. */
static void shard_example(const struct dataset *dataset, uint32_t number, char *buffer, size_t room)
{
	char path[8192];
	const struct dataset_shard *shard = &dataset->shard[number];
	bool found = dataset_path(dataset, shard->first, path, sizeof path, NULL) == 0;
	(void)snprintf(buffer, room, "%s", found ? path : shard->path);
}

static int fault_disagree(const struct dataset *dataset, const struct index_head *heads, uint32_t a,
	uint32_t b, struct fault *fault)
{
	static const char *const types[] = {
		"labels", "classes", "lists of classes", "rows of numbers", "rows of classes"};
	char one[256], other[256];
	shard_example(dataset, a, one, sizeof one);
	shard_example(dataset, b, other, sizeof other);
	if (heads[a].label_type != heads[b].label_type)
		return fault_set(fault, -EINVAL,
			"labels: %s and the samples after it have %s, but %s and the samples after "
			"it have %s: say which with type: class, multi_hot, float or classes",
			one, types[heads[a].label_type], other, types[heads[b].label_type]);
	return fault_set(fault, -EINVAL,
		"labels: %s and the samples after it have %u %s, but %s and the samples after it "
		"have %u: all samples need the same number",
		one, heads[a].label_width,
		heads[a].label_type == LABEL_TYPE_FLOAT ? "numbers" : "classes", other,
		heads[b].label_width);
}

/* Shards with samples must agree on what a label is; the widest one determines the width. */
static int widths_agree(struct dataset *dataset, const struct index_head *heads,
	uint32_t *ret_width, struct fault *fault)
{
	uint32_t first = 0;
	while (first < dataset->shards && !heads[first].samples)
		first++;
	for (uint32_t i = first; i < dataset->shards; i++) {
		if (!heads[i].samples)
			continue;
		bool wide = label_type_is_even(heads[i].label_type) &&
			    heads[i].label_width != heads[first].label_width;
		if (heads[i].label_type != heads[first].label_type || wide)
			return fault_disagree(dataset, heads, first, i, fault);
		*ret_width = UTIL_MAX(*ret_width, heads[i].label_width);
		dataset->label_type = heads[i].label_type;
	}
	return 0;
}

/* Finds the sample that uses a line a second time, or the line that no sample uses. */
static int lines_fault(
	const struct dataset *dataset, struct manifest *manifest, struct fault *fault)
{
	struct sample sample;
	char path[1024];
	uint64_t line;
	for (uint64_t i = 0; i < dataset->count; i++) {
		int rc = dataset_sample(dataset, i, &sample, fault);
		if (rc < 0)
			return rc;
		struct manifest_sample named = {.name = sample.name};
		if (dataset->container->key) {
			named.shard = dataset->shard[sample.shard].path;
			(void)dataset->container->key(sample.name, &named.key, &named.key_size);
		}
		rc = manifest_use(manifest, &named, fault);
		if (rc == MANIFEST_AGAIN)
			return fault_set(fault, -EINVAL,
				"labels: %s%s%s is the second sample that one line of %s names: "
				"write SHARD!MEMBER into the lines of both",
				dataset->shard[sample.shard].path, dataset->container->joint,
				sample.name, manifest->path);
		if (rc < 0)
			return rc;
	}
	int rc = manifest_unused(manifest, &line, path, sizeof path, fault);
	if (rc <= 0)
		return rc < 0 ? rc
			      : fault_set(fault, -EIO,
					"labels: the indexes of %s do not match %s: delete them, "
					"they will be built again",
					dataset->shard[0].path, manifest->path);
	return fault_set(fault, -EINVAL,
		"%s:%llu: \"%.400s\" does not name a sample of %s: expected %s; remove the line, "
		"or correct the path%s",
		manifest->path, (unsigned long long)line, path, dataset->shard[0].path,
		dataset->container->naming,
		line == 1 ? " (if it is a header, its first word must be path)" : "");
}

/* Each line of the manifest must be used once. The sums show that without reading the lines. */
static int lines_check(const struct dataset *dataset, const struct index_head *heads,
	struct labels *labels, const char *cache, struct fault *fault)
{
	struct manifest *manifest = labels ? labels_manifest(labels) : NULL;
	uint64_t lines = 0;
	for (uint32_t i = 0; i < dataset->shards; i++)
		lines += heads[i].lines;
	if (!manifest || (lines == manifest->sum && manifest->lines == dataset->count))
		return 0;
	int rc = labels_prepare(labels, cache, fault);
	return rc < 0 ? rc : lines_fault(dataset, manifest, fault);
}

static int names_take(struct dataset *dataset, const struct label_classes *classes)
{
	dataset->class_names = calloc((size_t)classes->count + 1, sizeof *dataset->class_names);
	if (!dataset->class_names)
		return -ENOMEM;
	for (; dataset->classes < classes->count; dataset->classes++) {
		char *name = strdup(classes->name[dataset->classes]);
		if (!name)
			return -ENOMEM;
		dataset->class_names[dataset->classes] = name;
	}
	return 0;
}

/* Gives the dataset the names of its classes; all labels must be below their number. */
static int classes_settle(
	struct dataset *dataset, const struct labels *labels, uint32_t width, struct fault *fault)
{
	const struct label_classes *classes = labels_classes(labels);
	const char *file = labels_rule(labels)->classes, *source = dataset->shard[0].path;
	const bool column = dataset_label_source(dataset) == DATASET_LABELS_COLUMN;
	if (!classes->count || dataset->label_type == LABEL_TYPE_FLOAT)
		return 0;
	if (dataset->classes)
		return fault_set(fault, -EINVAL,
			"labels: %s has %s, which name%s its classes: remove classes, or write a "
			"manifest",
			source, column ? "a list of classes" : "class folders", column ? "s" : "");
	if (!dataset->labelled)
		return fault_set(fault, -EINVAL,
			"labels: the samples of %s have no labels that %s could name", source,
			file);
	/* Each class of CLASSES was compared when it was read; the width is how many there are. */
	if (width > classes->count && dataset->label_type != LABEL_TYPE_CLASSES)
		return fault_set(fault, -EINVAL,
			"labels: the samples have classes up to %u, but %s has only %u names",
			width - 1, file, classes->count);
	for (uint32_t i = 0; i < dataset->shards; i++)
		dataset->shard[i].classes = classes->count;
	return names_take(dataset, classes) < 0
		       ? fault_set(fault, -ENOMEM, "no memory for class names")
		       : 0;
}

/* The container's own class names: all labels must be below their number. */
static int names_suffice(const struct dataset *dataset, uint32_t width, struct fault *fault)
{
	const bool classes = dataset->label_type == LABEL_TYPE_CLASS ||
			     dataset->label_type == LABEL_TYPE_MULTI_HOT;
	if (dataset_label_source(dataset) != DATASET_LABELS_COLUMN || !dataset->classes ||
		!classes || width <= dataset->classes)
		return 0;
	return fault_set(fault, -EINVAL,
		"labels: the samples of %s have classes up to %u, but it names only %u classes: "
		"the file is damaged, or label_offset is wrong",
		dataset->shard[0].path, width - 1, dataset->classes);
}

int dataset_labels_settle(struct dataset *dataset, const struct index_head *heads,
	struct labels *labels, const char *cache, struct fault *fault)
{
	uint32_t width = 0;
	int rc = widths_agree(dataset, heads, &width, fault);
	if (rc == 0)
		rc = lines_check(dataset, heads, labels, cache, fault);
	if (rc == 0)
		rc = names_suffice(dataset, width, fault);
	if (rc == 0 && labels)
		rc = classes_settle(dataset, labels, width, fault);
	if (rc < 0 || dataset->label_type == LABEL_TYPE_CLASS)
		return rc;
	if (dataset->label_type == LABEL_TYPE_MULTI_HOT && dataset->classes)
		width = dataset->classes;
	if (width == 0 || width > LABEL_WIDTH_MAX)
		return fault_set(fault, -EINVAL,
			"labels: each sample has a row of %u values: expected 1 to %d%s", width,
			LABEL_WIDTH_MAX,
			width ? ""
			      : "; no sample has a class: name the classes with classes: FILE");
	dataset->label_width = width;
	/* The shape of a row is part of a batch, so it is part of the fingerprint. */
	uint64_t shape = (uint64_t)dataset->label_type << 32 | width;
	dataset->fingerprint = hash_mix(hash_u64(dataset->fingerprint, shape));
	for (uint32_t i = 0; i < dataset->earlier_count; i++)
		dataset->earlier[i] = hash_mix(hash_u64(dataset->earlier[i], shape));
	return 0;
}
