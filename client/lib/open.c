/* open: see open.h.
 *
 * This module writes only the options that the application set, so that only the daemon has
 * defaults. It makes paths absolute, because the daemon has another working folder. The daemon
 * checks the values; this module refuses only values that a request cannot hold.
 *
 * Thread: the caller of penstock_stream_open. */
#include "client/lib/open.h"

#include "client/lib/error.h"
#include "client/lib/open_json.h"
#include "proto/keys.h"
#include "proto/utf8.h"
#include "proto/wire.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_STREAM_PREFIX "stream:"
#define OPEN_BALANCED "balanced"

void penstock_options_init_size(struct penstock_options *options, size_t size)
{
	const struct penstock_options defaults = {
		.size = size, .train = 1, .shuffle = -1, .drop_last = -1, .private_daemon = 1};
	size_t known = size < sizeof defaults ? size : sizeof defaults;
	memcpy(options, &defaults, known);
	memset((unsigned char *)options + known, 0, size - known);
}

void(penstock_options_init)(struct penstock_options *options)
{
	penstock_options_init_size(options, offsetof(struct penstock_options, decode));
}

/* The application sets at most one of two options with the same purpose. */
static int open_check_either(const struct penstock_options *options)
{
	bool source = options->source && *options->source;
	if (!source && !options->sources)
		return error_set(-EINVAL, "options.source is not set: expected a folder, a tar, a "
					  "glob, a brace range, or stream:NAME");
	if (source && options->sources)
		return error_set(-EINVAL,
			"options.source and options.sources are both set: expected one of them");
	if (options->image_size && options->image_sizes)
		return error_set(-EINVAL,
			"options.image_size and options.image_sizes are both set: "
			"expected one of them");
	if (options->views && options->view_groups)
		return error_set(-EINVAL,
			"options.views and options.view_groups are both set: expected one of them");
	return 0;
}

/* An application that was compiled against another release has a shorter or longer struct: releases
 * add fields only at its end. A field that this release does not know must be unset; otherwise this
 * release would silently ignore it. */
int open_take_options(const struct penstock_options *options, struct penstock_options *ret_options)
{
	struct penstock_options mine;
	penstock_options_init(&mine);
	size_t size = options ? options->size : 0;
	if (size < offsetof(struct penstock_options, batch_size) || size > 16 * sizeof mine)
		return error_set(
			-EINVAL, "the options were not prepared: call penstock_options_init first");
	memcpy(&mine, options, size < sizeof mine ? size : sizeof mine);
	for (size_t i = sizeof mine; i < size; i++) {
		if (((const unsigned char *)options)[i])
			return error_set(-EINVAL,
				"the application sets an option that libpenstock %s does not know: "
				"install the release that it "
				"was built with",
				PENSTOCK_VERSION);
	}
	int result = open_check_either(&mine);
	if (result < 0)
		return result;
	if (mine.timeout_ms < 0 && mine.timeout_ms != PENSTOCK_FOREVER)
		return error_set(-EINVAL,
			"options.timeout_ms is %d: expected milliseconds, or PENSTOCK_FOREVER",
			mine.timeout_ms);
	if (mine.reconnect_ms < 0 && mine.reconnect_ms != PENSTOCK_FOREVER)
		return error_set(-EINVAL,
			"options.reconnect_ms is %d: expected milliseconds, 0 for never, or "
			"PENSTOCK_FOREVER",
			mine.reconnect_ms);
	result = job_take_ranks(&mine);
	if (result < 0)
		return result;
	*ret_options = mine;
	return 0;
}

/* JSON holds text, not bytes: the daemon would receive a different path and not find it. Files
 * below the path may have any names. */
static int open_write_absolute(const char *key, const char *path, struct jsontext *json)
{
	if (!utf8_is_valid(path))
		return error_set(-EINVAL,
			"the path %s (%s) is not UTF-8, but a request is: rename "
			"it, or name a symbolic link to it",
			path, key);
	jsontext_string(json, key, path);
	return 0;
}

/* Puts the working folder in front of a relative path. Globs and brace ranges stay as they are, and
 * URLs. */
static int open_write_path(const char *key, const char *named, struct jsontext *json)
{
	char path[2 * PATH_MAX];
	if (named[0] == '/' || open_is_url(named))
		return open_write_absolute(key, named, json);
	if (!getcwd(path, PATH_MAX))
		return error_set(-errno,
			"the working folder, to which %s is relative, cannot be found: %s", named,
			strerror(errno));
	while (named[0] == '.' && named[1] == '/') {
		for (named += 2; *named == '/';)
			named++;
	}
	size_t length = strlen(path);
	bool root = length == 1, here = !*named || strcmp(named, ".") == 0;
	int n = snprintf(path + length, sizeof path - length, "%s%s", root || here ? "" : "/",
		here ? "" : named);
	if (n < 0 || (size_t)n >= sizeof path - length)
		return error_set(-ENAMETOOLONG, "the path of options.%s is too long", key);
	return open_write_absolute(key, path, json);
}

bool open_is_named(const char *source)
{
	return source && strncmp(source, OPEN_STREAM_PREFIX, strlen(OPEN_STREAM_PREFIX)) == 0;
}

uint64_t open_features(const struct penstock_options *options)
{
	const size_t known = offsetof(struct penstock_options, view_groups);
	/* An application that does not know of fields need not read them. Batches with sizes of
	 * their own are as old as sizes by epoch, and libpenstock writes the cuts of a state. */
	return WIRE_FEATURE_FIELDS | WIRE_FEATURE_BUCKETS |
	       (options->size > known ? WIRE_FEATURE_GROUPS : 0u);
}

bool open_is_writable(const struct penstock_options *options)
{
	bool alone = options->world_size || (!options->group && !open_is_named(options->source));
	return options->pin_memory && alone;
}

static int open_write_source(const char *source, struct jsontext *json)
{
	if (!open_is_named(source))
		return open_write_path("source", source, json);
	const char *name = source + strlen(OPEN_STREAM_PREFIX);
	if (!*name)
		return error_set(-EINVAL, "options.source is \"stream:\" without a name");
	jsontext_string(json, "stream", name);
	return 0;
}

/* A state is already JSON, and the daemon reads its content. This function checks only the outer
 * shape: the state must not close the mapping around it. */
static int open_write_state(const char *state, struct jsontext *json)
{
	size_t size = strlen(state);
	while (size && isspace((unsigned char)state[size - 1]))
		size--;
	while (size && isspace((unsigned char)*state)) {
		state++;
		size--;
	}
	bool object = size >= 2 && state[0] == '{' && state[size - 1] == '}';
	if (!object || memchr(state + 1, '{', size - 1) || memchr(state, '}', size - 1))
		return error_set(-EINVAL,
			"options.state is not a state: expected the JSON object that "
			"penstock_stream_state wrote");
	char *copy = strndup(state, size);
	if (!copy)
		return error_set(-ENOMEM, "no memory for the state");
	jsontext_raw(json, "state", copy);
	free(copy);
	return 0;
}

static const char *const open_source_paths[] = {"source", NULL};
static const char *const open_label_paths[] = {"manifest", "classes", NULL};

static const struct open_json open_transforms = {"transforms", "transforms", '[', NULL,
	"a JSON array of operations and nothing else, such as [{\"RandomResizedCrop\": {\"size\": "
	"224}}, {\"RandomHorizontalFlip\": {\"p\": 0.5}}]"};
static const struct open_json open_sources = {"sources", "sources", '[', open_source_paths,
	"a JSON array of mappings and nothing else, such as [{\"source\": \"a\", \"weight\": 3}, "
	"{\"source\": \"b\", \"weight\": 1}]"};
static const struct open_json open_buckets = {"buckets", "buckets", '[', NULL,
	"a JSON array of arrays [height, width] and nothing else, such as [[256, 192], [192, "
	"256]]"};
#define OPEN_SIZES                                                                            \
	"a JSON array [height, width], or a JSON object with the size from an epoch on, and " \
	"nothing else, such as [256, 128] or {\"0\": 128, \"16\": 192}"
static const struct open_json open_sizes = {"image_sizes", "image_size", '{', NULL, OPEN_SIZES};
static const struct open_json open_rectangle = {"image_sizes", "image_size", '[', NULL, OPEN_SIZES};
static const struct open_json open_sampling = {"sampling", "sampling", '{', NULL,
	"a JSON object and nothing else, such as {\"classes\": 16, \"per_class\": 4}"};
static const struct open_json open_views = {"view_groups", "views", '[', NULL,
	"a JSON array of groups and nothing else, such as [{\"image_size\": 224, \"count\": 2}, "
	"{\"image_size\": 96, \"count\": 8}]"};
static const struct open_json open_fields = {"fields", "fields", '[', NULL,
	"a name, or a JSON array of names and mappings and nothing else, such as [\"txt\", "
	"{\"name\": \"npy\", \"max\": 4096}]"};
static const struct open_json open_labels = {"labels", "labels", '{', open_label_paths,
	"a word, or a JSON object and nothing else, such as {\"manifest\": \"labels.csv\"}"};

/* Between a group's name and the number of a choice. */
#define OPEN_GROUP_MARK '#'

/* ---- keys ---- */

/* Made from the table in proto/keys.h: how each field of the options becomes a member of the
 * request. */

enum open_kind {
	OPEN_TEXT,
	OPEN_PATH,
	OPEN_U32,
	OPEN_I32,
	OPEN_U64,
	OPEN_REAL,
	OPEN_FLAG,
	OPEN_JSON,
	OPEN_CHANNELS,
};

enum { OPEN_DEFINITION, OPEN_READER, OPEN_CLIENT, OPEN_SAME, OPEN_OWN };

static const struct open_key {
	const char *name;
	enum open_kind kind;
	size_t offset; /* in struct penstock_options */
	int unset; /* a flag's value that means unset */
	int who, alike;
} open_keys[] = {
#define OPEN_AT(field) offsetof(struct penstock_options, field)
#define OPEN_ROW_AS(kind, key, unset, who, alike) \
	{#key, OPEN_##kind, OPEN_AT(key), unset, OPEN_##who, OPEN_##alike},
#define OPEN_ROW_NONE(...)
#define OPEN_ROW_TEXT(...) OPEN_ROW_AS(TEXT, __VA_ARGS__)
#define OPEN_ROW_PATH(...) OPEN_ROW_AS(PATH, __VA_ARGS__)
#define OPEN_ROW_U32(...) OPEN_ROW_AS(U32, __VA_ARGS__)
#define OPEN_ROW_SIZE(...) OPEN_ROW_AS(U32, __VA_ARGS__)
#define OPEN_ROW_VIEWS(...) OPEN_ROW_AS(U32, __VA_ARGS__)
#define OPEN_ROW_I32(...) OPEN_ROW_AS(I32, __VA_ARGS__)
#define OPEN_ROW_U64(...) OPEN_ROW_AS(U64, __VA_ARGS__)
#define OPEN_ROW_REAL(...) OPEN_ROW_AS(REAL, __VA_ARGS__)
#define OPEN_ROW_FLAG(...) OPEN_ROW_AS(FLAG, __VA_ARGS__)
#define OPEN_ROW_SWITCH(key, plain, ...) OPEN_ROW_AS(FLAG, key, -1, __VA_ARGS__)
#define OPEN_ROW_SHUFFLE OPEN_ROW_SWITCH
#define OPEN_ROW_JSON(...) OPEN_ROW_AS(JSON, __VA_ARGS__)
#define OPEN_ROW_CHANNELS(...) OPEN_ROW_AS(CHANNELS, __VA_ARGS__)
#define OPEN_ROW(with, key, kind, field, place, low, high, plain, extra, option, who, alike, ...) \
	OPEN_ROW_##option(key, (plain) != 0, who, alike)
	PENSTOCK_KEYS(OPEN_ROW, )};

enum { OPEN_KEYS = sizeof open_keys / sizeof *open_keys };

/* The value of a field, in the field's own type. */
union open_value {
	const char *text;
	const float *channels;
	uint32_t u32;
	uint64_t u64;
	double real;
	int32_t i32;
	int32_t flag;
};

static size_t open_bytes(enum open_kind kind)
{
	switch (kind) {
	case OPEN_U32:
	case OPEN_I32:
	case OPEN_FLAG:
		return sizeof(uint32_t);
	case OPEN_U64:
	case OPEN_REAL:
		return sizeof(uint64_t);
	default:
		return sizeof(void *);
	}
}

static union open_value open_value(
	const struct penstock_options *options, const struct open_key *key)
{
	union open_value value = {.u64 = 0};
	memcpy(&value, (const char *)options + key->offset, open_bytes(key->kind));
	return value;
}

/* Whether the application set a field. `ret_unset` gets the value that means unset. */
static bool open_is_set(
	const struct penstock_options *options, const struct open_key *key, const char **ret_unset)
{
	static const char *const unset[] = {"-1", "0", "1"};
	const union open_value value = open_value(options, key);
	const bool number = key->kind >= OPEN_U32 && key->kind <= OPEN_REAL;
	*ret_unset = number ? "0" : key->kind == OPEN_FLAG ? unset[key->unset + 1] : "NULL";
	if (key->kind == OPEN_FLAG)
		return key->unset < 0 ? value.flag >= 0 : (value.flag != 0) != key->unset;
	/* All other unset values have no bit set; reals are compared because -0.0 is 0 too. */
	return key->kind == OPEN_REAL ? value.real != 0 : value.u64 != 0;
}

static void open_write_channels(const char *key, const float *values, struct jsontext *json)
{
	jsontext_array(json, key);
	for (int i = 0; i < 3; i++)
		jsontext_shortest(json, NULL, (double)values[i]);
	jsontext_end(json);
}

static int open_write_file(const char *key, const char *path, struct jsontext *json)
{
	const bool weights = strcmp(key, "weights") == 0;
	if (!*path)
		return error_set(-EINVAL, "options.%s is empty: expected %s, or NULL for %s", key,
			weights ? "\"balanced\", the path of a .npy file of floats"
				: "the path of a .npy file of sample numbers",
			weights ? "equal ones" : "all samples");
	if (!weights || strcmp(path, OPEN_BALANCED) != 0)
		return open_write_path(key, path, json);
	jsontext_string(json, key, path);
	return 0;
}

/* Passes a word on unchecked: the daemon knows the words that `labels` and `fields` accept. */
static int open_write_value(const char *key, const char *text, struct jsontext *json)
{
	if (strcmp(key, "transforms") == 0)
		return open_json_write(&open_transforms, text, json);
	if (strcmp(key, "buckets") == 0)
		return open_json_write(&open_buckets, text, json);
	if (strcmp(key, "sampling") == 0)
		return open_json_write(&open_sampling, text, json);
	if (strcmp(key, "fields") == 0 && text[strspn(text, " \t\r\n")] == '[')
		return open_json_write(&open_fields, text, json);
	if (text[strspn(text, " \t\r\n")] == '{')
		return open_json_write(&open_labels, text, json);
	jsontext_string(json, key, text);
	return 0;
}

static int open_write_key(
	const struct penstock_options *options, const struct open_key *key, struct jsontext *json)
{
	const union open_value value = open_value(options, key);
	switch (key->kind) {
	case OPEN_PATH:
		return open_write_file(key->name, value.text, json);
	case OPEN_JSON:
		return open_write_value(key->name, value.text, json);
	case OPEN_CHANNELS:
		open_write_channels(key->name, value.channels, json);
		return 0;
	case OPEN_U32:
		jsontext_u64(json, key->name, value.u32);
		return 0;
	case OPEN_I32:
		jsontext_i64(json, key->name, value.i32);
		return 0;
	case OPEN_U64:
		jsontext_u64(json, key->name, value.u64);
		return 0;
	case OPEN_REAL:
		jsontext_number(json, key->name, value.real, 9);
		return 0;
	case OPEN_FLAG:
		if (key->offset == OPEN_AT(shuffle) && value.flag == PENSTOCK_SHUFFLE_BLOCKS)
			jsontext_string(json, key->name, "blocks");
		else
			jsontext_bool(json, key->name, value.flag);
		return 0;
	default:
		jsontext_string(json, key->name, value.text);
		return 0;
	}
}

/* The configuration defines a named stream, so the application must not. The daemon would refuse
 * such options too, but its message would describe a request that the application did not write. */
static int open_check_named(const struct penstock_options *options)
{
	const char *unset = "NULL", *set = options->image_sizes   ? "image_sizes"
					   : options->view_groups ? "view_groups"
								  : NULL;
	if (!open_is_named(options->source))
		return 0;
	for (size_t i = 0; !set && i < OPEN_KEYS; i++)
		if (open_keys[i].who == OPEN_DEFINITION &&
			open_is_set(options, &open_keys[i], &unset))
			set = open_keys[i].name;
	if (!set)
		return 0;
	return error_set(-EINVAL,
		"options.%s belongs to the named stream: leave it %s, and change it in the "
		"daemon's configuration, which defines %s",
		set, unset, options->source);
}

/* Writes all keys except those that name the samples. A flag that is on by default is always
 * written. */
static int open_write_keys(const struct penstock_options *options, struct jsontext *json)
{
	const bool named = open_is_named(options->source);
	const char *unset;
	const char *sizes = options->image_sizes;
	const bool rectangle = sizes && sizes[strspn(sizes, " \t\r\n")] == '[';
	int result = 0;
	if (sizes)
		result = open_json_write(rectangle ? &open_rectangle : &open_sizes, sizes, json);
	if (result == 0 && options->view_groups)
		result = open_json_write(&open_views, options->view_groups, json);
	for (size_t i = 0; result == 0 && i < OPEN_KEYS; i++) {
		const struct open_key *key = &open_keys[i];
		if (open_is_set(options, key, &unset) ||
			(key->kind == OPEN_FLAG && key->unset == 1 && !named))
			result = open_write_key(options, key, json);
	}
	/* Rank 0 is a valid rank, so world_size tells whether the application set the two. */
	if (options->world_size) {
		jsontext_u64(json, "rank", options->rank);
		jsontext_u64(json, "world_size", options->world_size);
	}
	return result;
}

int open_write(const struct penstock_options *options, struct jsontext *json)
{
	int result = open_check_named(options);
	if (result < 0)
		return result;
	jsontext_object(json, NULL);
	result = options->sources ? open_json_write(&open_sources, options->sources, json)
				  : open_write_source(options->source, json);
	if (result == 0)
		result = open_write_keys(options, json);
	if (result < 0)
		return result;
	jsontext_end(json);
	return json->text.failed ? error_set(-ENOMEM, "no memory for the request") : 0;
}

int open_request(const char *definition, const char *state, bool reconnect, struct jsontext *json)
{
	int result = 0;
	char *members = strndup(definition + 1, strlen(definition) - 2); /* without its braces */
	if (!members)
		return error_set(-ENOMEM, "no memory for the request");
	jsontext_object(json, NULL);
	jsontext_raw(json, NULL, members);
	free(members);
	if (state)
		result = open_write_state(state, json);
	if (result < 0)
		return result;
	if (reconnect)
		jsontext_bool(json, "reconnect", true);
	jsontext_end(json);
	return json->text.failed ? error_set(-ENOMEM, "no memory for the request") : 0;
}

static bool open_member_is(const struct open_member *member, const char *key, const char *value)
{
	return member->key_size == strlen(key) && memcmp(member->key, key, member->key_size) == 0 &&
	       (!value || (member->value_size == strlen(value) &&
				  memcmp(member->value, value, member->value_size) == 0));
}

int open_may_choose(const char *definition)
{
	bool group = false, split = false;
	struct open_member member;
	while (open_json_next(&definition, &member)) {
		group |= open_member_is(&member, "group", NULL);
		split |= open_member_is(&member, "share", "\"split\"");
		if (open_member_is(&member, "stream", NULL))
			return error_set(-EINVAL,
				"penstock_stream_set_indices: the daemon's configuration says "
				"which samples the stream has: change it there");
	}
	if (!group || split)
		return 0;
	return error_set(-EBUSY,
		"penstock_stream_set_indices: other trainers of the group read the same batches: "
		"open a stream without a group");
}

/* "train#2": the name that the group had at first, and the number. */
static int open_write_group(
	const struct open_member *member, const struct open_choice *choice, struct jsontext *json)
{
	char *name = NULL;
	size_t size = member->value_size - 1; /* without the last quote */
	while (choice->numbered && member->value[size - 1] != OPEN_GROUP_MARK)
		size--;
	size -= choice->numbered;
	if (asprintf(&name, "%.*s%c%u\"", (int)size, member->value, OPEN_GROUP_MARK,
		    choice->number) < 0)
		return error_set(-ENOMEM, "no memory for the request");
	const bool fits = strlen(name) - 2 < JOB_GROUP;
	if (fits)
		jsontext_raw(json, "group", name);
	free(name);
	return fits ? 0
		    : error_set(-ENAMETOOLONG,
			      "penstock_stream_set_indices: ranks that open a stream again need a "
			      "new group, whose name would be longer than %d bytes: use a shorter "
			      "options.group",
			      JOB_GROUP - 1);
}

static int open_copy_member(const struct open_member *member, struct jsontext *json)
{
	char *key = strndup(member->key, member->key_size);
	char *value = strndup(member->value, member->value_size);
	if (key && value)
		jsontext_raw(json, key, value);
	int result = key && value ? 0 : error_set(-ENOMEM, "no memory for the request");
	free(key);
	free(value);
	return result;
}

int open_choose(const char *definition, const struct open_choice *choice, struct jsontext *json)
{
	struct open_member member;
	int result = 0;
	jsontext_object(json, NULL);
	while (result == 0 && open_json_next(&definition, &member)) {
		if (open_member_is(&member, "group", NULL))
			result = open_write_group(&member, choice, json);
		else if (choice->same || !open_member_is(&member, "indices", NULL))
			result = open_copy_member(&member, json);
	}
	if (result == 0 && choice->indices)
		result = open_write_file("indices", choice->indices, json);
	if (result < 0)
		return result;
	jsontext_end(json);
	return json->text.failed ? error_set(-ENOMEM, "no memory for the request") : 0;
}

/* Hashes the keys that the ranks of one group must agree on, and no others. The hash omits
 * world_size, so that ranks with different values meet and get a refusal. It omits the paths of
 * weights and indices, because two files may have the same content. */
static int open_hash(const struct penstock_options *options, uint64_t *ret_hash)
{
	static const struct penstock_options none = {.shuffle = -1, .drop_last = -1};
	struct penstock_options common = *options;
	struct jsontext text = {0};
	common.rank = common.world_size = 0;
	for (size_t i = 0; i < OPEN_KEYS; i++) {
		const struct open_key *key = &open_keys[i];
		const bool balanced = key->kind == OPEN_PATH && options->weights &&
				      strcmp(options->weights, OPEN_BALANCED) == 0 &&
				      key->offset == OPEN_AT(weights);
		if (key->alike == OPEN_OWN && !balanced)
			memcpy((char *)&common + key->offset, (const char *)&none + key->offset,
				open_bytes(key->kind));
	}
	int result = open_write(&common, &text);
	if (result == 0)
		*ret_hash = job_hash(text.text.bytes);
	jsontext_free(&text);
	return result;
}

/* Makes no group for a configured stream: its group is the stream's name, so that all its
 * clients meet. */
int open_make_group(struct penstock_options *options, struct open_group *group)
{
	*group = (struct open_group){0};
	if (options->group || !options->share || open_is_named(options->source))
		return 0;
	if (options->wait_for > 1 && !job_known())
		return error_set(-EINVAL,
			"options.wait_for is %u, but no other trainer can join: set options.group, "
			"or "
			"the variable PENSTOCK_JOB, to the same name in all of them",
			options->wait_for);
	int result = open_hash(options, &group->hash);
	if (result == 0)
		result = job_group(group->hash, group->name, &group->ordinal);
	if (result < 0)
		return result;
	group->made = true;
	options->group = group->name;
	return 0;
}

void open_drop_group(const struct open_group *group)
{
	if (group->made)
		job_take_back(group->hash, group->ordinal);
}
