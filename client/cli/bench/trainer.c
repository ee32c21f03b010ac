/* trainer: see trainer.h. Everything except trainer_start runs in the child, which has one
 * thread. */
#include "client/cli/bench/trainer.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/process.h"
#include "client/cli/spawn.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long it sleeps before it checks again whether it must stop. */
enum { TRAINER_NAP_NS = 20000000, TRAINER_SLACK_NS = 1000 };

struct trainer_board *trainer_boards_new(unsigned count)
{
	struct trainer_board *boards = mmap(NULL, count * sizeof *boards, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (boards == MAP_FAILED)
		return NULL;
	/* The trainers are forked: the boards have the same address in all processes. */
	for (unsigned i = 0; i < count; i++) {
		boards[i].arrivals.fine = boards[i].fine[0];
		boards[i].waits.fine = boards[i].fine[1];
		boards[i].announced.fine = boards[i].fine[2];
	}
	return boards;
}

void trainer_boards_free(struct trainer_board *boards, unsigned count)
{
	if (boards)
		(void)munmap(boards, count * sizeof *boards);
}

static void trainer_announce(struct trainer_board *board, enum trainer_state state)
{
	atomic_store_explicit(&board->state, (uint32_t)state, memory_order_release);
}

static bool trainer_stopped(const struct trainer_board *board)
{
	return atomic_load_explicit(&board->stop, memory_order_relaxed);
}

static int trainer_fail(struct trainer_board *board, int error, const char *text)
{
	board->error = error;
	(void)snprintf(board->text, sizeof board->text, "%s", text);
	trainer_announce(board, TRAINER_FAILED);
	return error;
}

static int trainer_note_stats(
	struct penstock_stream *stream, struct trainer_board *board, char ret_stats[TRAINER_STATS])
{
	cleanup(free_ptr) char *json = NULL;
	int r = penstock_stream_stats(stream, &json);
	if (r < 0)
		return trainer_fail(board, r, penstock_error());
	if (snprintf(ret_stats, TRAINER_STATS, "%s", json) >= TRAINER_STATS)
		return trainer_fail(
			board, -ENOBUFS, "the daemon's statistics are longer than expected");
	return 0;
}

/* Reads the daemon's CPU clock first, because the request costs the daemon a little. If the
 * daemon is in another pid namespace, its clock cannot be read (pid 0 would be this process). */
static int trainer_note(const struct trainer_plan *plan, struct penstock_stream *stream,
	struct trainer_board *board, uint64_t *ret_cpu_ns, char ret_stats[TRAINER_STATS])
{
	int r = plan->notes_cpu && board->daemon > 0 ? process_cpu_ns(board->daemon, ret_cpu_ns)
						     : 0;
	if (r < 0)
		return trainer_fail(board, r, "cannot read the daemon's CPU time");
	return plan->notes_stats ? trainer_note_stats(stream, board, ret_stats) : 0;
}

static bool trainer_is_warm(
	const struct trainer_plan *plan, struct trainer_board *board, uint64_t now_ns)
{
	if (!atomic_load_explicit(&board->go, memory_order_relaxed))
		return false;
	if (!board->warm_ns)
		board->warm_ns = now_ns;
	return (double)(now_ns - board->warm_ns) >= plan->warmup_s * 1e9;
}

/* When a batch was requested, when it came, when the one before it came, and when the daemon had
 * completed it. */
struct trainer_times {
	uint64_t asked_ns, now_ns, last_ns, ready_ns;
};

static uint64_t trainer_waited(const struct trainer_board *board)
{
	return atomic_load_explicit(&board->waited_ns, memory_order_relaxed);
}

static int trainer_measure(const struct trainer_plan *plan, struct penstock_stream *stream,
	struct trainer_board *board, uint32_t rows, const struct trainer_times *times)
{
	histogram_add(&board->arrivals, times->now_ns - times->last_ns);
	histogram_add(&board->waits, times->now_ns - times->asked_ns);
	/* A batch that was complete before the request says nothing about the delay. */
	if (times->ready_ns > times->asked_ns && times->ready_ns <= times->now_ns)
		histogram_add(&board->announced, times->now_ns - times->ready_ns);
	board->window_images += rows;
	board->window_batches++;
	atomic_store_explicit(&board->images, board->window_images, memory_order_relaxed);
	if ((double)(times->now_ns - board->begin_ns) < plan->seconds * 1e9)
		return 0;
	board->end_ns = times->now_ns;
	board->waited_end_ns = trainer_waited(board);
	if (trainer_note(plan, stream, board, &board->cpu_end_ns, board->stats_end) < 0)
		return -EIO;
	trainer_announce(board, TRAINER_DONE);
	return 0;
}

/* Counts a batch that has arrived, and moves the state on. */
static int trainer_count(const struct trainer_plan *plan, struct penstock_stream *stream,
	struct trainer_board *board, uint32_t rows, const struct trainer_times *times)
{
	switch (atomic_load_explicit(&board->state, memory_order_relaxed)) {
	case TRAINER_WAITING:
		board->first_ns = times->now_ns;
		trainer_announce(board, TRAINER_WARMING);
		return 0;
	case TRAINER_WARMING:
		if (!trainer_is_warm(plan, board, times->now_ns))
			return 0;
		board->begin_ns = times->now_ns;
		board->waited_begin_ns = trainer_waited(board);
		if (trainer_note(plan, stream, board, &board->cpu_begin_ns, board->stats_begin) < 0)
			return -EIO;
		trainer_announce(board, TRAINER_MEASURING);
		return 0;
	case TRAINER_MEASURING:
		return trainer_measure(plan, stream, board, rows, times);
	default:
		return 0;
	}
}

/* Requests a batch and waits for it; the board shows the wait. */
static int trainer_next(struct penstock_stream *stream, struct trainer_board *board,
	struct penstock_batch *ret_batch, struct trainer_times *times)
{
	times->asked_ns = clock_ns();
	atomic_store_explicit(&board->asked_ns, times->asked_ns, memory_order_relaxed);
	int r = penstock_stream_next(stream, ret_batch, PENSTOCK_TIMEOUT_DEFAULT);
	times->now_ns = clock_ns();
	atomic_store_explicit(&board->asked_ns, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(
		&board->waited_ns, times->now_ns - times->asked_ns, memory_order_relaxed);
	return r;
}

static void trainer_sleep_until(const struct trainer_board *board, uint64_t until_ns)
{
	for (uint64_t now_ns = clock_ns(); now_ns < until_ns && !trainer_stopped(board);
		now_ns = clock_ns()) {
		uint64_t wake_ns = UTIL_MIN(until_ns, now_ns + TRAINER_NAP_NS);
		struct timespec wake = {.tv_sec = (time_t)(wake_ns / 1000000000u),
			.tv_nsec = (long)(wake_ns % 1000000000u)};
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
	}
}

/* Works on the batch that came at `now_ns`. `due_ns` is when it was due at the rate. */
static void trainer_work(const struct trainer_plan *plan, const struct trainer_board *board,
	uint32_t rows, uint64_t now_ns, uint64_t *due_ns)
{
	if (plan->step_s > 0)
		trainer_sleep_until(board, now_ns + (uint64_t)(plan->step_s * 1e9));
	if (plan->rate <= 0)
		return;
	uint64_t each_ns = (uint64_t)(rows / plan->rate * 1e9);
	/* A batch that is less than an interval late does not move the grid. Otherwise the delay of
	 * each wake-up would lower the rate. */
	*due_ns = now_ns > *due_ns + each_ns ? now_ns + each_ns : *due_ns + each_ns;
	trainer_sleep_until(board, *due_ns);
}

/* Waits until all trainers have arrived as often as this one, or until it must stop. */
static void trainer_meet(const struct trainer_plan *plan, const struct trainer_board *board)
{
	struct trainer_meeting *meeting = plan->meeting;
	uint32_t turn = atomic_load_explicit(&meeting->turn, memory_order_acquire);
	uint32_t before = atomic_fetch_add_explicit(&meeting->arrived, 1, memory_order_acq_rel);
	if (before + 1 == plan->meets) {
		atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
		atomic_store_explicit(&meeting->turn, turn + 1, memory_order_release);
		(void)syscall(SYS_futex, &meeting->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		return;
	}
	const struct timespec nap = {.tv_nsec = TRAINER_NAP_NS};
	while (!trainer_stopped(board) &&
		atomic_load_explicit(&meeting->turn, memory_order_acquire) == turn)
		(void)syscall(SYS_futex, &meeting->turn, FUTEX_WAIT, turn, &nap, NULL, 0);
}

static int trainer_take(const struct trainer_plan *plan, struct penstock_stream *stream,
	struct trainer_board *board)
{
	struct trainer_times times = {.last_ns = clock_ns()};
	uint64_t due_ns = 0;
	while (!trainer_stopped(board)) {
		struct penstock_batch batch;
		int r = trainer_next(stream, board, &batch, &times);
		if (r < 0)
			return trainer_fail(board, r, penstock_error());
		if (r == PENSTOCK_END)
			return trainer_fail(board, -ENODATA,
				"the stream ended before the window did: it has too few epochs");
		times.ready_ns = penstock_batch_ready_ns(stream, &batch);
		r = trainer_count(plan, stream, board, batch.count, &times);
		if (r < 0)
			return r;
		times.last_ns = times.now_ns;
		trainer_work(plan, board, batch.count, times.now_ns, &due_ns);
		r = penstock_batch_release(stream, &batch);
		if (r < 0)
			return trainer_fail(board, r, penstock_error());
		if (plan->meeting)
			trainer_meet(plan, board);
	}
	return 0;
}

static int trainer_run(const struct trainer_plan *plan, struct trainer_board *board)
{
	struct penstock_stream *stream = NULL;
	int r = penstock_stream_open(&plan->options, &stream);
	if (r < 0)
		return trainer_fail(board, r, penstock_error());
	penstock_stream_info(stream, &board->info);
	board->daemon = penstock_stream_daemon_pid(stream);
	trainer_announce(board, TRAINER_WAITING);
	/* Otherwise the kernel adds up to 50 us to each step. */
	if (plan->step_s > 0 || plan->rate > 0)
		(void)prctl(PR_SET_TIMERSLACK, TRAINER_SLACK_NS, 0, 0, 0);
	r = trainer_take(plan, stream, board);
	penstock_stream_close(stream);
	return r;
}

pid_t trainer_start(const struct trainer_plan *plan, struct trainer_board *board)
{
	/* Otherwise both processes would write what stdio holds. */
	(void)fflush(NULL);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		spawn_adopt(pid);
		return pid;
	}
	spawn_child_setup(parent);
	/* Not exit: the parent's exit handlers are not for the child. */
	_exit(trainer_run(plan, board) < 0 ? CLI_FAILED : CLI_OK);
}
