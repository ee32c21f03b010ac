/* labels: see labels.h. */
#include "labels/labels.h"

#include "base/hash.h"
#include "base/util.h"
#include "labels/label_json.h"

#include <errno.h>
#include <string.h>

struct labels {
	const struct label_rule *rule;
	struct label_classes classes; /* from the file of the rule */
	struct label_path path;
	struct manifest manifest;
	uint64_t hash;
};

static uint64_t labels_compute_hash(const struct labels *labels)
{
	const struct label_rule *rule = labels->rule;
	uint64_t h = hash_bytes(HASH_SEED, "labels 1", 8);
	h = hash_u64(hash_u64(h, rule->from), rule->type);
	h = hash_bytes(h, rule->json, strlen(rule->json) + 1);
	h = hash_u64(h, labels->classes.count ? classes_hash(&labels->classes) : 0);
	if (rule->only)
		h = hash_bytes(h, "only", 4);
	h = hash_mix(hash_u64(h, labels->manifest.hash));
	return h ? h : 1;
}

static int labels_check(const struct labels *labels, struct fault *fault)
{
	const struct label_rule *rule = labels->rule;
	if (rule->type != LABEL_TYPE_AUTO && rule->from <= DATASET_LABELS_JSON)
		return fault_set(fault, -EINVAL,
			"labels: type needs json or manifest beside it: labels from elsewhere are "
			"always one class");
	if (labels_type(labels) == LABEL_TYPE_FLOAT && rule->classes[0])
		return fault_set(fault, -EINVAL,
			"labels: the labels are numbers, which have no classes: remove classes");
	return 0;
}

static int labels_read(struct labels *labels, const char *root, struct fault *fault)
{
	const struct label_rule *rule = labels->rule;
	int rc = 0;
	if (rule->classes[0])
		rc = classes_load(&labels->classes, rule->classes, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "labels: classes");
	if (rule->from == DATASET_LABELS_PATH)
		rc = label_path_parse(rule->json, &labels->path, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "labels: json");
	if (rule->from == DATASET_LABELS_MANIFEST)
		rc = manifest_open(&labels->manifest, rule->manifest, root, rule->type,
			&labels->classes, fault);
	return rc < 0 ? rc : labels_check(labels, fault);
}

int labels_open(const struct label_rule *rule, progress_fn *progress, void *progress_context,
	const char *root, struct labels **ret, struct fault *fault)
{
	struct labels *labels = calloc(1, sizeof *labels);
	if (!labels)
		return fault_set(fault, -ENOMEM, "no memory for labels");
	labels->rule = rule;
	labels->manifest.progress = progress;
	labels->manifest.progress_context = progress_context;
	labels->manifest.only = rule->only;
	int rc = labels_read(labels, root, fault);
	if (rc < 0) {
		labels_free(labels);
		return rc;
	}
	labels->hash = labels_compute_hash(labels);
	*ret = labels;
	return 0;
}

void labels_free(struct labels *labels)
{
	if (!labels)
		return;
	manifest_close(&labels->manifest);
	classes_deinit(&labels->classes);
	free(labels);
}

uint64_t labels_hash(const struct labels *labels)
{
	return labels->hash;
}

uint64_t labels_index_hash(const struct labels *labels)
{
	return labels->rule->from <= DATASET_LABELS_JSON ? 0 : labels->hash;
}

enum label_type labels_type(const struct labels *labels)
{
	if (labels->rule->from == DATASET_LABELS_MANIFEST)
		return labels->manifest.type;
	return labels->rule->from == DATASET_LABELS_PATH ? labels->rule->type : LABEL_TYPE_CLASS;
}

const struct label_classes *labels_classes(const struct labels *labels)
{
	return labels->classes.count ? &labels->classes : &labels->manifest.names;
}

struct manifest *labels_manifest(struct labels *labels)
{
	return labels->rule->from == DATASET_LABELS_MANIFEST ? &labels->manifest : NULL;
}

const struct label_rule *labels_rule(const struct labels *labels)
{
	return labels->rule;
}

int labels_prepare(struct labels *labels, const char *folder, struct fault *fault)
{
	struct manifest *manifest = labels_manifest(labels);
	return manifest ? manifest_prepare(manifest, folder, fault) : 0;
}

int labels_unchanged(struct labels *labels, struct fault *fault)
{
	struct manifest *manifest = labels_manifest(labels);
	return manifest ? manifest_unchanged(manifest, fault) : 0;
}

int labels_from_json(const struct labels *labels, const char *text, size_t size,
	enum label_type asked, struct label_found *ret, struct fault *fault)
{
	json_t *root = label_json(text, size, LABEL_JSON_PARTS, fault);
	if (!root)
		return -EINVAL;
	const json_t *value = label_path_find(&labels->path, root, fault);
	int rc = -EINVAL;
	if (value) {
		rc = label_from_value(value, asked, &labels->classes, ret, fault);
		if (rc < 0)
			rc = fault_prefix(fault, rc, "\"%.200s\"", labels->rule->json);
	}
	json_decref(root);
	return rc;
}
