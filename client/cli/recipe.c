/* recipe: see recipe.h. */
#include "client/cli/recipe.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "definition/label_keys.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool recipe_shuffles(const struct recipe *recipe)
{
	return recipe->weights || recipe->sources.count || (!recipe->eval && !recipe->no_shuffle);
}

enum weights_filter recipe_filter(const char *interpolation)
{
	int filter = WEIGHTS_BILINEAR;
	for (int i = 0; i < WEIGHTS_FILTERS; i++)
		if (strcmp(interpolation, weights_filter_names[i]) == 0)
			filter = i;
	return (enum weights_filter)filter;
}

static int recipe_agree(struct recipe *recipe, const struct pixel_recipe *pixels)
{
	static const struct recipe plain = RECIPE_DEFAULT;
	if (recipe->image_size != plain.image_size && recipe->image_size != pixels->image_size)
		cli_note("--image-size %" PRIu64 " is not the size that --transforms makes, which "
			 "is %" PRIu32 "; leave --image-size out",
			recipe->image_size, pixels->image_size);
	else if (strcmp(recipe->interpolation, plain.interpolation) != 0)
		cli_note("--interpolation is a parameter of the operations in --transforms; write "
			 "it there");
	else if (recipe->shape.dtype == SHAPE_UINT8 && transforms_byte_fault(&recipe->list))
		cli_note("--transforms: %s", transforms_byte_fault(&recipe->list));
	else
		return 0;
	return -EINVAL;
}

/* Takes `recipe->list` for granted. */
static int recipe_take_list(struct recipe *recipe)
{
	const struct pixel_recipe pixels = transforms_pixels(&recipe->list);
	struct jsontext json = {0};
	recipe->image_size = pixels.image_size;
	recipe->interpolation = weights_filter_names[pixels.filter];
	transforms_json(&json, NULL, &recipe->list);
	bool fits = !json.text.failed && json.text.size < sizeof recipe->list_json;
	if (fits)
		memcpy(recipe->list_json, json.text.bytes, json.text.size + 1);
	jsontext_free(&json);
	return fits ? 0 : -ENOMEM;
}

/* As the daemon sees them (spec.c), in the words of options. */
static int recipe_check_sampling(const struct recipe *recipe)
{
	struct split split;
	struct fault fault = {{0}};
	if (recipe->weights && recipe->no_shuffle)
		cli_note("--no-shuffle cannot be with --weights: samples that are drawn come in no "
			 "order");
	else if (recipe->split && recipe->indices)
		cli_note("--split and --indices both say which samples there are; leave one out");
	else if (recipe->repeats > 1 && !recipe_shuffles(recipe))
		cli_note("--repeats needs shuffling: the first samples would come in every epoch, "
			 "and the others never");
	else if (recipe->split && split_parse(recipe->split, &split, &fault))
		cli_note("--split: %s", fault.text);
	else
		return 0;
	return -EINVAL;
}

static int recipe_word(const char *word, const char *const *names)
{
	int i = 0;
	while (names[i + 1] && strcmp(word, names[i]) != 0)
		i++;
	return i;
}

/* --mean or --std. */
static int recipe_take_channels(const char *text, const char *origin,
	int (*read)(const struct yaml_text *, const yaml_node_t *, void *, struct fault *),
	struct shape_channels *channels)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	struct fault fault = {{0}};
	if (!text)
		return 0;
	int r = yaml_load(&parsed, text, strlen(text), origin, &fault);
	if (!r && !parsed.root)
		r = yaml_fault(&parsed, NULL, &fault, "expected a list of three numbers");
	if (!r)
		r = read(&parsed, parsed.root, channels, &fault);
	if (r < 0)
		cli_note("%s", fault.text);
	return r;
}

static int recipe_take_shape(struct recipe *recipe)
{
	struct shape *shape = &recipe->shape;
	*shape = shape_default();
	shape->views = (uint32_t)recipe->views;
	shape->dtype = (enum shape_dtype)recipe_word(recipe->dtype, shape_dtype_names);
	shape->layout = (enum shape_layout)recipe_word(recipe->layout, shape_layout_names);
	if ((recipe->mean || recipe->std) && shape->dtype == SHAPE_UINT8) {
		cli_note("--%s says something only with --dtype float32, float16 or bfloat16: "
			 "uint8 is not normalised",
			recipe->mean ? "mean" : "std");
		return -EINVAL;
	}
	int r = recipe_take_channels(recipe->mean, "--mean", shape_read_mean, &shape->mean);
	if (!r)
		r = recipe_take_channels(recipe->std, "--std", shape_read_std, &shape->std);
	for (int i = 0; i < 3; i++) {
		recipe->channels[0][i] = (float)shape->mean.value[i];
		recipe->channels[1][i] = (float)shape->std.value[i];
	}
	return r;
}

/* Takes --labels apart, and notes a mapping as the JSON that libpenstock takes. */
static int recipe_take_labels(struct recipe *recipe)
{
	struct label_rule rule;
	struct fault fault = {{0}};
	struct jsontext json = {0};
	if (label_keys_parse(recipe->labels, "--labels", &rule, &fault) < 0) {
		cli_note("%s", fault.text);
		return -EINVAL;
	}
	if (label_rule_plain(&rule))
		return 0;
	label_keys_json(&json, NULL, &rule);
	bool fits = !json.text.failed && json.text.size < sizeof recipe->labels_json;
	if (fits)
		memcpy(recipe->labels_json, json.text.bytes, json.text.size + 1);
	else
		cli_note("--labels is too long");
	jsontext_free(&json);
	return fits ? 0 : -EINVAL;
}

int recipe_settle(struct recipe *recipe)
{
	struct fault fault = {{0}};
	if (recipe_check_sampling(recipe) < 0 || recipe_take_shape(recipe) < 0 ||
		recipe_take_labels(recipe) < 0)
		return -EINVAL;
	if (!recipe->transforms)
		return 0;
	if (transforms_parse(recipe->transforms, strlen(recipe->transforms), "--transforms",
		    &recipe->list, &fault) < 0) {
		cli_note("%s", fault.text);
		return -EINVAL;
	}
	const struct pixel_recipe pixels = transforms_pixels(&recipe->list);
	int r = recipe_agree(recipe, &pixels);
	if (r < 0)
		return r;
	r = recipe_take_list(recipe);
	if (r < 0)
		cli_note("no memory for --transforms");
	return r;
}

struct pixel_recipe recipe_pixels(const struct recipe *recipe)
{
	struct stream_spec spec;
	recipe_spec(recipe, &spec);
	return spec_pixels_at(&spec, recipe->epoch);
}

uint32_t recipe_side(const struct recipe *recipe)
{
	return shape_side(&recipe->shape.sizes, recipe->epoch, (uint32_t)recipe->image_size);
}

static void recipe_fill_sampling(const struct recipe *recipe, struct sampling *sampling)
{
	sampling->epoch_length = recipe->epoch_length;
	sampling->sources = recipe->sources;
	if (recipe->repeats)
		sampling->repeats = (uint32_t)recipe->repeats;
	if (recipe->weights)
		(void)snprintf(sampling->weights, sizeof sampling->weights, "%s", recipe->weights);
	if (recipe->split)
		(void)snprintf(sampling->split, sizeof sampling->split, "%s", recipe->split);
}

void recipe_spec(const struct recipe *recipe, struct stream_spec *ret_spec)
{
	spec_init(ret_spec);
	ret_spec->batch_size = (uint32_t)recipe->batch_size;
	ret_spec->image_size = (uint32_t)recipe->image_size;
	ret_spec->train = !recipe->eval;
	ret_spec->shuffle = recipe_shuffles(recipe);
	ret_spec->seed = recipe->seed;
	ret_spec->decode =
		strcmp(recipe->decode, "fast") == 0 ? SPEC_DECODE_FAST : SPEC_DECODE_EXACT;
	ret_spec->interpolation = recipe_filter(recipe->interpolation);
	ret_spec->transforms = recipe->list;
	if (recipe->shape.views)
		ret_spec->shape = recipe->shape;
	ret_spec->shape.sizes = recipe->shape.sizes;
	recipe_fill_sampling(recipe, &ret_spec->sampling);
	if (recipe->indices)
		(void)snprintf(ret_spec->indices, sizeof ret_spec->indices, "%s", recipe->indices);
	spec_note_lists(ret_spec, &recipe->lists);
}

/* Of this process. */
static struct list_shelf recipe_shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

int recipe_open(const struct recipe *recipe, const char *source, struct dataset **ret_dataset)
{
	char path[SPEC_TEXT];
	struct split split = {0};
	struct fault fault = {{0}};
	int r = recipe->split ? split_parse(recipe->split, &split, &fault) : 0;
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
	return catalog_open(path, recipe->labels, ret_dataset);
}

/* As the daemon sees it (spec.c). */
static int recipe_read_sources(struct recipe *recipe, const char *source, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	int r = yaml_load(&text, source, strlen(source), "SOURCE", fault);
	if (!r && recipe->indices)
		r = fault_set(fault, -EINVAL,
			"--indices cannot be with several sources: a list numbers the samples of "
			"one dataset");
	if (!r && recipe->weights)
		r = fault_set(fault, -EINVAL,
			"--weights cannot be with several sources: they have weights of their own");
	if (!r && recipe->no_shuffle)
		r = fault_set(fault, -EINVAL,
			"--no-shuffle cannot be with several sources: their samples are mixed");
	return r ? r : sampling_read_sources(&text, text.root, &recipe->sources, fault);
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
	for (uint32_t i = 0; code == CLI_OK && i < recipe->sources.count; i++) {
		name[i] = sampling_source(&recipe->sources, i);
		code = recipe_open_part(recipe, name[i]);
	}
	if (code == CLI_OK && concat_agree(&recipe->parts, name, &fault))
		code = cli_fail(CLI_FAILED, "%s", fault.text);
	return code;
}

static int recipe_lay_out(struct recipe *recipe, const struct concat *parts)
{
	struct fault fault = {{0}};
	struct stream_spec *spec = malloc(sizeof *spec);
	if (!spec)
		return cli_fail(CLI_FAILED, "no memory for a recipe");
	recipe_spec(recipe, spec);
	const struct sampling_order order = {
		.seed = spec->seed, .shuffle = spec->shuffle, .indices = spec->indices};
	int r = sampling_lists_open(
		&recipe_shelf, spec->indices, spec->sampling.weights, NULL, &recipe->lists, &fault);
	if (!r)
		r = sampling_make(&spec->sampling, &order, parts, &recipe_shelf, &recipe->lists,
			NULL, NULL, &recipe->sampler, &fault);
	free(spec);
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
	const struct sampling_lists *lists = &recipe->lists;
	return (lists->indices ? lists->indices->bytes : 0) +
	       (lists->weights ? lists->weights->bytes : 0);
}

int recipe_check_cut(const struct recipe_cut *cut)
{
	if (!cut->drop_last || !cut->no_drop_last)
		return 0;
	cli_note("--drop-last and --no-drop-last cannot both be; leave one out");
	return -EINVAL;
}

struct order_epoch recipe_epoch(
	const struct recipe *recipe, const struct recipe_cut *cut, uint64_t samples)
{
	return (struct order_epoch){.samples = samples,
		.batch_size = (uint32_t)recipe->batch_size,
		.world_size = (uint32_t)cut->world_size,
		.drop_last = cut->drop_last || (!recipe->eval && !cut->no_drop_last)};
}

void recipe_fill(
	const struct recipe *recipe, const char *source, struct penstock_options *ret_options)
{
	penstock_options_init(ret_options);
	ret_options->source = source;
	/* Its definition is the configuration's, and unset options leave it so. */
	if (recipe_is_stream(source))
		return;
	ret_options->batch_size = (uint32_t)recipe->batch_size;
	if (!recipe->list.count) {
		ret_options->image_size = (uint32_t)recipe->image_size;
		ret_options->interpolation = recipe->interpolation;
	} else
		ret_options->transforms = recipe->list_json;
	ret_options->train = !recipe->eval;
	ret_options->shuffle = recipe_shuffles(recipe);
	ret_options->seed = recipe->seed;
	ret_options->labels = recipe->labels_json[0] ? recipe->labels_json : recipe->labels;
	ret_options->decode = recipe->decode;
	ret_options->indices = recipe->indices;
	ret_options->split = recipe->split;
	ret_options->weights = recipe->weights;
	ret_options->epoch_length = recipe->epoch_length;
	ret_options->repeats = (uint32_t)recipe->repeats;
	ret_options->views = (uint32_t)recipe->views;
	ret_options->dtype = recipe->dtype;
	ret_options->layout = recipe->layout;
	if (recipe->shape.dtype != SHAPE_UINT8) {
		ret_options->mean = recipe->channels[0];
		ret_options->std = recipe->channels[1];
	}
}

/* {"0": 64, "1": 96}: of a status `image_sizes`, of a definition `image_size` itself. */
static void recipe_learn_sizes(struct recipe *recipe, const struct node *definition)
{
	struct shape_sizes *sizes = &recipe->shape.sizes;
	const struct node *told = document_get(definition, "image_sizes");
	*sizes = (struct shape_sizes){0};
	if (!told)
		told = document_get(definition, "image_size");
	if (document_count(told) > SHAPE_SIZES_MAX)
		return;
	for (size_t i = 0; i < document_count(told); i++) {
		const char *epoch = "";
		const struct node *side = document_at(told, i, &epoch);
		sizes->at[i].epoch = (uint32_t)strtoul(epoch, NULL, 10);
		sizes->at[i].side = (uint32_t)document_whole(document_value(side));
		sizes->count++;
	}
}

static void recipe_learn_text(const struct node *definition, const char *key, char *buffer,
	size_t room, const char **ret_text)
{
	const char *text = document_text(definition, key, "");
	if (!*text)
		return;
	(void)snprintf(buffer, room, "%s", text);
	*ret_text = buffer;
}

/* Which samples an epoch has, and how often. */
static void recipe_learn_samples(struct recipe *recipe, const struct node *definition)
{
	recipe_learn_text(
		definition, "split", recipe->told_split, sizeof recipe->told_split, &recipe->split);
	recipe_learn_text(definition, "weights", recipe->told_weights, sizeof recipe->told_weights,
		&recipe->weights);
	recipe_learn_text(definition, "indices", recipe->told_indices, sizeof recipe->told_indices,
		&recipe->indices);
	recipe->repeats = document_u64(definition, "repeats", recipe->repeats);
	recipe->epoch_length = document_u64(definition, "epoch_length", recipe->epoch_length);
}

void recipe_learn(struct recipe *recipe, const struct node *definition)
{
	recipe_learn_sizes(recipe, definition);
	recipe_learn_samples(recipe, definition);
	const char *decode = document_text(definition, "decode", "exact"),
		   *interpolation = document_text(definition, "interpolation", "bilinear");
	recipe->decode = strcmp(decode, "fast") == 0 ? "fast" : "exact";
	recipe->interpolation = weights_filter_names[recipe_filter(interpolation)];
	recipe->views = document_u64(definition, "views", 1);
	recipe->dtype = shape_dtype_names[recipe_word(
		document_text(definition, "dtype", "uint8"), shape_dtype_names)];
	recipe->layout = shape_layout_names[recipe_word(
		document_text(definition, "layout", "NHWC"), shape_layout_names)];
	const struct node *list = document_get(definition, "transforms");
	cleanup(free_ptr) char *text = list ? document_dump(list) : NULL;
	struct fault fault;
	/* An older or newer daemon may have other operations: then they go unmentioned. */
	if (text && transforms_parse(text, strlen(text), "transforms", &recipe->list, &fault) < 0)
		recipe->list.count = 0;
}

void recipe_of_stream(struct recipe *ret_recipe, const struct node *stream)
{
	*ret_recipe = (struct recipe){
		.batch_size = document_u64(stream, "batch_size", 0),
		.image_size = document_u64(stream, "image_size", 0),
		.seed = document_u64(stream, "seed", 0),
		.eval = !document_bool(stream, "train", true),
		.no_shuffle = !document_bool(stream, "shuffle", true),
		.epoch = document_u64(stream, "epoch", 0),
	};
	recipe_learn(ret_recipe, stream);
}

/* ", 2 views, float32 NCHW": what is not the default. */
static void recipe_describe_shape(const struct recipe *recipe, char *buffer, size_t room)
{
	static const struct recipe plain = RECIPE_DEFAULT;
	bool typed = strcmp(recipe->dtype, plain.dtype) != 0,
	     laid = strcmp(recipe->layout, plain.layout) != 0;
	char views[24] = "";
	if (recipe->views > 1)
		(void)snprintf(views, sizeof views, ", %" PRIu64 " views", recipe->views);
	(void)snprintf(buffer, room, "%s%s%s%s%s", views, typed || laid ? ", " : "",
		typed || laid ? recipe->dtype : "", laid ? " " : "", laid ? recipe->layout : "");
}

/* "64 px", "64 px (0: 64, 1: 96)": of the epoch, and of which epochs, as a definition has it. */
static void recipe_describe_sides(const struct recipe *recipe, char *buffer, size_t room)
{
	const struct shape_sizes *sizes = &recipe->shape.sizes;
	size_t n = (size_t)snprintf(buffer, room, "%" PRIu32 " px", recipe_side(recipe));
	for (uint32_t i = 0; i < sizes->count && n < room; i++)
		n += (size_t)snprintf(buffer + n, room - n, "%s%" PRIu32 ": %" PRIu32 "%s",
			i ? ", " : " (", sizes->at[i].epoch, sizes->at[i].side,
			i + 1 == sizes->count ? ")" : "");
}

/* "shuffled", "drawn by weights, of [:90%], each 3 times, 4096 an epoch" */
static void recipe_describe_samples(const struct recipe *recipe, char *buffer, size_t room)
{
	char repeats[48] = "", length[48] = "";
	if (recipe->repeats > 1)
		(void)snprintf(
			repeats, sizeof repeats, ", each %" PRIu64 " times", recipe->repeats);
	if (recipe->epoch_length)
		(void)snprintf(
			length, sizeof length, ", %" PRIu64 " an epoch", recipe->epoch_length);
	(void)snprintf(buffer, room, "%s%s%s%s%s%s",
		recipe->weights           ? "drawn by weights"
		: recipe_shuffles(recipe) ? "shuffled"
					  : "in order",
		recipe->indices ? ", of a subset" : "", recipe->split ? ", of " : "",
		recipe->split ? recipe->split : "", repeats, length);
}

/* The list, with the epoch's size in the place of the largest; nothing where all is plain. */
static void recipe_describe_list(const struct recipe *recipe, char *buffer, size_t room)
{
	struct transforms list = recipe->list;
	const struct shape_sizes *sizes = &recipe->shape.sizes;
	*buffer = 0;
	for (uint32_t i = 0; sizes->count && i < list.count; i++)
		if (list.op[i].size.side == recipe->image_size)
			list.op[i].size.side = recipe_side(recipe);
	if (list.count)
		transforms_text(&list, buffer, room);
	else if (recipe_filter(recipe->interpolation) != WEIGHTS_BILINEAR)
		(void)snprintf(buffer, room, "%s", recipe->interpolation);
}

void recipe_describe(const struct recipe *recipe, char *buffer, size_t room)
{
	char list[RECIPE_TEXT], sides[RECIPE_TEXT], samples[RECIPE_TEXT], shape[64];
	recipe_describe_sides(recipe, sides, sizeof sides);
	recipe_describe_shape(recipe, shape, sizeof shape);
	recipe_describe_samples(recipe, samples, sizeof samples);
	recipe_describe_list(recipe, list, sizeof list);
	(void)snprintf(buffer, room, "%s, %s, batch %" PRIu64 "%s, %s, seed %" PRIu64 "%s%s%s",
		recipe->eval ? "evaluation" : "training", sides, recipe->batch_size, shape, samples,
		recipe->seed, strcmp(recipe->decode, "fast") == 0 ? ", decoded fast" : "",
		*list ? ", " : "", list);
}

const char *recipe_chosen(const struct recipe *recipe)
{
	const struct {
		bool given;
		const char *name;
	} options[] = {
		{recipe->indices != NULL, "indices"},
		{recipe->split != NULL, "split"},
		{recipe->weights != NULL, "weights"},
		{recipe->epoch_length != 0, "epoch-length"},
		{recipe->repeats != 0, "repeats"},
	};
	for (size_t i = 0; i < UTIL_COUNT(options); i++)
		if (options[i].given)
			return options[i].name;
	return NULL;
}

const char *recipe_written(const struct recipe *recipe)
{
	static const struct recipe plain = RECIPE_DEFAULT;
	const struct {
		bool given;
		const char *name;
	} options[] = {
		{recipe->transforms != NULL, "transforms"},
		{recipe->image_size != plain.image_size, "image-size"},
		{recipe->seed != plain.seed, "seed"},
		{recipe->eval, "eval"},
		{recipe->no_shuffle, "no-shuffle"},
		{strcmp(recipe->labels, plain.labels) != 0, "labels"},
		{strcmp(recipe->decode, plain.decode) != 0, "decode"},
		{strcmp(recipe->interpolation, plain.interpolation) != 0, "interpolation"},
		{recipe->views != plain.views, "views"},
		{strcmp(recipe->dtype, plain.dtype) != 0, "dtype"},
		{strcmp(recipe->layout, plain.layout) != 0, "layout"},
	};
	for (size_t i = 0; i < UTIL_COUNT(options); i++)
		if (options[i].given)
			return options[i].name;
	return recipe_chosen(recipe);
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
	static const struct recipe plain = RECIPE_DEFAULT;
	const char *name =
		recipe->batch_size != plain.batch_size ? "batch-size" : recipe_written(recipe);
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
	if (recipe->eval || samples >= recipe->batch_size * ranks)
		return CLI_OK;
	recipe_ranks(ranks, each, sizeof each);
	return cli_fail(CLI_USAGE,
		"%s has %" PRIu64 " sample%s, not enough for one batch of %" PRIu64
		"%s: give a smaller --batch-size, or --eval",
		source, samples, samples == 1 ? "" : "s", recipe->batch_size, each);
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
