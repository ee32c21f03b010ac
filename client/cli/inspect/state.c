/* state: `penstock state`: describes a state, and tells whether a stream can resume from it. It
 * opens the dataset itself and needs no daemon. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/inspect/resume.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "client/cli/table.h"
#include "definition/spec_state.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STATE_WIDTH = 80, STATE_NAME = 11, STATE_RANKS = 16 };

struct state {
	const char *named, *source; /* source NULL: there is nothing to compare with */
	struct recipe recipe;
	struct recipe_cut cut;
	bool json, batch_given, world_given;

	struct spec_state state;
	struct resume_meaning meaning;
	struct order_epoch epoch; /* samples is 0 without a dataset */
	struct resume_place place;
	struct resume_difference difference[RESUME_DIFFERENCES];
	unsigned differences;
};

static const struct command state_command = {
	.name = "state",
	.operands = "STATE [SOURCE]",
	.min_operands = 1,
	.max_operands = 2,
	.about = "Explains the state of a stream. STATE is a file, - for standard input, or the\n"
		 "text itself. With SOURCE and the stream's options: whether that stream can\n"
		 "resume from the state, what differs, and what each rank gets next.",
};

/* Options that only a comparison uses mean nothing without a SOURCE. */
static int state_needs_source(const struct state *state)
{
	const char *name = recipe_written(&state->recipe);
	if (!name && state->cut.drop_last)
		name = "drop-last";
	if (!name && state->cut.no_drop_last)
		name = "no-drop-last";
	if (!name)
		return 0;
	cli_note("--%s belongs to the stream that should resume: name its SOURCE, too", name);
	return -EINVAL;
}

static int state_options(struct state *state, int argc, char **argv)
{
	struct option table[] = {
		RECIPE_OPTIONS(state->recipe),
		RECIPE_CUT_OPTIONS(state->cut),
		{"json", 'j', OPTION_FLAG, &state->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	options_note_given(table, UTIL_COUNT(table), "batch-size", &state->batch_given);
	options_note_given(table, UTIL_COUNT(table), "world-size", &state->world_given);
	int r = options_parse(&state_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r;
	state->named = operand[0];
	state->source = operand[1];
	if (!state->source)
		return state_needs_source(state);
	r = recipe_check_source(state->source, "state");
	if (!r)
		r = recipe_settle(&state->recipe);
	return r < 0 ? r : recipe_check_cut(&state->recipe, &state->cut);
}

/* Whether there is a next batch to describe. */
static bool state_fits(const struct state *state)
{
	return !resume_refused(state->difference, state->differences);
}

/* What a position between two batches means, and which options would tell more. */
static const char *state_aligned_text(const struct state *state)
{
	if (state->place.aligned)
		return "";
	if (!state->batch_given)
		return state->world_given
			       ? "; it begins between two batches of 64, the default: give -b to "
				 "learn more"
			       : "; it begins between two batches of 64, the default: give -b, and "
				 "-W for several ranks, to learn more";
	return "; it begins between two batches of an epoch read from its beginning, so the state "
	       "was taken with another batch size or world size";
}

/* "batch 12 of epoch 3, 613 of 625 left; 4 ranks of 64" */
static void state_next(const struct state *state, char *text, size_t room)
{
	const struct order_epoch *epoch = &state->epoch;
	const struct resume_place *place = &state->place;
	char left[96] = "", cut[64];
	if (epoch->samples)
		(void)snprintf(left, sizeof left, ", %" PRIu64 " of its %" PRIu64 " left",
			course_left(&place->course), order_batches(epoch, 0));
	(void)snprintf(cut, sizeof cut, "%" PRIu32 " rank%s of %" PRIu32, epoch->world_size,
		epoch->world_size == 1 ? "" : "s", epoch->batch_size);
	(void)snprintf(text, room, "number %" PRIu64 " of epoch %" PRIu64 "%s, with %s%s%s",
		place->batch, place->epoch, left, cut,
		place->turned ? "; no batch of that size was left of the state's epoch" : "",
		state_aligned_text(state));
}

static void state_line(const char *name, const char *text)
{
	table_sentence(2, STATE_NAME, name, text, STATE_WIDTH);
}

static void state_say_what(const struct state *state)
{
	char text[512];
	(void)snprintf(text, sizeof text, "fingerprint %016" PRIx64, state->state.fingerprint);
	state_line("dataset", text);
	resume_order_text(&state->state, &state->meaning, text, sizeof text);
	state_line("order", text);
	if (state->meaning.rows_known)
		resume_rows_text(&state->meaning.rows, text, sizeof text);
	else
		(void)snprintf(
			text, sizeof text, "unknown (%016" PRIx64 ")", state->state.transform);
	state_line("rows", text);
	(void)snprintf(text, sizeof text, "in epoch %" PRIu64 ", at position %s",
		state->state.epoch, table_count(state->state.position).text);
	/* With buckets, short batches count as full ones in a position. */
	if (state->epoch.samples && !state->state.cuts.count &&
		state->state.position <= state->epoch.samples)
		(void)snprintf(text + strlen(text), sizeof text - strlen(text),
			" of %s samples (%.1f %%)", table_count(state->epoch.samples).text,
			100 * (double)state->state.position / (double)state->epoch.samples);
	state_line("resumes", text);
}

static void state_rank_row(const struct state *state, struct table *table, uint32_t rank)
{
	struct order_slice slice = course_batch(&state->place.course, 0, rank).slice;
	table_row(table);
	table_cell(table, true, "%" PRIu32, rank);
	table_cell(table, true, "%s", table_count(slice.position).text);
	table_cell(table, true, "%" PRIu32, slice.count);
	table_cell(table, true, "%s",
		table_count(recipe_sample(&state->recipe, state->place.epoch, slice.position))
			.text);
	if (slice.padded)
		table_cell(table, false, "padded");
}

/* The next batch of each of the first sixteen ranks. */
static int state_say_ranks(const struct state *state)
{
	static const char *const head[] = {"rank", "position", "rows", "first sample"};
	struct table *table = table_new();
	if (!table)
		return cli_fail(CLI_FAILED, "not enough memory for a table");
	table_row(table);
	for (size_t i = 0; i < UTIL_COUNT(head); i++)
		table_cell(table, true, "%s", head[i]);
	uint32_t ranks = state->epoch.world_size, shown = UTIL_MIN(ranks, (uint32_t)STATE_RANKS);
	for (uint32_t rank = 0; rank < shown; rank++)
		state_rank_row(state, table, rank);
	(void)printf("\n");
	table_print(table, 2);
	if (shown < ranks)
		(void)printf("  and so on to rank %" PRIu32 "; --json lists all\n", ranks - 1);
	table_free(table);
	return CLI_OK;
}

static void state_say_verdict(const struct state *state)
{
	char text[640];
	(void)printf("\n");
	(void)snprintf(text, sizeof text, state_fits(state) ? "fits %s" : "does not fit %s",
		state->source);
	(void)printf("  %s%s\n", cli_tame(text), state->differences ? ":" : "");
	for (unsigned i = 0; i < state->differences; i++) {
		resume_sentence(&state->difference[i], text, sizeof text);
		table_sentence(4, STATE_NAME - 2, state->difference[i].what, text, STATE_WIDTH);
	}
}

static int state_people(const struct state *state)
{
	char text[512];
	int code = CLI_OK;
	(void)printf("a state of version %" PRIu32 "\n", state->state.version);
	state_say_what(state);
	if (state_fits(state)) {
		state_next(state, text, sizeof text);
		state_line("next batch", text);
	}
	if (state->source && state_fits(state))
		code = state_say_ranks(state);
	if (state->source)
		state_say_verdict(state);
	return code;
}

static void state_json_rows(struct jsontext *json, const struct resume_meaning *meaning)
{
	if (!meaning->rows_known) {
		jsontext_raw(json, "rows", "null");
		return;
	}
	jsontext_object(json, "rows");
	jsontext_bool(json, "train", meaning->rows.kind == PIXEL_RESIZED_CROP);
	shape_json_size(json, "image_size", meaning->rows.size);
	jsontext_string(json, "decode", meaning->rows.fast ? "fast" : "exact");
	jsontext_string(json, "interpolation", weights_filter_names[meaning->rows.filter]);
	jsontext_end(json);
}

static void state_json_what(struct jsontext *json, const struct state *state)
{
	char hex[20];
	const struct spec_state *what = &state->state;
	const struct {
		const char *key;
		uint64_t value;
	} hashes[] = {{"fingerprint", what->fingerprint}, {"order", what->order},
		{"transform", what->transform}};
	jsontext_u64(json, "version", what->version);
	for (size_t i = 0; i < UTIL_COUNT(hashes); i++) {
		(void)snprintf(hex, sizeof hex, "%016" PRIx64, hashes[i].value);
		jsontext_string(json, hashes[i].key, hex);
	}
	jsontext_u64(json, "seed", what->seed);
	jsontext_u64(json, "epoch", what->epoch);
	jsontext_u64(json, "position", what->position);
	if (what->cuts.count)
		spec_state_json_cuts(json, &what->cuts);
	if (state->meaning.order_known)
		jsontext_bool(json, "shuffle", state->meaning.shuffle != SHUFFLE_NONE);
	else
		jsontext_raw(json, "shuffle", "null");
	if (state->meaning.order_known && state->meaning.shuffle == SHUFFLE_BLOCKS)
		jsontext_u64(json, "window", state->meaning.window);
	state_json_rows(json, &state->meaning);
}

static void state_json_ranks(struct jsontext *json, const struct state *state)
{
	jsontext_array(json, "ranks");
	for (uint32_t rank = 0; rank < state->epoch.world_size; rank++) {
		struct order_slice slice = course_batch(&state->place.course, 0, rank).slice;
		jsontext_object(json, NULL);
		jsontext_u64(json, "rank", rank);
		jsontext_u64(json, "position", slice.position);
		jsontext_u64(json, "rows", slice.count);
		jsontext_bool(json, "padded", slice.padded);
		jsontext_u64(json, "first_sample",
			recipe_sample(&state->recipe, state->place.epoch, slice.position));
		jsontext_end(json);
	}
	jsontext_end(json);
}

/* The shape of the next batch. */
static void state_json_bucket(struct jsontext *json, const struct state *state)
{
	const uint32_t bucket = course_batch(&state->place.course, 0, 0).bucket;
	const struct pixel_size size = state->recipe.spec.buckets.size[bucket];
	jsontext_array(json, "bucket");
	jsontext_u64(json, NULL, size.height);
	jsontext_u64(json, NULL, size.width);
	jsontext_end(json);
}

/* Adds the next batch as JSON. */
static void state_json_next(struct jsontext *json, const struct state *state)
{
	jsontext_object(json, "next");
	jsontext_u64(json, "epoch", state->place.epoch);
	jsontext_u64(json, "batch", state->place.batch);
	jsontext_u64(json, "position", state->place.position);
	jsontext_bool(json, "aligned", state->place.aligned);
	jsontext_u64(json, "batch_size", state->epoch.batch_size);
	jsontext_u64(json, "world_size", state->epoch.world_size);
	if (state->epoch.samples) {
		jsontext_u64(json, "batches", order_batches(&state->epoch, 0));
		jsontext_u64(json, "batches_left", course_left(&state->place.course));
		jsontext_u64(json, "samples_left", course_samples(&state->place.course));
		if (state->epoch.buckets)
			state_json_bucket(json, state);
		state_json_ranks(json, state);
	}
	jsontext_end(json);
}

static int state_print_json(const struct state *state)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	state_json_what(&json, state);
	if (state->source) {
		jsontext_string(&json, "source", state->source);
		jsontext_u64(&json, "samples", state->epoch.samples);
		jsontext_bool(&json, "fits", state_fits(state));
		resume_json(&json, state->difference, state->differences);
	}
	if (state_fits(state))
		state_json_next(&json, state);
	jsontext_end(&json);
	return cli_print_json(&json);
}

static int state_compare(struct state *state)
{
	const struct stream_spec *spec = &state->recipe.spec;
	int code = recipe_open_parts(&state->recipe, state->source);
	if (code != CLI_OK)
		return code;
	code = recipe_load_parts(&state->recipe);
	if (code != CLI_OK)
		return code;
	state->epoch.samples = state->recipe.sampler.length;
	state->epoch = recipe_epoch(&state->recipe, &state->cut, state->epoch.samples);
	state->recipe.spec.drop_last = state->epoch.drop_last;
	code = recipe_fits_epoch(&state->epoch, state->source);
	if (code != CLI_OK)
		return code;
	resume_recognise(&state->state, spec, &state->meaning);
	state->differences = resume_compare(
		&state->state, spec, &state->recipe.parts, &state->epoch, state->difference);
	return CLI_OK;
}

static int state_run(struct state *state)
{
	int code = resume_read(state->named, &state->state);
	if (code != CLI_OK)
		return code;
	resume_recognise(&state->state, NULL, &state->meaning);
	state->epoch = recipe_epoch(&state->recipe, &state->cut, 0);
	if (state->source)
		code = state_compare(state);
	if (code != CLI_OK)
		return code;
	state->place = resume_place(&state->state, &state->epoch);
	code = state->json ? state_print_json(state) : state_people(state);
	return code == CLI_OK && !state_fits(state) ? CLI_FAILED : code;
}

int state_main(int argc, char **argv)
{
	struct state state = {.recipe = RECIPE_DEFAULT, .cut = RECIPE_CUT_DEFAULT};
	int r = state_options(&state, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = state_run(&state);
	recipe_unload(&state.recipe);
	return code;
}
