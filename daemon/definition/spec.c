/* spec: see spec.h.
 *
 * The functions that read, compare and print walk one table, so that none of them can forget a key.
 * Pure functions over the caller's text, for the event loop's thread and for tools. */
#include "definition/spec.h"

#include "base/text/yaml.h"
#include "base/util.h"
#include "dataset/field_keys.h"
#include "definition/buckets/divide.h"
#include "definition/label_keys.h"
#include "definition/spec_check.h"
#include "definition/spec_keys.h"
#include "definition/spec_state.h"
#include "definition/weigh.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SPEC_BIT(key) ((uint64_t)1 << (key))

const char *spec_word(const struct stream_spec *spec, enum spec_key key)
{
	return spec_keys[key]
		.names[*(const int *)(const void *)((const char *)spec + spec_keys[key].offset)];
}

/* ---- definition ---- */

void spec_init(struct stream_spec *ret)
{
	*ret = (struct stream_spec)SPEC_DEFAULT;
}

/* Other loaders take a list of numbers here, so the message says what to do instead. */
static int spec_check_weights(
	const struct yaml_text *text, const yaml_node_t *node, struct fault *fault)
{
	size_t size;
	const yaml_node_pair_t *pair = yaml_find(text, node, "weights");
	if (!pair || yaml_scalar(yaml_node(text, pair->value), &size))
		return 0;
	return yaml_fault(text, yaml_node(text, pair->value), fault,
		"weights: expected balanced, or the path of a .npy file with a number for each "
		"sample, as numpy.save writes it; weights of whole datasets belong to sources: "
		"[{source: PATH, weight: NUMBER}, ...]");
}

/* The node that a refusal points at. */
static const yaml_node_t *spec_place(
	const struct yaml_text *text, const yaml_node_t *node, const struct spec_wrong *wrong)
{
	if (wrong->key == SPEC_KEYS)
		return node;
	const yaml_node_pair_t *pair = yaml_find(text, node, spec_keys[wrong->key].name);
	if (!pair)
		return node;
	if (wrong->place == SPEC_AT_KEY)
		return yaml_node(text, pair->key);
	const yaml_node_t *value = yaml_node(text, pair->value);
	return wrong->place == SPEC_AT_VALUE ? value
					     : yaml_node(text, value->data.sequence.items.top[-1]);
}

static int spec_read(const struct yaml_text *text, const yaml_node_t *node, struct stream_spec *ret,
	struct fault *fault)
{
	struct stream_spec spec = SPEC_DEFAULT;
	struct spec_wrong wrong;
	int result = spec_check_weights(text, node, fault);
	if (!result)
		result = yaml_read(text, node, spec_keys, SPEC_KEYS, &spec, &spec.given, fault);
	if (result < 0)
		return result;
	if (spec_settle(&spec, &wrong) < 0)
		return yaml_fault(text, spec_place(text, node, &wrong), fault, "%s", wrong.text);
	*ret = spec;
	return 0;
}

int spec_parse(const char *text, size_t size, const char *origin, struct stream_spec *ret,
	struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, size, origin, fault);
	return result < 0 ? result : spec_read(&parsed, parsed.root, ret, fault);
}

int spec_parse_node(void *document, void *node, const char *origin, struct stream_spec *ret,
	struct fault *fault)
{
	/* A shallow copy: the caller keeps the document. */
	struct yaml_text text = {.document = *(yaml_document_t *)document, .origin = origin};
	return spec_read(&text, node, ret, fault);
}

/* Reads one size for all epochs. */
static int spec_set_size(
	const char *text, const char *origin, struct shape_sizes *ret, struct fault *fault)
{
	static const struct yaml_key key = {"", YAML_KEY_U32, .min = 1, .max = SHAPE_SIDE_MAX};
	*ret = (struct shape_sizes){.count = 1};
	uint32_t side = 0;
	int result = yaml_read_option(&key, text, origin, &side, fault);
	ret->at[0].size = pixel_square(side);
	return result;
}

static int spec_set_node(const struct yaml_key *key, const char *text, const char *origin,
	void *field, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, strlen(text), origin, fault);
	if (!result && !parsed.root)
		return fault_set(fault, -EINVAL, "%s: expected a value, got nothing", origin);
	return result < 0 ? result : key->read(&parsed, parsed.root, field, fault);
}

int spec_set(struct stream_spec *spec, enum spec_key at, const char *text, const char *origin,
	struct fault *fault)
{
	const struct yaml_key *key = &spec_keys[at];
	void *field = (char *)spec + key->offset;
	int result;
	if (at == SPEC_KEY_image_size && text[0] != '{' && text[0] != '[')
		result = spec_set_size(text, origin, field, fault);
	else if (at == SPEC_KEY_labels)
		result = label_keys_parse(text, origin, field, fault);
	else if (key->kind == YAML_KEY_NODE)
		result = spec_set_node(key, text, origin, field, fault);
	else
		result = yaml_read_option(key, text, origin, field, fault);
	if (!result && at == SPEC_KEY_views)
		spec->shape.views = spec->views.count;
	if (!result)
		spec->given |= SPEC_BIT(at);
	return result;
}

static size_t spec_key_bytes(const struct yaml_key *key)
{
	switch (key->kind) {
	case YAML_KEY_BOOL:
		return sizeof(bool);
	case YAML_KEY_U32:
	case YAML_KEY_I32:
		return sizeof(uint32_t);
	case YAML_KEY_ENUM:
		return sizeof(int);
	case YAML_KEY_NODE:
		return sizeof(struct spec_state);
	case YAML_KEY_NAME:
		return key->room;
	default:
		return sizeof(uint64_t);
	}
}

/* Whether a client wrote this key and may write it together with `stream:`. */
static bool spec_overlays(const struct stream_spec *spec, size_t key)
{
	return spec->given & SPEC_BIT(key) && key != SPEC_KEY_stream &&
	       spec_who[key].writer != SPEC_DEFINITION;
}

void spec_overlay(const struct stream_spec *named, struct stream_spec *spec)
{
	struct stream_spec merged = *named;
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (spec_overlays(spec, i)) {
			merged.given |= SPEC_BIT(i);
			memcpy((char *)&merged + spec_keys[i].offset,
				(const char *)spec + spec_keys[i].offset,
				spec_key_bytes(&spec_keys[i]));
		}
	*spec = merged;
}

/* Checks that the number of trainers to wait for can arrive. */
static int spec_check_wait(const struct stream_spec *spec, struct fault *fault)
{
	if (spec->wait_for > 1 && !spec->group[0] && !spec->name[0])
		return fault_set(fault, -EINVAL,
			"wait_for: %" PRIu32 " trainers cannot come to a stream without a group: "
			"have all of them name one group, or leave wait_for out",
			spec->wait_for);
	if (spec->share == SPEC_SHARE_SPLIT && spec->wait_for > spec->world_size)
		return fault_set(fault, -EINVAL,
			"wait_for: expected at most world_size, which is %" PRIu32 ", got %" PRIu32,
			spec->world_size, spec->wait_for);
	return 0;
}

int spec_check_share(const struct stream_spec *spec, struct fault *fault)
{
	bool ranked = spec->given & SPEC_BIT(SPEC_KEY_world_size);
	if (spec->share == SPEC_SHARE_SPLIT && !ranked)
		return fault_set(fault, -EINVAL,
			"share: split needs rank and world_size: a trainer gets the slice of its "
			"rank (libpenstock: set both, or share, which takes RANK and WORLD_SIZE)");
	if (spec->share != SPEC_SHARE_SPLIT && ranked)
		return fault_set(
			fault, -EINVAL, "rank and world_size say something only with share: split");
	return spec_check_wait(spec, fault);
}

bool spec_is_alone(const struct stream_spec *spec)
{
	return spec->share == SPEC_SHARE_SPLIT || (!spec->group[0] && !spec->name[0]);
}

bool spec_has_lists(const struct stream_spec *spec)
{
	const char *weights = spec->sampling.weights;
	return spec->indices[0] || (weights[0] && !weigh_is_balanced(weights));
}

void spec_note_lists(struct stream_spec *spec, const struct sampling_lists *lists)
{
	if (lists->indices)
		spec->subset = (struct spec_subset){lists->indices->count, lists->indices->hash};
	if (lists->buckets)
		spec->divided = (struct sampling_content){
			lists->buckets->count, divide_hash(lists->buckets)};
	if (lists->weights)
		spec->sampling.weighed =
			(struct sampling_content){lists->weights->count, lists->weights->hash};
}

void spec_note_sampler(struct stream_spec *spec, const struct sampler *sampler)
{
	spec->blocks_hash = shuffle_blocks_hash(sampler);
}

const char *spec_client_key(const struct stream_spec *spec)
{
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (spec->given & SPEC_BIT(i) && spec_who[i].writer == SPEC_CLIENT)
			return spec_keys[i].name;
	return NULL;
}

static bool spec_same_weights(const struct sampling *a, const struct sampling *b)
{
	bool file = a->weighed.count || b->weighed.count;
	return file ? a->weighed.count == b->weighed.count && a->weighed.hash == b->weighed.hash
		    : strcmp(a->weights, b->weights) == 0;
}

bool spec_same(const struct stream_spec *a, const struct stream_spec *b, const char **ret_what)
{
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (spec_who[i].alike == SPEC_SAME && !spec_keys_equal((enum spec_key)i, a, b)) {
			*ret_what = spec_keys[i].name;
			return false;
		}
	if (a->subset.count != b->subset.count || a->subset.hash != b->subset.hash) {
		*ret_what = spec_keys[SPEC_KEY_indices].name;
		return false;
	}
	if (spec_same_weights(&a->sampling, &b->sampling))
		return true;
	*ret_what = spec_keys[SPEC_KEY_weights].name;
	return false;
}

/* ---- JSON ---- */

static void spec_json_value(struct jsontext *json, const struct yaml_key *key, const void *field)
{
	switch (key->kind) {
	case YAML_KEY_BOOL:
		jsontext_bool(json, key->name, *(const bool *)field);
		break;
	case YAML_KEY_U32:
		jsontext_u64(json, key->name, *(const uint32_t *)field);
		break;
	case YAML_KEY_I32:
		jsontext_i64(json, key->name, *(const int32_t *)field);
		break;
	case YAML_KEY_U64:
		jsontext_u64(json, key->name, *(const uint64_t *)field);
		break;
	case YAML_KEY_DOUBLE:
		jsontext_shortest(json, key->name, *(const double *)field);
		break;
	case YAML_KEY_ENUM:
		jsontext_string(json, key->name, key->names[*(const int *)field]);
		break;
	case YAML_KEY_NODE:
		if (key->read == transforms_read)
			transforms_json(json, key->name, field);
		else if (key->read == views_read)
			views_json(json, key->name, field);
		else if (key->read == label_keys_read)
			label_keys_json(json, key->name, field);
		else if (key->read == field_keys_read)
			field_keys_json(json, key->name, field);
		else if (key->read == sampling_read_sources)
			sampling_json_sources(json, key->name, field);
		else if (key->read == sampling_read_per_class)
			sampling_json_per_class(json, key->name, field);
		else if (key->read == shuffle_read)
			shuffle_json(json, key->name, field);
		else if (key->read == bucket_keys_read)
			bucket_keys_json(json, key->name, field);
		else
			shape_json_channels(json, key->name, field);
		break;
	default:
		jsontext_string(json, key->name, field);
	}
}

/* Whether the printed definition has the key. A reference to a named stream prints only the keys
 * that were written; a definition prints all keys except the name. Both can be read back. */
static bool spec_printed(const struct stream_spec *spec, size_t key)
{
	if (key == SPEC_KEY_sources || key == SPEC_KEY_source)
		return (spec->sampling.sources.count > 0) == (key == SPEC_KEY_sources) &&
		       spec->source[0];
	if (key == SPEC_KEY_fields)
		return spec->fields.count;
	if (key == SPEC_KEY_label_offset)
		return spec->columns.label_offset;
	if (key == SPEC_KEY_epoch_length)
		return spec->sampling.epoch_length;
	if (key == SPEC_KEY_repeats)
		return spec->sampling.repeats > 1;
	if (key == SPEC_KEY_sampling)
		return spec->sampling.per_class.classes;
	if (key == SPEC_KEY_buckets)
		return spec->buckets.count;
	if (key == SPEC_KEY_window)
		return spec->shuffle == SHUFFLE_BLOCKS &&
		       (spec->source[0] || spec->given & SPEC_BIT(key));
	if (key == SPEC_KEY_image_size && spec->buckets.count)
		return false;
	if (key == SPEC_KEY_group || key == SPEC_KEY_indices || key == SPEC_KEY_split ||
		key == SPEC_KEY_weights || key == SPEC_KEY_salt || key == SPEC_KEY_image_column ||
		key == SPEC_KEY_label_column)
		return ((const char *)spec + spec_keys[key].offset)[0];
	if (key == SPEC_KEY_rank || key == SPEC_KEY_world_size)
		return spec->given & SPEC_BIT(SPEC_KEY_world_size);
	if (key == SPEC_KEY_mean || key == SPEC_KEY_std)
		return spec->shape.dtype != SHAPE_UINT8 &&
		       (spec->source[0] || spec->given & SPEC_BIT(key));
	/* Groups of views have them instead. */
	if (spec->views.groups && (key == SPEC_KEY_transforms || key == SPEC_KEY_interpolation ||
					  key == SPEC_KEY_image_size))
		return false;
	if (key == SPEC_KEY_transforms || key == SPEC_KEY_interpolation)
		return (spec->transforms.count > 0) == (key == SPEC_KEY_transforms) &&
		       (spec->source[0] || spec->given & SPEC_BIT(key));
	if (!spec->source[0])
		return spec->given & SPEC_BIT(key);
	/* A flag that is off by default is printed only when it is on, so that the text of
	 * definitions without it does not change. */
	if (spec_keys[key].kind == YAML_KEY_BOOL && !spec_who[key].plain)
		return *(const bool *)((const char *)spec + spec_keys[key].offset);
	return key != SPEC_KEY_stream;
}

char *spec_json(const struct stream_spec *spec)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	for (size_t i = 0; i < SPEC_KEY_state; i++) {
		if (!spec_printed(spec, i))
			continue;
		if (i == SPEC_KEY_image_size)
			shape_json_sizes(
				&json, spec_keys[i].name, &spec->shape.sizes, spec->image_size);
		else
			spec_json_value(
				&json, &spec_keys[i], (const char *)spec + spec_keys[i].offset);
	}
	if (spec->state.given)
		spec_state_json(&json, &spec->state);
	jsontext_end(&json);
	return json.text.failed ? NULL : json.text.bytes;
}
