/* recipe: the options that bench, plan, replay, show and state share: which rows to make, how,
 * and by a daemon of which size. Main thread. */
#pragma once

#include "client/cli/catalog.h"
#include "client/cli/document.h"
#include "client/cli/options.h"
#include "dataset/dataset.h"
#include "definition/sampling.h"
#include "definition/spec.h"
#include "order/order.h"
#include "penstock/penstock.h"
#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	RECIPE_LIST_JSON = TRANSFORMS_JSON_MAX,
	RECIPE_LABELS_JSON = 16384,
	RECIPE_TEXT = 320,
	RECIPE_BUCKETS_JSON = 1024,
	RECIPE_FIELDS_JSON = 2048
};

struct recipe {
	/* As the options say, or as a daemon told it. */
	struct stream_spec spec;
	const char *unknown; /* a key that a daemon reported with a value that is not known here */
	uint64_t epoch; /* the epoch shown: its images may have a size of their own */
	/* Once recipe_settle is done, for libpenstock; "": not given. */
	char size_json[SHAPE_SIZE_TEXT]; /* of a rectangle, [height,width] */
	char list_json[RECIPE_LIST_JSON], labels_json[RECIPE_LABELS_JSON];
	char sampling_json[64];
	char views_json[RECIPE_LIST_JSON]; /* groups of views */
	char fields_json[RECIPE_FIELDS_JSON];
	char buckets_json[RECIPE_BUCKETS_JSON];
	float channels[2][3]; /* mean, std */
	/* Once recipe_open_parts has opened them. */
	struct concat parts;
	struct dataset *opened[SAMPLER_PARTS];
	/* Once recipe_load has read what is named. */
	struct sampling_lists lists;
	struct sampler sampler;
};

#define RECIPE_DEFAULT               \
	{                            \
		.spec = SPEC_DEFAULT \
	}

/* The options of proto/keys.h, and two that write the keys train and shuffle. */
#define RECIPE_ROW_OPTION(recipe, key, name, letter, value, help)                            \
	{name, letter, OPTION_KEY, &(recipe).spec, sizeof(value) > 1 ? (value) : NULL, help, \
		SPEC_KEY_##key, 0, NULL},
#define RECIPE_ROW_NONE(recipe, key, name, letter, value, help)
#define RECIPE_ROW(recipe, key, kind, field, place, low, high, plain, extra, option, who, alike, \
	cli, name, letter, value, help)                                                          \
	RECIPE_ROW_##cli(recipe, key, name, letter, value, help)
#define RECIPE_OPTIONS(recipe)                                                                 \
	PENSTOCK_KEYS(RECIPE_ROW, recipe){"eval", 0, OPTION_KEY, &(recipe).spec, NULL,         \
		"evaluation: resize and center crop, in order, instead of random crops and "   \
		"flips, "                                                                      \
		"shuffled",                                                                    \
		SPEC_KEY_train, 0, NULL},                                                      \
	{                                                                                      \
		"no-shuffle", 0, OPTION_KEY, &(recipe).spec, NULL, "keep the dataset's order", \
			SPEC_KEY_shuffle, 0, NULL                                              \
	}

/* The filter of one of the words of --interpolation. */
enum weights_filter recipe_filter(const char *interpolation);

/* After the options were read: judges them together and fills in what they imply. 0, or -EINVAL
 * after saying what is wrong. */
int recipe_settle(struct recipe *recipe);

/* How the first group of views, or another one, makes rows in the recipe's epoch. */
struct pixel_recipe recipe_pixels(const struct recipe *recipe);
struct pixel_recipe recipe_group_pixels(const struct recipe *recipe, uint32_t group);

/* With buckets: the recipe for an image of this size. Otherwise as recipe_pixels. */
struct pixel_recipe recipe_pixels_of(const struct recipe *recipe, uint32_t width, uint32_t height);

/* The size of its epoch's images. */
struct pixel_size recipe_size(const struct recipe *recipe);

/* Opens SOURCE, which may be a list of several ('[{source: a, weight: 3}, {source: b}]'), into
 * `parts`, until recipe_unload. CLI_OK, or the exit code after saying why. */
int recipe_open_parts(struct recipe *recipe, const char *source);

/* For commands that read one dataset: as catalog_open, of what --split names in it. */
int recipe_open(const struct recipe *recipe, const char *source, struct dataset **ret_dataset);

/* Reads the files of --indices and --weights, if given, checks them against the dataset and
 * makes the sampler; once, before anything uses it. CLI_OK, or the exit code after printing what
 * is wrong. */
int recipe_load(struct recipe *recipe, const struct dataset *dataset);
int recipe_load_parts(struct recipe *recipe); /* the same for `parts` */
void recipe_unload(struct recipe *recipe);

/* The part of a daemon's budget that the lists take. */
uint64_t recipe_list_bytes(const struct recipe *recipe);

/* The sample at a position, once the recipe is loaded. */
static inline uint64_t recipe_sample(const struct recipe *recipe, uint64_t epoch, uint64_t position)
{
	return concat_number(
		&recipe->parts, sampler_pick(&recipe->sampler, (uint32_t)epoch, position));
}

/* Fills libpenstock's options, which point into the recipe and to `source`. */
void recipe_fill(
	const struct recipe *recipe, const char *source, struct penstock_options *ret_options);

/* Takes the keys of a stream's definition from the daemon's JSON. Keys that it leaves out stay. */
void recipe_learn(struct recipe *recipe, const struct node *definition);

/* Everything that recipe_describe prints of a stream, from the daemon's JSON, at its epoch. */
void recipe_of_stream(struct recipe *ret_recipe, const struct node *stream);

/* Writes "training, 224 px, batch 64, shuffled, seed 0", and all that is not the default.
 * RECIPE_TEXT bytes hold nearly all of them. */
void recipe_describe(const struct recipe *recipe, char *buffer, size_t room);

/* How an epoch is cut into batches for the ranks of a job. */
struct recipe_cut {
	uint64_t world_size;
	bool drop_last, no_drop_last; /* neither: as the recipe implies */
};

#define RECIPE_CUT_DEFAULT      \
	{                       \
		.world_size = 1 \
	}

#define RECIPE_CUT_OPTIONS(cut)                                                                  \
	{"world-size", 'W', OPTION_NUMBER, &(cut).world_size, "N",                               \
		"ranks of the job, each with --batch-size samples of every global batch (1)", 1, \
		65536, NULL},                                                                    \
		{"drop-last", 0, OPTION_FLAG, &(cut).drop_last, NULL,                            \
			"leave out the last short batch (what training does)", 0, 0, NULL},      \
	{                                                                                        \
		"no-drop-last", 0, OPTION_FLAG, &(cut).no_drop_last, NULL,                       \
			"keep the last short batch (what --eval does)", 0, 0, NULL               \
	}

/* 0, or -EINVAL after saying that both cannot be, or not with this recipe. */
int recipe_check_cut(const struct recipe *recipe, const struct recipe_cut *cut);

struct order_epoch recipe_epoch(
	const struct recipe *recipe, const struct recipe_cut *cut, uint64_t samples);

/* Whether an epoch has a batch at all. CLI_OK, or CLI_FAILED after saying what would fit. */
int recipe_fits_epoch(const struct order_epoch *epoch, const char *source);

/* What a daemon of our own is started with. */
struct recipe_daemon {
	uint64_t memory, threads, prefetch; /* 0: the daemon's default */
	const char *io, *reader, *cache;
	bool no_entry_points;
};

#define RECIPE_DAEMON_DEFAULT                                   \
	{                                                       \
		.io = "auto", .reader = "auto", .cache = "auto" \
	}

#define RECIPE_DAEMON_OPTIONS(daemon)                                                            \
	{"threads", 't', OPTION_NUMBER, &(daemon).threads, "N",                                  \
		"decoding threads (all CPUs but one)", 1, 1024, NULL},                           \
		{"memory", 'm', OPTION_SIZE, &(daemon).memory, "SIZE",                           \
			"the daemon's memory budget, such as 96M or 4G (a quarter of what is "   \
			"free, at most 4G)",                                                     \
			1 << 20, 0, NULL},                                                       \
		{"io", 0, OPTION_CHOICE, &(daemon).io, "auto|buffered|direct",                   \
			"through the page cache or not (auto)", 0, 0, NULL},                     \
		{"reader", 0, OPTION_CHOICE, &(daemon).reader, "auto|io_uring|pread",            \
			"how files are read (auto)", 0, 0, NULL},                                \
		{"cache", 0, OPTION_CHOICE, &(daemon).cache, "auto|on|off",                      \
			"keep samples in memory that is left (auto: what is read past the page " \
			"cache)",                                                                \
			0, 0, NULL},                                                             \
		{"no-entry-points", 0, OPTION_FLAG, &(daemon).no_entry_points, NULL,             \
			"neither keep entry points of images nor use those kept", 0, 0, NULL},   \
	{                                                                                        \
		"prefetch", 0, OPTION_NUMBER, &(daemon).prefetch, "N",                           \
			"batches that may exist at once (4)", 2, 64, NULL                        \
	}

/* The option that says that an epoch is not all of the dataset, once each: its name, or NULL. */
const char *recipe_chosen(const struct recipe *recipe);

/* The first option other than --batch-size that was given: its name, or NULL. */
const char *recipe_written(const struct recipe *recipe);

/* A stream of the running daemon has its own definition, and the daemon its own size: 0, or -EINVAL
 * after naming the option that cannot be given with it. */
int recipe_fits_stream(
	const struct recipe *recipe, const struct recipe_daemon *daemon, const char *source);

/* The daemon would refuse a dataset smaller than one training batch (of all `ranks` together) in
 * the words of its own options; this is said in ours. CLI_OK, or the exit code. */
int recipe_fits_dataset(
	const struct recipe *recipe, const char *source, uint64_t samples, uint64_t ranks);

/* For commands that open the dataset themselves: 0, or -EINVAL after saying that stream:NAME is the
 * daemon's. */
int recipe_check_source(const char *source, const char *command);

/* True for "stream:NAME". */
bool recipe_is_stream(const char *source);
