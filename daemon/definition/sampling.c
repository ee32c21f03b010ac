/* sampling: see sampling.h. */
#include "definition/sampling.h"

#include "base/hash.h"
#include "base/util.h"
#include "definition/class_table.h"
#include "definition/shuffle/places.h"
#include "definition/subset.h"
#include "definition/weigh.h"
#include "order/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the list of sources ---- */

struct sampling_item {
	char source[SAMPLING_TEXT];
	double weight;
};

#define SAMPLING_FIELD(member) .offset = offsetof(struct sampling_item, member)

static const struct yaml_key sampling_keys[] = {
	{"source", YAML_KEY_STRING, SAMPLING_FIELD(source), .room = SAMPLING_TEXT, .min = 1},
	{"weight", YAML_KEY_DOUBLE, SAMPLING_FIELD(weight), .low = 0, .high = 1e12},
};

/* Appends a name to the text, with its terminating zero. */
static bool sampling_keep(struct sampling_sources *sources, const char *name)
{
	size_t size = strlen(name) + 1, at = 0;
	uint32_t last = sources->count;
	if (last)
		at = sources->at[last - 1] + strlen(sampling_source(sources, last - 1)) + 1;
	if (size > sizeof sources->text - at)
		return false;
	memcpy(sources->text + at, name, size);
	sources->at[sources->count++] = (uint16_t)at;
	return true;
}

static int sampling_read_item(const struct yaml_text *text, const yaml_node_t *node,
	struct sampling_sources *sources, struct fault *fault)
{
	struct sampling_item item = {.weight = 1};
	uint64_t given = 0;
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"sources: expected {source: PATH, weight: NUMBER} for each");
	int result = yaml_read(
		text, node, sampling_keys, UTIL_COUNT(sampling_keys), &item, &given, fault);
	if (result)
		return result;
	if (!(given & 1))
		return yaml_fault(text, node, fault,
			"sources: source is missing; expected a folder, a tar, a glob or a brace "
			"range of tars");
	if (strncmp(item.source, "stream:", 7) == 0)
		return yaml_fault(text, node, fault,
			"sources: %.200s: expected datasets, not streams of a configuration",
			item.source);
	if (item.weight <= 0)
		return yaml_fault(text, node, fault,
			"sources: weight: expected a number above 0; leave the source out instead");
	sources->weight[sources->count] = item.weight;
	if (!sampling_keep(sources, item.source))
		return yaml_fault(text, node, fault,
			"sources: their paths are longer than %d bytes together",
			SAMPLING_SOURCES_TEXT);
	return 0;
}

int sampling_read_sources(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct sampling_sources sources = {0};
	uint32_t none;
	int result = 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(text, node, fault,
			"sources: expected a list of {source: PATH, weight: NUMBER}");
	const yaml_node_item_t *items = node->data.sequence.items.start;
	int64_t count = node->data.sequence.items.top - items;
	if (count < 2 || count > SAMPLER_PARTS)
		return yaml_fault(text, node, fault,
			"sources: expected 2 to %d of them, got %" PRId64 "%s", SAMPLER_PARTS,
			count,
			count == 1 ? ": write it as source"
			: count ? ": tars that weigh alike are one of them, as a glob or a brace "
				  "range"
				: "");
	for (int64_t i = 0; !result && i < count; i++)
		result = sampling_read_item(text, yaml_node(text, items[i]), &sources, fault);
	if (result)
		return result;
	if (!sampler_quotas(sources.weight, sources.count, sources.quota, &none))
		return yaml_fault(text, yaml_node(text, items[none]), fault,
			"sources: weight %g is so small beside the others that none of %d samples "
			"would be of %.200s: expected at least a %dth of their sum",
			sources.weight[none], SAMPLER_BLOCK, sampling_source(&sources, none),
			SAMPLER_BLOCK);
	*(struct sampling_sources *)field = sources;
	return 0;
}

const char *sampling_source(const struct sampling_sources *sources, uint32_t part)
{
	return sources->text + sources->at[part];
}

bool sampling_sources_equal(const struct sampling_sources *a, const struct sampling_sources *b)
{
	bool equal = a->count == b->count;
	for (uint32_t i = 0; equal && i < a->count; i++)
		equal = a->quota[i] == b->quota[i] &&
			strcmp(sampling_source(a, i), sampling_source(b, i)) == 0;
	return equal;
}

void sampling_json_sources(
	struct jsontext *json, const char *key, const struct sampling_sources *sources)
{
	jsontext_array(json, key);
	for (uint32_t i = 0; i < sources->count; i++) {
		jsontext_object(json, NULL);
		jsontext_string(json, "source", sampling_source(sources, i));
		jsontext_shortest(json, "weight", sources->weight[i]);
		jsontext_end(json);
	}
	jsontext_end(json);
}

void sampling_say_sources(const struct sampling_sources *sources, char *buffer, size_t room)
{
	size_t at = 0;
	for (uint32_t i = 0; i < sources->count && at < room; i++)
		at += (size_t)snprintf(buffer + at, room - at, "%s%s (%.3g %%)", i ? ", " : "",
			sampling_source(sources, i), 100.0 * sources->quota[i] / SAMPLER_BLOCK);
}

/* ---- classes and samples of each ---- */

#define PER_CLASS_FIELD(member) .offset = offsetof(struct sampling_per_class, member)

static const struct yaml_key per_class_keys[] = {
	{"classes", YAML_KEY_U32, PER_CLASS_FIELD(classes), .min = 1,
		.max = SAMPLING_PER_CLASS_MOST},
	{"per_class", YAML_KEY_U32, PER_CLASS_FIELD(each), .min = 1,
		.max = SAMPLING_PER_CLASS_MOST},
};

static int sampling_read_mapping(const struct yaml_text *text, const yaml_node_t *node,
	struct sampling_per_class *ret, struct fault *fault)
{
	static const char form[] = "{classes: 16, per_class: 4}";
	struct sampling_per_class per_class = {0};
	uint64_t given = 0;
	struct yaml_text inner = *text;
	inner.within = "sampling";
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"sampling: expected a mapping with both keys, such as %s", form);
	int result = yaml_read(&inner, node, per_class_keys, UTIL_COUNT(per_class_keys), &per_class,
		&given, fault);
	if (result)
		return result;
	for (size_t i = 0; i < UTIL_COUNT(per_class_keys); i++)
		if (!(given >> i & 1))
			return yaml_fault(text, node, fault,
				"sampling: %s is missing: expected both keys, such as %s",
				per_class_keys[i].name, form);
	*ret = per_class;
	return 0;
}

int sampling_read_per_class(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	size_t size = 0;
	const char *value = yaml_scalar(node, &size);
	cleanup(yaml_text) struct yaml_text inner = {0};
	struct fault where;
	if (!value || value[0] != '{')
		return sampling_read_mapping(text, node, field, fault);
	/* A mapping that is written as a quoted text. */
	(void)yaml_fault(text, node, &where, "sampling");
	int result = yaml_load(&inner, value, size, where.text, fault);
	return result < 0 ? result : sampling_read_mapping(&inner, inner.root, field, fault);
}

void sampling_json_per_class(
	struct jsontext *json, const char *key, const struct sampling_per_class *per_class)
{
	jsontext_object(json, key);
	jsontext_u64(json, "classes", per_class->classes);
	jsontext_u64(json, "per_class", per_class->each);
	jsontext_end(json);
}

uint64_t sampling_block(const struct sampling *sampling)
{
	const struct sampling_per_class *per_class = &sampling->per_class;
	return per_class->classes ? (uint64_t)per_class->classes * per_class->each : 1;
}

uint64_t sampling_hash(const struct sampling *sampling, uint64_t h)
{
	const uint64_t before = h;
	struct split split;
	if (sampling->weights[0]) {
		h = hash_bytes(h, "weights", 7);
		if (!weigh_is_balanced(sampling->weights))
			h = hash_u64(hash_u64(h, sampling->weighed.count), sampling->weighed.hash);
	}
	if (sampling->epoch_length)
		h = hash_u64(hash_bytes(h, "length", 6), sampling->epoch_length);
	if (sampling->repeats > 1)
		h = hash_u64(hash_bytes(h, "repeats", 7), sampling->repeats);
	if (sampling->per_class.classes)
		h = hash_u64(hash_u64(hash_bytes(h, "per class", 9), sampling->per_class.classes),
			sampling->per_class.each);
	if (sampling->split[0] && split_parse(sampling->split, &split, NULL) == 0 && split.part)
		h = hash_u64(h, split_hash(&split));
	for (uint32_t i = 0; i < sampling->sources.count; i++)
		h = hash_u64(hash_bytes(h, "source", 6), sampling->sources.quota[i]);
	return h == before ? h : hash_mix(h);
}

/* ---- lists ---- */

static uint64_t sampling_list_bytes(const struct list *list)
{
	return list ? list->bytes : 0;
}

uint64_t sampling_lists_bytes(const struct sampling_lists *lists)
{
	uint64_t bytes = sampling_list_bytes(lists->indices) + sampling_list_bytes(lists->weights) +
			 sampling_list_bytes(lists->classes) + sampling_list_bytes(lists->buckets);
	for (uint32_t i = 0; i < SAMPLER_PARTS; i++)
		bytes += sampling_list_bytes(lists->places[i]);
	return bytes;
}

void sampling_lists_close(struct list_shelf *shelf, struct sampling_lists *lists)
{
	list_close(shelf, lists->indices);
	list_close(shelf, lists->weights);
	list_close(shelf, lists->classes);
	list_close(shelf, lists->buckets);
	for (uint32_t i = 0; i < SAMPLER_PARTS; i++)
		list_close(shelf, lists->places[i]);
	*lists = (struct sampling_lists){0};
}

int sampling_lists_open(struct list_shelf *shelf, const char *indices, const char *weights,
	const atomic_bool *cancel, struct sampling_lists *ret, struct fault *fault)
{
	struct sampling_lists lists = {0};
	int result = 0;
	if (indices[0])
		result = subset_open(shelf, indices, cancel, &lists.indices, fault);
	if (!result && weights[0] && !weigh_is_balanced(weights))
		result = weigh_open(shelf, weights, cancel, &lists.weights, fault);
	if (result) {
		sampling_lists_close(shelf, &lists);
		return result;
	}
	*ret = lists;
	return 0;
}

/* ---- the sampler ---- */

static int sampling_place(const struct sampling *sampling, const struct sampling_order *given,
	const struct sampling_lists *lists, uint64_t samples, struct order *order,
	struct fault *fault)
{
	struct split split;
	order->samples = samples;
	if (lists->indices) {
		order->samples = lists->indices->count;
		order->subset = subset_numbers(lists->indices);
		return subset_fits(lists->indices, given->indices, samples, fault);
	}
	if (!sampling->split[0])
		return 0;
	int result = split_parse(sampling->split, &split, fault);
	if (result || !split.part)
		return result;
	order->subset.of = samples;
	return split_places(
		&split, sampling->split, samples, &order->subset.from, &order->samples, fault);
}

/* The blocks of a part: neighbors in storage, also those of a subset. */
static int sampling_block_places(const struct sampling_order *given, const struct dataset *dataset,
	struct list_shelf *shelf, struct sampling_lists *lists, struct order *order,
	struct fault *fault)
{
	struct list **places = &lists->places[order->part];
	if (!given->shuffle || !given->window)
		return 0;
	order->window = given->window;
	order->block = blocks_size(dataset_count(dataset), dataset_bytes(dataset));
	int result =
		places_open(shelf, order, lists->indices ? lists->indices->hash : 0, places, fault);
	if (!result && *places)
		order->subset = subset_numbers(*places);
	return result;
}

static uint64_t sampling_number(const void *context, uint64_t place)
{
	return order_pick(context, place);
}

/* The hash is 0 if all of the dataset is read. */
static uint64_t sampling_places_hash(const struct order *order, const struct sampling_lists *lists)
{
	uint64_t h = 0;
	if (lists->indices)
		h = hash_u64(hash_u64(HASH_SEED, lists->indices->count), lists->indices->hash);
	if (order->subset.of)
		h = hash_u64(hash_u64(HASH_SEED, order->subset.of), order->subset.from);
	return h;
}

static struct class_places sampling_places(
	const struct concat *parts, const struct order *order, const struct sampling_lists *lists)
{
	return (struct class_places){
		.dataset = parts->dataset[0],
		.count = order->samples,
		.hash = sampling_places_hash(order, lists),
		.number = sampling_number,
		.context = order,
	};
}

static int sampling_weigh(const struct sampling *sampling, const struct concat *parts,
	struct list_shelf *shelf, struct sampling_lists *lists, progress_fn *progress,
	void *progress_context, struct sampler *sampler, struct fault *fault)
{
	const struct order *order = &sampler->order[0];
	int result;
	if (weigh_is_balanced(sampling->weights)) {
		const struct class_places places = sampling_places(parts, order, lists);
		result = weigh_balance(
			shelf, &places, progress, progress_context, &lists->weights, fault);
	} else {
		result = weigh_fits(lists->weights, sampling->weights, order->samples, fault);
	}
	if (!result)
		sampler->weights = weigh_table(lists->weights);
	return result;
}

/* An epoch has whole blocks, at least one. */
static int sampling_classify(const struct sampling *sampling, const struct concat *parts,
	struct list_shelf *shelf, struct sampling_lists *lists, progress_fn *progress,
	void *progress_context, struct sampler *sampler, struct fault *fault)
{
	const struct per_class want = {
		.classes = sampling->per_class.classes, .each = sampling->per_class.each};
	const struct class_places places = sampling_places(parts, &sampler->order[0], lists);
	const uint64_t block = sampling_block(sampling);
	int result = class_table_open(
		shelf, &places, &want, progress, progress_context, &lists->classes, fault);
	if (result)
		return result;
	sampler->per_class = class_table_view(lists->classes, &want);
	sampler->length = UTIL_MAX(sampler->length - sampler->length % block, block);
	return 0;
}

int sampling_make(const struct sampling *sampling, const struct sampling_order *order,
	const struct concat *parts, struct list_shelf *shelf, struct sampling_lists *lists,
	progress_fn *progress, void *progress_context, struct sampler *ret, struct fault *fault)
{
	struct sampler sampler = {.repeats = sampling->repeats,
		.endless =
			sampling->epoch_length || parts->count > 1 || sampling->per_class.classes,
		.parts = parts->count};
	int result = 0;
	for (uint32_t i = 0; !result && i < parts->count; i++) {
		sampler.order[i] =
			(struct order){.seed = order->seed, .shuffle = order->shuffle, .part = i};
		result = sampling_place(sampling, order, lists, dataset_count(parts->dataset[i]),
			&sampler.order[i], fault);
		if (!result)
			result = sampling_block_places(
				order, parts->dataset[i], shelf, lists, &sampler.order[i], fault);
		sampler.quota[i] = sampling->sources.quota[i];
		sampler.length += sampler.order[i].samples;
	}
	if (!result && sampling->weights[0])
		result = sampling_weigh(
			sampling, parts, shelf, lists, progress, progress_context, &sampler, fault);
	if (!result && sampling->per_class.classes)
		result = sampling_classify(
			sampling, parts, shelf, lists, progress, progress_context, &sampler, fault);
	if (sampling->epoch_length)
		sampler.length = sampling->epoch_length;
	if (!result)
		*ret = sampler;
	return result;
}
