/* measure: see measure.h. Ten times a second it looks at the daemon and the trainers
 * (monitor.h), and checks that they are alive. */
#include "client/cli/bench/measure.h"
#include "client/cli/find.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/bench/monitor.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/process.h"
#include "client/cli/progress.h"
#include "client/cli/spawn.h"
#include "client/cli/table.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { MEASURE_TICK_NS = 100000000, MEASURE_STOP_NS = 1000000000 };

const char *const measure_stage[MEASURE_STAGES] = {"read", "decode", "pixel", "serve"};
const char *const measure_decode_stage[MEASURE_DECODE_STAGES] = {
	"parse", "checkpoints", "unstuff", "entropy", "transform", "convert", "library", "other"};

/* A run in progress. */
struct run {
	const struct measure_options *options;
	char group[32];
	char socket[FIND_SOCKET]; /* of the running daemon, if that is measured */
	struct trainer_board *board;
	pid_t pid[TRAINER_MAX];
	unsigned started;
	struct monitor monitor;
};

static bool run_shares(const struct measure_options *options, const char *share)
{
	return strcmp(options->share, share) == 0;
}

/* Whether a simulated trainer takes a batch within the window. */
static int run_check_pace(const struct measure_options *options)
{
	bool stream = recipe_is_stream(options->source);
	double each_s = options->rate > 0 && !stream
				? (double)options->recipe.spec.batch_size / options->rate
				: options->step_s;
	if (options->step_s > 0 && options->rate > 0)
		cli_note("--step-ms and --rate both set the trainer's speed; leave one out");
	else if (each_s > options->seconds)
		cli_note("a trainer that takes a batch every %.6g s takes none in --seconds %.6g; "
			 "give more --seconds, or %s",
			each_s, options->seconds,
			options->rate > 0 ? "a larger --rate or smaller --batch-size"
					  : "a smaller --step-ms");
	else
		return 0;
	return -EINVAL;
}

int measure_check(const struct measure_options *options)
{
	if (options->distinct_seeds && !run_shares(options, "private"))
		cli_note("--distinct-seeds needs --share private: trainers that share a stream "
			 "have one seed");
	else if (recipe_is_stream(options->source) && run_shares(options, "private"))
		cli_note("all trainers of %s share it, so --share private cannot be given; name "
			 "the folder or tar files",
			options->source);
	else if (recipe_is_stream(options->source) && options->cold)
		cli_note("the running daemon reads %s, and bench cannot empty that daemon's cache, "
			 "so --cold cannot be given; name the folder or tar files",
			options->source);
	else
		return run_check_pace(options);
	return -EINVAL;
}

/* Opens the dataset here first, to report what is wrong with it before anything is started, and to
 * show the progress of its index. */
static int run_prepare(const struct measure_options *options, struct measure *measure)
{
	struct dataset *dataset;
	int code = recipe_open(&options->recipe, options->source, &dataset);
	if (code != CLI_OK)
		return code;
	char kind[48];
	catalog_kind(dataset, kind, sizeof kind);
	uint64_t count = dataset_count(dataset);
	(void)snprintf(measure->dataset, sizeof measure->dataset, "%s: %s sample%s, %s", kind,
		table_count(count).text, count == 1 ? "" : "s",
		table_bytes(dataset_bytes(dataset)).text);
	struct recipe recipe = options->recipe;
	code = recipe_load(&recipe, dataset);
	if (code == CLI_OK)
		code = recipe_fits_dataset(&recipe, options->source, recipe.sampler.length,
			run_shares(options, "split") ? options->trainers : 1);
	recipe_unload(&recipe);
	if (code == CLI_OK && options->cold)
		code = cold_drop(dataset, options->source, &measure->cold);
	measure->is_cold = options->cold;
	dataset_free(dataset);
	return code == CLI_OK ? spawn_start(&options->daemon) : code;
}

/* Trainers that share a stream are one group, and begin together. */
static void run_join(struct run *run, unsigned trainer, struct penstock_options *ret_options)
{
	const struct measure_options *options = run->options;
	bool split = run_shares(options, "split");
	if (run_shares(options, "private")) {
		ret_options->seed += options->distinct_seeds ? trainer : 0;
		return;
	}
	if (options->trainers == 1 && !split)
		return;
	(void)snprintf(run->group, sizeof run->group, "bench-%d", (int)getpid());
	ret_options->group = run->group;
	ret_options->wait_for = options->trainers;
	if (!split)
		return;
	ret_options->share = "split";
	ret_options->rank = trainer;
	ret_options->world_size = options->trainers;
}

static void run_plan(struct run *run, unsigned trainer, struct trainer_plan *ret)
{
	const struct measure_options *options = run->options;
	*ret = (struct trainer_plan){.warmup_s = options->warmup_s,
		.seconds = options->seconds,
		.step_s = options->step_s,
		.rate = options->rate,
		.meeting = options->in_step ? &run->board[0].meeting : NULL,
		.meets = options->trainers,
		.notes_cpu = trainer == 0,
		.notes_stats = trainer == 0 || !run_shares(options, "all")};
	recipe_fill(&options->recipe, options->source, &ret->options);
	ret->options.socket = *run->socket ? run->socket : spawn_socket();
	ret->options.private_daemon = 0;
	ret->options.prefetch = (uint32_t)options->daemon.prefetch;
	ret->options.max_broken = options->max_broken;
	run_join(run, trainer, &ret->options);
}

static int run_start_trainers(struct run *run)
{
	unsigned trainers = run->options->trainers;
	run->board = trainer_boards_new(trainers);
	if (!run->board)
		return cli_fail(CLI_FAILED, "no memory for %u trainers", trainers);
	for (unsigned i = 0; i < trainers; i++) {
		struct trainer_plan plan;
		run_plan(run, i, &plan);
		run->pid[i] = trainer_start(&plan, &run->board[i]);
		if (run->pid[i] < 0)
			return cli_fail(CLI_FAILED, "cannot start trainer %u of %u: %s", i + 1,
				trainers, strerror(-run->pid[i]));
		run->started++;
	}
	return CLI_OK;
}

static enum trainer_state run_state(const struct run *run, unsigned i)
{
	return (enum trainer_state)atomic_load_explicit(&run->board[i].state, memory_order_acquire);
}

static bool run_all_done(const struct run *run)
{
	for (unsigned i = 0; i < run->started; i++)
		if (run_state(run, i) != TRAINER_DONE)
			return false;
	return true;
}

/* The state of the trainer that is least far. */
static enum trainer_state run_least(const struct run *run)
{
	enum trainer_state least = TRAINER_DONE;
	for (unsigned i = 0; i < run->started; i++)
		least = UTIL_MIN(least, run_state(run, i));
	return least;
}

/* WNOWAIT: spawn_stop reaps it. */
static bool run_look(const struct run *run, unsigned i, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){.si_pid = 0};
	return waitid(P_PID, (id_t)run->pid[i], ret_info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ret_info->si_pid != 0;
}

static bool run_has_ended(const struct run *run, unsigned i)
{
	siginfo_t info;
	return run_look(run, i, &info);
}

/* Prints the sentence of a trainer's failure, which names a key of YAML, with bench's option. */
static int run_say(const struct run *run, const struct trainer_board *board)
{
	static const char advice[] = "; raise max_broken ";
	enum cli_exit code = cli_exit_code(board->error);
	const char *at =
		recipe_is_stream(run->options->source) ? NULL : strstr(board->text, advice);
	if (!at)
		return spawn_fail(code, board->text);
	return cli_fail(code, "%.*s; raise --max-broken %s", (int)(at - board->text), board->text,
		at + strlen(advice));
}

static int run_complain(const struct run *run, unsigned i)
{
	const struct trainer_board *board = &run->board[i];
	siginfo_t info;
	spawn_yield();
	if (run_state(run, i) != TRAINER_FAILED && run_look(run, i, &info))
		return cli_fail(CLI_FAILED,
			"trainer %u ended by itself (%s %d); a memory limit or a kill by another "
			"process are the usual reasons",
			i + 1, info.si_code == CLD_EXITED ? "exit code" : "signal", info.si_status);
	int code = run_say(run, board);
	if (board->error == -EPIPE && spawn_socket()) {
		cli_note("the daemon's log ends with:");
		spawn_show_log();
	}
	return code;
}

static void run_show_progress(const struct run *run, struct progress *progress)
{
	const struct trainer_board *board = &run->board[0];
	static const char *const notes[] = {
		"opening the stream", "waiting for the first batch", "warming up"};
	enum trainer_state state = run_least(run);
	if (state < TRAINER_MEASURING) {
		progress_update(progress, 0, notes[state]);
		return;
	}
	char note[64];
	uint64_t spent_ns = clock_ns() - board->begin_ns;
	double images = (double)atomic_load_explicit(&board->images, memory_order_relaxed);
	double left_s = run->options->seconds - (double)spent_ns / 1e9;
	(void)snprintf(note, sizeof note, "%s images/s  %.0f s left",
		table_count((uint64_t)(images / ((double)spent_ns / 1e9))).text,
		UTIL_MAX(left_s, 0.0));
	progress_update(progress, spent_ns, note);
}

/* Reports the first trainer that failed or ended, after erasing the progress line. */
static int run_check(const struct run *run, struct progress *progress)
{
	for (unsigned i = 0; i < run->started; i++) {
		if (run_state(run, i) == TRAINER_FAILED || run_has_ended(run, i)) {
			progress_end(progress);
			return run_complain(run, i);
		}
	}
	return CLI_OK;
}

/* Trainers warm up once all have their first batch. */
static void run_let_go(struct run *run)
{
	if (run_least(run) < TRAINER_WARMING)
		return;
	for (unsigned i = 0; i < run->started; i++)
		atomic_store_explicit(&run->board[i].go, 1, memory_order_relaxed);
}

/* Returns when all trainers have measured, or when one cannot. */
static int run_watch(struct run *run)
{
	struct progress progress;
	monitor_begin(&run->monitor, run->board, run->pid, run->started);
	progress_begin(&progress, run->options->label, PROGRESS_SECONDS,
		(uint64_t)(run->options->seconds * 1e9), true);
	int code = CLI_OK;
	while (!run_all_done(run)) {
		code = run_check(run, &progress);
		if (code != CLI_OK)
			break;
		run_let_go(run);
		run_show_progress(run, &progress);
		monitor_look(&run->monitor);
		struct timespec tick = {.tv_nsec = MEASURE_TICK_NS};
		(void)nanosleep(&tick, NULL);
	}
	progress_end(&progress);
	if (code == CLI_OK)
		monitor_look(&run->monitor);
	return code;
}

/* Ends the trainers, so that the daemon has nothing to wait for. */
static void run_stop_trainers(const struct run *run)
{
	for (unsigned i = 0; i < run->started; i++)
		atomic_store_explicit(&run->board[i].stop, 1, memory_order_relaxed);
	uint64_t end_ns = clock_ns() + MEASURE_STOP_NS;
	for (unsigned i = 0; i < run->started; i++) {
		while (!run_has_ended(run, i) && clock_ns() < end_ns)
			(void)usleep(1000);
	}
}

static struct measure_trainer run_trainer(const struct trainer_board *board)
{
	double window_ns = (double)(board->end_ns - board->begin_ns);
	return (struct measure_trainer){
		.images_per_s = (double)board->window_images / window_ns * 1e9,
		.seconds = window_ns / 1e9,
		.waits = (double)(board->waited_end_ns - board->waited_begin_ns) / window_ns,
		.batches = board->window_batches,
	};
}

static void run_average(const struct run *run, struct measure *measure)
{
	unsigned trainers = run->options->trainers;
	uint32_t fine[3][HISTOGRAM_FINE] = {{0}};
	struct histogram arrivals = {.fine = fine[0]}, waits = {.fine = fine[1]},
			 announced = {.fine = fine[2]};
	uint64_t first_ns = 0;
	for (unsigned i = 0; i < trainers; i++) {
		const struct trainer_board *board = &run->board[i];
		struct measure_trainer one = run_trainer(board);
		measure->trainer[i] = one;
		measure->seconds += one.seconds / trainers;
		measure->images += (double)board->window_images / trainers;
		measure->images_per_s += one.images_per_s / trainers;
		measure->waited += one.waits / trainers;
		first_ns = UTIL_MAX(first_ns, board->first_ns);
		histogram_merge(&arrivals, &board->arrivals);
		histogram_merge(&waits, &board->waits);
		histogram_merge(&announced, &board->announced);
	}
	measure->arrivals = histogram_sum_up(&arrivals);
	measure->waits = histogram_sum_up(&waits);
	measure->announced = histogram_sum_up(&announced);
	measure->images_made =
		measure->images * (run_shares(run->options, "all") ? 1 : (double)trainers);
	measure->first_batch_s = (double)(first_ns - run->options->began_ns) / 1e9;
}

/* The difference of a number in two of the daemon's statistics. */
static double run_spent(
	const struct node *begin, const struct node *end, const char *group, const char *name)
{
	return document_number(document_get(end, group), name, 0) -
	       document_number(document_get(begin, group), name, 0);
}

/* Adds the statistics of one trainer's stream: what the workers spent on it, and what became of its
 * images. Reading and serving are counted for the whole daemon, so only the first trainer's count.
 * False: the statistics are not JSON. */
static bool run_add_stats(const struct trainer_board *board, struct measure *measure)
{
	static const char *const counted[] = {"fallbacks", "broken", "checkpoints"};
	static const bool of_daemon[MEASURE_STAGES] = {[0] = true, [3] = true};
	struct node *begin = document_parse(board->stats_begin),
		    *end = document_parse(board->stats_end);
	bool first = !measure->stats, good = begin && end;
	for (int i = 0; good && i < MEASURE_STAGES; i++)
		if (first || !of_daemon[i])
			measure->stage_s[i] += run_spent(begin, end, "stages", measure_stage[i]);
	for (int i = 0; good && i < MEASURE_DECODE_STAGES; i++)
		measure->decode_stage_s[i] +=
			run_spent(begin, end, "decode_stages", measure_decode_stage[i]);
	for (size_t i = 0; good && !first && i < UTIL_COUNT(counted); i++)
		document_sum(measure->stats, end, counted[i]);
	document_free(begin);
	if (good && first)
		measure->stats = end;
	else
		document_free(end);
	return good;
}

static bool run_add_all_stats(const struct run *run, struct measure *measure)
{
	for (unsigned i = 0; i < run->started; i++)
		if (run->board[i].stats_end[0] && !run_add_stats(&run->board[i], measure))
			return false;
	return measure->stats;
}

/* Describes the stream as the daemon opened it: a stream of the running daemon has a definition of
 * its own. */
static void run_describe(const struct run *run, struct measure *measure)
{
	const struct penstock_stream_info *info = &run->board[0].info;
	measure->samples = info->samples;
	struct recipe recipe = run->options->recipe;
	measure->batch_size = recipe.spec.batch_size = info->batch_size;
	measure->image_size = recipe.spec.image_size =
		(struct pixel_size){info->height, info->width};
	recipe.spec.seed = info->seed;
	recipe.epoch = document_u64(measure->stats, "epoch", 0);
	recipe.spec.train = info->train;
	if (!info->shuffle != !recipe.spec.shuffle)
		recipe.spec.shuffle = info->shuffle ? SHUFFLE_FULL : SHUFFLE_NONE;
	recipe_learn(&recipe, measure->stats);
	recipe_describe(&recipe, measure->described, sizeof measure->described);
}

/* Sums up the trainers' boards. The daemon is still running. */
static int run_sum_up(const struct run *run, struct measure *measure)
{
	const struct trainer_board *board = &run->board[0];
	if (!run_add_all_stats(run, measure))
		return cli_fail(CLI_FAILED,
			"the daemon's statistics are not JSON; is the daemon of another release?");
	measure->cpu_s = (double)(board->cpu_end_ns - board->cpu_begin_ns) / 1e9;
	measure->cpu_known = board->daemon > 0;
	measure->bytes_known =
		board->daemon > 0 && process_bytes_read(board->daemon, &measure->bytes_read) == 0;
	measure->memory_known = run->monitor.memory_known;
	measure->peak_memory = run->monitor.peak_memory;
	measure->cgroup_peak = monitor_cgroup_peak(&run->monitor, &measure->cgroup_exact);
	measure->series = run->monitor.series;
	run_describe(run, measure);
	run_average(run, measure);
	return CLI_OK;
}

static int run_whole(struct run *run, struct measure *measure)
{
	int code = recipe_is_stream(run->options->source)
			   ? find_stream_daemon(run->options->source, run->socket)
			   : run_prepare(run->options, measure);
	if (code == CLI_OK)
		code = run_start_trainers(run);
	if (code == CLI_OK)
		code = run_watch(run);
	if (code == CLI_OK)
		code = run_sum_up(run, measure);
	if (code == CLI_OK)
		run_stop_trainers(run);
	spawn_stop();
	monitor_end(&run->monitor);
	trainer_boards_free(run->board, run->options->trainers);
	return code;
}

int measure_run(const struct measure_options *options, struct measure *ret)
{
	struct measure_options with_begin = *options;
	if (!with_begin.began_ns)
		with_begin.began_ns = clock_ns();
	struct run run = {.options = &with_begin, .monitor = {.used_fd = -1, .peak_fd = -1}};
	struct measure measure = {.source = options->source,
		.trainers = options->trainers,
		.share = options->share,
		.budget = options->daemon.memory,
		.step_s = options->step_s,
		.rate = options->rate};
	int code = run_whole(&run, &measure);
	if (code == CLI_OK)
		*ret = measure;
	else
		measure_deinit(&measure);
	return code;
}

void measure_deinit(struct measure *measure)
{
	document_free(measure->stats);
	*measure = (struct measure){.source = NULL};
}

const char *measure_remedy(const struct measure *measure, char buffer[VERDICT_TEXT])
{
	const struct node *bottleneck = document_get(measure->stats, "bottleneck");
	const char *remedy = document_text(measure->stats, "remedy", "");
	bool fast = strcmp(document_text(measure->stats, "decode", "exact"), "fast") == 0;
	bool trains = measure->step_s > 0 || measure->rate > 0;
	(void)snprintf(buffer, VERDICT_TEXT, "%s", remedy);
	/* The daemon cannot see what a trainer does with its batches. */
	if (!trains && strstr(remedy, "would feed") &&
		document_number(bottleneck, "more_cpus", 0) > 0)
		verdict_remedy_cores(-1, fast, buffer);
	return buffer;
}
