/* bench: how fast a dataset reaches a trainer.
 *
 * Starts a daemon of its own (or uses a stream of the running one), forks the trainers, and watches
 * from outside: ten times a second the memory of daemon and trainers, and whether they live. What
 * is measured when is told in trainer.h. */
#include "client/cli/cli.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/document.h"
#include "client/cli/process.h"
#include "client/cli/progress.h"
#include "client/cli/report.h"
#include "client/cli/spawn.h"
#include "client/cli/table.h"
#include "client/cli/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { BENCH_TICK_NS = 100000000, BENCH_STOP_NS = 1000000000 };

struct bench {
	const char *source;
	struct recipe recipe;
	struct recipe_daemon daemon;
	uint64_t trainers;
	const char *share; /* "all", "split", "private" */
	bool distinct_seeds;
	double seconds, warmup_s, max_broken;
	bool json;

	char group[32], dataset[96];
	struct trainer_board *board;
	pid_t pid[TRAINER_MAX];
	uint64_t peak_memory;
	bool memory_known;
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

static bool bench_shares(const struct bench *bench, const char *share)
{
	return strcmp(bench->share, share) == 0;
}

static int bench_check_share(const struct bench *bench)
{
	if (bench->distinct_seeds && !bench_shares(bench, "private"))
		cli_note("--distinct-seeds wants --share private: trainers that read together have "
			 "one order");
	else if (recipe_is_stream(bench->source) && bench_shares(bench, "private"))
		cli_note("%s is read together by all who open it, so --share private cannot be; "
			 "name the folder or tars",
			bench->source);
	else
		return 0;
	return -EINVAL;
}

static int bench_options(struct bench *bench, int argc, char **argv)
{
	const struct option table[] = {
		RECIPE_OPTIONS(bench->recipe),
		RECIPE_DAEMON_OPTIONS(bench->daemon),
		{"trainers", 'n', OPTION_NUMBER, &bench->trainers, "N",
			"processes that take batches (1)", 1, TRAINER_MAX, NULL},
		{"share", 0, OPTION_CHOICE, &bench->share, "all|split|private",
			"every trainer gets every batch; each its rank's slice of it; each has a "
			"stream of its own (all)",
			0, 0, NULL},
		{"distinct-seeds", 0, OPTION_FLAG, &bench->distinct_seeds, NULL,
			"with --share private: the streams' seeds are --seed and those that "
			"follow, "
			"so that each has an order of its own",
			0, 0, NULL},
		{"seconds", 0, OPTION_SECONDS, &bench->seconds, "S", "how long to measure (10)", 0,
			86400, NULL},
		{"max-broken", 0, OPTION_SHARE, &bench->max_broken, "SHARE",
			"of an epoch's samples that may be broken (0.01)", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &bench->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&bench_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r == OPTIONS_OK)
		bench->source = operand[0];
	if (r == OPTIONS_OK && recipe_is_stream(bench->source))
		r = recipe_fits_stream(&bench->recipe, &bench->daemon, bench->source);
	return r == OPTIONS_OK ? bench_check_share(bench) : r;
}

/* The dataset is opened here first: what is wrong with it is said before anything is started, and
 * its index is built in sight. */
static int bench_prepare(struct bench *bench)
{
	struct dataset *dataset;
	int code = catalog_open(bench->source, bench->recipe.labels, &dataset);
	if (code != CLI_OK)
		return code;
	char samples[24], bytes[24], kind[48];
	catalog_kind(dataset, kind, sizeof kind);
	uint64_t count = dataset_count(dataset);
	(void)snprintf(bench->dataset, sizeof bench->dataset, "%s: %s sample%s, %s", kind,
		table_count(count, samples, sizeof samples), count == 1 ? "" : "s",
		table_bytes(dataset_bytes(dataset), bytes, sizeof bytes));
	dataset_free(dataset);
	code = recipe_fits_dataset(&bench->recipe, bench->source, count,
		bench_shares(bench, "split") ? bench->trainers : 1);
	return code == CLI_OK ? spawn_start(&bench->daemon) : code;
}

/* Who reads together is one group, and begins together. */
static void bench_join(struct bench *bench, unsigned trainer, struct penstock_options *options)
{
	bool split = bench_shares(bench, "split");
	if (bench_shares(bench, "private")) {
		options->seed += bench->distinct_seeds ? trainer : 0;
		return;
	}
	if (bench->trainers == 1 && !split)
		return;
	(void)snprintf(bench->group, sizeof bench->group, "bench-%d", (int)getpid());
	options->group = bench->group;
	options->wait_for = (uint32_t)bench->trainers;
	if (!split)
		return;
	options->share = "split";
	options->rank = trainer;
	options->world_size = (uint32_t)bench->trainers;
}

static void bench_plan(struct bench *bench, unsigned trainer, struct trainer_plan *ret)
{
	*ret = (struct trainer_plan){.warmup_s = bench->warmup_s,
		.seconds = bench->seconds,
		.notes_cpu = trainer == 0,
		.notes_stats = trainer == 0 || !bench_shares(bench, "all")};
	recipe_fill(&bench->recipe, bench->source, &ret->options);
	ret->options.socket = spawn_socket();
	ret->options.private_daemon = 0;
	ret->options.prefetch = (uint32_t)bench->daemon.prefetch;
	ret->options.max_broken = bench->max_broken;
	bench_join(bench, trainer, &ret->options);
}

static int bench_start_trainers(struct bench *bench)
{
	bench->board = trainer_boards_new((unsigned)bench->trainers);
	if (!bench->board)
		return cli_fail(CLI_FAILED, "no memory for %" PRIu64 " trainers", bench->trainers);
	for (unsigned i = 0; i < bench->trainers; i++) {
		struct trainer_plan plan;
		bench_plan(bench, i, &plan);
		bench->pid[i] = trainer_start(&plan, &bench->board[i]);
		if (bench->pid[i] < 0)
			return cli_fail(CLI_FAILED, "cannot start trainer %u of %" PRIu64 ": %s",
				i + 1, bench->trainers, strerror(-bench->pid[i]));
	}
	return CLI_OK;
}

static enum trainer_state bench_state(const struct bench *bench, unsigned i)
{
	return (enum trainer_state)atomic_load_explicit(
		&bench->board[i].state, memory_order_acquire);
}

static bool bench_all_done(const struct bench *bench)
{
	for (unsigned i = 0; i < bench->trainers; i++)
		if (bench_state(bench, i) != TRAINER_DONE)
			return false;
	return true;
}

/* The least far of all that have not failed. */
static enum trainer_state bench_least(const struct bench *bench)
{
	enum trainer_state least = TRAINER_DONE;
	for (unsigned i = 0; i < bench->trainers; i++)
		least = UTIL_MIN(least, bench_state(bench, i));
	return least;
}

static void bench_sample_memory(struct bench *bench)
{
	uint64_t bytes, sum = 0;
	if (bench_state(bench, 0) == TRAINER_OPENING || bench->board[0].daemon <= 0 ||
		process_pss(bench->board[0].daemon, &sum) < 0)
		return;
	for (unsigned i = 0; i < bench->trainers; i++)
		if (process_pss(bench->pid[i], &bytes) == 0)
			sum += bytes;
	bench->peak_memory = UTIL_MAX(bench->peak_memory, sum);
	bench->memory_known = true;
}

/* WNOWAIT: the pid stays ours until spawn_stop. */
static bool bench_look(const struct bench *bench, unsigned i, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){.si_pid = 0};
	return waitid(P_PID, (id_t)bench->pid[i], ret_info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ret_info->si_pid != 0;
}

static bool bench_has_ended(const struct bench *bench, unsigned i)
{
	siginfo_t info;
	return bench_look(bench, i, &info);
}

static int bench_complain(const struct bench *bench, unsigned i)
{
	const struct trainer_board *board = &bench->board[i];
	siginfo_t info;
	if (bench_state(bench, i) != TRAINER_FAILED && bench_look(bench, i, &info))
		return cli_fail(CLI_FAILED,
			"trainer %u ended by itself (%s %d); a memory limit or somebody's kill are "
			"the "
			"usual reasons",
			i + 1, info.si_code == CLD_EXITED ? "exit code" : "signal", info.si_status);
	int code = cli_fail(cli_exit_code(board->error), "%s", board->text);
	if (board->error == -EPIPE && spawn_socket()) {
		cli_note("the daemon's log ends with:");
		spawn_show_log();
	}
	return code;
}

static void bench_show_progress(const struct bench *bench, struct progress *progress)
{
	const struct trainer_board *board = &bench->board[0];
	static const char *const notes[] = {
		"opening the stream", "waiting for the first batch", "warming up"};
	enum trainer_state state = bench_least(bench);
	if (state < TRAINER_MEASURING) {
		progress_update(progress, 0, notes[state]);
		return;
	}
	char note[64], rate[24];
	uint64_t spent_ns = clock_ns() - board->begin_ns;
	double images = (double)atomic_load_explicit(&board->images, memory_order_relaxed);
	double left_s = bench->seconds - (double)spent_ns / 1e9;
	(void)snprintf(note, sizeof note, "%s images/s  %.0f s left",
		table_count((uint64_t)(images / ((double)spent_ns / 1e9)), rate, sizeof rate),
		UTIL_MAX(left_s, 0.0));
	progress_update(progress, spent_ns, note);
}

/* The first complaint there is about a trainer, once the progress line is out of its way. */
static int bench_check(const struct bench *bench, struct progress *progress)
{
	for (unsigned i = 0; i < bench->trainers; i++) {
		if (bench_state(bench, i) == TRAINER_FAILED || bench_has_ended(bench, i)) {
			progress_end(progress);
			return bench_complain(bench, i);
		}
	}
	return CLI_OK;
}

/* Once all have their first batch, they may warm up. */
static void bench_let_go(struct bench *bench)
{
	if (bench_least(bench) < TRAINER_WARMING)
		return;
	for (unsigned i = 0; i < bench->trainers; i++)
		atomic_store_explicit(&bench->board[i].go, 1, memory_order_relaxed);
}

/* Returns when all trainers have measured, or one cannot. */
static int bench_watch(struct bench *bench)
{
	struct progress progress;
	progress_begin(
		&progress, "measuring", PROGRESS_SECONDS, (uint64_t)(bench->seconds * 1e9), true);
	int code = CLI_OK;
	while (!bench_all_done(bench)) {
		code = bench_check(bench, &progress);
		if (code != CLI_OK)
			break;
		bench_let_go(bench);
		bench_show_progress(bench, &progress);
		bench_sample_memory(bench);
		struct timespec tick = {.tv_nsec = BENCH_TICK_NS};
		(void)nanosleep(&tick, NULL);
	}
	progress_end(&progress);
	return code;
}

/* Lets the trainers go, so that the daemon has nothing to wait for. */
static void bench_stop_trainers(const struct bench *bench)
{
	for (unsigned i = 0; i < bench->trainers; i++)
		atomic_store_explicit(&bench->board[i].stop, 1, memory_order_relaxed);
	uint64_t end_ns = clock_ns() + BENCH_STOP_NS;
	for (unsigned i = 0; i < bench->trainers; i++) {
		while (!bench_has_ended(bench, i) && clock_ns() < end_ns)
			(void)usleep(1000);
	}
}

static void bench_average(const struct bench *bench, struct report *report)
{
	struct histogram arrivals = {0}, announced = {0};
	uint64_t first_ns = 0;
	for (unsigned i = 0; i < bench->trainers; i++) {
		const struct trainer_board *board = &bench->board[i];
		double seconds = (double)(board->end_ns - board->begin_ns) / 1e9;
		double images = (double)board->window_images;
		report->seconds += seconds / (double)bench->trainers;
		report->images += images / (double)bench->trainers;
		report->trainer_images_per_s[i] = images / seconds;
		report->images_per_s += images / seconds / (double)bench->trainers;
		first_ns = UTIL_MAX(first_ns, board->first_ns);
		histogram_merge(&arrivals, &board->arrivals);
		histogram_merge(&announced, &board->announced);
	}
	report->images_made =
		report->images * (bench_shares(bench, "all") ? 1 : (double)bench->trainers);
	report->first_batch_s = (double)(first_ns - cli_started_ns()) / 1e9;
	report->batch_p50_s = (double)histogram_quantile_ns(&arrivals, 0.5) / 1e9;
	report->batch_p99_s = (double)histogram_quantile_ns(&arrivals, 0.99) / 1e9;
	report->announced = announced.total;
	report->announce_p50_us = (double)histogram_quantile_ns(&announced, 0.5) / 1e3;
	report->announce_p99_us = (double)histogram_quantile_ns(&announced, 0.99) / 1e3;
}

/* Seconds between two states of the daemon's statistics. */
static double bench_spent(
	const struct node *begin, const struct node *end, const char *group, const char *name)
{
	return document_number(document_get(end, group), name, 0) -
	       document_number(document_get(begin, group), name, 0);
}

/* One trainer's stream: what the workers spent on it, and what came of its images. Reading and
 * serving are counted for the whole daemon, so the first trainer's say enough. False: the
 * statistics are no JSON. */
static bool bench_add_stats(const struct trainer_board *board, struct report *report)
{
	static const char *const counted[] = {"fallbacks", "broken", "checkpoints"};
	static const bool of_daemon[REPORT_STAGES] = {[0] = true, [3] = true};
	struct node *begin = document_parse(board->stats_begin),
		    *end = document_parse(board->stats_end);
	bool first = !report->stats, good = begin && end;
	for (int i = 0; good && i < REPORT_STAGES; i++)
		if (first || !of_daemon[i])
			report->stage_s[i] += bench_spent(begin, end, "stages", report_stage[i]);
	for (int i = 0; good && i < REPORT_DECODE_STAGES; i++)
		report->decode_stage_s[i] +=
			bench_spent(begin, end, "decode_stages", report_decode_stage[i]);
	for (size_t i = 0; good && !first && i < UTIL_COUNT(counted); i++)
		document_sum(report->stats, end, counted[i]);
	document_free(begin);
	if (good && first)
		report->stats = end;
	else
		document_free(end);
	return good;
}

static bool bench_add_all_stats(const struct bench *bench, struct report *report)
{
	for (unsigned i = 0; i < bench->trainers; i++)
		if (bench->board[i].stats_end[0] && !bench_add_stats(&bench->board[i], report))
			return false;
	return report->stats;
}

static int bench_report(struct bench *bench)
{
	const struct trainer_board *board = &bench->board[0];
	struct report report = {
		.source = bench->source,
		.batch_size = board->info.batch_size,
		.image_size = board->info.width,
		.trainers = (unsigned)bench->trainers,
		.share = bench->share,
		.cpu_s = (double)(board->cpu_end_ns - board->cpu_begin_ns) / 1e9,
		.cpu_known = board->daemon > 0,
		.memory_known = bench->memory_known,
		.peak_memory = bench->peak_memory,
		.budget = bench->daemon.memory,
	};
	if (!bench_add_all_stats(bench, &report)) {
		document_free(report.stats);
		return cli_fail(CLI_FAILED,
			"the daemon's statistics are no JSON; is it of another release?");
	}
	(void)snprintf(report.dataset, sizeof report.dataset, "%s", bench->dataset);
	/* As the daemon opened it: a stream of the running one has its own definition. */
	bench->recipe.batch_size = board->info.batch_size;
	bench->recipe.image_size = board->info.width;
	bench->recipe.seed = board->info.seed;
	bench->recipe.eval = !board->info.train;
	bench->recipe.no_shuffle = !board->info.shuffle;
	recipe_learn(&bench->recipe, report.stats);
	recipe_describe(&bench->recipe, report.recipe, sizeof report.recipe);
	report.bytes_known =
		board->daemon > 0 && process_bytes_read(board->daemon, &report.bytes_read) == 0;
	bench_average(bench, &report);
	int code = CLI_OK;
	if (!bench->json)
		report_people(&report);
	else if (report_json(&report) < 0)
		code = cli_fail(CLI_FAILED, "no memory for the report");
	document_free(report.stats);
	return code;
}

int bench_main(int argc, char **argv)
{
	struct bench bench = {.recipe = RECIPE_DEFAULT,
		.daemon = RECIPE_DAEMON_DEFAULT,
		.trainers = 1,
		.share = "all",
		.seconds = 10,
		.warmup_s = 1};
	int r = bench_options(&bench, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = recipe_is_stream(bench.source) ? CLI_OK : bench_prepare(&bench);
	if (code == CLI_OK)
		code = bench_start_trainers(&bench);
	if (code == CLI_OK)
		code = bench_watch(&bench);
	if (code == CLI_OK)
		code = bench_report(&bench);
	if (code == CLI_OK)
		bench_stop_trainers(&bench);
	spawn_stop();
	trainer_boards_free(bench.board, (unsigned)bench.trainers);
	return code;
}
