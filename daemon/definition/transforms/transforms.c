/* transforms: see transforms.h. */
#include "definition/transforms/transforms.h"

#include "base/hash.h"
#include "base/nearest.h"
#include "base/util.h"
#include "definition/transforms/transforms_sizes.h"
#include "definition/transforms/transforms_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- positions ---- */

static bool transforms_is_flip(enum transforms_kind kind)
{
	return kind == TRANSFORMS_STEP(STEP_RANDOM_HORIZONTAL_FLIP) ||
	       kind == TRANSFORMS_STEP(STEP_RANDOM_VERTICAL_FLIP);
}

const char *transforms_name(enum step_kind kind)
{
	return transforms_rules[kind].name;
}

/* The number of operations that give images their size, if the list has a head. */
static uint32_t transforms_sizings(const struct transforms *transforms)
{
	uint32_t count = 0;
	while (count < transforms->count && transforms->op[count].kind < TRANSFORMS_SIZINGS)
		count++;
	return count;
}

/* The leading operations that pixel/ does in one pass: Resize and then a crop, or one of them. */
static bool transforms_has_head(const struct transforms *transforms)
{
	uint32_t count = transforms_sizings(transforms);
	const struct transforms_op *op = transforms->op;
	if (count == 2)
		return op[0].kind == TRANSFORMS_RESIZE && !op[0].step.max_size &&
		       (op[1].kind == TRANSFORMS_CENTER_CROP ||
			       op[1].kind == TRANSFORMS_RANDOM_CROP);
	return count == 1 && (op[0].kind != TRANSFORMS_RESIZE || op[0].size.both);
}

bool transforms_whole(const struct transforms *transforms)
{
	if (!transforms->count)
		return false;
	if (!transforms_has_head(transforms))
		return true;
	for (uint32_t i = transforms_sizings(transforms); i < transforms->count; i++)
		if (transforms_changes_size(transforms, i))
			return true;
	return false;
}

/* The number of operations in the pixel_recipe: those that give images their size, and up to one
 * flip of each kind directly after; 0 where all operations are steps. */
static uint32_t transforms_head(const struct transforms *transforms)
{
	uint32_t first = transforms_sizings(transforms), count = first;
	if (transforms_whole(transforms))
		return 0;
	while (count < transforms->count && count < first + 2 &&
		transforms_is_flip(transforms->op[count].kind) &&
		(count == first || transforms->op[count].kind != transforms->op[first].kind))
		count++;
	return count;
}

/* ---- reading ---- */

/* A list that is being read, and the operation that contains it. */
struct transforms_list {
	const struct yaml_text *text;
	struct transforms *into;
	const struct transforms_rule *outer; /* NULL: this is the outermost list */
	const struct transforms_rule *before; /* the previous operation of this list; NULL: none */
	uint32_t depth;
	const yaml_node_t **node; /* of each operation */
};

/* Other operations of torchvision, which happen elsewhere: what to do instead. */
static const char *transforms_elsewhere(const char *name)
{
	static const char *const conversions[] = {"ToTensor", "ToImage", "PILToTensor",
		"ToPureTensor", "ToDtype", "ConvertImageDtype", "Normalize"};
	for (size_t i = 0; i < UTIL_COUNT(conversions); i++)
		if (strcmp(name, conversions[i]) == 0)
			return "trainers convert and normalize, or the stream does with dtype: "
			       "float32, mean and std";
	if (strcmp(name, "MixUp") == 0 || strcmp(name, "CutMix") == 0)
		return "whole batches are mixed by trainers: mixup and cutmix of the Python "
		       "loader, penstock_mix in C";
	return NULL;
}

static int transforms_find(const struct yaml_text *text, const yaml_node_t *node,
	enum transforms_kind *ret_kind, struct fault *fault)
{
	const char *names[TRANSFORMS_KINDS + 1] = {NULL}, *near;
	size_t size = 0;
	const char *name = yaml_scalar(node, &size);
	for (int i = 0; i < TRANSFORMS_KINDS; i++)
		names[i] = transforms_rules[i].name;
	for (int i = 0; name && i < TRANSFORMS_KINDS; i++)
		if (strcmp(name, names[i]) == 0) {
			*ret_kind = (enum transforms_kind)i;
			return 0;
		}
	const char *elsewhere = name ? transforms_elsewhere(name) : NULL;
	if (elsewhere)
		return yaml_fault(text, node, fault,
			"%s is not one of the daemon's operations: leave it out; %s", name,
			elsewhere);
	near = name ? nearest_of(name, names) : NULL;
	if (near)
		return yaml_fault(text, node, fault,
			"there is no operation \"%.48s\"; did you mean \"%s\"?", name, near);
	return yaml_fault(text, node, fault,
		"there is no operation \"%.48s\"; penstock.yaml(5), TRANSFORMS, lists them",
		name ? name : "");
}

/* A single name, or a mapping from the name to its parameters, which may be empty. */
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

/* Refuses a parameter of an operation. */
static int transforms_refuse(const struct yaml_text *text, const yaml_node_t *parameters,
	const char *key, struct fault *fault, const char *expected, uint32_t is, uint32_t got)
{
	const yaml_node_pair_t *pair = yaml_find(text, parameters, key);
	return yaml_fault(text, pair ? yaml_node(text, pair->value) : parameters, fault,
		"%s: expected %s, which is %" PRIu32 "; got %" PRIu32, key, expected, is, got);
}

/* Checks that involve two parameters of an operation. */
static int transforms_check_values(const struct yaml_text *text, const yaml_node_t *parameters,
	const struct transforms_op *op, struct fault *fault)
{
	const struct step *step = &op->step;
	if (op->kind == TRANSFORMS_STEP(STEP_RAND_AUGMENT) &&
		step->magnitude >= step->num_magnitude_bins)
		return transforms_refuse(text, parameters, "magnitude", fault,
			"a whole number below num_magnitude_bins", step->num_magnitude_bins,
			step->magnitude);
	if (op->kind == TRANSFORMS_STEP(STEP_RANDOM_RESIZE) && !step->max_size)
		return yaml_fault(text, parameters, fault,
			"max_size is missing; expected a number of pixels, as in RandomResize: "
			"{min_size: 256, max_size: 481}");
	if (op->kind == TRANSFORMS_STEP(STEP_RANDOM_RESIZE) && step->max_size <= step->min_size[0])
		return transforms_refuse(text, parameters, "max_size", fault,
			"a whole number above min_size", step->min_size[0], step->max_size);
	if (op->kind != TRANSFORMS_RESIZE || !step->max_size || step->no_size)
		return 0;
	if (op->size.both)
		return yaml_fault(text,
			yaml_node(text, yaml_find(text, parameters, "max_size")->value), fault,
			"max_size: expected it beside one number, the size of the shorter side, or "
			"without size; size is [height, width]");
	if (step->max_size <= op->size.size.height)
		return transforms_refuse(text, parameters, "max_size", fault,
			"a whole number above size", op->size.size.height, step->max_size);
	return 0;
}

/* Refuses parameters without their names, and says what the user probably meant. */
static int transforms_check_named(const struct yaml_text *text, const struct transforms_rule *rule,
	const yaml_node_t *parameters, struct fault *fault)
{
	size_t size = 0;
	const char *value = parameters ? yaml_scalar(parameters, &size) : NULL;
	if (!parameters || parameters->type == YAML_MAPPING_NODE)
		return 0;
	if (!rule->key_count)
		return yaml_fault(text, parameters, fault,
			"it has no parameters; expected %s alone", rule->name);
	if (value)
		return yaml_fault(text, parameters, fault,
			"expected its parameters by name, as in %s: {%s: %.48s}", rule->name,
			rule->keys[0].name, value);
	if (rule->example)
		return yaml_fault(text, parameters, fault,
			"expected its parameters by name, as in %s: %s; got a list", rule->name,
			rule->example);
	return yaml_fault(text, parameters, fault,
		"expected its parameters by name, as in %s: {%s: ...}; got a list", rule->name,
		rule->keys[0].name);
}

static int transforms_read_parameters(const struct transforms_list *list,
	const struct transforms_rule *rule, const yaml_node_t *name, const yaml_node_t *parameters,
	struct transforms_op *ret, struct fault *fault)
{
	struct yaml_text inner = *list->text;
	struct transforms_op op = rule->defaults;
	uint64_t given = 0;
	inner.within = rule->name;
	op.kind = (enum transforms_kind)(rule - transforms_rules);
	int result = transforms_check_named(&inner, rule, parameters, fault);
	if (!result)
		result = yaml_read(
			&inner, parameters, rule->keys, rule->key_count, &op, &given, fault);
	bool instead = rule->instead && given >> rule->instead & 1;
	if (!result && instead && given & ((UINT64_C(1) << rule->instead) - 1))
		return yaml_fault(&inner, parameters, fault,
			"%s: expected it without %s and %s, or those without it",
			rule->keys[rule->instead].name, rule->keys[0].name, rule->keys[1].name);
	bool besides = rule->besides && given >> rule->besides & 1;
	op.step.no_size = besides && !(given & 1);
	if (!result && rule->first && !(given & 1) && !instead && !besides)
		return yaml_fault(&inner, name, fault, "%s is missing; expected %s, as in %s: %s",
			rule->keys[0].name, rule->first, rule->name, rule->example);
	if (!result)
		result = transforms_check_values(&inner, parameters, &op, fault);
	if (!result)
		*ret = op;
	return result;
}

static int transforms_check_place(const struct transforms_list *list, const yaml_node_t *node,
	const struct transforms_rule *rule, struct fault *fault)
{
	static const char *const last = "it comes last, and only once";
	const struct transforms_rule *before = list->before;
	if (list->outer && rule->place == TRANSFORMS_LAST)
		return yaml_fault(list->text, node, fault, "%s cannot be within %s: %s", rule->name,
			list->outer->name, last);
	if (!list->outer && before && before->place == TRANSFORMS_LAST)
		return yaml_fault(list->text, node, fault, "%s cannot follow %s: %s", rule->name,
			before->name, "that comes last, and only once");
	return 0;
}

/* Appends an operation if there is room. */
static int transforms_append(const struct transforms_list *list, const yaml_node_t *node,
	const struct transforms_op *op, struct fault *fault)
{
	struct transforms *into = list->into;
	if (into->count == TRANSFORMS_MAX)
		return yaml_fault(
			list->text, node, fault, "expected at most %d operations", TRANSFORMS_MAX);
	list->node[into->count] = node;
	into->op[into->count++] = *op;
	if (into->count - transforms_head(into) > STEP_MAX)
		return yaml_fault(list->text, node, fault,
			"expected at most %d operations after the one that sizes images, "
			"those within others included",
			STEP_MAX);
	if (transforms_same(into, into->count - 1) >= STEP_SAME_MAX)
		return yaml_fault(list->text, node, fault, "expected at most %d times %s",
			STEP_SAME_MAX, transforms_rules[op->kind].name);
	return 0;
}

/* RandomChoice needs one chance for each of its operations. */
static int transforms_check_chances(const struct yaml_text *text, const yaml_node_t *parameters,
	const struct transforms_op *op, struct fault *fault)
{
	const yaml_node_pair_t *p = yaml_find(text, parameters, "p"),
			       *all = yaml_find(text, parameters, "transforms");
	if (op->kind != TRANSFORMS_STEP(STEP_RANDOM_CHOICE))
		return 0;
	if (op->within > STEP_SAME_MAX)
		return yaml_fault(text, yaml_node(text, all->value), fault,
			"transforms: expected at most %d to choose from; got %" PRIu32,
			STEP_SAME_MAX, op->within);
	if (op->chances && op->chances != op->within)
		return yaml_fault(text, yaml_node(text, p->value), fault,
			"p: expected as many numbers as there are transforms, which is %" PRIu32
			"; got %" PRIu32,
			op->within, op->chances);
	return 0;
}

static int transforms_read_items(struct transforms_list *list, const yaml_node_t *node,
	uint32_t *ret_count, struct fault *fault);

/* Reads the operations within the operation at `place`, which is already in the array. */
static int transforms_read_inner(const struct transforms_list *list, uint32_t place,
	const yaml_node_t *parameters, struct fault *fault)
{
	struct transforms_op *op = &list->into->op[place];
	const struct transforms_rule *rule = &transforms_rules[op->kind];
	const struct yaml_key *within = transforms_within(rule);
	if (!within)
		return 0;
	struct yaml_text text = *list->text;
	struct transforms_list inner = {.text = &text,
		.into = list->into,
		.outer = rule,
		.depth = list->depth + 1,
		.node = list->node};
	const yaml_node_t *node =
		yaml_node(&text, yaml_find(&text, parameters, within->name)->value);
	text.within = rule->name;
	if (inner.depth > TRANSFORMS_DEPTH_MAX)
		return yaml_fault(&text, node, fault,
			"expected at most %d lists of operations inside one another",
			TRANSFORMS_DEPTH_MAX);
	int result = transforms_read_items(&inner, node, &op->within, fault);
	op->step.inside = list->into->count - place - 1;
	return result < 0 ? result : transforms_check_chances(&text, parameters, op, fault);
}

static int transforms_read_op(
	struct transforms_list *list, const yaml_node_t *item, struct fault *fault)
{
	const yaml_node_t *name, *parameters;
	enum transforms_kind kind = TRANSFORMS_KINDS;
	struct transforms_op op = {.kind = kind};
	uint32_t place = list->into->count;
	int result = transforms_split(list->text, item, &name, &parameters, fault);
	if (!result)
		result = transforms_find(list->text, name, &kind, fault);
	if (result < 0)
		return result;
	const struct transforms_rule *rule = &transforms_rules[kind];
	result = transforms_read_parameters(list, rule, name, parameters, &op, fault);
	if (!result)
		result = transforms_check_place(list, item, rule, fault);
	if (!result)
		result = transforms_append(list, item, &op, fault);
	if (!result)
		result = transforms_read_inner(list, place, parameters, fault);
	list->before = rule;
	return result;
}

static int transforms_read_items(struct transforms_list *list, const yaml_node_t *node,
	uint32_t *ret_count, struct fault *fault)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	uint32_t count = 0;
	for (; item < node->data.sequence.items.top; item++, count++) {
		int result = transforms_read_op(list, yaml_node(list->text, *item), fault);
		if (result < 0)
			return result;
	}
	*ret_count = count;
	return 0;
}

/* ---- sizes ---- */

static int transforms_refuse_kernel(const struct transforms_list *list, uint32_t i, bool height,
	uint64_t side, struct fault *fault)
{
	struct yaml_text inner = *list->text;
	const struct transforms_op *op = &list->into->op[i];
	const yaml_node_t *name, *parameters;
	int result = transforms_split(&inner, list->node[i], &name, &parameters, fault);
	if (result < 0)
		return result;
	inner.within = transforms_rules[op->kind].name;
	return yaml_fault(&inner,
		yaml_node(&inner, yaml_find(&inner, parameters, "kernel_size")->value), fault,
		"kernel_size: expected less than twice the %s of the images, which is %" PRIu64
		", since it reaches over their edges; got %" PRIu32,
		height ? "height" : "width", side, op->step.kernel_size[height]);
}

static int transforms_check_kernel(const struct transforms_list *list, uint32_t i,
	const struct transforms_sides *sides, struct fault *fault)
{
	const struct step *step = &list->into->op[i].step;
	const uint64_t most[2] = {sides->most_width, sides->most_height};
	for (int k = 0; k < 2 && !step->has_radius; k++)
		if (step->kernel_size[k] >= 2 * most[k])
			return transforms_refuse_kernel(list, i, k, most[k], fault);
	return 0;
}

/* The window of RandomCrop must fit into the largest images that come to it. */
static int transforms_check_window(const struct transforms_list *list, uint32_t i,
	const struct transforms_sides *sides, struct fault *fault)
{
	const struct transforms_op *op = &list->into->op[i];
	uint64_t height = sides->most_height + op->padding[1] + op->padding[3],
		 width = sides->most_width + op->padding[0] + op->padding[2];
	const struct transforms_op *resize = i ? op - 1 : op;
	bool after_resize = i && !transforms_whole(list->into);
	/* In this old form, the longer side counts as the shorter one. */
	if (after_resize && !resize->size.both) {
		height = resize->size.size.height + op->padding[1] + op->padding[3];
		width = resize->size.size.width + op->padding[0] + op->padding[2];
	}
	if (op->pad_if_needed || (op->size.size.height <= height && op->size.size.width <= width))
		return 0;
	return yaml_fault(list->text, list->node[i], fault,
		"RandomCrop: size: expected at most %" PRIu64 " x %" PRIu64
		" (height x width), which %s and padding make, or pad_if_needed: true; got %" PRIu32
		" x %" PRIu32,
		height, width, after_resize ? "Resize" : "the operations before it",
		op->size.size.height, op->size.size.width);
}

/* Whether an operation that draws a size can draw only one value. It leaves the size open even so:
 * the check does not follow what it makes of each size. */
static bool transforms_draws_one(const struct transforms *transforms, uint32_t i)
{
	struct step step;
	transforms_step(transforms, i, &step);
	const uint64_t least = (uint64_t)step.min_size[0];
	switch ((int)step.kind) {
	case STEP_RANDOM_RESIZE:
		return step.max_size == least + 1;
	case STEP_SCALE_JITTER:
	case STEP_RANDOM_ZOOM_OUT:
		return !(step.scale[0] < step.scale[1]);
	default:
		return step.expand && !(step.degrees[0] < step.degrees[1]);
	}
}

static const char *transforms_why_open(const struct transforms *transforms, uint32_t i)
{
	const struct transforms_op *op = &transforms->op[i];
	if (op->step.inside)
		return op->kind == TRANSFORMS_STEP(STEP_RANDOM_APPLY)
			       ? "images have another size with its operations than without"
			       : "its operations make images of different sizes";
	return transforms_draws_one(transforms, i)
		       ? "it counts as leaving their size open, even with a single value to draw"
		       : "it leaves their size open";
}

static int transforms_refuse_open(const struct transforms_list *list, const yaml_node_t *node,
	const struct transforms_sides *sides, struct fault *fault)
{
	const struct transforms_op *op =
		sides->opener < TRANSFORMS_MAX ? &list->into->op[sides->opener] : NULL;
	if (!op)
		return yaml_fault(list->text, node, fault,
			"no operation gives all images one size; expected RandomResizedCrop, "
			"CenterCrop, RandomCrop or Resize: {size: [HEIGHT, WIDTH]} in the list");
	const char *name = transforms_rules[op->kind].name;
	if (op->kind == TRANSFORMS_RESIZE && !op->step.max_size)
		return yaml_fault(list->text, list->node[sides->opener], fault,
			"Resize: size: %" PRIu32
			" is that of the shorter side, so images would differ in size; expected "
			"CenterCrop after it, or size: [%" PRIu32 ", %" PRIu32 "]",
			op->size.size.height, op->size.size.height, op->size.size.height);
	return yaml_fault(list->text, list->node[sides->opener], fault,
		"%s: images would differ in size, since %s; expected CenterCrop, CenterCropOrPad "
		"or Resize: {size: [HEIGHT, WIDTH]} after it",
		name, transforms_why_open(list->into, sides->opener));
}

static int transforms_refuse_large(const struct transforms_list *list, const yaml_node_t *node,
	const struct transforms_sides *sides, struct fault *fault)
{
	const struct transforms_op *first = &list->into->op[0];
	if (first->kind == TRANSFORMS_RESIZE && transforms_sizings(list->into) == 1 &&
		first->size.both && pixel_longer(first->size.size) > TRANSFORMS_SIDE_MAX)
		return yaml_fault(list->text, list->node[0], fault,
			"Resize: size: expected at most %d, or CenterCrop after it; got %" PRIu32,
			TRANSFORMS_SIDE_MAX, pixel_longer(first->size.size));
	return yaml_fault(list->text, node, fault,
		"expected operations that make images of at most %d x %d, or CenterCrop after "
		"them; these make %" PRIu64 " x %" PRIu64 " (height x width)",
		TRANSFORMS_SIDE_MAX, TRANSFORMS_SIDE_MAX, sides->most_height, sides->most_width);
}

/* Checks that all images end up with one size, which batches can have. */
static int transforms_check_sizes(
	const struct transforms_list *list, const yaml_node_t *node, struct fault *fault)
{
	const struct transforms *transforms = list->into;
	struct transforms_sizes sizes;
	int result = 0;
	transforms_find_sizes(transforms, &sizes);
	if (sizes.orders)
		return yaml_fault(list->text, list->node[sizes.orders - 1], fault,
			"RandomOrder: expected at most %d operations where one of them changes the "
			"size of images",
			TRANSFORMS_ORDERS_MAX);
	for (uint32_t i = 0; i < transforms->count && !result; i++)
		if (transforms->op[i].kind == TRANSFORMS_RANDOM_CROP)
			result = transforms_check_window(list, i, &sizes.before[i], fault);
		else if (transforms->op[i].kind == TRANSFORMS_STEP(STEP_GAUSSIAN_BLUR))
			result = transforms_check_kernel(list, i, &sizes.before[i], fault);
	if (result < 0)
		return result;
	if (!transforms_sides_are_one(&sizes.last))
		return transforms_refuse_open(list, node, &sizes.last, fault);
	if (sizes.last.most_width > TRANSFORMS_SIDE_MAX ||
		sizes.last.most_height > TRANSFORMS_SIDE_MAX)
		return transforms_refuse_large(list, node, &sizes.last, fault);
	return 0;
}

static int transforms_check_steps(const struct yaml_text *text, const yaml_node_t *node,
	const struct transforms *transforms, struct fault *fault)
{
	struct step_recipe steps;
	transforms_steps(transforms, &steps);
	uint32_t most = step_most(&steps);
	if (most > STEP_PLAN_MAX)
		return yaml_fault(text, node, fault,
			"expected a list that comes to at most %d changes of one image; it may "
			"come "
			"to %" PRIu32 " (RandAugment counts for num_ops, AugMix for mixture_width "
			"times chain_depth)",
			STEP_PLAN_MAX, most);
	return 0;
}

int transforms_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct transforms transforms = {.count = 0};
	const yaml_node_t *nodes[TRANSFORMS_MAX];
	uint32_t count;
	if (!node || node->type != YAML_SEQUENCE_NODE ||
		node->data.sequence.items.start == node->data.sequence.items.top)
		return yaml_fault(text, node, fault,
			"transforms: expected a list of operations, such as [RandomResizedCrop: "
			"{size: 224}, RandomHorizontalFlip]");
	struct yaml_text inner = *text;
	struct transforms_list list = {.text = &inner, .into = &transforms, .node = nodes};
	inner.within = "transforms";
	int result = transforms_read_items(&list, node, &count, fault);
	if (!result)
		result = transforms_check_sizes(&list, node, fault);
	if (!result)
		result = transforms_check_steps(&inner, node, &transforms, fault);
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

/* ---- printing ---- */

/* Operations from .. to, including those within others. */
static void transforms_json_items(struct jsontext *json, const char *key,
	const struct transforms *transforms, uint32_t from, uint32_t to)
{
	jsontext_array(json, key);
	for (uint32_t i = from; i < to; i += 1 + transforms->op[i].step.inside) {
		const struct transforms_op *op = &transforms->op[i];
		const struct transforms_rule *rule = &transforms_rules[op->kind];
		const struct yaml_key *within = transforms_within(rule);
		jsontext_object(json, NULL);
		jsontext_object(json, rule->name);
		if (within)
			transforms_json_items(
				json, within->name, transforms, i + 1, i + 1 + op->step.inside);
		for (size_t k = 0; k < rule->key_count; k++)
			transforms_value_json(json, &rule->keys[k], op);
		jsontext_end(json);
		jsontext_end(json);
	}
	jsontext_end(json);
}

void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms)
{
	transforms_json_items(json, key, transforms, 0, transforms->count);
}

/* A text that is truncated at its room. */
struct transforms_text {
	char *buffer;
	size_t at, room;
};

static void transforms_say(struct transforms_text *text, const char *what)
{
	if (text->at < text->room)
		text->at += (size_t)snprintf(
			text->buffer + text->at, text->room - text->at, "%s", what);
}

static void transforms_text_items(struct transforms_text *text, const struct transforms *transforms,
	uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i += 1 + transforms->op[i].step.inside) {
		const struct transforms_op *op = &transforms->op[i];
		const struct transforms_rule *rule = &transforms_rules[op->kind];
		char value[256];
		transforms_say(text, i > from ? ", " : "");
		transforms_say(text, rule->name);
		for (size_t k = 0; k < rule->key_count; k++) {
			transforms_value_text(
				&rule->keys[k], op, &rule->defaults, value, sizeof value);
			transforms_say(text, value);
		}
		if (!op->step.inside)
			continue;
		transforms_say(text, " (");
		transforms_text_items(text, transforms, i + 1, i + 1 + op->step.inside);
		transforms_say(text, ")");
	}
}

void transforms_text(const struct transforms *transforms, char *buffer, size_t room)
{
	struct transforms_text text = {.buffer = buffer, .room = room};
	*buffer = 0;
	transforms_text_items(&text, transforms, 0, transforms->count);
}

/* ---- meaning ---- */

static void transforms_apply_crop(const struct transforms_op *op, struct pixel_recipe *recipe)
{
	recipe->size = op->size.size;
	recipe->random_window = op->kind == TRANSFORMS_RANDOM_CROP;
	if (recipe->random_window)
		transforms_apply_padding(op, &recipe->padding);
}

static void transforms_apply(const struct transforms_op *op, struct pixel_recipe *recipe)
{
	switch ((int)op->kind) {
	case TRANSFORMS_RANDOM_RESIZED_CROP:
		recipe->kind = PIXEL_RESIZED_CROP;
		recipe->size = op->size.size;
		recipe->filter = op->step.interpolation;
		memcpy(recipe->scale, op->step.scale, sizeof recipe->scale);
		memcpy(recipe->ratio, op->step.ratio, sizeof recipe->ratio);
		break;
	case TRANSFORMS_RESIZE:
		recipe->kind = PIXEL_RESIZE;
		recipe->size = recipe->resize = op->size.size;
		recipe->both = op->size.both;
		recipe->filter = op->step.interpolation;
		break;
	case TRANSFORMS_CENTER_CROP:
	case TRANSFORMS_RANDOM_CROP:
		transforms_apply_crop(op, recipe);
		break;
	case TRANSFORMS_STEP(STEP_RANDOM_HORIZONTAL_FLIP):
		recipe->flip = op->step.p;
		break;
	default:
		recipe->flip_vertical = op->step.p;
	}
}

struct pixel_recipe transforms_pixels(const struct transforms *transforms)
{
	/* A list that begins with Resize or RandomResizedCrop has that kind. */
	struct pixel_recipe recipe = {.kind = PIXEL_CROP};
	struct transforms_sizes sizes;
	if (transforms_whole(transforms)) {
		transforms_find_sizes(transforms, &sizes);
		recipe.kind = PIXEL_WHOLE;
		recipe.size = (struct pixel_size){
			(uint32_t)sizes.last.most_height, (uint32_t)sizes.last.most_width};
	}
	uint32_t head = transforms_head(transforms);
	for (uint32_t i = 0; i < head; i++)
		transforms_apply(&transforms->op[i], &recipe);
	return recipe;
}

void transforms_steps(const struct transforms *transforms, struct step_recipe *ret)
{
	ret->count = 0;
	ret->pixels = 0;
	for (uint32_t i = transforms_head(transforms); i < transforms->count; i++)
		transforms_step(transforms, i, &ret->step[ret->count++]);
}

static uint64_t transforms_hash_op(uint64_t h, const struct transforms_op *op)
{
	const struct transforms_rule *rule = &transforms_rules[op->kind];
	h = hash_bytes(h, rule->name, strlen(rule->name));
	h = hash_u64(h, op->step.inside);
	for (size_t k = 0; k < rule->key_count; k++) {
		double values[TRANSFORMS_VALUES] = {0};
		if (transforms_excluded(&rule->keys[k], op))
			continue;
		size_t count = transforms_values(&rule->keys[k], op, values);
		h = hash_u64(h, count);
		for (size_t i = 0; i < count; i++) {
			uint64_t bits;
			double value = values[i] + 0.0; /* -0 is 0 */
			memcpy(&bits, &value, sizeof bits);
			h = hash_u64(h, bits);
		}
	}
	return h;
}

uint64_t transforms_hash(uint64_t h, const struct transforms *transforms)
{
	for (uint32_t i = transforms_head(transforms); i < transforms->count; i++)
		h = transforms_hash_op(h, &transforms->op[i]);
	return h;
}

struct pixel_size transforms_least_size(const struct transforms *transforms)
{
	struct pixel_size least = {1, 1};
	for (uint32_t i = 0; i < transforms->count; i++) {
		const struct step *step = &transforms->op[i].step;
		if (transforms->op[i].kind != TRANSFORMS_STEP(STEP_GAUSSIAN_BLUR))
			continue;
		least.width = UTIL_MAX(least.width, step->kernel_size[0] / 2 + 1);
		least.height = UTIL_MAX(least.height, step->kernel_size[1] / 2 + 1);
	}
	return least;
}

static bool transforms_is_byte(double value)
{
	return value >= 0 && value <= UINT8_MAX && value == (uint8_t)value;
}

const char *transforms_byte_fault(const struct transforms *transforms)
{
	const struct transforms_op *last =
		transforms->count ? &transforms->op[transforms->count - 1] : NULL;
	if (!last || last->kind != TRANSFORMS_STEP(STEP_RANDOM_ERASING))
		return NULL;
	if (last->step.value_random)
		return "RandomErasing: value: \"random\" is normally distributed around 0, which "
		       "needs dtype: float32, float16 or bfloat16; with uint8 expected one number "
		       "from 0 to 255, or three";
	for (size_t i = 0; i < UTIL_COUNT(last->step.value); i++)
		if (!transforms_is_byte(last->step.value[i]))
			return "RandomErasing: value: expected whole numbers from 0 to 255, since "
			       "rows are uint8; with dtype: float32 and the like it is in units of "
			       "normalized values";
	return NULL;
}
