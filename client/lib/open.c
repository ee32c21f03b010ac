/* open: see open.h.
 *
 * Only what the application set is written, so that defaults have one home, the daemon. Paths are
 * made absolute here: the daemon works in another folder. Values are the daemon's to judge; here
 * only what cannot be written is refused.
 *
 * Thread: that of penstock_stream_open. */
#include "client/lib/open.h"

#include "client/lib/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_STREAM_PREFIX "stream:"

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

/* An application that was compiled with another release has a shorter or longer struct: fields are
 * only ever added at its end. A field that this release does not know must be unset, or it would be
 * ignored in silence. */
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
	if (!mine.source || !*mine.source)
		return error_set(-EINVAL, "options.source is not set: expected a folder, a tar, a "
					  "glob, a brace range, or "
					  "stream:NAME");
	if (mine.timeout_ms < 0 && mine.timeout_ms != PENSTOCK_FOREVER)
		return error_set(-EINVAL,
			"options.timeout_ms is %d: expected milliseconds, or PENSTOCK_FOREVER",
			mine.timeout_ms);
	if (mine.reconnect_ms < 0 && mine.reconnect_ms != PENSTOCK_FOREVER)
		return error_set(-EINVAL,
			"options.reconnect_ms is %d: expected milliseconds, 0 for never, or "
			"PENSTOCK_FOREVER",
			mine.reconnect_ms);
	int result = job_take_ranks(&mine);
	if (result < 0)
		return result;
	*ret_options = mine;
	return 0;
}

/* JSON holds text, not bytes: another path would arrive, and be missed. What lies below may have
 * any names. */
static int open_write_absolute(const char *key, const char *path, struct jsontext *json)
{
	if (!jsontext_is_utf8(path))
		return error_set(-EINVAL,
			"the path %s (%s) is not UTF-8, which a request is written in: rename "
			"it, or name a symbolic link to it",
			path, key);
	jsontext_string(json, key, path);
	return 0;
}

/* Globs and brace ranges stay as they are: only their front is completed. */
static int open_write_path(const char *key, const char *named, struct jsontext *json)
{
	char path[2 * PATH_MAX];
	if (named[0] == '/')
		return open_write_absolute(key, named, json);
	if (!getcwd(path, PATH_MAX))
		return error_set(-errno,
			"the working folder, in which %s lies, cannot be found: %s", named,
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

static bool open_is_named(const char *source)
{
	return source && strncmp(source, OPEN_STREAM_PREFIX, strlen(OPEN_STREAM_PREFIX)) == 0;
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

static int open_write_indices(const char *indices, struct jsontext *json)
{
	if (!indices)
		return 0;
	if (!*indices)
		return error_set(-EINVAL, "options.indices is empty: expected the path of a .npy "
					  "file of sample numbers, or NULL for all samples");
	return open_write_path("indices", indices, json);
}

/* A state is JSON already; the daemon reads what is in it. Here only its outer shape: it must not
 * close the mapping around it. */
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
			"options.state is no state: expected the JSON object that "
			"penstock_stream_state wrote");
	char *copy = strndup(state, size);
	if (!copy)
		return error_set(-ENOMEM, "no memory for the state");
	jsontext_raw(json, "state", copy);
	free(copy);
	return 0;
}

enum { OPEN_DEPTH_MAX = 16 };

/* The byte behind a JSON string that begins here; NULL: it has no end. */
static const char *open_skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at == '\\' && !*++at)
			return NULL;
	}
	return *at ? at + 1 : NULL;
}

/* Opens or closes a bracket; whether it fits those that are open. */
static bool open_bracket(char byte, char closers[OPEN_DEPTH_MAX], size_t *depth)
{
	if (byte == '[' || byte == '{') {
		if (*depth == OPEN_DEPTH_MAX)
			return false;
		closers[(*depth)++] = byte == '[' ? ']' : '}';
		return true;
	}
	return *depth && closers[--*depth] == byte;
}

/* What JSON has outside its strings; not as the locale sees it. */
static bool open_is_json(char byte)
{
	bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
	bool digit = byte >= '0' && byte <= '9';
	return letter || digit || (byte && strchr("[]{}:,+-. \t\r\n", byte));
}

/* The byte behind the array that `text` begins with; NULL: it is none. Only what JSON is made of
 * may stand in it, and brackets must fit: it cannot end the mapping that it is written into, nor be
 * taken for more than one value. What it means is the daemon's to judge. */
static const char *open_skip_array(const char *text)
{
	char closers[OPEN_DEPTH_MAX];
	size_t depth = 0;
	const char *at = text;
	if (*at != '[')
		return NULL;
	do {
		if (*at == '"') {
			at = open_skip_string(at);
			if (!at)
				return NULL;
			continue;
		}
		if (*at && strchr("[]{}", *at) && !open_bracket(*at, closers, &depth))
			return NULL;
		if (!open_is_json(*at))
			return NULL;
		at++;
	} while (depth);
	return at;
}

static int open_write_transforms(const char *transforms, struct jsontext *json)
{
	static const char space[] = " \t\r\n";
	const char *begin = transforms + strspn(transforms, space);
	const char *end = jsontext_is_utf8(begin) ? open_skip_array(begin) : NULL;
	if (!end || end[strspn(end, space)])
		return error_set(-EINVAL,
			"options.transforms is no list: expected a JSON array of operations and "
			"nothing else, such as [{\"RandomResizedCrop\": {\"size\": 224}}, "
			"{\"RandomHorizontalFlip\": {\"p\": 0.5}}]");
	char *copy = strndup(begin, (size_t)(end - begin));
	if (!copy)
		return error_set(-ENOMEM, "no memory for the request");
	jsontext_raw(json, "transforms", copy);
	free(copy);
	return 0;
}

static void open_write_texts(const struct penstock_options *options, struct jsontext *json)
{
	if (options->labels)
		jsontext_string(json, "labels", options->labels);
	if (options->on_broken)
		jsontext_string(json, "on_broken", options->on_broken);
	if (options->group)
		jsontext_string(json, "group", options->group);
	if (options->decode)
		jsontext_string(json, "decode", options->decode);
	if (options->interpolation)
		jsontext_string(json, "interpolation", options->interpolation);
	if (options->share)
		jsontext_string(json, "share", options->share);
	if (options->laggard)
		jsontext_string(json, "laggard", options->laggard);
}

/* Numbers whose 0 means "not set". */
static void open_write_numbers(const struct penstock_options *options, struct jsontext *json)
{
	if (options->batch_size)
		jsontext_u64(json, "batch_size", options->batch_size);
	if (options->image_size)
		jsontext_u64(json, "image_size", options->image_size);
	if (options->seed)
		jsontext_u64(json, "seed", options->seed);
	if (options->epochs)
		jsontext_u64(json, "epochs", options->epochs);
	if (options->prefetch)
		jsontext_u64(json, "prefetch", options->prefetch);
	if (options->wait_for)
		jsontext_u64(json, "wait_for", options->wait_for);
	if (options->max_broken != 0)
		jsontext_number(json, "max_broken", options->max_broken, 9);
	if (options->laggard_timeout_s)
		jsontext_u64(json, "laggard_timeout_s", options->laggard_timeout_s);
	/* Rank 0 is one too: what says that ranks are meant is their number. */
	if (options->world_size) {
		jsontext_u64(json, "rank", options->rank);
		jsontext_u64(json, "world_size", options->world_size);
	}
}

int open_write(const struct penstock_options *options, struct jsontext *json)
{
	jsontext_object(json, NULL);
	int result = open_write_source(options->source, json);
	if (result == 0)
		result = open_write_indices(options->indices, json);
	if (result < 0)
		return result;
	/* A stream that the configuration names has its recipe there; 1 is the default here, so it
	 * says nothing. */
	if (!options->train || !open_is_named(options->source))
		jsontext_bool(json, "train", options->train);
	if (options->shuffle >= 0)
		jsontext_bool(json, "shuffle", options->shuffle);
	if (options->drop_last >= 0)
		jsontext_bool(json, "drop_last", options->drop_last);
	if (options->pin_memory)
		jsontext_bool(json, "pin_memory", true);
	open_write_numbers(options, json);
	open_write_texts(options, json);
	if (options->transforms)
		result = open_write_transforms(options->transforms, json);
	if (result < 0)
		return result;
	jsontext_end(json);
	return json->failed ? error_set(-ENOMEM, "no memory for the request") : 0;
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
	return json->failed ? error_set(-ENOMEM, "no memory for the request") : 0;
}

/* Ranks that mean one stream have to agree on this and nothing else: not on who they are, nor on
 * how far and how far ahead they read. Their number is left out so that ranks which disagree on it
 * meet, and are told; and so is where the list of samples lies, since what is in it counts. */
static int open_hash(const struct penstock_options *options, uint64_t *ret_hash)
{
	struct penstock_options common = *options;
	struct jsontext text = {0};
	common.rank = common.world_size = 0;
	common.group = common.laggard = common.indices = NULL;
	common.wait_for = common.laggard_timeout_s = common.prefetch = 0;
	common.epochs = 0;
	common.pin_memory = 0;
	int result = open_write(&common, &text);
	if (result == 0)
		*ret_hash = job_hash(text.text);
	jsontext_free(&text);
	return result;
}

/* A stream of the configuration has its name for a group, so that all who open it meet. */
int open_make_group(struct penstock_options *options, struct open_group *group)
{
	*group = (struct open_group){0};
	if (options->group || !options->share || open_is_named(options->source))
		return 0;
	if (options->wait_for > 1 && !job_known())
		return error_set(-EINVAL,
			"options.wait_for is %u, but nobody could join: set options.group, or the "
			"variable PENSTOCK_JOB, to the same name in all of them",
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
