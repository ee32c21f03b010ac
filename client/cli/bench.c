/* bench: how fast a dataset reaches a trainer: the options, and what is printed. The run itself is
 * measure.[ch]'s. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/measure.h"
#include "client/cli/report.h"

struct bench {
	struct measure_options measure;
	uint64_t trainers, rate;
	double step_ms;
	bool json;
};

static const struct command bench_command = {
	.name = "bench",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about =
		"Measures how fast SOURCE (a folder, a tar, a quoted glob or brace range of tars)\n"
		"reaches a trainer. Starts a daemon of its own and ends it; `stream:NAME` uses a\n"
		"stream of the running one. One second of warm-up is not counted.",
};

static int bench_options(struct bench *bench, int argc, char **argv)
{
	struct measure_options *measure = &bench->measure;
	const struct option table[] = {
		RECIPE_OPTIONS(measure->recipe),
		RECIPE_DAEMON_OPTIONS(measure->daemon),
		{"trainers", 'n', OPTION_NUMBER, &bench->trainers, "N",
			"processes that take batches (1)", 1, TRAINER_MAX, NULL},
		{"share", 0, OPTION_CHOICE, &measure->share, "all|split|private",
			"every trainer gets every batch; each its rank's slice of it; each has a "
			"stream of its own (all)",
			0, 0, NULL},
		{"distinct-seeds", 0, OPTION_FLAG, &measure->distinct_seeds, NULL,
			"with --share private: the streams' seeds are --seed and those that "
			"follow, "
			"so that each has an order of its own",
			0, 0, NULL},
		{"seconds", 0, OPTION_SECONDS, &measure->seconds, "S", "how long to measure (10)",
			0, 86400, NULL},
		{"cold", 0, OPTION_FLAG, &measure->cold, NULL,
			"take the dataset's files out of the page cache first", 0, 0, NULL},
		{"step-ms", 0, OPTION_MILLISECONDS, &bench->step_ms, "MS",
			"a simulated trainer: works so long on each batch, which it holds "
			"meanwhile",
			0, 3600000, NULL},
		{"rate", 0, OPTION_NUMBER, &bench->rate, "N",
			"a simulated trainer: takes at most N images a second, evenly", 1,
			1000000000, NULL},
		{"max-broken", 0, OPTION_SHARE, &measure->max_broken, "SHARE",
			"of an epoch's samples that may be broken (0.01)", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &bench->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&bench_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r;
	measure->source = operand[0];
	measure->trainers = (unsigned)bench->trainers;
	measure->step_s = bench->step_ms / 1e3;
	measure->rate = (double)bench->rate;
	if (recipe_is_stream(measure->source))
		r = recipe_fits_stream(&measure->recipe, &measure->daemon, measure->source);
	return r == OPTIONS_OK ? measure_check(measure) : r;
}

static int bench_report(const struct bench *bench, const struct measure *measure)
{
	if (!bench->json)
		report_people(measure);
	else if (report_json(measure) < 0)
		return cli_fail(CLI_FAILED, "no memory for the report");
	return CLI_OK;
}

int bench_main(int argc, char **argv)
{
	struct bench bench = {.measure = MEASURE_DEFAULT, .trainers = 1};
	int r = bench_options(&bench, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	bench.measure.began_ns = cli_started_ns();
	struct measure measure;
	int code = measure_run(&bench.measure, &measure);
	if (code != CLI_OK)
		return code;
	code = bench_report(&bench, &measure);
	measure_deinit(&measure);
	return code;
}
