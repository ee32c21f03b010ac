/* spec_differ: see spec_differ.h. */
#include "definition/spec_differ.h"

#include "base/util.h"
#include "dataset/field_keys.h"
#include "definition/label_keys.h"
#include "definition/spec_keys.h"
#include "proto/jsontext.h"
#include "proto/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIFFER_BIT(key) ((uint64_t)1 << (key))

/* People look for these first. The others follow in the order of the table, and the longest, the
 * list of operations, comes last. */
static const enum spec_key differ_first[] = {SPEC_KEY_train, SPEC_KEY_split, SPEC_KEY_indices,
	SPEC_KEY_weights, SPEC_KEY_sampling, SPEC_KEY_image_size, SPEC_KEY_batch_size,
	SPEC_KEY_seed, SPEC_KEY_salt};

/* Lists of operations are compared as people read them: spec_keys_equal compares what they do, to
 * which other keys add. */
static bool differ_equal(
	enum spec_key key, const struct stream_spec *a, const struct stream_spec *b)
{
	char x[SPEC_TEXT] = "", y[SPEC_TEXT] = "";
	if (key != SPEC_KEY_transforms)
		return spec_keys_equal(key, a, b);
	if (a->transforms.count)
		transforms_text(&a->transforms, x, sizeof x);
	if (b->transforms.count)
		transforms_text(&b->transforms, y, sizeof y);
	return strcmp(x, y) == 0;
}

uint64_t spec_differ(const struct stream_spec *a, const struct stream_spec *b)
{
	uint64_t keys = 0;
	for (int i = 0; i < SPEC_KEYS; i++)
		if (spec_who[i].writer == SPEC_DEFINITION && i != SPEC_KEY_source &&
			i != SPEC_KEY_sources && !differ_equal((enum spec_key)i, a, b))
			keys |= DIFFER_BIT(i);
	return keys;
}

/* The value of a key that is a mapping or a list, as JSON; "" without memory. */
static void differ_json(
	const struct stream_spec *spec, enum spec_key key, char *buffer, size_t room)
{
	struct jsontext json = {0};
	jsontext_array(&json, NULL);
	if (key == SPEC_KEY_labels)
		label_keys_json(&json, NULL, &spec->labels);
	else if (key == SPEC_KEY_fields)
		field_keys_json(&json, NULL, &spec->fields);
	else if (key == SPEC_KEY_mean)
		shape_json_channels(&json, NULL, &spec->shape.mean);
	else if (key == SPEC_KEY_std)
		shape_json_channels(&json, NULL, &spec->shape.std);
	jsontext_end(&json);
	*buffer = 0;
	size_t size = json.text.failed ? 0 : strlen(json.text.bytes);
	if (size > 2)
		(void)snprintf(buffer, room, "%.*s", (int)(size - 2), json.text.bytes + 1);
	jsontext_free(&json);
}

/* "64 to 96 px" of an image_size that changes with the epoch. */
static void differ_size(const struct stream_spec *spec, char *buffer, size_t room)
{
	const struct shape_sizes *sizes = &spec->shape.sizes;
	char first[SHAPE_SIZE_TEXT], last[SHAPE_SIZE_TEXT];
	if (sizes->count)
		(void)snprintf(buffer, room, "%s to %s px",
			shape_size_text(sizes->at[0].size, first),
			shape_size_text(sizes->at[sizes->count - 1].size, last));
	else
		(void)snprintf(buffer, room, "%s px", shape_size_text(spec->image_size, first));
}

/* "buckets of 256 x 192, 224 and 192 x 256" */
static void differ_buckets(const struct bucket_keys *buckets, char *buffer, size_t room)
{
	char text[SPEC_TEXT];
	bucket_keys_text(buckets, text, sizeof text);
	if (buckets->count)
		(void)snprintf(buffer, room, "buckets of %s", text);
	else
		(void)snprintf(buffer, room, "no buckets");
}

/* "16 classes x 4" */
static void differ_per_class(const struct sampling_per_class *per_class, char *buffer, size_t room)
{
	if (per_class->classes)
		(void)snprintf(buffer, room, "%" PRIu32 " classes x %" PRIu32, per_class->classes,
			per_class->each);
	else
		(void)snprintf(buffer, room, "no sampling");
}

/* A file by its name, without its folder. */
static void differ_string(const char *name, const char *value, char *buffer, size_t room)
{
	const char *slash = strrchr(value, '/');
	if (*value)
		(void)snprintf(buffer, room, "%s %s", name, slash && slash[1] ? slash + 1 : value);
	else
		(void)snprintf(buffer, room, "no %s", name);
}

static void differ_node(
	const struct stream_spec *spec, enum spec_key key, char *buffer, size_t room)
{
	char value[SPEC_TEXT];
	if (key == SPEC_KEY_image_size) {
		differ_size(spec, buffer, room);
	} else if (key == SPEC_KEY_views) {
		views_text(&spec->views, value, sizeof value);
		(void)snprintf(buffer, room, "views %s", value);
	} else if (key == SPEC_KEY_transforms && spec->transforms.count) {
		transforms_text(&spec->transforms, buffer, room);
	} else if (key == SPEC_KEY_transforms) {
		(void)snprintf(buffer, room, "default transforms");
	} else if (key == SPEC_KEY_sampling) {
		differ_per_class(&spec->sampling.per_class, buffer, room);
	} else if (key == SPEC_KEY_shuffle) {
		(void)shuffle_text(spec->shuffle, spec->window, buffer, room);
	} else if (key == SPEC_KEY_buckets) {
		differ_buckets(&spec->buckets, buffer, room);
	} else {
		differ_json(spec, key, value, sizeof value);
		(void)snprintf(buffer, room, "%s %s", spec_keys[key].name, value);
	}
}

static void differ_flag(enum spec_key key, const char *name, bool on, char *buffer, size_t room)
{
	if (key == SPEC_KEY_train)
		(void)snprintf(buffer, room, "%s", on ? "train" : "eval");
	else
		(void)snprintf(buffer, room, "%s%s", on ? "" : "no ", name);
}

static void differ_value(
	const struct stream_spec *spec, enum spec_key key, char *buffer, size_t room)
{
	const struct yaml_key *row = &spec_keys[key];
	const void *field = (const char *)spec + row->offset;
	switch (row->kind) {
	case YAML_KEY_BOOL:
		differ_flag(key, row->name, *(const bool *)field, buffer, room);
		break;
	case YAML_KEY_U32:
		(void)snprintf(buffer, room, "%s %" PRIu32,
			key == SPEC_KEY_batch_size ? "batch" : row->name, *(const uint32_t *)field);
		break;
	case YAML_KEY_I32:
		(void)snprintf(buffer, room, "%s %" PRId32, row->name, *(const int32_t *)field);
		break;
	case YAML_KEY_U64:
		(void)snprintf(buffer, room, "%s %" PRIu64, row->name, *(const uint64_t *)field);
		break;
	case YAML_KEY_DOUBLE:
		(void)snprintf(buffer, room, "%s %g", row->name, *(const double *)field);
		break;
	case YAML_KEY_ENUM:
		(void)snprintf(buffer, room, "%s %s", row->name, spec_word(spec, key));
		break;
	case YAML_KEY_NODE:
		differ_node(spec, key, buffer, room);
		break;
	default:
		differ_string(row->name, field, buffer, room);
	}
}

/* What follows from `train` unless it is written (spec_settle). */
static bool differ_is_implied(const struct stream_spec *spec, enum spec_key key)
{
	if (key == SPEC_KEY_shuffle)
		return spec->shuffle == (spec->train ? SHUFFLE_FULL : SHUFFLE_NONE);
	if (key == SPEC_KEY_drop_last)
		return spec->drop_last == spec->train;
	if (key == SPEC_KEY_on_broken)
		return spec->on_broken == (spec->train ? SPEC_BROKEN_SUBSTITUTE : SPEC_BROKEN_MARK);
	return key == SPEC_KEY_transforms && !spec->transforms.count;
}

const char *spec_differ_text(
	const struct stream_spec *spec, uint64_t keys, char *buffer, size_t room)
{
	enum spec_key order[UTIL_COUNT(differ_first) + SPEC_KEYS + 1];
	uint64_t rest = ~DIFFER_BIT(SPEC_KEY_transforms);
	size_t count = 0, at = 0;
	for (; count < UTIL_COUNT(differ_first); count++) {
		order[count] = differ_first[count];
		rest &= ~DIFFER_BIT(order[count]);
	}
	for (int i = 0; i < SPEC_KEYS; i++)
		if (rest & DIFFER_BIT(i))
			order[count++] = (enum spec_key)i;
	order[count++] = SPEC_KEY_transforms;
	*buffer = 0;
	for (size_t i = 0; i < count && at + 1 < room; i++) {
		char value[SPEC_TEXT];
		if (!(keys & DIFFER_BIT(order[i])) ||
			(keys & DIFFER_BIT(SPEC_KEY_train) && differ_is_implied(spec, order[i])))
			continue;
		differ_value(spec, order[i], value, sizeof value);
		at += (size_t)snprintf(buffer + at, room - at, "%s%s", at ? ", " : "", value);
	}
	buffer[utf8_cut(buffer, room - 2)] = 0;
	return buffer;
}
