/* recipe: see recipe.h. */
#include "client/cli/recipe.h"

#include "base/util.h"
#include "client/cli/cli.h"

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

struct pixel_recipe recipe_pixels(const struct recipe *recipe)
{
	return (struct pixel_recipe){
		.kind = recipe->eval ? PIXEL_EVAL : PIXEL_TRAIN,
		.image_size = (uint32_t)recipe->image_size,
		.fast = strcmp(recipe->decode, "fast") == 0,
		.filter = recipe_filter(recipe->interpolation),
	};
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
	ret_options->image_size = (uint32_t)recipe->image_size;
	ret_options->train = !recipe->eval;
	ret_options->shuffle = recipe_shuffles(recipe);
	ret_options->seed = recipe->seed;
	ret_options->labels = recipe->labels;
	ret_options->decode = recipe->decode;
	ret_options->interpolation = recipe->interpolation;
}

void recipe_learn(struct recipe *recipe, const struct node *definition)
{
	const char *decode = document_text(definition, "decode", "exact"),
		   *interpolation = document_text(definition, "interpolation", "bilinear");
	recipe->decode = strcmp(decode, "fast") == 0 ? "fast" : "exact";
	recipe->interpolation = weights_filter_names[recipe_filter(interpolation)];
}

void recipe_describe(const struct recipe *recipe, char *buffer, size_t room)
{
	bool bilinear = recipe_filter(recipe->interpolation) == WEIGHTS_BILINEAR;
	(void)snprintf(buffer, room,
		"%s, %" PRIu64 " px, batch %" PRIu64 ", %s, seed %" PRIu64 "%s%s%s",
		recipe->eval ? "evaluation" : "training", recipe->image_size, recipe->batch_size,
		recipe_shuffles(recipe) ? "shuffled" : "in order", recipe->seed,
		strcmp(recipe->decode, "fast") == 0 ? ", decoded fast" : "", bilinear ? "" : ", ",
		bilinear ? "" : recipe->interpolation);
}

int recipe_fits_stream(
	const struct recipe *recipe, const struct recipe_daemon *daemon, const char *source)
{
	static const struct recipe plain = RECIPE_DEFAULT;
	const struct {
		bool given;
		const char *name;
	} options[] = {
		{recipe->batch_size != plain.batch_size, "batch-size"},
		{recipe->image_size != plain.image_size, "image-size"},
		{recipe->seed != plain.seed, "seed"},
		{recipe->eval, "eval"},
		{recipe->no_shuffle, "no-shuffle"},
		{strcmp(recipe->labels, plain.labels) != 0, "labels"},
		{strcmp(recipe->decode, plain.decode) != 0, "decode"},
		{strcmp(recipe->interpolation, plain.interpolation) != 0, "interpolation"},
		{daemon->memory != 0, "memory"},
		{daemon->threads != 0, "threads"},
		{daemon->prefetch != 0, "prefetch"},
		{strcmp(daemon->io, "auto") != 0, "io"},
		{strcmp(daemon->reader, "auto") != 0, "reader"},
		{daemon->no_checkpoints, "no-checkpoints"},
	};
	for (size_t i = 0; i < UTIL_COUNT(options); i++)
		if (options[i].given) {
			cli_note("%s is defined by the running daemon, so --%s cannot be given "
				 "with it; leave it out, or name the "
				 "folder or tars",
				source, options[i].name);
			return -EINVAL;
		}
	return 0;
}

int recipe_fits_dataset(const struct recipe *recipe, const char *source, uint64_t samples)
{
	if (recipe->eval || samples >= recipe->batch_size)
		return CLI_OK;
	return cli_fail(CLI_USAGE,
		"%s has %" PRIu64 " sample%s, not enough for one batch of %" PRIu64
		": give a smaller --batch-size, or --eval",
		source, samples, samples == 1 ? "" : "s", recipe->batch_size);
}

bool recipe_is_stream(const char *source)
{
	return strncmp(source, "stream:", 7) == 0;
}
