/* transforms_values: the kinds of parameters: how to read, compare and print them; see
 * transforms_table.h.
 *
 * The messages of a reader say in full what it expects, including the range of numbers, because
 * users make most mistakes with torchvision's "number or list". */
#include "definition/transforms/transforms_table.h"

#include "base/util.h"
#include "definition/transforms/transforms_timm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EXPECT = 128, FOUR = 4 };

/* ---- reading ---- */

/* The number of items; 0 if the node is not a list. */
static size_t values_count(const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return 0;
	return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static const yaml_node_t *values_item(
	const struct yaml_text *text, const yaml_node_t *node, size_t i)
{
	return yaml_node(text, node->data.sequence.items.start[i]);
}

/* Reads the items of a list. The key's range applies to each. */
static int values_numbers(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, double *ret, struct fault *fault)
{
	const struct yaml_key number = {
		key->name, YAML_KEY_DOUBLE, .low = key->low, .high = key->high};
	int result = 0;
	for (size_t i = 0; i < values_count(node) && !result; i++)
		result = yaml_read_value(text, values_item(text, node, i), &number, &ret[i], fault);
	return result;
}

static int values_wholes(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, uint32_t *ret, struct fault *fault)
{
	const struct yaml_key whole = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	int result = 0;
	for (size_t i = 0; i < values_count(node) && !result; i++)
		result = yaml_read_value(text, values_item(text, node, i), &whole, &ret[i], fault);
	return result;
}

/* Reads a single number, least .. most. `beside` names the alternative, for messages. */
static int values_single(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, double least, double most, const char *beside, double *ret,
	struct fault *fault)
{
	struct fault plain;
	const struct yaml_key number = {key->name, YAML_KEY_DOUBLE, .low = least, .high = most};
	if (yaml_read_value(text, node, &number, ret, &plain) == 0)
		return 0;
	size_t size = 0;
	const char *value = yaml_scalar(node, &size);
	return yaml_fault(text, node, fault,
		"%s: expected a number from %g to %g, or %s; got %s%.48s%s", key->name, least, most,
		beside, value ? "\"" : "", value ? value : "a mapping", value ? "\"" : "");
}

static int values_length(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, const char *expected, struct fault *fault)
{
	return yaml_fault(text, node, fault, "%s: expected %s; got a list of %zu", key->name,
		expected, values_count(node));
}

/* Reads the list [least, most]. */
static int values_pair(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, double ret[2], struct fault *fault)
{
	char expected[EXPECT];
	(void)snprintf(expected, sizeof expected,
		"a list of two numbers from %g to %g, [least, most]", key->low, key->high);
	if (values_count(node) != 2)
		return values_length(text, node, key, expected, fault);
	int result = values_numbers(text, node, key, ret, fault);
	if (!result && ret[0] > ret[1])
		return yaml_fault(text, node, fault,
			"%s: expected [least, most], the most not below the least; got [%g, %g]",
			key->name, ret[0], ret[1]);
	return result;
}

/* Reads [height, width], or one number for both. */
int transforms_read_size(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	struct transforms_size *ret = field;
	const struct yaml_key side = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	uint32_t sides[2] = {0, 0};
	if (node->type != YAML_SEQUENCE_NODE) {
		int result = yaml_read_value(text, node, &side, &sides[0], fault);
		if (!result)
			*ret = (struct transforms_size){.size = pixel_square(sides[0])};
		return result;
	}
	if (values_count(node) != 2)
		return yaml_fault(text, node, fault,
			"%s: expected a whole number from 1 to %" PRIu64
			", or a list of two, [height, width]; got a list of %zu",
			key->name, key->max, values_count(node));
	int result = values_wholes(text, node, &side, sides, fault);
	if (result < 0)
		return result;
	*ret = (struct transforms_size){.size = {sides[0], sides[1]}, .both = true};
	return 0;
}

int transforms_read_range(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double range[2] = {0, 0};
	if (values_count(node) != 2)
		return yaml_fault(text, node, fault,
			"%s: expected a list of two numbers from %g to %g, [least, most]",
			key->name, key->low, key->high);
	int result = values_numbers(text, node, key, range, fault);
	if (result < 0)
		return result;
	if (range[0] > range[1] || range[1] <= 0)
		return yaml_fault(text, node, fault,
			"%s: expected [least, most], the most above 0 and not below the least; got "
			"[%g, %g]",
			key->name, range[0], range[1]);
	memcpy(field, range, sizeof range);
	return 0;
}

/* Reads a number `spread`, which means [middle - spread, middle + spread] with the first limited to
 * the key's range; or a list of the two. */
static int values_spread(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, double middle, double *ret, struct fault *fault)
{
	double spread = 0, range[2] = {0, 0};
	char beside[EXPECT];
	int result;
	if (node->type == YAML_SEQUENCE_NODE) {
		result = values_pair(text, node, key, range, fault);
	} else {
		(void)snprintf(beside, sizeof beside, "[least, most] within %g and %g", key->low,
			key->high);
		result = values_single(
			text, node, key, 0, key->high - middle, beside, &spread, fault);
		range[0] = fmax(middle - spread, key->low);
		range[1] = middle + spread;
	}
	if (!result)
		memcpy(ret, range, sizeof range);
	return result;
}

int transforms_read_factor(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	return values_spread(text, node, key, 1, field, fault);
}

int transforms_read_hue(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	return values_spread(text, node, key, 0, field, fault);
}

int transforms_read_angle(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	return values_spread(text, node, key, 0, field, fault);
}

int transforms_read_shear(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double shear[FOUR] = {0, 0, 0, 0};
	char expected[EXPECT];
	size_t count = values_count(node);
	(void)snprintf(expected, sizeof expected,
		"a list of two numbers from %g to %g, [least, most], or four, [x least, x most, y "
		"least, y most]",
		key->low, key->high);
	if (node->type == YAML_SEQUENCE_NODE && count != 2 && count != FOUR)
		return values_length(text, node, key, expected, fault);
	int result = count == FOUR ? values_numbers(text, node, key, shear, fault)
				   : values_spread(text, node, key, 0, shear, fault);
	if (!result && (shear[0] > shear[1] || shear[2] > shear[3]))
		return yaml_fault(text, node, fault,
			"%s: expected [x least, x most, y least, y most]; got [%g, %g, %g, %g]",
			key->name, shear[0], shear[1], shear[2], shear[3]);
	if (!result)
		memcpy(field, shear, sizeof shear);
	return result;
}

int transforms_read_sigma(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double sigma[2] = {0, 0};
	int result;
	if (node->type == YAML_SEQUENCE_NODE) {
		result = values_pair(text, node, key, sigma, fault);
	} else {
		result = values_single(
			text, node, key, key->low, key->high, "[least, most]", &sigma[0], fault);
		sigma[1] = sigma[0];
	}
	if (!result && sigma[0] <= 0)
		return yaml_fault(text, node, fault,
			"%s: expected numbers above 0, up to %g; got %g", key->name, key->high,
			sigma[0]);
	if (!result)
		memcpy(field, sigma, sizeof sigma);
	return result;
}

static struct transforms_op *values_op(const struct yaml_key *key, void *field)
{
	return (struct transforms_op *)(void *)((char *)field - key->offset);
}

int transforms_read_radius(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double radius[2] = {0, 0};
	int result;
	if (node->type == YAML_SEQUENCE_NODE) {
		result = values_pair(text, node, key, radius, fault);
	} else {
		result = values_single(
			text, node, key, key->low, key->high, "[least, most]", &radius[0], fault);
		radius[1] = radius[0];
	}
	if (result < 0)
		return result;
	memcpy(field, radius, sizeof radius);
	values_op(key, field)->step.has_radius = true;
	return 0;
}

int transforms_read_pair(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double pair[2] = {0, 0};
	if (values_count(node) != 2)
		return yaml_fault(text, node, fault,
			"%s: expected a list of two numbers from %g to %g, [horizontal, vertical]",
			key->name, key->low, key->high);
	int result = values_numbers(text, node, key, pair, fault);
	if (!result)
		memcpy(field, pair, sizeof pair);
	return result;
}

int transforms_read_center(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	int result = transforms_read_pair(text, node, key, field, fault);
	if (!result)
		values_op(key, field)->step.has_center = true;
	return result;
}

int transforms_read_kernel(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key side = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	uint32_t kernel[2] = {0, 0};
	size_t count = values_count(node);
	int result;
	if (count && count != 2)
		return values_length(text, node, key, "an odd number, or [width, height]", fault);
	if (count) {
		result = values_wholes(text, node, &side, kernel, fault);
	} else {
		result = yaml_read_value(text, node, &side, &kernel[0], fault);
		kernel[1] = kernel[0];
	}
	if (result < 0)
		return result;
	if (!(kernel[0] & kernel[1] & 1))
		return yaml_fault(text, node, fault,
			"%s: expected odd numbers, since there is a pixel in the middle; got "
			"[%" PRIu32 ", %" PRIu32 "]",
			key->name, kernel[0], kernel[1]);
	memcpy(field, kernel, sizeof kernel);
	return 0;
}

int transforms_read_padding(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key side = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	uint32_t padding[FOUR] = {0, 0, 0, 0};
	size_t count = values_count(node);
	if (node->type == YAML_SEQUENCE_NODE && count != 1 && count != 2 && count != FOUR)
		return values_length(text, node, key,
			"a whole number, [horizontal, vertical] or [left, top, right, bottom]",
			fault);
	int result = count ? values_wholes(text, node, &side, padding, fault)
			   : yaml_read_value(text, node, &side, &padding[0], fault);
	if (result < 0)
		return result;
	if (count < 2)
		padding[1] = padding[0];
	if (count < FOUR) {
		padding[2] = padding[0];
		padding[3] = padding[1];
	}
	memcpy(field, padding, sizeof padding);
	return 0;
}

/* Reads the three numbers of R, G and B. */
static int values_channels(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, double ret[3], struct fault *fault)
{
	if (values_count(node) != 3)
		return values_length(text, node, key, "one number, or three: R, G, B", fault);
	return values_numbers(text, node, key, ret, fault);
}

int transforms_read_fill(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key whole = {key->name, YAML_KEY_U32, .max = key->max};
	uint32_t fill[3] = {0, 0, 0};
	double *ret = field;
	bool list = node->type == YAML_SEQUENCE_NODE;
	if (list && values_count(node) != 3)
		return values_length(text, node, key, "one number, or three: R, G, B", fault);
	int result = list ? values_wholes(text, node, &whole, fill, fault)
			  : yaml_read_value(text, node, &whole, &fill[0], fault);
	for (size_t i = 0; i < UTIL_COUNT(fill) && !result; i++)
		ret[i] = fill[list ? i : 0];
	return result;
}

int transforms_read_value(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double value[3] = {0, 0, 0};
	size_t size = 0;
	const char *word = yaml_scalar(node, &size);
	bool random = word && strcmp(word, "random") == 0;
	int result = 0;
	if (node->type == YAML_SEQUENCE_NODE)
		result = values_channels(text, node, key, value, fault);
	else if (!random) {
		result = values_single(text, node, key, key->low, key->high,
			"three: R, G, B, or \"random\"", &value[0], fault);
		value[1] = value[2] = value[0];
	}
	if (result < 0)
		return result;
	memcpy(field, value, sizeof value);
	values_op(key, field)->step.value_random = random;
	return 0;
}

int transforms_read_depth(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key depth = {
		key->name, YAML_KEY_U32, .min = key->min, .max = key->max, .zero = "-1"};
	uint32_t value = 0;
	int result = yaml_read_value(text, node, &depth, &value, fault);
	if (!result)
		*(int32_t *)field = value ? (int32_t)value : -1;
	return result;
}

/* The names and filters of warps. */
static const char *const values_filters[] = {"nearest", "bilinear", "bicubic", NULL};
static const char *const values_timm_filters[] = {"nearest", "bilinear", "bicubic", "random", NULL};
static const enum weights_filter values_filter[] = {
	WEIGHTS_NEAREST, WEIGHTS_BILINEAR, WEIGHTS_BICUBIC, WEIGHTS_RANDOM};

static int values_filter_read(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, const char *const *names, void *field, struct fault *fault)
{
	const struct yaml_key word = {key->name, YAML_KEY_ENUM, .names = names};
	int place = 0;
	int result = yaml_read_value(text, node, &word, &place, fault);
	if (!result)
		*(enum weights_filter *)field = values_filter[place];
	return result;
}

int transforms_read_warp_filter(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	return values_filter_read(text, node, key, values_filters, field, fault);
}

int transforms_read_timm_filter(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	return values_filter_read(text, node, key, values_timm_filters, field, fault);
}

int transforms_read_timm(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	struct fault why;
	size_t size = 0;
	const char *config = yaml_scalar(node, &size);
	if (!config)
		return yaml_fault(text, node, fault,
			"%s: expected timm's string for a policy, such as rand-m9-mstd0.5-inc1",
			key->name);
	if (transforms_timm_parse(config, size, &values_op(key, field)->step, &why) == 0)
		return 0;
	return yaml_fault(text, node, fault, "%s: %s", key->name, why.text);
}

int transforms_read_translate(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key number = {
		key->name, YAML_KEY_DOUBLE, .low = key->low, .high = key->high};
	return yaml_read_value(text, node, &number, field, fault);
}

/* Reads a flag that allows only its default. */
static int values_fixed(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, bool fixed, const char *why, struct fault *fault)
{
	const struct yaml_key flag = {key->name, YAML_KEY_BOOL, .offset = 0};
	bool value = fixed;
	int result = yaml_read_value(text, node, &flag, &value, fault);
	if (!result && value != fixed)
		return yaml_fault(text, node, fault, "%s: expected %s: %s", key->name,
			fixed ? "true" : "false", why);
	return result;
}

int transforms_read_antialias(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	(void)field;
	return values_fixed(text, node, key, true,
		"images are always resized with antialiasing, as torchvision does with PIL images "
		"(interpolation: nearest has none)",
		fault);
}

int transforms_read_longest(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key side = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	return yaml_read_value(text, node, &side, field, fault);
}

int transforms_read_sizes(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key side = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	uint32_t sizes[STEP_SAME_MAX] = {0};
	size_t count = values_count(node);
	if (node->type == YAML_SEQUENCE_NODE && (!count || count > STEP_SAME_MAX))
		return yaml_fault(text, node, fault,
			"%s: expected a whole number, or a list of at most %d; got a list of %zu",
			key->name, STEP_SAME_MAX, count);
	int result = count ? values_wholes(text, node, &side, sizes, fault)
			   : yaml_read_value(text, node, &side, &sizes[0], fault);
	if (result < 0)
		return result;
	memcpy(field, sizes, sizeof sizes);
	values_op(key, field)->step.min_sizes = count ? (uint32_t)count : 1;
	return 0;
}

int transforms_read_channels(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key whole = {key->name, YAML_KEY_U32, .min = 1, .max = 3};
	uint32_t channels = 0;
	int result = yaml_read_value(text, node, &whole, &channels, fault);
	if (result < 0)
		return result;
	if (channels != 3)
		return yaml_fault(text, node, fault,
			"%s: expected 3, since images of a batch have three channels, which are "
			"the same then; got %" PRIu32,
			key->name, channels);
	*(uint32_t *)field = channels;
	return 0;
}

int transforms_read_chances(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	double chances[STEP_SAME_MAX] = {0}, sum = 0;
	size_t count = values_count(node);
	if (!count || count > STEP_SAME_MAX)
		return yaml_fault(text, node, fault,
			"%s: expected a list of one number for each of the transforms, how likely "
			"it is, at most %d",
			key->name, STEP_SAME_MAX);
	int result = values_numbers(text, node, key, chances, fault);
	if (result < 0)
		return result;
	for (size_t i = 0; i < count; i++)
		sum += chances[i];
	if (sum <= 0)
		return yaml_fault(
			text, node, fault, "%s: expected at least one number above 0", key->name);
	memcpy(field, chances, sizeof chances);
	values_op(key, field)->chances = (uint32_t)count;
	return 0;
}

int transforms_read_within(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	(void)field;
	if (values_count(node))
		return 0;
	return yaml_fault(text, node, fault,
		"%s: expected a list of operations, such as [ColorJitter: {brightness: 0.4}, "
		"RandomGrayscale]",
		key->name);
}

/* ---- kinds ---- */

enum values_type {
	VALUES_NUMBER, /* double */
	VALUES_WHOLE, /* uint32_t */
	VALUES_DEPTH, /* int32_t */
	VALUES_FLAG, /* bool */
	VALUES_WORD, /* enum */
	VALUES_SIZE,
	VALUES_CHANCES,
	VALUES_TIMM,
};

/* The type of a key's field. */
struct values_kind {
	transforms_reader *reader;
	enum values_type type;
	size_t count; /* of an array */
	bool range; /* least and most */
};

static const struct values_kind values_kinds[] = {
	{transforms_read_size, VALUES_SIZE, 1, false},
	{transforms_read_range, VALUES_NUMBER, 2, true},
	{transforms_read_factor, VALUES_NUMBER, 2, true},
	{transforms_read_hue, VALUES_NUMBER, 2, true},
	{transforms_read_angle, VALUES_NUMBER, 2, true},
	{transforms_read_shear, VALUES_NUMBER, 4, false},
	{transforms_read_sigma, VALUES_NUMBER, 2, true},
	{transforms_read_radius, VALUES_NUMBER, 2, true},
	{transforms_read_pair, VALUES_NUMBER, 2, false},
	{transforms_read_center, VALUES_NUMBER, 2, false},
	{transforms_read_kernel, VALUES_WHOLE, 2, false},
	{transforms_read_padding, VALUES_WHOLE, 4, false},
	{transforms_read_fill, VALUES_NUMBER, 3, false},
	{transforms_read_value, VALUES_NUMBER, 3, false},
	{transforms_read_depth, VALUES_DEPTH, 1, false},
	{transforms_read_warp_filter, VALUES_WORD, 1, false},
	{transforms_read_timm_filter, VALUES_WORD, 1, false},
	{transforms_read_timm, VALUES_TIMM, 1, false},
	{transforms_read_translate, VALUES_NUMBER, 1, false},
	{transforms_read_antialias, VALUES_FLAG, 1, false},
	{transforms_read_longest, VALUES_WHOLE, 1, false},
	{transforms_read_sizes, VALUES_WHOLE, STEP_SAME_MAX, false},
	{transforms_read_channels, VALUES_WHOLE, 1, false},
	{transforms_read_chances, VALUES_CHANCES, 1, false},
};

static enum values_type values_plain_type(const struct yaml_key *key)
{
	switch (key->kind) {
	case YAML_KEY_DOUBLE:
		return VALUES_NUMBER;
	case YAML_KEY_BOOL:
		return VALUES_FLAG;
	case YAML_KEY_ENUM:
		return VALUES_WORD;
	default:
		return VALUES_WHOLE;
	}
}

static struct values_kind values_kind(const struct yaml_key *key)
{
	for (size_t i = 0; key->read_as && i < UTIL_COUNT(values_kinds); i++)
		if (values_kinds[i].reader == key->read_as)
			return values_kinds[i];
	return (struct values_kind){NULL, values_plain_type(key), 1, false};
}

static const void *values_field(const struct yaml_key *key, const struct transforms_op *op)
{
	return (const char *)op + key->offset;
}

bool transforms_excluded(const struct yaml_key *key, const struct transforms_op *op)
{
	if (key->read_as == transforms_read_radius)
		return !op->step.has_radius;
	return op->step.has_radius &&
	       (key->read_as == transforms_read_kernel || key->read_as == transforms_read_sigma);
}

/* Whether nothing is to be printed here: the value was not given, or transforms.c prints it. */
static bool values_absent(const struct yaml_key *key, const struct transforms_op *op)
{
	return transforms_excluded(key, op) ||
	       (key->read_as == transforms_read_translate && op->step.timm.translate < 0) ||
	       (key->read_as == transforms_read_center && !op->step.has_center) ||
	       (key->read_as == transforms_read_chances && !op->chances) ||
	       (key->read_as == transforms_read_longest && !op->step.max_size) ||
	       (key->read_as == transforms_read_size && op->step.no_size) ||
	       key->read_as == transforms_read_within;
}

static bool values_is_random(const struct yaml_key *key, const struct transforms_op *op)
{
	return key->read_as == transforms_read_value && op->step.value_random;
}

static double values_at(enum values_type type, const void *field, size_t i)
{
	switch (type) {
	case VALUES_NUMBER:
		return ((const double *)field)[i];
	case VALUES_WHOLE:
		return ((const uint32_t *)field)[i];
	case VALUES_FLAG:
		return *(const bool *)field;
	default:
		return *(const int32_t *)field;
	}
}

/* The probability of each, whatever the sum of the written numbers. */
static size_t values_chances(const struct transforms_op *op, double ret[TRANSFORMS_VALUES])
{
	double sum = 0;
	for (uint32_t i = 0; i < op->chances; i++)
		sum += op->step.chances[i];
	for (uint32_t i = 0; i < op->within; i++)
		ret[i] = op->chances ? op->step.chances[i] / sum : 1.0 / op->within;
	return op->within;
}

size_t transforms_values(
	const struct yaml_key *key, const struct transforms_op *op, double ret[TRANSFORMS_VALUES])
{
	const struct values_kind kind = values_kind(key);
	if (kind.type == VALUES_CHANCES)
		return values_chances(op, ret);
	if (kind.type == VALUES_TIMM)
		return transforms_timm_numbers(&op->step, ret);
	if (kind.type == VALUES_SIZE) {
		ret[0] = op->size.size.height;
		ret[1] = op->size.both;
		ret[2] = op->size.size.width;
		return 3;
	}
	if (values_absent(key, op) || values_is_random(key, op))
		return 0;
	size_t count = key->read_as == transforms_read_sizes ? op->step.min_sizes : kind.count;
	for (size_t i = 0; i < count; i++)
		ret[i] = values_at(kind.type, values_field(key, op), i);
	return count;
}

/* ---- printing ---- */

static void values_json_size(
	struct jsontext *json, const char *key, const struct transforms_size *size)
{
	if (!size->both) {
		jsontext_u64(json, key, size->size.height);
		return;
	}
	jsontext_array(json, key);
	jsontext_u64(json, NULL, size->size.height);
	jsontext_u64(json, NULL, size->size.width);
	jsontext_end(json);
}

static void values_json_list(
	struct jsontext *json, const char *key, const double *values, size_t count)
{
	jsontext_array(json, key);
	for (size_t i = 0; i < count; i++)
		jsontext_shortest(json, NULL, values[i]);
	jsontext_end(json);
}

static const char *values_word(const struct yaml_key *key, const void *field)
{
	const char *const *names =
		key->kind == YAML_KEY_ENUM ? key->names : (const char *const *)weights_filter_names;
	return names[*(const int *)field];
}

/* A color whose channels are equal is printed as one number. */
static bool values_is_grey(const struct yaml_key *key, const double *values, size_t count)
{
	return (key->read_as == transforms_read_fill || key->read_as == transforms_read_value) &&
	       count == 3 && values[0] == values[1] && values[1] == values[2];
}

static void values_json_numbers(
	struct jsontext *json, const struct yaml_key *key, const struct transforms_op *op)
{
	double values[TRANSFORMS_VALUES] = {0};
	size_t count = transforms_values(key, op, values);
	if (!count)
		jsontext_string(json, key->name, "random");
	else if (count == 1 || values_is_grey(key, values, count))
		jsontext_shortest(json, key->name, values[0]);
	else
		values_json_list(json, key->name, values, count);
}

static void values_json_timm(struct jsontext *json, const char *key, const struct step *step)
{
	char config[TRANSFORMS_TIMM_TEXT];
	transforms_timm_text(step, config);
	jsontext_string(json, key, config);
}

void transforms_value_json(
	struct jsontext *json, const struct yaml_key *key, const struct transforms_op *op)
{
	const void *field = values_field(key, op);
	if (values_absent(key, op))
		return;
	switch (values_kind(key).type) {
	case VALUES_SIZE:
		values_json_size(json, key->name, field);
		break;
	case VALUES_WORD:
		jsontext_string(json, key->name, values_word(key, field));
		break;
	case VALUES_FLAG:
		jsontext_bool(json, key->name, *(const bool *)field);
		break;
	case VALUES_TIMM:
		values_json_timm(json, key->name, &op->step);
		break;
	case VALUES_CHANCES:
		values_json_list(json, key->name, field, op->chances);
		break;
	default:
		values_json_numbers(json, key, op);
	}
}

/* "0.35 to 1", "3 x 5", "23", "random". */
static void values_text_numbers(const struct values_kind *kind, const double *values, size_t count,
	char *buffer, size_t room)
{
	size_t at = 0;
	if (!count)
		(void)snprintf(buffer, room, "random");
	if (kind->range && values[0] == values[1])
		count = 1;
	for (size_t i = 0; i < count && at < room; i++)
		at += (size_t)snprintf(buffer + at, room - at, "%s%.3g",
			!i            ? ""
			: kind->range ? " to "
				      : " x ",
			values[i]);
}

static void values_text_size(const struct transforms_op *op, char *buffer, size_t room)
{
	const struct pixel_size size = op->size.size;
	if (size.height != size.width || (op->size.both && op->kind == TRANSFORMS_RESIZE))
		(void)snprintf(buffer, room, " %" PRIu32 " x %" PRIu32, size.height, size.width);
	else
		(void)snprintf(buffer, room, " %" PRIu32, size.height);
}

static bool values_same(
	const struct yaml_key *key, const struct transforms_op *a, const struct transforms_op *b)
{
	double x[TRANSFORMS_VALUES] = {0}, y[TRANSFORMS_VALUES] = {0};
	size_t count = transforms_values(key, a, x);
	if (count != transforms_values(key, b, y))
		return false;
	for (size_t i = 0; i < count; i++)
		if (x[i] != y[i])
			return false;
	return true;
}

/* Words and p are printed without their names. */
static const char *values_label(const struct yaml_key *key, enum values_type type)
{
	bool bare = type == VALUES_WORD || type == VALUES_TIMM || strcmp(key->name, "p") == 0;
	return bare ? "" : key->name;
}

static void values_text_timm(const struct step *step, char *buffer, size_t room)
{
	char config[TRANSFORMS_TIMM_TEXT];
	transforms_timm_text(step, config);
	(void)snprintf(buffer, room, "%s", config);
}

void transforms_value_text(const struct yaml_key *key, const struct transforms_op *op,
	const struct transforms_op *plain, char *buffer, size_t room)
{
	const struct values_kind kind = values_kind(key);
	double values[TRANSFORMS_VALUES] = {0};
	*buffer = 0;
	if (kind.type == VALUES_SIZE && !op->step.no_size) {
		values_text_size(op, buffer, room);
		return;
	}
	if (values_absent(key, op) || values_same(key, op, plain))
		return;
	const char *label = values_label(key, kind.type);
	size_t at = (size_t)snprintf(buffer, room, "%s%s ", *label ? " " : "", label),
	       count = transforms_values(key, op, values);
	if (at >= room)
		return;
	if (kind.type == VALUES_WORD)
		(void)snprintf(
			buffer + at, room - at, "%s", values_word(key, values_field(key, op)));
	else if (kind.type == VALUES_TIMM)
		values_text_timm(&op->step, buffer + at, room - at);
	else if (kind.type == VALUES_FLAG)
		(void)snprintf(buffer + at, room - at, "%s", values[0] != 0 ? "true" : "false");
	else
		values_text_numbers(&kind, values, values_is_grey(key, values, count) ? 1 : count,
			buffer + at, room - at);
}

/* ---- as a step ---- */

uint32_t transforms_same(const struct transforms *transforms, uint32_t i)
{
	uint32_t same = 0;
	for (uint32_t k = 0; k < i; k++)
		same += transforms->op[k].kind == transforms->op[i].kind;
	return same;
}

void transforms_apply_padding(const struct transforms_op *op, struct pixel_padding *ret)
{
	*ret = (struct pixel_padding){.mode = op->padding_mode,
		.left = op->padding[0],
		.top = op->padding[1],
		.right = op->padding[2],
		.bottom = op->padding[3],
		.if_needed = op->pad_if_needed};
	for (size_t i = 0; i < UTIL_COUNT(ret->fill); i++)
		ret->fill[i] = (uint8_t)op->step.fill[i];
}

void transforms_step(const struct transforms *transforms, uint32_t i, struct step *ret)
{
	const struct transforms_op *op = &transforms->op[i];
	*ret = op->step;
	ret->kind = (enum step_kind)op->kind;
	ret->same = transforms_same(transforms, i);
	ret->size = op->size.size;
	ret->both = op->size.both;
	transforms_apply_padding(op, &ret->padding);
	if (ret->kind == STEP_RANDOM_CHOICE)
		(void)transforms_values(&transforms_rules[op->kind].keys[1], op, ret->chances);
}
