/* recipe: see recipe.h. */
#include "client/cli/recipe.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool recipe_shuffles(const struct recipe *recipe)
{
	return !recipe->eval && !recipe->no_shuffle;
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
	bool fits = !json.failed && json.size < sizeof recipe->list_json;
	if (fits)
		memcpy(recipe->list_json, json.text, json.size + 1);
	jsontext_free(&json);
	return fits ? 0 : -ENOMEM;
}

int recipe_settle(struct recipe *recipe)
{
	struct fault fault = {{0}};
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
	return spec_pixels(&spec);
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
	if (!recipe->subset)
		return;
	(void)snprintf(ret_spec->indices, sizeof ret_spec->indices, "%s", recipe->indices);
	ret_spec->subset = (struct spec_subset){recipe->subset->count, recipe->subset->hash};
}

/* Of this process. */
static struct subset_shelf recipe_shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

int recipe_load(struct recipe *recipe, const struct dataset *dataset)
{
	struct fault fault;
	if (!recipe->indices)
		return CLI_OK;
	int r = subset_open(&recipe_shelf, recipe->indices, NULL, &recipe->subset, &fault);
	if (!r)
		r = subset_fits(recipe->subset, recipe->indices, dataset_count(dataset), &fault);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", fault.text) : CLI_OK;
}

void recipe_unload(struct recipe *recipe)
{
	subset_close(&recipe_shelf, recipe->subset);
	recipe->subset = NULL;
}

uint64_t recipe_samples(const struct recipe *recipe, const struct dataset *dataset)
{
	return recipe->subset ? recipe->subset->count : dataset_count(dataset);
}

struct order recipe_order(const struct recipe *recipe, const struct dataset *dataset)
{
	struct order order = {.samples = recipe_samples(recipe, dataset),
		.seed = recipe->seed,
		.shuffle = recipe_shuffles(recipe)};
	if (recipe->subset)
		order.subset = recipe->subset->numbers;
	return order;
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
	ret_options->labels = recipe->labels;
	ret_options->decode = recipe->decode;
	ret_options->indices = recipe->indices;
}

void recipe_learn(struct recipe *recipe, const struct node *definition)
{
	const char *decode = document_text(definition, "decode", "exact"),
		   *interpolation = document_text(definition, "interpolation", "bilinear");
	recipe->decode = strcmp(decode, "fast") == 0 ? "fast" : "exact";
	recipe->interpolation = weights_filter_names[recipe_filter(interpolation)];
	const struct node *list = document_get(definition, "transforms");
	cleanup(free_ptr) char *text = list ? document_dump(list) : NULL;
	struct fault fault;
	/* An older or newer daemon may have other operations: then they go unmentioned. */
	if (text && transforms_parse(text, strlen(text), "transforms", &recipe->list, &fault) < 0)
		recipe->list.count = 0;
}

void recipe_describe(const struct recipe *recipe, char *buffer, size_t room)
{
	char list[RECIPE_TEXT];
	bool listed = recipe->list.count,
	     plain = !listed && recipe_filter(recipe->interpolation) == WEIGHTS_BILINEAR;
	transforms_text(&recipe->list, list, sizeof list);
	(void)snprintf(buffer, room,
		"%s, %" PRIu64 " px, batch %" PRIu64 ", %s%s, seed %" PRIu64 "%s%s%s",
		recipe->eval ? "evaluation" : "training", recipe->image_size, recipe->batch_size,
		recipe_shuffles(recipe) ? "shuffled" : "in order",
		recipe->indices ? ", of a subset" : "", recipe->seed,
		strcmp(recipe->decode, "fast") == 0 ? ", decoded fast" : "", plain ? "" : ", ",
		plain    ? ""
		: listed ? list
			 : recipe->interpolation);
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
		{recipe->indices != NULL, "indices"},
	};
	for (size_t i = 0; i < UTIL_COUNT(options); i++)
		if (options[i].given)
			return options[i].name;
	return NULL;
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
		{daemon->no_checkpoints, "no-checkpoints"},
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
