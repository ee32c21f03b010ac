/* open: see open.h.
 *
 * Only what the application set is written, so that defaults have one home, the daemon. Paths are
 * made absolute here: the daemon works in another folder. Values are the daemon's to judge; here
 * only what cannot be written is refused.
 *
 * Thread: that of penstock_stream_open. */
#include "client/lib/open.h"

#include "client/lib/error.h"
#include "client/lib/open_json.h"
#include "proto/utf8.h"

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

/* Of two options that say the same thing one is given. */
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
	return 0;
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

/* JSON holds text, not bytes: another path would arrive, and be missed. What lies below may have
 * any names. */
static int open_write_absolute(const char *key, const char *path, struct jsontext *json)
{
	if (!utf8_is_valid(path))
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

bool open_is_named(const char *source)
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

static int open_write_weights(const char *weights, struct jsontext *json)
{
	if (!weights)
		return 0;
	if (!*weights)
		return error_set(-EINVAL,
			"options.weights is empty: expected \"balanced\", the path "
			"of a .npy file of floats, or NULL for equal ones");
	if (strcmp(weights, OPEN_BALANCED) != 0)
		return open_write_path("weights", weights, json);
	jsontext_string(json, "weights", weights);
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

static const char *const open_source_paths[] = {"source", NULL};
static const char *const open_label_paths[] = {"manifest", "classes", NULL};

static const struct open_json open_transforms = {"transforms", "transforms", '[', NULL,
	"a JSON array of operations and nothing else, such as [{\"RandomResizedCrop\": {\"size\": "
	"224}}, {\"RandomHorizontalFlip\": {\"p\": 0.5}}]"};
static const struct open_json open_sources = {"sources", "sources", '[', open_source_paths,
	"a JSON array of mappings and nothing else, such as [{\"source\": \"a\", \"weight\": 3}, "
	"{\"source\": \"b\", \"weight\": 1}]"};
static const struct open_json open_sizes = {"image_sizes", "image_size", '{', NULL,
	"a JSON object with the size from an epoch on and nothing else, such as {\"0\": 128, "
	"\"16\": "
	"192}"};
static const struct open_json open_labels = {"labels", "labels", '{', open_label_paths,
	"a word, or a JSON object and nothing else, such as {\"manifest\": \"labels.csv\"}"};

static int open_write_json(const struct open_json *option, const char *text, struct jsontext *json)
{
	return text ? open_json_write(option, text, json) : 0;
}

/* A word is the daemon's to know. */
static int open_write_labels(const char *labels, struct jsontext *json)
{
	if (labels && labels[strspn(labels, " \t\r\n")] == '{')
		return open_json_write(&open_labels, labels, json);
	if (labels)
		jsontext_string(json, "labels", labels);
	return 0;
}

static int open_write_values(const struct penstock_options *options, struct jsontext *json)
{
	int result = open_write_labels(options->labels, json);
	if (result == 0)
		result = open_write_json(&open_sizes, options->image_sizes, json);
	if (result == 0)
		result = open_write_json(&open_transforms, options->transforms, json);
	return result;
}

static void open_write_channels(const char *key, const float *values, struct jsontext *json)
{
	if (!values)
		return;
	jsontext_array(json, key);
	for (int i = 0; i < 3; i++)
		jsontext_shortest(json, NULL, (double)values[i]);
	jsontext_end(json);
}

static void open_write_texts(const struct penstock_options *options, struct jsontext *json)
{
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
	if (options->split)
		jsontext_string(json, "split", options->split);
	if (options->dtype)
		jsontext_string(json, "dtype", options->dtype);
	if (options->layout)
		jsontext_string(json, "layout", options->layout);
	open_write_channels("mean", options->mean, json);
	open_write_channels("std", options->std, json);
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
	if (options->epoch_length)
		jsontext_u64(json, "epoch_length", options->epoch_length);
	if (options->repeats)
		jsontext_u64(json, "repeats", options->repeats);
	if (options->views)
		jsontext_u64(json, "views", options->views);
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

/* What the configuration says of its streams: the daemon would refuse it too, but in the words of a
 * request that the application has not written. */
static int open_check_named(const struct penstock_options *o)
{
	const struct {
		const char *option;
		bool set;
		const char *unset;
	} defining[] = {
		{"batch_size", o->batch_size, "0"},
		{"image_size", o->image_size, "0"},
		{"train", !o->train, "1"},
		{"shuffle", o->shuffle >= 0, "-1"},
		{"drop_last", o->drop_last >= 0, "-1"},
		{"seed", o->seed, "0"},
		{"prefetch", o->prefetch, "0"},
		{"max_broken", o->max_broken != 0, "0"},
		{"on_broken", o->on_broken, "NULL"},
		{"decode", o->decode, "NULL"},
		{"interpolation", o->interpolation, "NULL"},
		{"labels", o->labels, "NULL"},
		{"transforms", o->transforms, "NULL"},
		{"indices", o->indices, "NULL"},
		{"weights", o->weights, "NULL"},
		{"epoch_length", o->epoch_length, "0"},
		{"repeats", o->repeats, "0"},
		{"split", o->split, "NULL"},
		{"views", o->views, "0"},
		{"dtype", o->dtype, "NULL"},
		{"layout", o->layout, "NULL"},
		{"mean", o->mean, "NULL"},
		{"std", o->std, "NULL"},
		{"image_sizes", o->image_sizes, "NULL"},
	};
	for (size_t i = 0; open_is_named(o->source) && i < sizeof defining / sizeof *defining; i++)
		if (defining[i].set)
			return error_set(-EINVAL,
				"options.%s is set, and the daemon's configuration defines %s: "
				"leave it %s with stream:NAME, and change it there",
				defining[i].option, o->source, defining[i].unset);
	return 0;
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
		result = open_write_indices(options->indices, json);
	if (result == 0)
		result = open_write_weights(options->weights, json);
	if (result < 0)
		return result;
	/* A stream that the configuration names has its recipe there. */
	if (!open_is_named(options->source))
		jsontext_bool(json, "train", options->train);
	if (options->shuffle >= 0)
		jsontext_bool(json, "shuffle", options->shuffle);
	if (options->drop_last >= 0)
		jsontext_bool(json, "drop_last", options->drop_last);
	if (options->pin_memory)
		jsontext_bool(json, "pin_memory", true);
	open_write_numbers(options, json);
	result = open_write_values(options, json);
	open_write_texts(options, json);
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

/* Ranks that mean one stream have to agree on this and nothing else: not on who they are, nor on
 * how far and how far ahead they read. Their number is left out so that ranks which disagree on it
 * meet, and are told; and so is where the lists of samples and of weights lie, since what is in
 * them counts. */
static int open_hash(const struct penstock_options *options, uint64_t *ret_hash)
{
	struct penstock_options common = *options;
	struct jsontext text = {0};
	common.rank = common.world_size = 0;
	common.group = common.laggard = common.indices = NULL;
	if (common.weights && strcmp(common.weights, OPEN_BALANCED) != 0)
		common.weights = NULL;
	common.wait_for = common.laggard_timeout_s = common.prefetch = 0;
	common.epochs = 0;
	common.pin_memory = 0;
	int result = open_write(&common, &text);
	if (result == 0)
		*ret_hash = job_hash(text.text.bytes);
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
