/* bench: `penstock bench`, how fast a dataset reaches a trainer: its options, and what it prints.
 *
 * A map of this folder:
 *   bench.c               this
 *   measure.[ch]          one run: starts the daemon and the trainers, watches them, sums up
 *   trainer.[ch]          a forked process that takes batches and times them
 *   monitor.[ch]          looks at daemon and trainers from outside, ten times a second
 *   series.[ch]           what it saw, over time
 *   cold.[ch]             drops a dataset's files from the page cache
 *   accelerate.[ch]       how many accelerators this machine feeds, in MLPerf Storage's terms
 *   report.[ch], report_json.c  prints one run
 *   yardstick.[ch]        how fast libjpeg-turbo decodes the same files
 *   compare.[ch], compare_torch.py  how fast PyTorch's DataLoader reads them
 *   sweep/                several runs, and what is measured beside them */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/bench/accelerate.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/sweep/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct bench {
	struct measure_options measure;
	struct sweep_options sweep;
	uint64_t trainers, rate;
	double step_ms;
	const char *accelerators, *profile;
	bool trainers_given, share_given, batch_given, profile_given;
	bool json;
};

static const struct command bench_command = {
	.name = "bench",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about = "Measures how fast SOURCE reaches a trainer, and says what limits the rate.\n"
		 "Starts a daemon and ends it; with stream:NAME as SOURCE it uses that stream\n"
		 "of the running daemon instead.",
};

/* Reads "auto" (0) or a number. 0, or -EINVAL after saying what was expected. */
static int bench_accelerators(const char *text, unsigned *ret)
{
	char *end = NULL;
	unsigned long count = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
	bool is_auto = strcmp(text, "auto") == 0;
	if (!is_auto && (!end || *end || count > TRAINER_MAX)) {
		cli_note(
			"--accelerators: expected a whole number from 1 to %d, or auto, got \"%s\"",
			TRAINER_MAX, text);
		return -EINVAL;
	}
	*ret = (unsigned)count;
	return 0;
}

/* The options that need --accelerators, and those that exclude it. */
static int bench_check_accelerators(struct bench *bench, struct accelerate_options *ret)
{
	if (!bench->accelerators && bench->profile_given)
		cli_note("--profile is for --accelerators, which is not given");
	else if (bench->accelerators && bench->trainers_given)
		cli_note("--accelerators sets the number of trainers, so --trainers cannot be "
			 "given with it");
	else if (bench->accelerators && sweep_wanted(&bench->sweep))
		cli_note("--accelerators cannot be combined with --sweep, --rounds, --yardstick, "
			 "--compare, --plot or --report");
	else if (!bench->accelerators)
		return measure_check(&bench->measure);
	else {
		if (!bench->share_given)
			bench->measure.share = "split";
		*ret = (struct accelerate_options){.profile = bench->profile,
			.batch_given = bench->batch_given,
			.step_given = bench->step_ms > 0,
			.run = bench->measure};
		int r = bench_accelerators(bench->accelerators, &ret->count);
		return r < 0 ? r : accelerate_check(ret);
	}
	return -EINVAL;
}

static int bench_options(
	struct bench *bench, int argc, char **argv, struct accelerate_options *ret_accelerate)
{
	struct measure_options *measure = &bench->measure;
	struct option table[] = {
		RECIPE_OPTIONS(measure->recipe),
		RECIPE_DAEMON_OPTIONS(measure->daemon),
		{"trainers", 'n', OPTION_NUMBER, &bench->trainers, "N",
			"number of processes that take batches (1)", 1, TRAINER_MAX,
			&bench->trainers_given},
		{"share", 0, OPTION_CHOICE, &measure->share, "all|split|private",
			"all: every trainer gets every batch; split: each gets its rank's slice; "
			"private: each has a stream of its own (all)",
			0, 0, &bench->share_given},
		{"distinct-seeds", 0, OPTION_FLAG, &measure->distinct_seeds, NULL,
			"with --share private: a seed for each stream", 0, 0, NULL},
		{"seconds", 0, OPTION_SECONDS, &measure->seconds, "S", "how long to measure (10)",
			0, 86400, NULL},
		{"cold", 0, OPTION_FLAG, &measure->cold, NULL,
			"first drop the dataset's files from the page cache", 0, 0, NULL},
		{"step-ms", 0, OPTION_MILLISECONDS, &bench->step_ms, "MS",
			"simulate a trainer that works MS ms on each batch", 0, 3600000, NULL},
		{"rate", 0, OPTION_NUMBER, &bench->rate, "N",
			"simulate a trainer that takes at most N images/s", 1, 1000000000, NULL},
		{"accelerators", 0, OPTION_TEXT, &bench->accelerators, "N|auto",
			"simulate N accelerators of MLPerf Storage's ResNet-50 workload; auto: "
			"find out how many can be fed",
			0, 0, NULL},
		{"profile", 0, OPTION_CHOICE, &bench->profile, ACCELERATE_PROFILES,
			"which accelerator to simulate (h100)", 0, 0, &bench->profile_given},
		{"max-broken", 0, OPTION_SHARE, &measure->max_broken, "SHARE",
			"share of samples that may be broken (0.01)", 0, 0, NULL},
		SWEEP_OPTIONS(bench->sweep),
		{"json", 'j', OPTION_FLAG, &bench->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	options_note_given(table, UTIL_COUNT(table), "batch-size", &bench->batch_given);
	int r = options_parse(&bench_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r;
	measure->source = operand[0];
	measure->trainers = (unsigned)bench->trainers;
	measure->step_s = bench->step_ms / 1e3;
	measure->rate = (double)bench->rate;
	r = recipe_settle(&measure->recipe);
	if (r < 0)
		return r;
	if (recipe_is_stream(measure->source))
		r = recipe_fits_stream(&measure->recipe, &measure->daemon, measure->source);
	return r == OPTIONS_OK ? bench_check_accelerators(bench, ret_accelerate) : r;
}

static int bench_run(const struct bench *bench, const struct accelerate_options *options)
{
	struct measure measure;
	struct accelerate accelerate;
	int code = bench->accelerators ? accelerate_run(options, &measure, &accelerate)
				       : measure_run(&bench->measure, &measure);
	if (code != CLI_OK)
		return code;
	code = report_print(&measure, bench->accelerators ? &accelerate : NULL, bench->json);
	measure_deinit(&measure);
	return code;
}

int bench_main(int argc, char **argv)
{
	struct bench bench = {.measure = MEASURE_DEFAULT, .trainers = 1, .profile = "h100"};
	bench.measure.began_ns = cli_started_ns();
	struct accelerate_options accelerate;
	int r = bench_options(&bench, argc, argv, &accelerate);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	if (sweep_wanted(&bench.sweep))
		return sweep_main(&bench.sweep, &bench.measure, bench.json, argc, argv);
	return bench_run(&bench, &accelerate);
}
