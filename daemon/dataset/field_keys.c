/* field_keys: see field_keys.h. */
#include "dataset/field_keys.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

#define FIELD_AT(member) .offset = offsetof(struct field_written, member)

enum { FIELD_KEY_NAME, FIELD_KEY_MAX, FIELD_KEY_LONG, FIELD_KEY_MISSING, FIELD_KEYS };

static const char *const field_longs[] = {"error", "cut", NULL};
static const char *const field_missings[] = {"error", "empty", NULL};

/* An entry as it is written. */
struct field_written {
	char name[2 * FIELD_NAME_MAX];
	uint32_t max;
	int longer, missing;
};

static const struct yaml_key field_keys[FIELD_KEYS] = {
	[FIELD_KEY_NAME] = {"name", YAML_KEY_STRING, FIELD_AT(name),
		.room = sizeof((struct field_written *)0)->name, .min = 1},
	[FIELD_KEY_MAX] = {"max", YAML_KEY_U32, FIELD_AT(max), .min = 1, .max = FIELD_BYTES_MAX},
	[FIELD_KEY_LONG] = {"long", YAML_KEY_ENUM, FIELD_AT(longer), .names = field_longs},
	[FIELD_KEY_MISSING] = {"missing", YAML_KEY_ENUM, FIELD_AT(missing),
		.names = field_missings},
};

static int field_read_written(const struct yaml_text *text, const yaml_node_t *node,
	struct field_written *ret, struct fault *fault)
{
	struct yaml_text inner = *text;
	uint64_t given = 0;
	inner.within = "fields";
	if (node->type == YAML_SCALAR_NODE)
		return yaml_read_value(&inner, node, &field_keys[FIELD_KEY_NAME], ret->name, fault);
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"fields: expected a name such as txt, or a mapping such as {name: npy, "
			"max: 4096, long: cut}");
	int result = yaml_read(&inner, node, field_keys, FIELD_KEYS, ret, &given, fault);
	if (!result && !(given >> FIELD_KEY_NAME & 1))
		result = yaml_fault(text, node, fault,
			"fields: name is missing; expected an extension, as in {name: txt}");
	return result;
}

static int field_read(const struct yaml_text *text, const yaml_node_t *node,
	struct field_list *list, struct fault *fault)
{
	struct field_written written = {.max = FIELD_BYTES_DEFAULT};
	int result = field_read_written(text, node, &written, fault);
	if (result < 0)
		return result;
	const char *expected = field_name_refused(written.name);
	if (expected)
		return yaml_fault(text, node, fault, "fields: expected %s, got \"%.64s\"", expected,
			written.name);
	if (list->count == FIELDS_MAX)
		return yaml_fault(text, node, fault, "fields: expected at most %d", FIELDS_MAX);
	for (uint32_t i = 0; i < list->count; i++)
		if (!strcmp(list->at[i].name, written.name))
			return yaml_fault(text, node, fault,
				"fields: \"%s\" is written twice; expected each name once",
				written.name);
	struct field *field = &list->at[list->count++];
	*field = (struct field){
		.max = written.max, .cut = written.longer == 1, .empty = written.missing == 1};
	memcpy(field->name, written.name, strlen(written.name) + 1);
	return 0;
}

int field_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct field_list list = {.count = 0};
	int result = 0;
	if (node->type != YAML_SEQUENCE_NODE) {
		result = field_read(text, node, &list, fault);
	} else {
		const yaml_node_item_t *item = node->data.sequence.items.start;
		for (; !result && item < node->data.sequence.items.top; item++)
			result = field_read(text, yaml_node(text, *item), &list, fault);
	}
	if (!result)
		memcpy(field, &list, sizeof list);
	return result;
}

int field_keys_parse(
	const char *text, const char *origin, struct field_list *ret, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, strlen(text), origin, fault);
	if (!result && !parsed.root)
		return fault_set(fault, -EINVAL, "%s: expected a value, got nothing", origin);
	return result < 0 ? result : field_keys_read(&parsed, parsed.root, ret, fault);
}

void field_keys_json(struct jsontext *json, const char *key, const struct field_list *list)
{
	jsontext_array(json, key);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct field *field = &list->at[i];
		jsontext_object(json, NULL);
		jsontext_string(json, "name", field->name);
		jsontext_u64(json, "max", field->max);
		jsontext_string(json, "long", field_longs[field->cut]);
		jsontext_string(json, "missing", field_missings[field->empty]);
		jsontext_end(json);
	}
	jsontext_end(json);
}
