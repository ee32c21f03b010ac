/* sweep_show: see sweep_show.h. The keys of the JSON are part of the interface: append, never
 * rename. */
#include "client/cli/bench/sweep/sweep_show.h"

#include "base/util.h"
#include "client/cli/bench/report.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/table.h"
#include "proto/jsontext.h"

#include <inttypes.h>
#include <stdio.h>

const char *sweep_yardstick_words(const struct sweep *sweep, char *buffer, size_t room)
{
	const struct yardstick_files *files;
	const char *before = "; left out: ";
	*buffer = 0;
	if (!sweep->yardstick)
		return buffer;
	files = yardstick_files(sweep->yardstick);
	size_t at = (size_t)snprintf(buffer, room,
		"libjpeg-turbo's full decode to RGB, from memory, on as many threads: %s of %s "
		"file%s",
		table_count(files->files).text, table_count(files->looked).text,
		files->looked == 1 ? "" : "s");
	if (files->looked < files->samples && at < room)
		at += (size_t)snprintf(buffer + at, room - at,
			", evenly spread over the dataset's %s: all of them would take too much "
			"memory",
			table_count(files->samples).text);
	for (size_t i = 0; i < YARDSTICK_LEFT && at < room; i++)
		if (files->left[i]) {
			at += (size_t)snprintf(buffer + at, room - at, "%s%s %s", before,
				table_count(files->left[i]).text, yardstick_left_name[i]);
			before = ", ";
		}
	return buffer;
}

const char *sweep_torch_words(const struct sweep *sweep, char *buffer, size_t room)
{
	const struct compare *compare = &sweep->compare;
	*buffer = 0;
	if (sweep->options->compare)
		(void)snprintf(buffer, room,
			"PyTorch %s's DataLoader (torchvision %s, Pillow %s, Python %s) over the "
			"same files, with as many persistent workers as penstock has threads: "
			"Image.open().convert(\"RGB\"), %s, PILToTensor, so uint8 rows like "
			"penstock's; neither loader normalizes",
			compare->version[COMPARE_TORCH], compare->version[COMPARE_TORCHVISION],
			compare->version[COMPARE_PILLOW], compare->version[COMPARE_PYTHON],
			!sweep->measure->recipe.spec.train
				? "Resize, CenterCrop"
				: "RandomResizedCrop, RandomHorizontalFlip");
	return buffer;
}

static double sweep_entry_points_made(const struct measure *run)
{
	return document_number(document_get(run->stats, "checkpoints"), "made", 0);
}

bool sweep_made_entry_points(const struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->points; i++)
		for (size_t j = 0; j < sweep->point[i].rate.count; j++)
			if (sweep_entry_points_made(&sweep->point[i].run[j]) >
				0.02 * sweep->point[i].run[j].images_made)
				return true;
	return false;
}

/* ---- for people ---- */

static void sweep_cell(struct table *table, bool known, const char *text)
{
	table_cell(table, true, "%s", known ? text : "-");
}

static void sweep_cell_rate(struct table *table, const struct spread *spread, double value)
{
	sweep_cell(table, spread->count, table_rate(value).text);
}

/* What was measured beside the loader, and the ratio to it. */
static void sweep_cells_beside(
	struct table *table, const struct spread *beside, const struct spread *ratio)
{
	char text[24];
	sweep_cell_rate(table, beside, spread_median(beside));
	(void)snprintf(text, sizeof text, "%.2f", spread_median(ratio));
	sweep_cell(table, ratio->count, text);
}

/* The table must fit 80 columns: it leaves out what is the same for all points, and if much else is
 * compared, it shows rates only. */
static bool sweep_shows(const struct sweep *sweep, enum grid_axis axis)
{
	return sweep->grid.count[axis] > 1 || (axis == GRID_THREADS && sweep->grid.swept == 0);
}

static bool sweep_shows_run(const struct sweep *sweep)
{
	int others = (sweep->yardstick != NULL) + sweep->options->compare;
	return others + (sweep->grid.swept == GRID_AXES) < 2;
}

static void sweep_row(
	const struct sweep *sweep, struct table *table, const struct sweep_point *point)
{
	const uint64_t is[GRID_AXES] = {[GRID_THREADS] = point->threads,
		[GRID_BATCH] = point->batch_size,
		[GRID_IMAGE] = point->image_size.height};
	const struct measure *run = sweep_middle(point);
	char text[24];
	table_row(table);
	for (enum grid_axis axis = 0; axis < GRID_AXES; axis++) {
		(void)snprintf(text, sizeof text, "%" PRIu64, is[axis]);
		if (sweep_shows(sweep, axis))
			sweep_cell(table, is[axis], text);
	}
	sweep_cell_rate(table, &point->rate, spread_median(&point->rate));
	if (sweep->rounds > 1) {
		sweep_cell_rate(table, &point->rate, spread_least(&point->rate));
		sweep_cell_rate(table, &point->rate, spread_most(&point->rate));
	}
	if (sweep_shows_run(sweep)) {
		sweep_cell(table, run, table_seconds(run ? run->arrivals.p99_s : 0).text);
		sweep_cell(table, run,
			run && run->memory_known ? table_bytes(run->peak_memory).text : "?");
	}
	if (sweep->yardstick)
		sweep_cells_beside(table, &point->yardstick, &point->ratio);
	if (sweep->options->compare)
		sweep_cells_beside(table, &point->torch, &point->times);
}

static void sweep_head(const struct sweep *sweep, struct table *table)
{
	const struct {
		bool shown;
		const char *name;
	} heads[] = {{sweep_shows(sweep, GRID_THREADS), "threads"},
		{sweep_shows(sweep, GRID_BATCH), "batch"}, {sweep_shows(sweep, GRID_IMAGE), "px"},
		{true, "images/s"}, {sweep->rounds > 1, "least"}, {sweep->rounds > 1, "most"},
		{sweep_shows_run(sweep), "p99"}, {sweep_shows_run(sweep), "memory"},
		{sweep->yardstick, "yardstick"}, {sweep->yardstick, "ratio"},
		{sweep->options->compare, "PyTorch"}, {sweep->options->compare, "times"}};
	table_row(table);
	for (size_t i = 0; i < UTIL_COUNT(heads); i++)
		if (heads[i].shown)
			table_cell(table, true, "%s", heads[i].name);
}

/* The notes below the table. */
static void sweep_feet(const struct sweep *sweep)
{
	char text[512];
	const struct sweep_point *best = sweep_fastest(sweep);
	(void)printf("\n");
	if (sweep->points > 1)
		report_sentence("fastest", "%s: %s images/s", sweep_name(best, text, sizeof text),
			table_count((uint64_t)(spread_median(&best->rate) + 0.5)).text);
	report_sentence("rounds", "%u, interleaved, of %.3g s for each point; medians%s%s",
		sweep->rounds, sweep->measure->seconds, sweep->rounds > 1 ? ", least and most" : "",
		sweep_shows_run(sweep) ? "; p99 of the time between batches" : "");
	report_sentence("yardstick", "%s", sweep_yardstick_words(sweep, text, sizeof text));
	report_sentence("PyTorch", "%s", sweep_torch_words(sweep, text, sizeof text));
	if (sweep_made_entry_points(sweep))
		report_sentence(
			"entry points", SWEEP_MADE "; `penstock check --index` makes them first");
}

int sweep_show_people(const struct sweep *sweep)
{
	struct table *table = table_new();
	if (!table)
		return cli_fail(CLI_FAILED, "no memory for the table");
	sweep_head(sweep, table);
	for (size_t i = 0; i < sweep->points; i++)
		sweep_row(sweep, table, &sweep->point[i]);
	const struct measure *run = sweep_middle(sweep_fastest(sweep));
	if (sweep->points > 1) {
		report_source(run->source);
		report_sentence("dataset", "%s", run->dataset);
	} else {
		(void)report_print(run, NULL, false);
	}
	(void)printf("\n");
	table_print(table, 2);
	table_free(table);
	sweep_feet(sweep);
	return CLI_OK;
}

/* ---- for machines ---- */

static void sweep_json_spread(
	struct jsontext *json, const char *key, const struct spread *spread, int decimals)
{
	if (!spread->count) {
		jsontext_string(json, key, NULL);
		return;
	}
	jsontext_object(json, key);
	jsontext_number(json, "median", spread_median(spread), decimals);
	jsontext_number(json, "least", spread_least(spread), decimals);
	jsontext_number(json, "most", spread_most(spread), decimals);
	jsontext_array(json, "rounds");
	for (size_t i = 0; i < spread->count; i++)
		jsontext_number(json, NULL, spread->value[i], decimals);
	jsontext_end(json);
	jsontext_end(json);
}

/* `run` is NULL if none succeeded: all is then null. */
static void sweep_json_run(struct jsontext *json, const struct measure *run)
{
	static const struct measure none = {.seconds = 1};
	const struct measure *is = run ? run : &none;
	char remedy[VERDICT_TEXT];
	report_json_known(json, "batch_p50_ms", run, is->arrivals.p50_s * 1e3, 3);
	report_json_known(json, "batch_p99_ms", run, is->arrivals.p99_s * 1e3, 3);
	report_json_known(json, "cpu", is->cpu_known, is->cpu_s / is->seconds, 3);
	report_json_known(json, "peak_memory_bytes", is->memory_known, (double)is->peak_memory, 0);
	report_json_known(json, "checkpoints_made", run, sweep_entry_points_made(is), 0);
	jsontext_string(json, "verdict", run ? document_text(run->stats, "verdict", "") : NULL);
	jsontext_string(json, "remedy", run ? measure_remedy(run, remedy) : NULL);
}

static void sweep_json_point(
	const struct sweep *sweep, struct jsontext *json, const struct sweep_point *point)
{
	jsontext_object(json, NULL);
	jsontext_u64(json, "threads", point->threads);
	jsontext_u64(json, "batch_size", point->batch_size);
	shape_json_size(json, "image_size", point->image_size);
	jsontext_bool(json, "failed", point->failed);
	sweep_json_spread(json, "images_per_s", &point->rate, 1);
	sweep_json_run(json, sweep_middle(point));
	if (sweep->yardstick) {
		sweep_json_spread(json, "yardstick_images_per_s", &point->yardstick, 1);
		sweep_json_spread(json, "yardstick_ratio", &point->ratio, 4);
	}
	if (sweep->options->compare) {
		sweep_json_spread(json, "torch_images_per_s", &point->torch, 1);
		sweep_json_spread(json, "torch_times", &point->times, 3);
		jsontext_u64(json, "torch_broken", point->torch_broken);
	}
	jsontext_end(json);
}

static void sweep_json_axes(const struct sweep *sweep, struct jsontext *json)
{
	jsontext_object(json, "sweep");
	for (size_t i = 0; i < sweep->grid.swept; i++) {
		enum grid_axis axis = sweep->grid.order[i];
		jsontext_array(json, grid_name[axis]);
		for (size_t j = 0; j < sweep->grid.count[axis]; j++)
			jsontext_u64(json, NULL, sweep->grid.value[axis][j]);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void sweep_json_yardstick(const struct sweep *sweep, struct jsontext *json)
{
	if (!sweep->yardstick) {
		jsontext_string(json, "yardstick", NULL);
		return;
	}
	const struct yardstick_files *files = yardstick_files(sweep->yardstick);
	jsontext_object(json, "yardstick");
	jsontext_string(json, "name", "libjpeg-turbo full decode");
	jsontext_u64(json, "samples", files->samples);
	jsontext_u64(json, "looked_at", files->looked);
	jsontext_u64(json, "files", files->files);
	jsontext_u64(json, "bytes", files->bytes);
	jsontext_object(json, "left_out");
	for (size_t i = 0; i < YARDSTICK_LEFT; i++)
		jsontext_u64(json, yardstick_left_name[i], files->left[i]);
	jsontext_end(json);
	jsontext_end(json);
}

static void sweep_json_torch(const struct sweep *sweep, struct jsontext *json)
{
	char words[512];
	if (!sweep->options->compare) {
		jsontext_string(json, "compare", NULL);
		return;
	}
	jsontext_object(json, "compare");
	jsontext_string(json, "what", sweep_torch_words(sweep, words, sizeof words));
	for (size_t i = 0; i < COMPARE_VERSIONS; i++)
		jsontext_string(json, compare_version_name[i], sweep->compare.version[i]);
	jsontext_u64(json, "samples", sweep->compare.samples);
	jsontext_u64(json, "listed", sweep->compare.listed);
	jsontext_end(json);
}

int sweep_show_json(const struct sweep *sweep)
{
	const struct measure *run = sweep_middle(sweep_fastest(sweep));
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_string(&json, "source", run->source);
	jsontext_string(&json, "dataset", run->dataset);
	jsontext_u64(&json, "trainers", run->trainers);
	jsontext_string(&json, "share", run->share);
	jsontext_u64(&json, "rounds", sweep->rounds);
	jsontext_number(&json, "seconds", sweep->measure->seconds, 3);
	sweep_json_axes(sweep, &json);
	jsontext_array(&json, "points");
	for (size_t i = 0; i < sweep->points; i++)
		sweep_json_point(sweep, &json, &sweep->point[i]);
	jsontext_end(&json);
	sweep_json_yardstick(sweep, &json);
	sweep_json_torch(sweep, &json);
	jsontext_end(&json);
	return cli_print_json(&json);
}
