/* views: see views.h. */
#include "definition/views.h"

#include "base/util.h"
#include "definition/shape.h"
#include "proto/utf8.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct transforms) % sizeof(uint64_t) == 0, "lists are packed in words");

/* ---- packed lists ---- */

/* A run begins with a word: how many words of zeros precede it, times 2^32, plus its words. */

static size_t views_list_words(const struct transforms *list)
{
	size_t bytes = offsetof(struct transforms, op) + list->count * sizeof list->op[0];
	return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static uint64_t views_word(const struct transforms *list, size_t at)
{
	uint64_t word;
	memcpy(&word, (const char *)list + at * sizeof word, sizeof word);
	return word;
}

/* False where there is no room; then nothing has changed. */
static bool views_pack(
	struct views *views, struct views_group *group, const struct transforms *list)
{
	const size_t words = views_list_words(list);
	uint32_t used = views->used;
	for (size_t at = 0; at < words;) {
		size_t zeros = 0, run = 0;
		while (at + zeros < words && !views_word(list, at + zeros))
			zeros++;
		at += zeros;
		while (at + run < words && views_word(list, at + run))
			run++;
		if (used + 1 + run > VIEWS_WORDS)
			return false;
		views->packed[used++] = (uint64_t)zeros << 32 | run;
		for (; run; run--)
			views->packed[used++] = views_word(list, at++);
	}
	group->from = views->used;
	group->words = used - views->used;
	views->used = used;
	return true;
}

void views_transforms(
	const struct views *views, const struct views_group *group, struct transforms *ret)
{
	const uint64_t *packed = &views->packed[group->from], *end = packed + group->words;
	char *to = (char *)ret;
	memset(ret, 0, sizeof *ret);
	while (packed < end) {
		const size_t zeros = *packed >> 32, bytes = (uint32_t)*packed * sizeof *packed;
		to += zeros * sizeof *packed;
		assert(to + bytes <= (char *)(ret + 1));
		memcpy(to, ++packed, bytes);
		packed += bytes / sizeof *packed;
		to += bytes;
	}
}

const char *views_called(uint32_t number, const char *name, char ret[VIEWS_CALLED])
{
	const size_t size = utf8_cut(name, VIEWS_CALLED - sizeof "views[15] ()");
	const int used = snprintf(ret, VIEWS_CALLED, "views[%" PRIu32 "]", number);
	if (size)
		(void)snprintf(ret + used, VIEWS_CALLED - (size_t)used, " (%.*s)", (int)size, name);
	return ret;
}

bool views_has_list(const struct views_group *group)
{
	return group->words > 0;
}

/* ---- reading ---- */

/* A group as written. */
struct views_written {
	struct transforms transforms;
	struct shape_sizes sizes;
	uint32_t count;
	enum weights_filter interpolation;
	char name[WIRE_NAME];
	uint64_t given;
};

enum { VIEWS_TRANSFORMS, VIEWS_IMAGE_SIZE, VIEWS_COUNT, VIEWS_NAME, VIEWS_INTERPOLATION };

static const struct yaml_key views_keys[] = {
	[VIEWS_TRANSFORMS] = {"transforms", YAML_KEY_NODE,
		offsetof(struct views_written, transforms), .read = transforms_read},
	[VIEWS_IMAGE_SIZE] = {"image_size", YAML_KEY_NODE, offsetof(struct views_written, sizes),
		.read = shape_read_sizes},
	[VIEWS_COUNT] = {"count", YAML_KEY_U32, offsetof(struct views_written, count), .min = 1,
		.max = VIEWS_MAX},
	[VIEWS_NAME] = {"name", YAML_KEY_NAME, offsetof(struct views_written, name),
		.room = WIRE_NAME},
	[VIEWS_INTERPOLATION] = {"interpolation", YAML_KEY_ENUM,
		offsetof(struct views_written, interpolation), .names = weights_filter_names},
};

static bool views_given(const struct views_written *written, int key)
{
	return written->given >> key & 1;
}

/* The node of a key's value in a group that has the key. */
static const yaml_node_t *views_node(
	const struct yaml_text *text, const yaml_node_t *group, int key)
{
	return yaml_node(text, yaml_find(text, group, views_keys[key].name)->value);
}

/* The name in a group that has not been checked yet; "" if it has none that can be printed. */
static const char *views_written_name(const struct yaml_text *text, const yaml_node_t *group)
{
	const yaml_node_pair_t *pair = yaml_find(text, group, views_keys[VIEWS_NAME].name);
	const yaml_node_t *value = pair ? yaml_node(text, pair->value) : NULL;
	size_t size = 0;
	const char *name = value ? yaml_scalar(value, &size) : NULL;
	if (!name || strlen(name) != size || !utf8_is_valid(name))
		return "";
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "";
	return name;
}

/* What the keys of one group must satisfy together. */
static int views_check_written(const struct yaml_text *text, const yaml_node_t *node,
	const struct views_written *written, struct fault *fault)
{
	const bool sized = views_given(written, VIEWS_IMAGE_SIZE);
	char makes[SHAPE_SIZE_TEXT], got[SHAPE_SIZE_TEXT];
	if (sized && written->sizes.count > 1)
		return yaml_fault(text, views_node(text, node, VIEWS_IMAGE_SIZE), fault,
			"image_size: expected one size for all epochs: the size of a group of "
			"views cannot change");
	if (!views_given(written, VIEWS_TRANSFORMS))
		return 0;
	if (views_given(written, VIEWS_INTERPOLATION))
		return yaml_fault(text, views_node(text, node, VIEWS_INTERPOLATION), fault,
			"interpolation cannot be written beside transforms: it is a parameter of "
			"its operations");
	const struct pixel_recipe recipe = transforms_pixels(&written->transforms);
	if (sized && !pixel_size_equal(written->sizes.at[0].size, recipe.size))
		return yaml_fault(text, views_node(text, node, VIEWS_IMAGE_SIZE), fault,
			"image_size: expected %s, the size that transforms makes, or nothing; got "
			"%s",
			shape_size_text(recipe.size, makes),
			shape_size_text(written->sizes.at[0].size, got));
	return 0;
}

/* Takes one group over. */
static int views_take(const struct yaml_text *text, const yaml_node_t *node,
	const struct views_written *written, struct views *views, struct fault *fault)
{
	struct views_group *group = &views->group[views->groups];
	for (uint32_t i = 0; i < views->groups; i++)
		if (written->name[0] && strcmp(views->group[i].name, written->name) == 0)
			return yaml_fault(text, views_node(text, node, VIEWS_NAME), fault,
				"two groups have the name \"%s\"; expected another name for one of "
				"them",
				written->name);
	if (views->groups && (views->group[0].name[0] != 0) != (written->name[0] != 0))
		return yaml_fault(text, node, fault,
			"expected names for all groups or for none: group %" PRIu32 " has %s name",
			views->groups + 1, written->name[0] ? "a" : "no");
	if (views->count + written->count > VIEWS_MAX)
		return yaml_fault(text, node, fault,
			"expected at most %d views of a sample, of all groups together; this group "
			"makes them %" PRIu32,
			VIEWS_MAX, views->count + written->count);
	*group = (struct views_group){.count = written->count,
		.interpolation = written->interpolation,
		.filtered = views_given(written, VIEWS_INTERPOLATION)};
	memcpy(group->name, written->name, sizeof group->name);
	if (views_given(written, VIEWS_IMAGE_SIZE))
		group->size = written->sizes.at[0].size;
	if (views_given(written, VIEWS_TRANSFORMS)) {
		const struct pixel_recipe recipe = transforms_pixels(&written->transforms);
		group->size = recipe.size;
		group->interpolation = recipe.filter;
		if (!views_pack(views, group, &written->transforms))
			return yaml_fault(text, views_node(text, node, VIEWS_TRANSFORMS), fault,
				"the lists of all groups together are too long; expected fewer "
				"operations");
	}
	views->count += written->count;
	views->groups++;
	return 0;
}

static int views_read_groups(const struct yaml_text *text, const yaml_node_t *node,
	struct views_written *written, struct views *views, struct fault *fault)
{
	const yaml_node_item_t *item = node->data.sequence.items.start;
	struct yaml_text inner = *text;
	for (; item < node->data.sequence.items.top; item++) {
		const int number = (int)(item - node->data.sequence.items.start);
		const yaml_node_t *group = yaml_node(text, *item);
		char called[VIEWS_CALLED];
		(void)snprintf(inner.place, sizeof inner.place, "%s: ",
			views_called((uint32_t)number, views_written_name(text, group), called));
		if (group->type != YAML_MAPPING_NODE)
			return yaml_fault(&inner, group, fault,
				"expected each group as a mapping with transforms, image_size, "
				"interpolation, count and name, such as {image_size: 96, count: "
				"8}");
		memset(written, 0, sizeof *written);
		written->count = 1;
		int result = yaml_read(&inner, group, views_keys, UTIL_COUNT(views_keys), written,
			&written->given, fault);
		if (!result)
			result = views_check_written(&inner, group, written, fault);
		if (!result)
			result = views_take(&inner, group, written, views, fault);
		if (result < 0)
			return result;
	}
	return 0;
}

int views_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key number = {"views", YAML_KEY_U32, .min = 1, .max = VIEWS_MAX};
	size_t size;
	if (yaml_scalar(node, &size)) {
		uint32_t count;
		int result = yaml_read_value(text, node, &number, &count, fault);
		if (result < 0)
			return result;
		memset(field, 0, sizeof(struct views));
		((struct views *)field)->count = count;
		return 0;
	}
	if (node->type != YAML_SEQUENCE_NODE ||
		node->data.sequence.items.start == node->data.sequence.items.top)
		return yaml_fault(text, node, fault,
			"views: expected a whole number from 1 to %d, or a list of groups, such as "
			"[{image_size: 224, count: 2}, {image_size: 96, count: 8}]",
			VIEWS_MAX);
	struct {
		struct views_written written;
		struct views views;
	} *room = calloc(1, sizeof *room);
	if (!room)
		return fault_set(fault, -ENOMEM, "no memory to read views");
	int result = views_read_groups(text, node, &room->written, &room->views, fault);
	if (!result)
		memcpy(field, &room->views, sizeof room->views);
	free(room);
	return result;
}

/* ---- settling ---- */

static int views_refuse(char *ret, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int views_refuse(char *ret, size_t room, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(ret, room, format, args);
	va_end(args);
	return -EINVAL;
}

/* A group without a list takes the stream's. */
static int views_take_list(struct views *views, uint32_t number,
	const struct transforms *transforms, char *ret_wrong, size_t room)
{
	struct views_group *group = &views->group[number];
	const struct pixel_recipe recipe = transforms_pixels(transforms);
	char makes[SHAPE_SIZE_TEXT], got[SHAPE_SIZE_TEXT], called[VIEWS_CALLED];
	if (group->filtered)
		return views_refuse(ret_wrong, room,
			"%s has an interpolation and takes the stream's transforms, of whose "
			"operations it is a parameter; leave it out, or write transforms for the "
			"group",
			views_called(number, group->name, called));
	if (group->size.height && !pixel_size_equal(group->size, recipe.size))
		return views_refuse(ret_wrong, room,
			"%s has the image_size %s and takes the stream's transforms, which make "
			"%s; write transforms for the group",
			views_called(number, group->name, called),
			shape_size_text(group->size, got), shape_size_text(recipe.size, makes));
	if (!views_pack(views, group, transforms))
		return views_refuse(ret_wrong, room,
			"views: the lists of all groups together are too long; expected fewer "
			"operations");
	group->size = recipe.size;
	group->interpolation = recipe.filter;
	return 0;
}

int views_settle(
	struct views *views, const struct views_defaults *defaults, char *ret_wrong, size_t room)
{
	int result = 0;
	for (uint32_t i = 0; !result && i < views->groups; i++) {
		struct views_group *group = &views->group[i];
		if (views_has_list(group))
			continue;
		if (defaults->transforms) {
			result = views_take_list(views, i, defaults->transforms, ret_wrong, room);
			continue;
		}
		if (!group->size.height)
			group->size = defaults->size;
		if (!group->filtered)
			group->interpolation = defaults->interpolation;
		group->filtered = true;
	}
	return result;
}

struct pixel_size views_largest(const struct views *views)
{
	struct pixel_size largest = {0, 0};
	for (uint32_t i = 0; i < views->groups; i++) {
		largest.height = UTIL_MAX(largest.height, views->group[i].size.height);
		largest.width = UTIL_MAX(largest.width, views->group[i].size.width);
	}
	return largest;
}

bool views_equal(const struct views *a, const struct views *b)
{
	if (a->count != b->count || a->groups != b->groups)
		return false;
	for (uint32_t i = 0; i < a->groups; i++)
		if (a->group[i].count != b->group[i].count ||
			!pixel_size_equal(a->group[i].size, b->group[i].size) ||
			strcmp(a->group[i].name, b->group[i].name) != 0)
			return false;
	return true;
}

/* ---- writing ---- */

static void views_json_group(
	struct jsontext *json, const struct views *views, const struct views_group *group)
{
	struct transforms list;
	jsontext_object(json, NULL);
	if (group->name[0])
		jsontext_string(json, "name", group->name);
	jsontext_u64(json, "count", group->count);
	if (group->size.height)
		shape_json_size(json, "image_size", group->size);
	if (views_has_list(group)) {
		views_transforms(views, group, &list);
		transforms_json(json, "transforms", &list);
	} else if (group->filtered) {
		jsontext_string(json, "interpolation", weights_filter_names[group->interpolation]);
	}
	jsontext_end(json);
}

void views_json(struct jsontext *json, const char *key, const struct views *views)
{
	if (!views->groups) {
		jsontext_u64(json, key, views->count);
		return;
	}
	jsontext_array(json, key);
	for (uint32_t i = 0; i < views->groups; i++)
		views_json_group(json, views, &views->group[i]);
	jsontext_end(json);
}

void views_text(const struct views *views, char *buffer, size_t room)
{
	char size[SHAPE_SIZE_TEXT];
	size_t at = 0;
	if (!views->groups)
		(void)snprintf(buffer, room, "%" PRIu32, views->count);
	for (uint32_t i = 0; i < views->groups && at + 1 < room; i++) {
		const struct views_group *group = &views->group[i];
		at += (size_t)snprintf(buffer + at, room - at, "%s%s%s%" PRIu32 " x %s px",
			i ? " + " : "", group->name, group->name[0] ? " " : "", group->count,
			shape_size_text(group->size, size));
	}
}
