/* sweep: see sweep.h. */
#include "client/cli/bench/sweep/sweep.h"

#include "base/host/cpu.h"
#include "base/util.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/sweep/page.h"
#include "client/cli/bench/sweep/sweep_show.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/draw/plot.h"
#include "client/cli/output.h"
#include "client/cli/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEP_ROUNDS = 3 };

bool sweep_wanted(const struct sweep_options *options)
{
	return options->sweeps.count || options->rounds || options->yardstick || options->compare ||
	       options->python || options->plot || options->report;
}

/* ---- options that go together ---- */

static int sweep_refuse(const struct fault *fault)
{
	return cli_fail(CLI_USAGE, "%s", fault->text);
}

/* Refuses an option and an axis that set the same thing. */
static int sweep_check_axes(const struct sweep *sweep)
{
	const struct recipe *recipe = &sweep->measure->recipe;
	const bool given[GRID_AXES] = {[GRID_THREADS] = sweep->measure->daemon.threads != 0,
		[GRID_BATCH] = spec_given(&recipe->spec, SPEC_KEY_batch_size),
		[GRID_IMAGE] = spec_given(&recipe->spec, SPEC_KEY_image_size)};
	if (spec_given(&recipe->spec, SPEC_KEY_transforms) && sweep->grid.count[GRID_IMAGE])
		return cli_fail(CLI_USAGE,
			"--transforms sets the image size, so --sweep %s cannot be given; leave "
			"one out",
			grid_name[GRID_IMAGE]);
	for (size_t i = 0; i < GRID_AXES; i++)
		if (given[i] && sweep->grid.count[i])
			return cli_fail(CLI_USAGE,
				"--%s and --sweep %s cannot both be given; leave one out",
				grid_name[i], grid_name[i]);
	return CLI_OK;
}

static int sweep_check_source(const struct sweep *sweep)
{
	const struct sweep_options *options = sweep->options;
	const char *what = sweep->grid.swept    ? "--sweep"
			   : options->yardstick ? "--yardstick"
			   : options->compare   ? "--compare"
						: NULL;
	if (what && recipe_is_stream(sweep->measure->source))
		return cli_fail(CLI_USAGE,
			"%s cannot be given for %s, which the running daemon defines and reads; "
			"name the folder or tar files",
			what, sweep->measure->source);
	const char *chosen = recipe_chosen(&sweep->measure->recipe);
	if ((options->yardstick || options->compare) && chosen)
		return cli_fail(CLI_USAGE,
			"%s reads the whole dataset, so --%s cannot be given; leave one out", what,
			chosen);
	if (options->python && !options->compare)
		return cli_fail(CLI_USAGE, "--python is for --compare, which is not given");
	if (options->compare && spec_given(&sweep->measure->recipe.spec, SPEC_KEY_transforms))
		return cli_fail(CLI_USAGE, "--compare runs torchvision's usual recipe, so "
					   "--transforms cannot be given; leave one out");
	if (options->compare && sweep->measure->trainers > 1)
		return cli_fail(CLI_USAGE,
			"--compare runs one DataLoader, so --trainers %u cannot be given; leave "
			"one out",
			sweep->measure->trainers);
	return CLI_OK;
}

/* Checks that the files can be written, before anything is measured. */
static int sweep_check_files(const struct sweep_options *options)
{
	struct fault fault = {{0}};
	enum plot_format format;
	int r = options->plot ? plot_format(options->plot, &format, &fault) : 0;
	if (r == 0 && options->plot)
		r = output_check(options->plot, &fault);
	if (r == 0 && options->report)
		r = output_check(options->report, &fault);
	return r < 0 ? sweep_refuse(&fault) : CLI_OK;
}

static int sweep_check(struct sweep *sweep)
{
	struct fault fault = {{0}};
	const struct option_list *sweeps = &sweep->options->sweeps;
	int r = 0;
	for (size_t i = 0; i < sweeps->count && r == 0; i++)
		r = grid_add(&sweep->grid, sweeps->item[i], &fault);
	if (r == 0)
		r = grid_check(&sweep->grid, &fault);
	int code = r < 0 ? sweep_refuse(&fault) : sweep_check_axes(sweep);
	if (code == CLI_OK)
		code = sweep_check_source(sweep);
	return code == CLI_OK ? sweep_check_files(sweep->options) : code;
}

/* ---- getting ready ---- */

static int sweep_make_points(struct sweep *sweep)
{
	sweep->points = grid_points(&sweep->grid);
	sweep->point = calloc(sweep->points, sizeof *sweep->point);
	if (!sweep->point)
		return cli_fail(CLI_FAILED, "no memory for %zu points", sweep->points);
	for (size_t i = 0; i < sweep->points; i++) {
		struct sweep_point *point = &sweep->point[i];
		const struct measure_options *measure = sweep->measure;
		point->at = grid_at(&sweep->grid, i);
		const uint64_t *value = point->at.value;
		point->threads =
			value[GRID_THREADS] ? value[GRID_THREADS] : measure->daemon.threads;
		point->batch_size =
			value[GRID_BATCH] ? value[GRID_BATCH] : measure->recipe.spec.batch_size;
		point->image_size = value[GRID_IMAGE] ? pixel_square((uint32_t)value[GRID_IMAGE])
						      : measure->recipe.spec.image_size;
	}
	return CLI_OK;
}

/* Prepares the files that the yardstick and the other loader read. Whatever is missing is reported
 * here, before a minute is spent on measuring. */
static int sweep_open(struct sweep *sweep)
{
	const struct sweep_options *options = sweep->options;
	int code = options->compare ? compare_init(&sweep->compare, options->python) : CLI_OK;
	if (code != CLI_OK || recipe_is_stream(sweep->measure->source))
		return code;
	struct dataset *dataset;
	code = recipe_open(&sweep->measure->recipe, sweep->measure->source, &dataset);
	if (code != CLI_OK)
		return code;
	if (options->compare)
		code = compare_list(&sweep->compare, dataset);
	struct fault fault = {{0}};
	if (code == CLI_OK && options->yardstick) {
		int r = yardstick_new(dataset, 0, cpu_available(), &sweep->yardstick, &fault);
		if (r < 0)
			code = cli_fail(r == -ENODATA ? CLI_USAGE : CLI_FAILED, "%s", fault.text);
	}
	dataset_free(dataset);
	return code;
}

/* ---- measuring ---- */

static void sweep_keep(struct sweep_point *point, const struct measure *run)
{
	point->threads = document_u64(run->stats, "threads", point->threads);
	point->batch_size = run->batch_size;
	point->image_size = run->image_size;
	point->run[point->rate.count] = *run;
	spread_add(&point->rate, run->seconds > 0 ? run->images_made / run->seconds : 0);
}

static int sweep_loader(struct sweep *sweep, struct sweep_point *point, unsigned round)
{
	char label[64];
	struct measure_options options = *sweep->measure;
	options.daemon.threads = point->at.value[GRID_THREADS] ? point->at.value[GRID_THREADS]
							       : options.daemon.threads;
	options.recipe.spec.batch_size = point->batch_size;
	options.recipe.spec.image_size = point->image_size;
	if (sweep->points > 1 || round) {
		(void)snprintf(label, sizeof label, "round %u of %u, point %zu of %zu", round + 1,
			sweep->rounds, (size_t)(point - sweep->point) + 1, sweep->points);
		options.label = label;
	}
	/* The time that the yardstick and the other loader took to prepare does not count. */
	if (sweep_compares(sweep))
		options.began_ns = 0;
	struct measure run;
	int code = measure_run(&options, &run);
	if (code == CLI_OK)
		sweep_keep(point, &run);
	return code;
}

static unsigned sweep_threads(const struct sweep_point *point)
{
	return point->threads ? (unsigned)point->threads : cpu_threads();
}

static int sweep_yardstick(struct sweep *sweep, struct sweep_point *point)
{
	double images_per_s;
	struct fault fault = {{0}};
	if (yardstick_run(sweep->yardstick, sweep_threads(point), sweep->measure->seconds,
		    &images_per_s, &fault) < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	spread_add(&point->yardstick, images_per_s);
	return CLI_OK;
}

/* The yardstick depends only on the number of threads: takes over what it measured in this round on
 * as many. */
static bool sweep_borrow(struct sweep *sweep, struct sweep_point *point, unsigned round)
{
	for (size_t i = 0; i < sweep->points; i++) {
		const struct sweep_point *other = &sweep->point[i];
		if (other == point || other->yardstick.count <= round ||
			other->threads != point->threads)
			continue;
		spread_add(&point->yardstick, other->yardstick.value[round]);
		return true;
	}
	return false;
}

static int sweep_torch(struct sweep *sweep, struct sweep_point *point)
{
	struct recipe recipe = sweep->measure->recipe;
	recipe.spec.batch_size = point->batch_size;
	recipe.spec.image_size = point->image_size;
	struct compare_run run;
	int code = compare_run(&sweep->compare, &recipe, sweep_threads(point),
		sweep->measure->seconds, sweep->measure->warmup_s, &run);
	if (code != CLI_OK)
		return code;
	spread_add(&point->torch, run.images_per_s);
	point->torch_broken += run.broken;
	return CLI_OK;
}

static double sweep_last(const struct spread *spread)
{
	return spread->value[spread->count - 1];
}

/* Measures the loader, and then what it is compared with. */
static int sweep_measure(struct sweep *sweep, struct sweep_point *point, unsigned round)
{
	int code = sweep_loader(sweep, point, round);
	if (code == CLI_OK && sweep->yardstick && !sweep_borrow(sweep, point, round))
		code = sweep_yardstick(sweep, point);
	if (code == CLI_OK && sweep->options->compare)
		code = sweep_torch(sweep, point);
	if (code != CLI_OK)
		return code;
	if (sweep->yardstick)
		spread_add(&point->ratio, sweep_last(&point->rate) / sweep_last(&point->yardstick));
	if (sweep->options->compare)
		spread_add(&point->times, sweep_last(&point->rate) / sweep_last(&point->torch));
	return CLI_OK;
}

/* A point that fails is left out from then on; the others are still measured. The code of the first
 * failure, or CLI_OK. */
static int sweep_round(struct sweep *sweep, unsigned round)
{
	int worst = CLI_OK;
	char name[96];
	for (size_t i = 0; i < sweep->points; i++) {
		struct sweep_point *point = &sweep->point[round % 2 ? sweep->points - 1 - i : i];
		if (point->failed)
			continue;
		int code = sweep_measure(sweep, point, round);
		point->failed = code != CLI_OK;
		if (code != CLI_OK && sweep->points > 1)
			cli_note("%s is left out from here on",
				sweep_name(point, name, sizeof name));
		worst = worst == CLI_OK ? code : worst;
	}
	return worst;
}

/* ---- the whole ---- */

/* Says how long it will take, if there is more than one run. */
static void sweep_announce(const struct sweep *sweep)
{
	double runs = (double)sweep->points * sweep->rounds;
	double each = sweep->measure->seconds + sweep->measure->warmup_s +
		      (sweep->options->yardstick ? sweep->measure->seconds : 0) +
		      (sweep->options->compare ? sweep->measure->seconds + 5 : 0);
	if (runs > 1 && isatty(STDERR_FILENO))
		cli_note("%zu point%s x %u rounds: about %s", sweep->points,
			sweep->points == 1 ? "" : "s", sweep->rounds,
			table_clock(runs * each).text);
}

static int sweep_print(const struct sweep *sweep, bool json)
{
	if (sweep_compares(sweep))
		return json ? sweep_show_json(sweep) : sweep_show_people(sweep);
	return report_print(sweep_middle(sweep_fastest(sweep)), NULL, json);
}

/* Names a file that was written, except beside JSON. Returns the exit code, which was `code`. */
static int sweep_wrote(const char *path, bool json, int result, int code, const struct fault *fault)
{
	if (result < 0)
		return cli_fail(CLI_FAILED, "%s", fault->text);
	if (!json)
		report_sentence("wrote", "%s", path);
	return code;
}

/* Prints first: a full disk then only costs the files. */
static int sweep_tell(const struct sweep *sweep, bool json)
{
	int code = sweep_print(sweep, json);
	struct fault fault = {{0}};
	(void)fflush(stdout);
	if (sweep->options->plot)
		code = sweep_wrote(sweep->options->plot, json,
			sweep_show_plot(sweep, sweep->options->plot, &fault), code, &fault);
	if (sweep->options->report)
		code = sweep_wrote(sweep->options->report, json,
			page_save(sweep, sweep->options->report, &fault), code, &fault);
	return code;
}

static int sweep_run(struct sweep *sweep, bool json)
{
	int code = CLI_OK;
	sweep_announce(sweep);
	for (unsigned round = 0; round < sweep->rounds; round++) {
		int r = sweep_round(sweep, round);
		code = code == CLI_OK ? r : code;
	}
	if (!sweep_fastest(sweep))
		return code;
	/* If other points succeeded, the command line is not at fault for one that failed. */
	int told = sweep_tell(sweep, json);
	return code == CLI_OK ? told : CLI_FAILED;
}

static void sweep_deinit(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->points && sweep->point; i++)
		for (size_t j = 0; j < sweep->point[i].rate.count; j++)
			measure_deinit(&sweep->point[i].run[j]);
	free(sweep->point);
	yardstick_free(sweep->yardstick);
	compare_deinit(&sweep->compare);
}

int sweep_main(const struct sweep_options *options, const struct measure_options *measure,
	bool json, int argc, char **argv)
{
	struct sweep sweep = {.options = options,
		.measure = measure,
		.compare = {.list_fd = -1},
		.argc = argc,
		.argv = argv};
	int code = sweep_check(&sweep);
	bool several = sweep.grid.swept || options->yardstick || options->compare;
	sweep.rounds = options->rounds ? (unsigned)options->rounds : several ? SWEEP_ROUNDS : 1;
	if (code == CLI_OK)
		code = sweep_make_points(&sweep);
	if (code == CLI_OK)
		code = sweep_open(&sweep);
	if (code == CLI_OK)
		code = sweep_run(&sweep, json);
	sweep_deinit(&sweep);
	return code;
}
