/* transforms: see transforms.h. */
#include "stream/transforms.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSFORMS_SIDE_MAX = 2048 };

#define TRANSFORMS_BIT(kind) (UINT32_C(1) << (kind))

/* Parameters
 * -----------------------------------------------------------------------------------------------------
 */

/* [height, width] or one number; as long as batches are square, both are the same. */
static int transforms_read_sides(const struct yaml_text *text, const yaml_node_t *node,
	uint32_t most, struct transforms_size *ret, struct fault *fault)
{
	const struct yaml_key side = {"size", YAML_KEY_U32, .min = 1, .max = most};
	uint32_t sides[2] = {0, 0};
	if (node->type != YAML_SEQUENCE_NODE) {
		int result = yaml_read_value(text, node, &side, &sides[0], fault);
		if (!result)
			*ret = (struct transforms_size){.side = sides[0]};
		return result;
	}
	const yaml_node_item_t *item = node->data.sequence.items.start;
	long count = node->data.sequence.items.top - item;
	if (count != 2)
		return yaml_fault(text, node, fault,
			"size: expected a whole number from 1 to %" PRIu32
			", or a list of two, [height, width]; got a list of %ld",
			most, count);
	for (long i = 0; i < count; i++) {
		int result =
			yaml_read_value(text, yaml_node(text, item[i]), &side, &sides[i], fault);
		if (result < 0)
			return result;
	}
	if (sides[0] != sides[1])
		return yaml_fault(text, node, fault,
			"size: expected height and width to be the same, since images of a batch "
			"are squares; got [%" PRIu32 ", %" PRIu32 "]",
			sides[0], sides[1]);
	*ret = (struct transforms_size){.side = sides[0], .both = true};
	return 0;
}

static int transforms_read_size(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	return transforms_read_sides(text, node, TRANSFORMS_SIDE_MAX, field, fault);
}

static int transforms_read_resize(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	return transforms_read_sides(text, node, PIXEL_RESIZE_MAX, field, fault);
}

/* [least, most]. */
static int transforms_read_range(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *bound, double ret[2], struct fault *fault)
{
	double range[2];
	bool list = node->type == YAML_SEQUENCE_NODE;
	const yaml_node_item_t *item = list ? node->data.sequence.items.start : NULL;
	if (!list || node->data.sequence.items.top - item != 2)
		return yaml_fault(text, node, fault,
			"%s: expected a list of two numbers from %g to %g, [least, most]",
			bound->name, bound->low, bound->high);
	for (int i = 0; i < 2; i++) {
		int result =
			yaml_read_value(text, yaml_node(text, item[i]), bound, &range[i], fault);
		if (result < 0)
			return result;
	}
	if (range[0] > range[1] || range[1] <= 0)
		return yaml_fault(text, node, fault,
			"%s: expected [least, most], the most above 0 and not below the least; got "
			"[%g, %g]",
			bound->name, range[0], range[1]);
	memcpy(ret, range, sizeof range);
	return 0;
}

static int transforms_read_scale(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key bound = {"scale", YAML_KEY_DOUBLE, .low = 0, .high = 1};
	return transforms_read_range(text, node, &bound, field, fault);
}

static int transforms_read_ratio(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key bound = {"ratio", YAML_KEY_DOUBLE, .low = 0.01, .high = 100};
	return transforms_read_range(text, node, &bound, field, fault);
}

static int transforms_read_antialias(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key key = {"antialias", YAML_KEY_BOOL, .offset = 0};
	int result = yaml_read_value(text, node, &key, field, fault);
	if (!result && !*(const bool *)field)
		return yaml_fault(text, node, fault,
			"antialias: expected true: images are always resized with antialiasing, as "
			"torchvision does with PIL images (interpolation: nearest has none)");
	return result;
}

#define TRANSFORMS_FIELD(member) .offset = offsetof(struct transforms_op, member)
#define TRANSFORMS_RESIZING                                               \
	{"interpolation", YAML_KEY_ENUM, TRANSFORMS_FIELD(interpolation), \
		.names = weights_filter_names},                           \
	{                                                                 \
		"antialias", YAML_KEY_NODE, TRANSFORMS_FIELD(antialias),  \
			.read = transforms_read_antialias                 \
	}

static const struct yaml_key transforms_resized_crop_keys[] = {
	{"size", YAML_KEY_NODE, TRANSFORMS_FIELD(size), .read = transforms_read_size},
	{"scale", YAML_KEY_NODE, TRANSFORMS_FIELD(scale), .read = transforms_read_scale},
	{"ratio", YAML_KEY_NODE, TRANSFORMS_FIELD(ratio), .read = transforms_read_ratio},
	TRANSFORMS_RESIZING,
};

static const struct yaml_key transforms_resize_keys[] = {
	{"size", YAML_KEY_NODE, TRANSFORMS_FIELD(size), .read = transforms_read_resize},
	TRANSFORMS_RESIZING,
};

static const struct yaml_key transforms_crop_keys[] = {
	{"size", YAML_KEY_NODE, TRANSFORMS_FIELD(size), .read = transforms_read_size},
};

static const struct yaml_key transforms_chance_keys[] = {
	{"p", YAML_KEY_DOUBLE, TRANSFORMS_FIELD(p), .low = 0, .high = 1},
};

/* Operations
 * -----------------------------------------------------------------------------------------------------
 */

#define TRANSFORMS_FLIPS                                     \
	(TRANSFORMS_BIT(TRANSFORMS_RANDOM_HORIZONTAL_FLIP) | \
		TRANSFORMS_BIT(TRANSFORMS_RANDOM_VERTICAL_FLIP))
#define TRANSFORMS_SIZED                                                                      \
	(TRANSFORMS_BIT(TRANSFORMS_RANDOM_RESIZED_CROP) | TRANSFORMS_BIT(TRANSFORMS_RESIZE) | \
		TRANSFORMS_BIT(TRANSFORMS_CENTER_CROP))

static const struct transforms_rule {
	const char *name;
	const struct yaml_key *keys;
	size_t key_count;
	uint32_t after; /* operations that may stand before it, anywhere */
	uint32_t needs; /* of these one has to stand before it; 0: none */
	const char *place; /* the same for people */
	struct transforms_op defaults; /* torchvision's */
} transforms_rules[TRANSFORMS_KINDS] = {
	[TRANSFORMS_RANDOM_RESIZED_CROP] = {"RandomResizedCrop", transforms_resized_crop_keys,
		UTIL_COUNT(transforms_resized_crop_keys), 0, 0, "it comes first, and only once",
		{.scale = {0.08, 1}, .ratio = {3.0 / 4.0, 4.0 / 3.0}, .antialias = true}},
	[TRANSFORMS_RESIZE] = {"Resize", transforms_resize_keys, UTIL_COUNT(transforms_resize_keys),
		0, 0, "it comes first, and only once", {.antialias = true}},
	[TRANSFORMS_CENTER_CROP] = {"CenterCrop", transforms_crop_keys,
		UTIL_COUNT(transforms_crop_keys), TRANSFORMS_BIT(TRANSFORMS_RESIZE),
		TRANSFORMS_BIT(TRANSFORMS_RESIZE), "it comes right behind Resize", {.p = 0}},
	[TRANSFORMS_RANDOM_HORIZONTAL_FLIP] = {"RandomHorizontalFlip", transforms_chance_keys,
		UTIL_COUNT(transforms_chance_keys),
		TRANSFORMS_SIZED | TRANSFORMS_BIT(TRANSFORMS_RANDOM_VERTICAL_FLIP),
		TRANSFORMS_SIZED, "it comes behind the crop, and only once", {.p = 0.5}},
	[TRANSFORMS_RANDOM_VERTICAL_FLIP] = {"RandomVerticalFlip", transforms_chance_keys,
		UTIL_COUNT(transforms_chance_keys),
		TRANSFORMS_SIZED | TRANSFORMS_BIT(TRANSFORMS_RANDOM_HORIZONTAL_FLIP),
		TRANSFORMS_SIZED, "it comes behind the crop, and only once", {.p = 0.5}},
};

static int transforms_find(const struct yaml_text *text, const yaml_node_t *node,
	enum transforms_kind *ret_kind, struct fault *fault)
{
	const char *names[TRANSFORMS_KINDS + 1] = {NULL};
	for (size_t i = 0; i < TRANSFORMS_KINDS; i++)
		names[i] = transforms_rules[i].name;
	const struct yaml_key key = {"operation", YAML_KEY_ENUM, .names = names};
	return yaml_read_value(text, node, &key, ret_kind, fault);
}

/* A name by itself, or a mapping from it to its parameters, which may be left empty. */
static int transforms_split(const struct yaml_text *text, const yaml_node_t *item,
	const yaml_node_t **ret_name, const yaml_node_t **ret_parameters, struct fault *fault)
{
	size_t size;
	*ret_name = item;
	*ret_parameters = NULL;
	if (item->type == YAML_SCALAR_NODE)
		return 0;
	const yaml_node_pair_t *pair =
		item->type == YAML_MAPPING_NODE ? item->data.mapping.pairs.start : NULL;
	if (!pair || item->data.mapping.pairs.top - pair != 1)
		return yaml_fault(text, item, fault,
			"expected one operation, such as RandomHorizontalFlip or CenterCrop: "
			"{size: 224}");
	*ret_name = yaml_node(text, pair->key);
	const yaml_node_t *value = yaml_node(text, pair->value);
	if (!yaml_scalar(value, &size) || size)
		*ret_parameters = value;
	return 0;
}

static int transforms_read_op(const struct yaml_text *text, const yaml_node_t *item,
	struct transforms_op *ret, struct fault *fault)
{
	const yaml_node_t *name, *parameters;
	enum transforms_kind kind = TRANSFORMS_KINDS;
	uint64_t given = 0;
	int result = transforms_split(text, item, &name, &parameters, fault);
	if (!result)
		result = transforms_find(text, name, &kind, fault);
	if (result < 0)
		return result;
	const struct transforms_rule *rule = &transforms_rules[kind];
	struct yaml_text inner = *text;
	struct transforms_op op = rule->defaults;
	inner.within = rule->name;
	op.kind = kind;
	result = yaml_read(&inner, parameters, rule->keys, rule->key_count, &op, &given, fault);
	if (result < 0)
		return result;
	if (strcmp(rule->keys[0].name, "size") == 0 && !op.size.side)
		return yaml_fault(&inner, name, fault,
			"size is missing; expected a number of pixels, as in %s: {size: 224}",
			rule->name);
	*ret = op;
	return 0;
}

/* Order
 * -----------------------------------------------------------------------------------------------------
 */

/* Whether op i may stand behind those before it. */
static int transforms_check_place(const struct yaml_text *text, const yaml_node_t *node,
	const struct transforms *transforms, uint32_t i, struct fault *fault)
{
	const struct transforms_rule *rule = &transforms_rules[transforms->op[i].kind];
	uint32_t before = 0;
	for (uint32_t k = 0; k < i; k++) {
		enum transforms_kind other = transforms->op[k].kind;
		before |= TRANSFORMS_BIT(other);
		if (!(rule->after & TRANSFORMS_BIT(other)))
			return yaml_fault(text, node, fault, "%s cannot follow %s: %s", rule->name,
				transforms_rules[other].name, rule->place);
	}
	if (rule->needs && !(rule->needs & before))
		return yaml_fault(
			text, node, fault, "%s cannot come first: %s", rule->name, rule->place);
	const struct transforms_op *op = &transforms->op[i];
	if (op->kind == TRANSFORMS_CENTER_CROP && op->size.side > transforms->op[i - 1].size.side)
		return yaml_fault(text, node, fault,
			"CenterCrop: size: expected at most the size of Resize before it, which is "
			"%" PRIu32 ": what lies beyond the image is not made up; got %" PRIu32,
			transforms->op[i - 1].size.side, op->size.side);
	return 0;
}

/* Whether all images end up with one size that batches can have. */
static int transforms_check_end(const struct yaml_text *text, const yaml_node_t *node,
	const struct transforms *transforms, struct fault *fault)
{
	const struct transforms_op *first = &transforms->op[0];
	if (first->kind != TRANSFORMS_RESIZE ||
		(transforms->count > 1 && transforms->op[1].kind == TRANSFORMS_CENTER_CROP))
		return 0;
	if (!first->size.both)
		return yaml_fault(text, node, fault,
			"Resize: size: %" PRIu32
			" is that of the shorter side, so images would differ in size; expected "
			"CenterCrop behind it, or size: [%" PRIu32 ", %" PRIu32 "]",
			first->size.side, first->size.side, first->size.side);
	if (first->size.side > TRANSFORMS_SIDE_MAX)
		return yaml_fault(text, node, fault,
			"Resize: size: expected at most %d, or CenterCrop behind it; got %" PRIu32,
			TRANSFORMS_SIDE_MAX, first->size.side);
	return 0;
}

static int transforms_read_list(const struct yaml_text *text, const yaml_node_t *node,
	struct transforms *ret, struct fault *fault)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++) {
		const yaml_node_t *at = yaml_node(text, *item);
		if (ret->count == TRANSFORMS_MAX)
			return yaml_fault(
				text, at, fault, "expected at most %d operations", TRANSFORMS_MAX);
		int result = transforms_read_op(text, at, &ret->op[ret->count], fault);
		if (!result)
			result = transforms_check_place(text, at, ret, ret->count, fault);
		if (result < 0)
			return result;
		ret->count++;
	}
	return transforms_check_end(text, node, ret, fault);
}

int transforms_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct transforms transforms = {.count = 0};
	if (!node || node->type != YAML_SEQUENCE_NODE ||
		node->data.sequence.items.start == node->data.sequence.items.top)
		return yaml_fault(text, node, fault,
			"transforms: expected a list of operations, such as [RandomResizedCrop: "
			"{size: 224}, RandomHorizontalFlip]");
	struct yaml_text inner = *text;
	inner.within = "transforms";
	int result = transforms_read_list(&inner, node, &transforms, fault);
	if (!result)
		memcpy(field, &transforms, sizeof transforms);
	return result;
}

int transforms_parse(const char *text, size_t size, const char *origin, struct transforms *ret,
	struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, size, origin, fault);
	return result < 0 ? result : transforms_read(&parsed, parsed.root, ret, fault);
}

/* Printing
 * -----------------------------------------------------------------------------------------------------
 */

static const void *transforms_field(const struct yaml_key *key, const struct transforms_op *op)
{
	return (const char *)op + key->offset;
}

static bool transforms_is_size(const struct yaml_key *key)
{
	return key->read == transforms_read_size || key->read == transforms_read_resize;
}

static bool transforms_is_range(const struct yaml_key *key)
{
	return key->read == transforms_read_scale || key->read == transforms_read_ratio;
}

static void transforms_json_size(
	struct jsontext *json, const char *key, const struct transforms_size *size)
{
	if (!size->both) {
		jsontext_u64(json, key, size->side);
		return;
	}
	jsontext_array(json, key);
	jsontext_u64(json, NULL, size->side);
	jsontext_u64(json, NULL, size->side);
	jsontext_end(json);
}

static void transforms_json_range(struct jsontext *json, const char *key, const double range[2])
{
	jsontext_array(json, key);
	jsontext_shortest(json, NULL, range[0]);
	jsontext_shortest(json, NULL, range[1]);
	jsontext_end(json);
}

static void transforms_json_value(
	struct jsontext *json, const struct yaml_key *key, const struct transforms_op *op)
{
	const void *field = transforms_field(key, op);
	if (transforms_is_size(key))
		transforms_json_size(json, key->name, field);
	else if (transforms_is_range(key))
		transforms_json_range(json, key->name, field);
	else if (key->kind == YAML_KEY_ENUM)
		jsontext_string(json, key->name, key->names[*(const int *)field]);
	else if (key->kind == YAML_KEY_DOUBLE)
		jsontext_shortest(json, key->name, *(const double *)field);
	else
		jsontext_bool(json, key->name, *(const bool *)field);
}

void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms)
{
	jsontext_array(json, key);
	for (uint32_t i = 0; i < transforms->count; i++) {
		const struct transforms_op *op = &transforms->op[i];
		const struct transforms_rule *rule = &transforms_rules[op->kind];
		jsontext_object(json, NULL);
		jsontext_object(json, rule->name);
		for (size_t k = 0; k < rule->key_count; k++)
			transforms_json_value(json, &rule->keys[k], op);
		jsontext_end(json);
		jsontext_end(json);
	}
	jsontext_end(json);
}

/* A parameter that is not as it is by default, with a blank before it; otherwise nothing. */
static void transforms_text_value(const struct yaml_key *key, const struct transforms_op *op,
	const struct transforms_op *plain, char *buffer, size_t room)
{
	const void *field = transforms_field(key, op), *usual = transforms_field(key, plain);
	const struct transforms_size *size = field;
	const double *number = field, *other = usual;
	*buffer = 0;
	if (transforms_is_size(key) && size->both && op->kind == TRANSFORMS_RESIZE)
		(void)snprintf(buffer, room, " %" PRIu32 " x %" PRIu32, size->side, size->side);
	else if (transforms_is_size(key))
		(void)snprintf(buffer, room, " %" PRIu32, size->side);
	else if (transforms_is_range(key) && (number[0] != other[0] || number[1] != other[1]))
		(void)snprintf(buffer, room, " %s %.3g to %.3g", key->name, number[0], number[1]);
	else if (key->kind == YAML_KEY_ENUM && *(const int *)field != *(const int *)usual)
		(void)snprintf(buffer, room, " %s", key->names[*(const int *)field]);
	else if (key->kind == YAML_KEY_DOUBLE && *number != *other)
		(void)snprintf(buffer, room, " %.3g", *number);
}

static void transforms_text_op(const struct transforms_op *op, char *buffer, size_t room)
{
	const struct transforms_rule *rule = &transforms_rules[op->kind];
	size_t at = (size_t)snprintf(buffer, room, "%s", rule->name);
	for (size_t k = 0; k < rule->key_count && at < room; k++) {
		transforms_text_value(&rule->keys[k], op, &rule->defaults, buffer + at, room - at);
		at += strlen(buffer + at);
	}
}

void transforms_text(const struct transforms *transforms, char *buffer, size_t room)
{
	size_t at = 0;
	*buffer = 0;
	for (uint32_t i = 0; i < transforms->count && at < room; i++) {
		char op[256];
		transforms_text_op(&transforms->op[i], op, sizeof op);
		at += (size_t)snprintf(buffer + at, room - at, "%s%s", i ? ", " : "", op);
	}
}

/* Meaning
 * -----------------------------------------------------------------------------------------------------
 */

static void transforms_apply(const struct transforms_op *op, struct pixel_recipe *recipe)
{
	switch (op->kind) {
	case TRANSFORMS_RANDOM_RESIZED_CROP:
		recipe->kind = PIXEL_RESIZED_CROP;
		recipe->image_size = op->size.side;
		recipe->filter = op->interpolation;
		memcpy(recipe->scale, op->scale, sizeof recipe->scale);
		memcpy(recipe->ratio, op->ratio, sizeof recipe->ratio);
		break;
	case TRANSFORMS_RESIZE:
		recipe->kind = PIXEL_RESIZE;
		recipe->image_size = recipe->resize = op->size.side;
		recipe->both = op->size.both;
		recipe->filter = op->interpolation;
		break;
	case TRANSFORMS_CENTER_CROP:
		recipe->image_size = op->size.side;
		break;
	case TRANSFORMS_RANDOM_HORIZONTAL_FLIP:
		recipe->flip = op->p;
		break;
	case TRANSFORMS_RANDOM_VERTICAL_FLIP:
		recipe->flip_vertical = op->p;
		break;
	case TRANSFORMS_KINDS:
		break;
	}
}

struct pixel_recipe transforms_pixels(const struct transforms *transforms)
{
	struct pixel_recipe recipe = {.kind = PIXEL_RESIZED_CROP};
	for (uint32_t i = 0; i < transforms->count; i++)
		transforms_apply(&transforms->op[i], &recipe);
	return recipe;
}

void transforms_steps(const struct transforms *transforms, struct step_recipe *ret)
{
	(void)transforms;
	*ret = (struct step_recipe){.count = 0};
}
