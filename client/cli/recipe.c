/* recipe: see recipe.h. */
#include "client/cli/recipe.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "dataset/field_keys.h"
#include "definition/label_keys.h"
#include "definition/spec_check.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum weights_filter recipe_filter(const char *interpolation)
{
	int filter = WEIGHTS_BILINEAR;
	for (int i = 0; i < WEIGHTS_FILTERS; i++)
		if (strcmp(interpolation, weights_filter_names[i]) == 0)
			filter = i;
	return (enum weights_filter)filter;
}

/* The options that write a key, for messages. */
#define RECIPE_NAME_OPTION(key, name) {SPEC_KEY_##key, #key, name},
#define RECIPE_NAME_NONE(key, name)
#define RECIPE_NAME(with, key, kind, field, place, low, high, plain, extra, option, who, alike, \
	cli, name, ...)                                                                         \
	RECIPE_NAME_##cli(key, name)

static const struct recipe_name {
	enum spec_key key;
	const char *name, *option;
} recipe_names[] = {PENSTOCK_KEYS(RECIPE_NAME, ){SPEC_KEY_train, "train", "eval"},
	{SPEC_KEY_shuffle, "shuffle", "no-shuffle"}};

/* Prints the sentence, with options where it names another key as a key. */
static void recipe_say(const char *option, const char *text)
{
	static const struct {
		const char *key, *option;
	} words[] = {{" beside indices", " beside --indices"},
		{" beside weights", " beside --weights"}, {" beside repeats", " beside --repeats"},
		{" beside image_size", " beside --image-size"},
		{" beside epoch_length", " beside --epoch-length"},
		{" beside sampling", " beside --sampling"},
		{"expected a batch_size that", "expected a --batch-size that"},
		{" beside transforms", " beside --transforms"},
		{" beside source:", " beside SOURCE:"}, {"transforms makes", "--transforms makes"},
		{"needs dtype: ", "needs --dtype "}};
	const char *at = NULL;
	size_t i = 0;
	while (i < UTIL_COUNT(words) && !(at = strstr(text, words[i].key)))
		i++;
	if (at)
		cli_note("--%s%.*s%s%s", option, (int)(at - text), text, words[i].option,
			at + strlen(words[i].key));
	else
		cli_note("--%s%s", option, text);
}

/* A sentence about a definition, with the option in place of the key. */
static int recipe_refuse(const struct spec_wrong *wrong)
{
	char text[sizeof wrong->text + 2];
	const struct recipe_name *name = recipe_names;
	while ((int)name->key != wrong->key)
		name++;
	size_t size = strlen(name->name);
	bool leads = strncmp(wrong->text, name->name, size) == 0;
	(void)snprintf(
		text, sizeof text, "%s%s", leads ? "" : ": ", wrong->text + (leads ? size : 0));
	recipe_say(name->option, text);
	return -EINVAL;
}

/* What libpenstock takes as JSON. A word stands without its quotes. */
static int recipe_keep_json(struct jsontext *json, const char *option, char *buffer, size_t room)
{
	const size_t quote = !json->text.failed && json->text.bytes[0] == '"';
	const size_t size = json->text.failed ? room : json->text.size - 2 * quote;
	if (size < room) {
		memcpy(buffer, json->text.bytes + quote, size);
		buffer[size] = 0;
	} else {
		cli_note("--%s is too long", option);
	}
	jsontext_free(json);
	return size < room ? 0 : -EINVAL;
}

static int recipe_keep(struct recipe *recipe)
{
	const struct stream_spec *spec = &recipe->spec;
	struct jsontext labels = {0}, list = {0}, sampling = {0}, views = {0}, fields = {0},
			buckets = {0};
	int r = 0;
	for (int i = 0; i < 3; i++) {
		recipe->channels[0][i] = (float)spec->shape.mean.value[i];
		recipe->channels[1][i] = (float)spec->shape.std.value[i];
	}
	if (spec_given(spec, SPEC_KEY_labels)) {
		label_keys_json(&labels, NULL, &spec->labels);
		r = recipe_keep_json(
			&labels, "labels", recipe->labels_json, sizeof recipe->labels_json);
	}
	if (!r && spec_given(spec, SPEC_KEY_sampling)) {
		sampling_json_per_class(&sampling, NULL, &spec->sampling.per_class);
		r = recipe_keep_json(
			&sampling, "sampling", recipe->sampling_json, sizeof recipe->sampling_json);
	}
	if (!r && spec_given(spec, SPEC_KEY_buckets)) {
		bucket_keys_json(&buckets, NULL, &spec->buckets);
		r = recipe_keep_json(
			&buckets, "buckets", recipe->buckets_json, sizeof recipe->buckets_json);
	}
	if (!r && spec->image_size.height != spec->image_size.width)
		(void)snprintf(recipe->size_json, sizeof recipe->size_json,
			"[%" PRIu32 ",%" PRIu32 "]", spec->image_size.height,
			spec->image_size.width);
	if (!r && spec_given(spec, SPEC_KEY_transforms)) {
		transforms_json(&list, NULL, &spec->transforms);
		r = recipe_keep_json(
			&list, "transforms", recipe->list_json, sizeof recipe->list_json);
	}
	if (!r && spec->views.groups) {
		views_json(&views, NULL, &spec->views);
		r = recipe_keep_json(
			&views, "views", recipe->views_json, sizeof recipe->views_json);
	}
	if (!r && spec->fields.count) {
		field_keys_json(&fields, NULL, &spec->fields);
		r = recipe_keep_json(
			&fields, "fields", recipe->fields_json, sizeof recipe->fields_json);
	}
	return r;
}

int recipe_settle(struct recipe *recipe)
{
	struct spec_wrong wrong;
	if (!recipe->spec.shuffle && recipe->spec.sampling.weights[0]) {
		cli_note("--no-shuffle cannot be given with --weights: samples that are drawn "
			 "have no order");
		return -EINVAL;
	}
	if (!recipe->spec.shuffle && recipe->spec.sampling.per_class.classes) {
		cli_note("--no-shuffle cannot be given with --sampling, which draws the classes of "
			 "a batch");
		return -EINVAL;
	}
	/* SOURCE is an operand: it is read later. */
	recipe->spec.given |= (uint64_t)1 << SPEC_KEY_source;
	int r = spec_settle(&recipe->spec, &wrong);
	recipe->spec.given &= ~((uint64_t)1 << SPEC_KEY_source);
	return r < 0 ? recipe_refuse(&wrong) : recipe_keep(recipe);
}

struct pixel_recipe recipe_pixels(const struct recipe *recipe)
{
	return recipe_group_pixels(recipe, 0);
}

struct pixel_recipe recipe_group_pixels(const struct recipe *recipe, uint32_t group)
{
	return spec_pixels_at(&recipe->spec, group, recipe->epoch);
}

struct pixel_recipe recipe_pixels_of(const struct recipe *recipe, uint32_t width, uint32_t height)
{
	const struct bucket_keys *buckets = &recipe->spec.buckets;
	return buckets->count ? spec_pixels_in(&recipe->spec, 0,
					bucket_keys_nearest(buckets, width, height))
			      : recipe_pixels(recipe);
}

struct pixel_size recipe_size(const struct recipe *recipe)
{
	return shape_size(&recipe->spec.shape.sizes, recipe->epoch, recipe->spec.image_size);
}

/* Of this process. */
static struct list_shelf recipe_shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

int recipe_open(const struct recipe *recipe, const char *source, struct dataset **ret_dataset)
{
	char path[SPEC_TEXT];
	struct split split = {0};
	struct fault fault = {{0}};
	const char *written = recipe->spec.sampling.split;
	int r = *written ? split_parse(written, &split, &fault) : 0;
	if (!r)
		r = split_source(&split, source, path, sizeof path, &fault);
	if (!r && source[0] == '[' && access(source, F_OK))
		r = fault_set(&fault, -EINVAL,
			"%.200s: this command reads one dataset; `penstock plan`, replay and state "
			"take a mix of several, and a stream of the configuration "
			"(stream:NAME) may be one",
			source);
	if (r < 0)
		return cli_fail(cli_exit_code(r), "%s", fault.text);
	return catalog_open_spec(path, &recipe->spec, ret_dataset);
}

/* As the daemon sees it (spec.c). */
static int recipe_read_sources(struct recipe *recipe, const char *source, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	int r = yaml_load(&text, source, strlen(source), "SOURCE", fault);
	const struct stream_spec *spec = &recipe->spec;
	if (!r && spec->indices[0])
		r = fault_set(fault, -EINVAL,
			"--indices cannot be given with several sources: a list numbers the "
			"samples of "
			"one dataset");
	if (!r && spec->sampling.weights[0])
		r = fault_set(fault, -EINVAL,
			"--weights cannot be given with several sources: they have weights of "
			"their own");
	if (!r && spec->sampling.per_class.classes)
		r = fault_set(fault, -EINVAL,
			"--sampling cannot be given with several sources: they are mixed by their "
			"weights, not by classes");
	if (!r && spec->buckets.count)
		r = fault_set(fault, -EINVAL,
			"--buckets cannot be given with several sources: their mix has no "
			"buckets");
	if (!r && spec_given(spec, SPEC_KEY_shuffle) && !spec->shuffle)
		r = fault_set(fault, -EINVAL,
			"--no-shuffle cannot be given with several sources: their samples are "
			"mixed");
	if (!r)
		r = sampling_read_sources(&text, text.root, &recipe->spec.sampling.sources, fault);
	if (!r && !recipe->spec.shuffle)
		recipe->spec.shuffle = SHUFFLE_FULL;
	return r;
}

static int recipe_open_part(struct recipe *recipe, const char *source)
{
	struct dataset **dataset = &recipe->opened[recipe->parts.count];
	int code = recipe_open(recipe, source, dataset);
	if (code == CLI_OK)
		concat_add(&recipe->parts, *dataset);
	return code;
}

int recipe_open_parts(struct recipe *recipe, const char *source)
{
	struct fault fault = {{0}};
	const char *name[SAMPLER_PARTS];
	int code = CLI_OK;
	/* A folder may be called so too. */
	if (source[0] != '[' || access(source, F_OK) == 0)
		return recipe_open_part(recipe, source);
	int r = recipe_read_sources(recipe, source, &fault);
	if (r < 0)
		return cli_fail(CLI_USAGE, "%s", fault.text);
	for (uint32_t i = 0; code == CLI_OK && i < recipe->spec.sampling.sources.count; i++) {
		name[i] = sampling_source(&recipe->spec.sampling.sources, i);
		code = recipe_open_part(recipe, name[i]);
	}
	if (code == CLI_OK && concat_agree(&recipe->parts, name, &fault))
		code = cli_fail(CLI_FAILED, "%s", fault.text);
	return code;
}

static int recipe_lay_out(struct recipe *recipe, const struct concat *parts)
{
	struct fault fault = {{0}};
	struct stream_spec *spec = &recipe->spec;
	const struct sampling_order order = {.seed = spec->seed,
		.shuffle = spec->shuffle,
		.window = spec->shuffle == SHUFFLE_BLOCKS ? spec->window : 0,
		.indices = spec->indices};
	int r = sampling_lists_open(
		&recipe_shelf, spec->indices, spec->sampling.weights, NULL, &recipe->lists, &fault);
	if (!r)
		r = sampling_make(&spec->sampling, &order, parts, &recipe_shelf, &recipe->lists,
			NULL, NULL, &recipe->sampler, &fault);
	if (!r && spec->buckets.count)
		r = catalog_divide(&recipe_shelf, parts->dataset[0], &spec->buckets,
			&recipe->sampler, &recipe->lists.buckets, &fault);
	spec_note_lists(spec, &recipe->lists);
	if (!r)
		spec_note_sampler(spec, &recipe->sampler);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", fault.text) : CLI_OK;
}

int recipe_load(struct recipe *recipe, const struct dataset *dataset)
{
	struct concat parts = {0};
	concat_add(&parts, dataset);
	return recipe_lay_out(recipe, &parts);
}

int recipe_load_parts(struct recipe *recipe)
{
	return recipe_lay_out(recipe, &recipe->parts);
}

void recipe_unload(struct recipe *recipe)
{
	sampling_lists_close(&recipe_shelf, &recipe->lists);
	for (uint32_t i = 0; i < recipe->parts.count; i++)
		dataset_free(recipe->opened[i]);
	recipe->parts = (struct concat){0};
}

uint64_t recipe_list_bytes(const struct recipe *recipe)
{
	return sampling_lists_bytes(&recipe->lists);
}

int recipe_check_cut(const struct recipe *recipe, const struct recipe_cut *cut)
{
	if (cut->no_drop_last && recipe->spec.sampling.per_class.classes) {
		cli_note("--no-drop-last cannot be given with --sampling: a short last batch would "
			 "not have its classes");
		return -EINVAL;
	}
	if (!cut->drop_last || !cut->no_drop_last)
		return 0;
	cli_note("--drop-last and --no-drop-last cannot both be; leave one out");
	return -EINVAL;
}

struct order_epoch recipe_epoch(
	const struct recipe *recipe, const struct recipe_cut *cut, uint64_t samples)
{
	return (struct order_epoch){.samples = samples,
		.batch_size = recipe->spec.batch_size,
		.world_size = (uint32_t)cut->world_size,
		.drop_last = cut->drop_last || recipe->spec.sampling.per_class.classes ||
			     (recipe->spec.train && !cut->no_drop_last),
		.buckets = recipe->sampler.buckets.count ? &recipe->sampler.buckets : NULL,
		.seed = recipe->spec.seed,
		.shuffle = recipe->spec.shuffle};
}

/* One field of the options each; those that are not given keep libpenstock's defaults. */
#define RECIPE_FILL_VALUE(name, kind, field, extra) \
	if (spec_given(spec, SPEC_KEY_##name))      \
		ret_options->name = spec->field;
#define RECIPE_FILL_U32 RECIPE_FILL_VALUE
#define RECIPE_FILL_I32 RECIPE_FILL_VALUE
#define RECIPE_FILL_U64 RECIPE_FILL_VALUE
#define RECIPE_FILL_REAL RECIPE_FILL_VALUE
#define RECIPE_FILL_FLAG RECIPE_FILL_VALUE
#define RECIPE_FILL_SWITCH RECIPE_FILL_VALUE
#define RECIPE_FILL_SHUFFLE(name, kind, field, extra) \
	if (spec_given(spec, SPEC_KEY_##name))        \
		ret_options->name = (int32_t)spec->field;
#define RECIPE_FILL_PATH RECIPE_FILL_VALUE
#define RECIPE_FILL_TEXT(name, kind, field, extra) RECIPE_FILL_TEXT_##kind(name, kind, field, extra)
#define RECIPE_FILL_TEXT_NAME RECIPE_FILL_VALUE
#define RECIPE_FILL_TEXT_TEXT RECIPE_FILL_VALUE
#define RECIPE_FILL_TEXT_WORD(name, kind, field, extra) \
	if (spec_given(spec, SPEC_KEY_##name))          \
		ret_options->name = spec_word(spec, SPEC_KEY_##name);
#define RECIPE_FILL_JSON(name, kind, field, extra)
#define RECIPE_FILL_CHANNELS(name, kind, field, extra)
#define RECIPE_FILL_SIZE(name, kind, field, extra)
#define RECIPE_FILL_VIEWS(name, kind, field, extra)
#define RECIPE_FILL_NONE(name, kind, field, extra)
#define RECIPE_FILL(with, name, kind, field, place, low, high, plain, extra, option, ...) \
	RECIPE_FILL_##option(name, kind, field, extra)

void recipe_fill(
	const struct recipe *recipe, const char *source, struct penstock_options *ret_options)
{
	const struct stream_spec *spec = &recipe->spec;
	penstock_options_init(ret_options);
	ret_options->source = source;
	/* Its definition is the configuration's, and unset options leave it so. */
	if (recipe_is_stream(source))
		return;
	PENSTOCK_KEYS(RECIPE_FILL, )
	/* bench sets these two by itself as well. A list of operations says the size itself. */
	ret_options->batch_size = spec->batch_size;
	const bool sized = !recipe->list_json[0] && !spec->buckets.count;
	if (recipe->views_json[0])
		ret_options->view_groups = recipe->views_json;
	else if (spec_given(spec, SPEC_KEY_views))
		ret_options->views = spec->views.count;
	if (recipe->views_json[0])
		ret_options->image_size = 0;
	else if (sized && spec->image_size.height == spec->image_size.width)
		ret_options->image_size = spec->image_size.height;
	else if (sized)
		ret_options->image_sizes = recipe->size_json;
	if (recipe->labels_json[0])
		ret_options->labels = recipe->labels_json;
	if (recipe->list_json[0])
		ret_options->transforms = recipe->list_json;
	if (recipe->fields_json[0])
		ret_options->fields = recipe->fields_json;
	if (recipe->sampling_json[0])
		ret_options->sampling = recipe->sampling_json;
	if (recipe->buckets_json[0])
		ret_options->buckets = recipe->buckets_json;
	if (spec_given(spec, SPEC_KEY_mean))
		ret_options->mean = recipe->channels[0];
	if (spec_given(spec, SPEC_KEY_std))
		ret_options->std = recipe->channels[1];
}

/* Takes what a daemon reports of one key. False: it is a value of another release, which this one
 * does not know. */
static bool recipe_learn_key(struct stream_spec *spec, enum spec_key key, const struct node *told)
{
	struct fault fault;
	const char *word = document_string(told);
	cleanup(free_ptr) char *json = *word ? NULL : document_dump(told);
	if (!*word && json && (strcmp(json, "null") == 0 || strcmp(json, "\"\"") == 0))
		return true; /* not set */
	return (*word || json) &&
	       spec_set(spec, key, *word ? word : json, "the daemon", &fault) >= 0;
}

void recipe_learn(struct recipe *recipe, const struct node *definition)
{
	struct stream_spec *spec = &recipe->spec;
	/* A status has the sizes of epochs beside the largest. */
	const struct node *sizes = document_get(definition, "image_sizes");
	const struct node *groups = document_get(definition, "view_groups");
	for (size_t i = 0; i < UTIL_COUNT(recipe_names); i++) {
		const struct node *told = document_get(definition, recipe_names[i].name);
		if (recipe_names[i].key == SPEC_KEY_image_size && sizes)
			told = sizes;
		if (recipe_names[i].key == SPEC_KEY_views && groups)
			told = groups;
		/* In a status, `fields` is a mapping that has the names and what was delivered. */
		if (recipe_names[i].key == SPEC_KEY_fields && told && document_get(told, "names"))
			told = document_get(told, "names");
		if (told && !recipe_learn_key(spec, recipe_names[i].key, told))
			recipe->unknown = recipe_names[i].name;
	}
	/* A status says whether samples are shuffled, and the window only if there is one. */
	if (spec->shuffle && document_get(definition, "window"))
		spec->shuffle = SHUFFLE_BLOCKS;
	struct pixel_size largest = shape_settle_sizes(&spec->shape.sizes);
	if (largest.height)
		spec->image_size = largest;
	if (spec->buckets.count)
		spec->image_size = bucket_keys_largest(&spec->buckets);
}

void recipe_of_stream(struct recipe *ret_recipe, const struct node *stream)
{
	*ret_recipe = (struct recipe)RECIPE_DEFAULT;
	/* A status that says neither is shown as it is. */
	ret_recipe->spec.batch_size = 0;
	ret_recipe->spec.image_size = (struct pixel_size){0, 0};
	ret_recipe->epoch = document_u64(stream, "epoch", 0);
	recipe_learn(ret_recipe, stream);
}

/* ", 2 views, float32 NCHW": what is not the default. */
static void recipe_describe_shape(const struct stream_spec *spec, char *buffer, size_t room)
{
	bool laid = spec->shape.layout != SHAPE_NHWC,
	     typed = laid || spec->shape.dtype != SHAPE_UINT8;
	char views[24] = "";
	if (spec->shape.views > 1 && !spec->views.groups)
		(void)snprintf(views, sizeof views, ", %" PRIu32 " views", spec->shape.views);
	(void)snprintf(buffer, room, "%s%s%s%s%s", views, typed ? ", " : "",
		typed ? spec_word(spec, SPEC_KEY_dtype) : "", laid ? " " : "",
		laid ? spec_word(spec, SPEC_KEY_layout) : "");
}

/* "64 px", "256 x 128 px", "64 px (0: 64, 1: 96)": of the epoch, and of which epochs. */
static void recipe_describe_sizes(const struct recipe *recipe, char *buffer, size_t room)
{
	const struct shape_sizes *sizes = &recipe->spec.shape.sizes;
	char text[SHAPE_SIZE_TEXT], list[RECIPE_TEXT];
	if (recipe->spec.buckets.count) {
		bucket_keys_text(&recipe->spec.buckets, list, sizeof list);
		(void)snprintf(buffer, room, "buckets of %s px", list);
		return;
	}
	if (recipe->spec.views.groups) {
		views_text(&recipe->spec.views, buffer, room);
		return;
	}
	size_t n =
		(size_t)snprintf(buffer, room, "%s px", shape_size_text(recipe_size(recipe), text));
	for (uint32_t i = 0; i < sizes->count && n < room; i++)
		n += (size_t)snprintf(buffer + n, room - n, "%s%" PRIu32 ": %s%s", i ? ", " : " (",
			sizes->at[i].epoch, shape_size_text(sizes->at[i].size, text),
			i + 1 == sizes->count ? ")" : "");
}

/* "shuffled", "drawn by weights, of [:90%], each 3 times, 4096 an epoch" */
static void recipe_describe_samples(const struct stream_spec *spec, char *buffer, size_t room)
{
	const struct sampling *sampling = &spec->sampling;
	const bool split = sampling->split[0];
	const struct sampling_per_class *each = &sampling->per_class;
	char repeats[48] = "", length[48] = "", classes[64] = "", shuffled[SHUFFLE_TEXT];
	if (each->classes)
		(void)snprintf(classes, sizeof classes,
			"batches of %" PRIu32 " classes with %" PRIu32 " samples of each",
			each->classes, each->each);
	if (sampling->repeats > 1)
		(void)snprintf(
			repeats, sizeof repeats, ", each %" PRIu32 " times", sampling->repeats);
	if (sampling->epoch_length)
		(void)snprintf(
			length, sizeof length, ", %" PRIu64 " an epoch", sampling->epoch_length);
	(void)snprintf(buffer, room, "%s%s%s%s%s%s",
		sampling->weights[0] ? "drawn by weights"
		: classes[0]         ? classes
			     : shuffle_text(spec->shuffle, spec->window, shuffled, sizeof shuffled),
		spec->indices[0] ? ", of a subset" : "", split ? ", of " : "", sampling->split,
		repeats, length);
}

/* The list, with the epoch's size in the place of the largest; nothing where all is plain. */
static void recipe_describe_list(const struct recipe *recipe, char *buffer, size_t room)
{
	struct transforms list = recipe->spec.transforms;
	const struct shape_sizes *sizes = &recipe->spec.shape.sizes;
	*buffer = 0;
	for (uint32_t i = 0; sizes->count && i < list.count; i++)
		if (pixel_size_equal(list.op[i].size.size, recipe->spec.image_size))
			list.op[i].size.size = recipe_size(recipe);
	if (list.count)
		transforms_text(&list, buffer, room);
	else if (recipe->spec.interpolation != WEIGHTS_BILINEAR)
		(void)snprintf(
			buffer, room, "%s", spec_word(&recipe->spec, SPEC_KEY_interpolation));
}

void recipe_describe(const struct recipe *recipe, char *buffer, size_t room)
{
	const struct stream_spec *spec = &recipe->spec;
	char list[RECIPE_TEXT], sizes[RECIPE_TEXT], samples[RECIPE_TEXT], shape[64];
	recipe_describe_sizes(recipe, sizes, sizeof sizes);
	recipe_describe_shape(spec, shape, sizeof shape);
	recipe_describe_samples(spec, samples, sizeof samples);
	recipe_describe_list(recipe, list, sizeof list);
	(void)snprintf(buffer, room, "%s, %s, batch %" PRIu32 "%s, %s, seed %" PRIu64 "%s%s%s%s%s",
		spec->train ? "training" : "evaluation", sizes, spec->batch_size, shape, samples,
		spec->seed, spec->salt[0] ? ", salt " : "", spec->salt,
		spec->decode == SPEC_DECODE_FAST ? ", decoded fast" : "", *list ? ", " : "", list);
	size_t n = strlen(buffer);
	if (recipe->unknown)
		(void)snprintf(buffer + n, room - n, "; %s of another release, not shown",
			recipe->unknown);
}

static const char *recipe_given(const struct recipe *recipe, uint64_t keys)
{
	for (size_t i = 0; i < UTIL_COUNT(recipe_names); i++)
		if (recipe->spec.given & keys & (uint64_t)1 << recipe_names[i].key)
			return recipe_names[i].option;
	return NULL;
}

const char *recipe_chosen(const struct recipe *recipe)
{
	return recipe_given(recipe,
		(uint64_t)1 << SPEC_KEY_indices | (uint64_t)1 << SPEC_KEY_split |
			(uint64_t)1 << SPEC_KEY_weights | (uint64_t)1 << SPEC_KEY_epoch_length |
			(uint64_t)1 << SPEC_KEY_repeats | (uint64_t)1 << SPEC_KEY_sampling);
}

const char *recipe_written(const struct recipe *recipe)
{
	return recipe_given(recipe, ~((uint64_t)1 << SPEC_KEY_batch_size));
}

static const char *recipe_daemon_written(const struct recipe_daemon *daemon)
{
	const struct {
		bool given;
		const char *name;
	} options[] = {
		{daemon->memory != 0, "memory"},
		{daemon->threads != 0, "threads"},
		{daemon->prefetch != 0, "prefetch"},
		{strcmp(daemon->io, "auto") != 0, "io"},
		{strcmp(daemon->reader, "auto") != 0, "reader"},
		{strcmp(daemon->cache, "auto") != 0, "cache"},
		{daemon->no_entry_points, "no-entry-points"},
	};
	for (size_t i = 0; i < UTIL_COUNT(options); i++)
		if (options[i].given)
			return options[i].name;
	return NULL;
}

int recipe_fits_stream(
	const struct recipe *recipe, const struct recipe_daemon *daemon, const char *source)
{
	const char *name = recipe_given(recipe, UINT64_MAX);
	if (!name)
		name = recipe_daemon_written(daemon);
	if (!name)
		return 0;
	cli_note("%s is defined by the running daemon, so --%s cannot be given "
		 "with it; leave it out, or name the "
		 "folder or tars",
		source, name);
	return -EINVAL;
}

/* " for each of 4 ranks"; nothing for one. */
static void recipe_ranks(uint64_t ranks, char *buffer, size_t room)
{
	buffer[0] = 0;
	if (ranks > 1)
		(void)snprintf(buffer, room, " for each of %" PRIu64 " ranks", ranks);
}

int recipe_fits_dataset(
	const struct recipe *recipe, const char *source, uint64_t samples, uint64_t ranks)
{
	char each[64];
	if (!recipe->spec.train || samples >= recipe->spec.batch_size * ranks)
		return CLI_OK;
	recipe_ranks(ranks, each, sizeof each);
	return cli_fail(CLI_USAGE,
		"%s has %" PRIu64 " sample%s, not enough for one batch of %" PRIu32
		"%s: give a smaller --batch-size, or --eval",
		source, samples, samples == 1 ? "" : "s", recipe->spec.batch_size, each);
}

/* "--batch-size 10 or less, --world-size 4 or less, or " */
static void recipe_advise(const struct order_epoch *epoch, char *buffer, size_t room)
{
	uint64_t each = epoch->samples / epoch->world_size,
		 ranks = epoch->samples / epoch->batch_size;
	size_t at = 0;
	buffer[0] = 0;
	if (each)
		at += (size_t)snprintf(buffer, room, "--batch-size %" PRIu64 " or less, ", each);
	if (ranks)
		at += (size_t)snprintf(
			buffer + at, room - at, "--world-size %" PRIu64 " or less, ", ranks);
	if (at)
		(void)snprintf(buffer + at, room - at, "or ");
}

int recipe_fits_epoch(const struct order_epoch *epoch, const char *source)
{
	char advice[128], each[64];
	if (order_batches(epoch, 0))
		return CLI_OK;
	recipe_advise(epoch, advice, sizeof advice);
	recipe_ranks(epoch->world_size, each, sizeof each);
	return cli_fail(CLI_FAILED,
		"%s has %" PRIu64 " sample%s, not enough for one batch of %" PRIu32
		"%s, and short ones are dropped; %s--no-drop-last would fit",
		source, epoch->samples, epoch->samples == 1 ? "" : "s", epoch->batch_size, each,
		advice);
}

bool recipe_is_stream(const char *source)
{
	return strncmp(source, "stream:", 7) == 0;
}

int recipe_check_source(const char *source, const char *command)
{
	if (!recipe_is_stream(source))
		return 0;
	cli_note("%s opens the dataset itself and asks no daemon, so %s cannot be its SOURCE; name "
		 "the folder or tars, and the options of that stream",
		command, source);
	return -EINVAL;
}
