/* show: `penstock show`: draws a batch as an image. It takes the batch through the client library,
 * as a trainer does.
 *
 * A stream begins where a state says. So to reach a batch far into an epoch, show writes its
 * position into the state of the stream that it has just opened; the batches before it are not
 * decoded. */
#include "client/cli/cli.h"
#include "client/cli/find.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/document.h"
#include "client/cli/draw/canvas.h"
#include "client/cli/draw/picture.h"
#include "client/cli/inspect/contact_sheet.h"
#include "client/cli/inspect/show_sample.h"
#include "client/cli/inspect/step_sheet.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "client/cli/spawn.h"
#include "penstock/penstock.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct show {
	const char *source, *output;
	char socket[FIND_SOCKET]; /* of the running daemon, if one of its streams is shown */
	struct recipe recipe;
	struct recipe_daemon daemon;
	uint64_t epoch, batch, rows, columns, tile, sample, view, draws;
	bool json, sample_given, sampled;

	struct penstock_stream *stream;
	struct penstock_stream_info info;
	struct penstock_batch taken;
};

static const struct command show_command = {
	.name = "show",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about = "Draws a batch as a PNG contact sheet: each source with its crop marked, the "
		 "row\nas the network sees it, its class, file and number. stream:NAME is a stream "
		 "of\nthe running daemon. With --sample: one sample after each operation of the\n"
		 "recipe, in several epochs.",
};

static int show_options(struct show *show, int argc, char **argv)
{
	const struct option table[] = {
		{"output", 'o', OPTION_TEXT, &show->output, "FILE",
			"the PNG file to write (sheet.png)", 0, 0, NULL},
		{"epoch", 'e', OPTION_NUMBER, &show->epoch, "E", "the epoch, from 0 (0)", 0,
			UINT32_MAX, NULL},
		{"batch", 'B', OPTION_NUMBER, &show->batch, "B",
			"the batch of that epoch, from 0 (0)", 0, INT64_MAX, NULL},
		{"rows", 'n', OPTION_NUMBER, &show->rows, "N",
			"rows to draw (the whole batch, at most 32)", 1, 4096, NULL},
		{"columns", 0, OPTION_NUMBER, &show->columns, "N", "samples side by side (8)", 1,
			64, NULL},
		{"tile", 0, OPTION_NUMBER, &show->tile, "PX",
			"side of an image on the sheet in pixels (144)", 48, 1024, NULL},
		{"sample", 0, OPTION_NUMBER, &show->sample, "I",
			"draw this sample after each operation of the recipe", 0, INT64_MAX,
			&show->sample_given},
		{"draws", 0, OPTION_NUMBER, &show->draws, "N",
			"with --sample: the number of epochs (8)", 1, STEP_SHEET_DRAWS, NULL},
		{"view", 0, OPTION_NUMBER, &show->view, "V",
			"with --sample: which view of it, from 0 (0)", 0, SHAPE_VIEWS_MAX - 1,
			NULL},
		RECIPE_OPTIONS(show->recipe),
		RECIPE_DAEMON_OPTIONS(show->daemon),
		{"json", 'j', OPTION_FLAG, &show->json, NULL,
			"print one JSON object about the sheet", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&show_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r == OPTIONS_OK)
		show->source = operand[0];
	if (r == OPTIONS_OK)
		r = recipe_settle(&show->recipe);
	if (r == OPTIONS_OK && recipe_is_stream(show->source))
		r = recipe_fits_stream(&show->recipe, &show->daemon, show->source);
	return r;
}

static int show_fail(int error)
{
	const char *text = penstock_error();
	int code = spawn_fail(cli_exit_code(error), *text ? text : strerror(-error));
	if (error == -EPIPE && spawn_socket()) {
		cli_note("the daemon's log ends with:");
		spawn_show_log();
	}
	return code;
}

static int show_open_stream(struct show *show, const char *state)
{
	struct penstock_options options;
	recipe_fill(&show->recipe, show->source, &options);
	options.socket = *show->socket ? show->socket : spawn_socket();
	options.private_daemon = 0;
	options.prefetch = (uint32_t)show->daemon.prefetch;
	options.state = state;
	/* A user may want to look at broken images. */
	if (!recipe_is_stream(show->source))
		options.max_broken = 1;
	int r = penstock_stream_open(&options, &show->stream);
	if (r < 0)
		return show_fail(r);
	penstock_stream_info(show->stream, &show->info);
	if (show->info.dtype == PENSTOCK_UINT8 && show->info.layout == PENSTOCK_NHWC)
		return CLI_OK;
	return cli_fail(CLI_FAILED,
		"a sheet shows rows of dtype uint8 in layout NHWC, and those of %s are %s %s: open "
		"a stream without dtype and layout to see the same images",
		show->source, shape_dtype_names[show->info.dtype],
		shape_layout_names[show->info.layout]);
}

/* Opens the stream again at the requested batch. */
static int show_seek(struct show *show)
{
	char state[1024];
	if (show->batch >= show->info.batches)
		return cli_fail(CLI_USAGE,
			"--batch %" PRIu64 " is beyond the epoch's last, %" PRIu64, show->batch,
			show->info.batches - 1);
	int r = penstock_stream_state(show->stream, state, sizeof state);
	if (r < 0)
		return show_fail(r);
	penstock_stream_close(show->stream);
	show->stream = NULL;
	/* Does not use a JSON library: its integers cannot hold a seed beyond 2^63. */
	char *place = strstr(state, "\"epoch\":");
	if (!place)
		return cli_fail(CLI_FAILED,
			"the stream's state has no epoch; are the command and the "
			"daemon of the same release?");
	char cuts[64] = "";
	if (strstr(state, "\"cuts\":"))
		(void)snprintf(
			cuts, sizeof cuts, ",\"cuts\":[[0,%" PRIu32 "]]", show->info.batch_size);
	(void)snprintf(place, sizeof state - (size_t)(place - state),
		"\"epoch\":%" PRIu64 ",\"position\":%" PRIu64 "%s}", show->epoch,
		show->batch * show->info.batch_size, cuts);
	return show_open_stream(show, state);
}

/* Whether a definition does anything but give each sample of its source once per epoch. */
static bool show_is_sampled(const struct node *definition)
{
	static const char *const keys[] = {
		"indices", "split", "weights", "sources", "epoch_length", "sampling"};
	for (size_t i = 0; i < UTIL_COUNT(keys); i++)
		if (document_get(definition, keys[i]))
			return true;
	return document_number(definition, "repeats", 1) > 1;
}

/* The value of a definition's `key` as an option writes it: a word, or a mapping or list as JSON,
 * malloc'ed. NULL: the key is absent, or there is not enough memory. */
static char *show_said(const struct node *definition, const char *key)
{
	const struct node *value = document_get(definition, key);
	const char *word = document_text(definition, key, NULL);
	if (!value)
		return NULL;
	return word ? strdup(word) : document_dump(value);
}

/* Opens the datasets of a definition, which the recipe has read. */
static int show_open_parts(struct show *show, const struct node *definition)
{
	cleanup(free_ptr) char *source = show_said(definition, "source");
	cleanup(free_ptr) char *sources = show_said(definition, "sources");
	return recipe_open_parts(&show->recipe, sources ? sources : source ? source : "");
}

/* Opens the dataset of `stream:NAME`, for the sources of its rows. */
static int show_open_dataset(struct show *show)
{
	cleanup(free_ptr) char *text = NULL;
	int r = penstock_stream_config(show->stream, &text);
	if (r < 0)
		return show_fail(r);
	struct node *root = document_parse(text);
	recipe_learn(&show->recipe, root);
	int code = show_open_parts(show, root);
	show->sampled = show_is_sampled(root);
	document_free(root);
	return code;
}

/* A stream of the running daemon tells its recipe. */
static int show_learn(struct show *show)
{
	int code = show_open_stream(show, NULL);
	if (code == CLI_OK && !show->recipe.parts.count)
		code = show_open_dataset(show);
	return code;
}

static int show_take(struct show *show)
{
	int code = show_learn(show);
	if (code == CLI_OK && (show->batch || show->epoch))
		code = show_seek(show);
	if (code != CLI_OK)
		return code;
	int r = penstock_stream_next(show->stream, &show->taken, PENSTOCK_TIMEOUT_DEFAULT);
	if (r == PENSTOCK_END)
		return cli_fail(CLI_FAILED, "the stream has ended");
	return r < 0 ? show_fail(r) : CLI_OK;
}

/* Prints the first bytes of the fields of the samples that the sheet shows, or (with `json`) adds
 * them to the object. */
static int show_fields(const struct show *show, unsigned rows, struct jsontext *json)
{
	const uint32_t samples = (rows + show->info.views - 1) / show->info.views;
	struct penstock_field field;
	if (json && penstock_stream_fields(show->stream))
		jsontext_array(json, "fields");
	for (uint32_t sample = 0; sample < samples; sample++) {
		if (json && penstock_stream_fields(show->stream))
			jsontext_object(json, NULL);
		for (uint32_t i = 0; penstock_stream_field(show->stream, i, &field) == 0; i++) {
			const void *bytes;
			size_t size;
			char text[CATALOG_PREVIEW];
			int r = penstock_batch_field(
				show->stream, &show->taken, i, sample, &bytes, &size);
			if (r < 0)
				return show_fail(r);
			catalog_preview(bytes, size, text);
			if (json)
				jsontext_string(json, field.name, text);
			else
				(void)printf("  %" PRIu64 " .%s: %zu bytes: %s\n",
					show->taken.samples[sample * show->info.views].index,
					field.name, size, text);
		}
		if (json && penstock_stream_fields(show->stream))
			jsontext_end(json);
	}
	if (json && penstock_stream_fields(show->stream))
		jsontext_end(json);
	return CLI_OK;
}

static int show_say(
	const struct show *show, const struct canvas *canvas, unsigned rows, const char *recipe)
{
	struct jsontext json = {0};
	if (!show->json) {
		(void)printf("%s: %u row%s of batch %" PRIu64 " of epoch %" PRIu64
			     ", %d x %d pixels\n",
			show->output, rows, rows == 1 ? "" : "s", show->taken.batch,
			show->taken.epoch, canvas->width, canvas->height);
		return show_fields(show, rows, NULL);
	}
	jsontext_object(&json, NULL);
	jsontext_string(&json, "file", show->output);
	jsontext_u64(&json, "epoch", show->taken.epoch);
	jsontext_u64(&json, "batch", show->taken.batch);
	jsontext_string(&json, "recipe", recipe);
	jsontext_u64(&json, "rows", rows);
	jsontext_i64(&json, "width", canvas->width);
	jsontext_i64(&json, "height", canvas->height);
	int code = show_fields(show, rows, &json);
	jsontext_end(&json);
	return code == CLI_OK ? cli_print_json(&json) : code;
}

/* Only a number that the user gave must be met; the default is an upper limit. */
static unsigned show_rows(const struct show *show)
{
	enum { SHOW_ROWS = 32 };
	uint64_t count = (uint64_t)show->taken.count * show->info.views;
	if (show->rows > count)
		cli_note("the batch has only %" PRIu64 " row%s, fewer than --rows %" PRIu64, count,
			count == 1 ? "" : "s", show->rows);
	return (unsigned)UTIL_MIN(show->rows ? show->rows : SHOW_ROWS, count);
}

/* Messages name what was opened. */
static void show_take_info(struct show *show)
{
	show->recipe.spec.batch_size = show->info.batch_size;
	show->recipe.spec.image_size = (struct pixel_size){show->info.height, show->info.width};
	show->recipe.spec.seed = show->info.seed;
	show->recipe.spec.train = show->info.train;
	if (!show->info.shuffle != !show->recipe.spec.shuffle)
		show->recipe.spec.shuffle = show->info.shuffle ? SHUFFLE_FULL : SHUFFLE_NONE;
}

/* Where the batch's images are, group by group. Returns how many groups there are. */
static uint32_t show_groups(struct show *show, struct contact_sheet_group *ret)
{
	const uint32_t groups = penstock_stream_groups(show->stream);
	for (uint32_t i = 0; i < groups; i++) {
		struct penstock_view_group group;
		(void)penstock_stream_group(show->stream, i, &group);
		ret[i] = (struct contact_sheet_group){.views = group.views,
			.height = group.height,
			.width = group.width,
			.images = penstock_batch_images(show->stream, &show->taken, i)};
		/* A definition of another release may not be known here. */
		if (i < spec_groups(&show->recipe.spec))
			ret[i].recipe = recipe_group_pixels(&show->recipe, i);
	}
	if (!groups)
		ret[0] = (struct contact_sheet_group){.views = show->info.views,
			.height = show->taken.height,
			.width = show->taken.width,
			.images = show->taken.images,
			.recipe = recipe_pixels_of(
				&show->recipe, show->taken.width, show->taken.height)};
	return groups ? groups : 1;
}

static void show_blank(const struct contact_sheet_blank *blank)
{
	if (blank->rows)
		cli_note("the source of %u row%s is left blank; that of sample %" PRIu64 ": %s",
			blank->rows, blank->rows == 1 ? "" : "s", blank->sample, blank->why.text);
}

static int show_draw(struct show *show)
{
	struct contact_sheet_group group[SLOTS_GROUPS_MAX];
	char title[512], recipe[RECIPE_TEXT];
	show_take_info(show);
	show->recipe.epoch = show->taken.epoch;
	recipe_describe(&show->recipe, recipe, sizeof recipe);
	(void)snprintf(title, sizeof title, "%s   epoch %" PRIu64 ", batch %" PRIu64, show->source,
		show->taken.epoch, show->taken.batch);
	struct contact_sheet sheet = {.title = title,
		.subtitle = recipe,
		.parts = &show->recipe.parts,
		.batch = &show->taken,
		.info = &show->info,
		.group = group,
		.groups = show_groups(show, group),
		.rows = show_rows(show),
		.columns = (unsigned)show->columns,
		.tile = (unsigned)show->tile};
	struct canvas canvas;
	struct contact_sheet_blank blank;
	struct fault fault = {{0}};
	int code = CLI_OK;
	int r = contact_sheet_draw(&sheet, &canvas, &blank, &fault);
	if (r == 0) {
		show_blank(&blank);
		const struct picture picture = {
			(uint32_t)canvas.width, (uint32_t)canvas.height, canvas.rgb};
		r = picture_write(show->output, PICTURE_PNG, &picture, true, &fault);
		if (r == 0)
			code = show_say(show, &canvas, sheet.rows, recipe);
		canvas_deinit(&canvas);
	}
	return r < 0 ? cli_fail(CLI_FAILED, "%s", fault.text) : code;
}

static int show_batch(struct show *show)
{
	int code = show_take(show);
	return code == CLI_OK ? show_draw(show) : code;
}

static int show_one(struct show *show)
{
	if (recipe_is_stream(show->source)) {
		int code = show_learn(show);
		if (code != CLI_OK)
			return code;
		show_take_info(show);
		show->recipe.epoch = show->epoch;
		if (!show->sampled)
			code = recipe_load_parts(&show->recipe);
		if (code != CLI_OK)
			return code;
	}
	if (show->recipe.parts.count > 1)
		return cli_fail(CLI_USAGE,
			"--sample shows one dataset, and %s mixes %" PRIu32
			": name the dataset as SOURCE",
			show->source, show->recipe.parts.count);
	const struct show_sample ask = {.output = show->output,
		.recipe = &show->recipe,
		.dataset = show->recipe.parts.dataset[0],
		.sample = show->sample,
		.view = show->view,
		.epoch = show->epoch,
		.draws = show->draws,
		.tile = show->tile,
		.json = show->json};
	return show_sample(&ask);
}

/* Opens what is shown, and starts a daemon if it needs one. */
static int show_prepare(struct show *show)
{
	if (recipe_is_stream(show->source))
		return find_stream_daemon(show->source, show->socket);
	struct recipe *recipe = &show->recipe;
	int code = recipe_open(recipe, show->source, &recipe->opened[0]);
	if (code != CLI_OK)
		return code;
	concat_add(&recipe->parts, recipe->opened[0]);
	code = recipe_load_parts(recipe);
	if (code != CLI_OK || show->sample_given)
		return code;
	code = recipe_fits_dataset(recipe, show->source, recipe->sampler.length, 1);
	return code == CLI_OK ? spawn_start(&show->daemon) : code;
}

int show_main(int argc, char **argv)
{
	struct show show = {.output = "sheet.png",
		.recipe = RECIPE_DEFAULT,
		.daemon = RECIPE_DAEMON_DEFAULT,
		.columns = 8,
		.draws = 8,
		.tile = 144};
	int r = show_options(&show, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = show_prepare(&show);
	if (code == CLI_OK)
		code = show.sample_given ? show_one(&show) : show_batch(&show);
	penstock_stream_close(show.stream);
	spawn_stop();
	recipe_unload(&show.recipe);
	return code;
}
