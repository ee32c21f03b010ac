/* label_keys: see label_keys.h. */
#include "definition/label_keys.h"

#include "base/util.h"
#include "dataset/blob.h"

#include <errno.h>
#include <string.h>

static const char *const label_words[] = {
	[DATASET_LABELS_AUTO] = "auto",
	[DATASET_LABELS_NONE] = "none",
	[DATASET_LABELS_FOLDER] = "folder",
	[DATASET_LABELS_CLS] = "cls",
	[DATASET_LABELS_JSON] = "json",
	NULL,
};

static const char *const label_types[] = {
	[LABEL_TYPE_AUTO] = "auto",
	[LABEL_TYPE_CLASS] = "class",
	[LABEL_TYPE_MULTI_HOT] = "multi_hot",
	[LABEL_TYPE_FLOAT] = "float",
	[LABEL_TYPE_CLASSES] = "classes",
	NULL,
};

#define LABEL_FIELD(member) .offset = offsetof(struct label_rule, member)

static const struct yaml_key label_word_key = {
	"labels", YAML_KEY_ENUM, LABEL_FIELD(from), .names = label_words};

enum { LABEL_JSON, LABEL_MANIFEST, LABEL_TYPE, LABEL_CLASSES, LABEL_ONLY, LABEL_KEYS };

static const struct yaml_key label_keys[LABEL_KEYS] = {
	[LABEL_JSON] = {"json", YAML_KEY_STRING, LABEL_FIELD(json), .room = LABEL_RULE_TEXT,
		.min = 1},
	[LABEL_MANIFEST] = {"manifest", YAML_KEY_STRING, LABEL_FIELD(manifest),
		.room = LABEL_RULE_TEXT, .min = 1},
	[LABEL_TYPE] = {"type", YAML_KEY_ENUM, LABEL_FIELD(type), .names = label_types},
	[LABEL_CLASSES] = {"classes", YAML_KEY_STRING, LABEL_FIELD(classes),
		.room = LABEL_RULE_TEXT, .min = 1},
	[LABEL_ONLY] = {"only", YAML_KEY_BOOL, LABEL_FIELD(only)},
};

static int label_keys_check(const struct yaml_text *text, const yaml_node_t *node,
	const struct label_rule *rule, struct fault *fault)
{
	if (rule->json[0] && rule->manifest[0])
		return yaml_fault(text, node, fault,
			"labels: expected json or manifest, not both: labels come from one of "
			"them");
	if (!rule->json[0] && !rule->manifest[0] && !rule->classes[0])
		return yaml_fault(text, node, fault,
			"labels: expected one of auto, none, folder, cls, json, or a mapping with "
			"json, manifest or classes, such as {manifest: /data/labels.csv}");
	if (!rule->json[0] && !rule->manifest[0] && rule->type != LABEL_TYPE_AUTO)
		return yaml_fault(text, node, fault,
			"labels: type needs json or manifest beside it: other labels are one "
			"class");
	if (rule->only && !rule->manifest[0])
		return yaml_fault(text, node, fault,
			"labels: only needs manifest beside it: it leaves out the samples that the "
			"manifest does not name");
	return 0;
}

static int label_keys_mapping(const struct yaml_text *text, const yaml_node_t *node,
	struct label_rule *ret, struct fault *fault)
{
	struct yaml_text inner = *text;
	uint64_t given = 0;
	inner.within = "labels";
	struct label_rule rule = {.from = DATASET_LABELS_AUTO};
	int result = yaml_read(&inner, node, label_keys, LABEL_KEYS, &rule, &given, fault);
	if (!result)
		result = label_keys_check(text, node, &rule, fault);
	if (result < 0)
		return result;
	if (rule.json[0])
		rule.from = DATASET_LABELS_PATH;
	if (rule.manifest[0])
		rule.from = DATASET_LABELS_MANIFEST;
	*ret = rule;
	return 0;
}

/* Reads a mapping that is written as a quoted text. */
static int label_keys_text(const struct yaml_text *outer, const yaml_node_t *node,
	struct label_rule *ret, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	struct fault where;
	size_t size = 0;
	const char *value = yaml_scalar(node, &size);
	(void)yaml_fault(outer, node, &where, "labels");
	int result = yaml_load(&text, value, size, where.text, fault);
	return result < 0 ? result : label_keys_mapping(&text, text.root, ret, fault);
}

static int label_keys_node(const struct yaml_text *text, const yaml_node_t *node,
	struct label_rule *ret, struct fault *fault)
{
	size_t size = 0;
	const char *value = node ? yaml_scalar(node, &size) : NULL;
	if (node && node->type == YAML_MAPPING_NODE)
		return label_keys_mapping(text, node, ret, fault);
	if (value && value[0] == '{')
		return label_keys_text(text, node, ret, fault);
	struct label_rule rule = {.from = DATASET_LABELS_AUTO};
	if (!node)
		return yaml_fault(text, NULL, fault, "labels: it is empty");
	int result = yaml_read_value(text, node, &label_word_key, &rule.from, fault);
	if (result == -EINVAL && value)
		return yaml_fault(text, node, fault,
			"labels: expected auto, none, folder, cls or json, or a mapping such as "
			"{manifest: /data/labels.csv}; got \"%.64s\"",
			value);
	if (!result)
		*ret = rule;
	return result;
}

int label_keys_parse(
	const char *text, const char *origin, struct label_rule *ret, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, strlen(text), origin, fault);
	return result < 0 ? result : label_keys_node(&parsed, parsed.root, ret, fault);
}

int label_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct label_rule rule;
	int result = label_keys_node(text, node, &rule, fault);
	if (result < 0)
		return result;
	const char *paths[] = {rule.manifest, rule.classes};
	for (size_t i = 0; i < UTIL_COUNT(paths); i++) {
		if (blob_is_url(paths[i]))
			return yaml_fault(text, node, fault,
				"labels: %.200s is a URL, and this file is read from local files "
				"only: copy it to the machine of penstockd",
				paths[i]);
		if (paths[i][0] && paths[i][0] != '/')
			return yaml_fault(text, node, fault,
				"labels: expected an absolute path, found \"%.200s\": the daemon "
				"has a working directory of its own",
				paths[i]);
	}
	memcpy(field, &rule, sizeof rule);
	return 0;
}

void label_keys_json(struct jsontext *json, const char *key, const struct label_rule *rule)
{
	if (label_rule_plain(rule)) {
		jsontext_string(json, key, label_words[rule->from]);
		return;
	}
	jsontext_object(json, key);
	if (rule->json[0])
		jsontext_string(json, "json", rule->json);
	if (rule->manifest[0])
		jsontext_string(json, "manifest", rule->manifest);
	if (rule->type != LABEL_TYPE_AUTO)
		jsontext_string(json, "type", label_types[rule->type]);
	if (rule->classes[0])
		jsontext_string(json, "classes", rule->classes);
	if (rule->only)
		jsontext_bool(json, "only", true);
	jsontext_end(json);
}

bool label_keys_equal(const struct label_rule *a, const struct label_rule *b)
{
	return a->from == b->from && a->type == b->type && a->only == b->only &&
	       strcmp(a->json, b->json) == 0 && strcmp(a->manifest, b->manifest) == 0 &&
	       strcmp(a->classes, b->classes) == 0;
}
