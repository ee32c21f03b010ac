/* spec_state: the state that a definition may contain, as clients write it and the daemon reads it.
 * See spec.h. Pure functions over the caller's text. */
#include "definition/spec_state.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

enum { STATE_VERSION = 1 };

#define STATE_FIELD(member) .offset = offsetof(struct spec_state, member)

#define STATE_POSITION_MAX ((uint64_t)1 << 48)
#define STATE_GLOBAL_MAX ((uint64_t)1 << 32)

static int state_read_cut(const struct yaml_text *text, const yaml_node_t *node,
	struct buckets_cut *ret, struct fault *fault)
{
	static const struct yaml_key keys[] = {
		{"cuts: position", YAML_KEY_U64, .max = STATE_POSITION_MAX},
		{"cuts: global batch", YAML_KEY_U64, .min = 1, .max = STATE_GLOBAL_MAX},
	};
	uint64_t *const values[] = {&ret->position, &ret->global};
	const yaml_node_item_t *item =
		node->type == YAML_SEQUENCE_NODE ? node->data.sequence.items.start : NULL;
	int result = 0;
	if (!item || node->data.sequence.items.top - item != 2)
		return yaml_fault(text, node, fault,
			"cuts: expected [position, global batch] for each; the state was edited");
	for (int i = 0; !result && i < 2; i++)
		result =
			yaml_read_value(text, yaml_node(text, item[i]), &keys[i], values[i], fault);
	return result;
}

static int state_read_cuts(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct buckets_cuts cuts = {.count = 0};
	const yaml_node_item_t *item =
		node->type == YAML_SEQUENCE_NODE ? node->data.sequence.items.start : NULL;
	int64_t count = item ? node->data.sequence.items.top - item : 0;
	int result = 0;
	if (count < 1 || count > BUCKETS_CUTS)
		return yaml_fault(text, node, fault,
			"cuts: expected a list of 1 to %d cuts; the state was edited",
			BUCKETS_CUTS);
	for (; !result && cuts.count < count; cuts.count++)
		result = state_read_cut(
			text, yaml_node(text, item[cuts.count]), &cuts.at[cuts.count], fault);
	if (!result)
		*(struct buckets_cuts *)field = cuts;
	return result;
}

/* The version is checked first, because another version may have other keys. */
static const struct yaml_key state_keys[] = {
	{"version", YAML_KEY_U32, STATE_FIELD(version), .max = UINT32_MAX},
	{"fingerprint", YAML_KEY_HEX64, STATE_FIELD(fingerprint)},
	{"order", YAML_KEY_HEX64, STATE_FIELD(order)},
	{"transform", YAML_KEY_HEX64, STATE_FIELD(transform)},
	{"seed", YAML_KEY_U64, STATE_FIELD(seed), .max = UINT64_MAX},
	{"epoch", YAML_KEY_U64, STATE_FIELD(epoch), .max = UINT32_MAX},
	{"position", YAML_KEY_U64, STATE_FIELD(position), .max = STATE_POSITION_MAX},
	{"cuts", YAML_KEY_NODE, STATE_FIELD(cuts), .read = state_read_cuts},
};

/* The keys that every state has come first. */
enum { STATE_NEEDED = UTIL_COUNT(state_keys) - 1 };

static int state_check_version(
	const struct yaml_text *text, const yaml_node_t *node, struct fault *fault)
{
	const yaml_node_pair_t *pair = yaml_find(text, node, "version");
	uint32_t version;
	if (!pair)
		return yaml_fault(text, node, fault,
			"the state has no version; expected what penstock_stream_state wrote or "
			"state_dict() returned");
	const yaml_node_t *value = yaml_node(text, pair->value);
	int result = yaml_read_value(text, value, &state_keys[0], &version, fault);
	if (result < 0)
		return result;
	if (version != STATE_VERSION)
		return yaml_fault(text, value, fault,
			"the state has version %" PRIu32
			", of another release of penstock; this one reads version %d",
			version, STATE_VERSION);
	return 0;
}

static int state_read_mapping(const struct yaml_text *text, const yaml_node_t *node,
	struct spec_state *ret, struct fault *fault)
{
	struct spec_state state = {.given = true};
	uint64_t given = 0;
	if (!node)
		return yaml_fault(text, NULL, fault,
			"the state is empty; expected what penstock_stream_state wrote");
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"expected a state such as {\"version\": 1, ...}, as penstock_stream_state "
			"wrote it");
	int result = state_check_version(text, node, fault);
	if (!result)
		result = yaml_read(
			text, node, state_keys, UTIL_COUNT(state_keys), &state, &given, fault);
	if (result < 0)
		return result;
	for (size_t i = 0; i < STATE_NEEDED; i++)
		if (!(given >> i & 1))
			return yaml_fault(text, node, fault,
				"the state has no %s; it was cut or edited", state_keys[i].name);
	*ret = state;
	return 0;
}

/* Reads a state that is a quoted text inside the text, which a client passes on unread. Lines and
 * columns in messages count from the beginning of the inner text. */
static int state_read_text(const struct yaml_text *outer, const yaml_node_t *node,
	struct spec_state *ret, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	struct fault where;
	size_t size = 0;
	const char *value = yaml_scalar(node, &size);
	(void)yaml_fault(outer, node, &where, "state");
	int result = yaml_load(&text, value, size, where.text, fault);
	return result < 0 ? result : state_read_mapping(&text, text.root, ret, fault);
}

int spec_state_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct spec_state *state = field;
	if (node->type == YAML_SCALAR_NODE)
		return state_read_text(text, node, state, fault);
	return state_read_mapping(text, node, state, fault);
}

int spec_state_parse(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, size, origin, fault);
	return result < 0 ? result : state_read_mapping(&parsed, parsed.root, ret, fault);
}

/* Finds the state that a checkpoint keeps among other things; NULL if it has none, or several. */
static const yaml_node_t *state_within(const struct yaml_text *text, const yaml_node_t *node)
{
	const yaml_node_t *found = NULL;
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *value = yaml_node(text, pair->value);
		if (value->type != YAML_MAPPING_NODE || !yaml_find(text, value, "version") ||
			!yaml_find(text, value, "fingerprint"))
			continue;
		if (found)
			return NULL;
		found = value;
	}
	return found;
}

static const yaml_node_t *state_find(const struct yaml_text *text)
{
	const yaml_node_t *root = text->root, *within = NULL;
	if (root && root->type == YAML_MAPPING_NODE && !yaml_find(text, root, "fingerprint"))
		within = state_within(text, root);
	return within ? within : root;
}

int spec_state_parse_kept(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, size, origin, fault);
	return result < 0 ? result : state_read_mapping(&parsed, state_find(&parsed), ret, fault);
}

void spec_state_json_cuts(struct jsontext *json, const struct buckets_cuts *cuts)
{
	jsontext_array(json, "cuts");
	for (uint32_t i = 0; i < cuts->count; i++) {
		jsontext_array(json, NULL);
		jsontext_u64(json, NULL, cuts->at[i].position);
		jsontext_u64(json, NULL, cuts->at[i].global);
		jsontext_end(json);
	}
	jsontext_end(json);
}

void spec_state_json(struct jsontext *json, const struct spec_state *state)
{
	char hex[17];
	jsontext_object(json, "state");
	for (size_t i = 0; i < STATE_NEEDED; i++) {
		const struct yaml_key *key = &state_keys[i];
		const char *field = (const char *)state + key->offset;
		if (key->kind == YAML_KEY_U32) {
			jsontext_u64(json, key->name, *(const uint32_t *)(const void *)field);
		} else if (key->kind == YAML_KEY_U64) {
			jsontext_u64(json, key->name, *(const uint64_t *)(const void *)field);
		} else {
			(void)snprintf(hex, sizeof hex, "%016" PRIx64,
				*(const uint64_t *)(const void *)field);
			jsontext_string(json, key->name, hex);
		}
	}
	if (state->cuts.count)
		spec_state_json_cuts(json, &state->cuts);
	jsontext_end(json);
}
