/* trainer: a process that takes batches as a trainer would, and times them.
 *
 * The command forks N of them, as a training job has processes, and reads their boards: a piece of
 * memory that both share. A trainer warms up for a second after its first batch; the window then
 * runs from one batch's arrival to the first one at least `seconds` later, so no fraction of a
 * batch, nor of the work on it, is counted or lost. It warms up once all have their first batch,
 * and goes on taking batches until it is told to stop, so that none is measured without the others.
 * At both ends of its window the first trainer notes the daemon's CPU time, and each that has a
 * stream of its own its statistics; where all share one, the first does.
 *
 * It takes batches as fast as they come, or as a trainer that works: `step_s` for each batch, which
 * it holds meanwhile as one that reads it does, while the daemon goes on making the next ones; or
 * at most `rate` images a second, evenly: a batch that came late by its whole time puts off those
 * behind it. Work is waiting for a clock, so that it takes no processor from the daemon, as a GPU's
 * would not. */
#pragma once

#include "penstock/penstock.h"
#include "stats/histogram.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TRAINER_MAX = 64, TRAINER_STATS = 65536, TRAINER_TEXT = 1024 };

/* Goes up only. Stored with release order by the trainer after the fields it announces; the parent
 * loads it with acquire. */
enum trainer_state {
	TRAINER_OPENING = 0,
	TRAINER_WAITING, /* open: info and daemon are valid */
	TRAINER_WARMING, /* first_ns is valid */
	TRAINER_MEASURING, /* begin_ns, cpu_begin_ns, stats_begin are valid */
	TRAINER_DONE, /* all is valid */
	TRAINER_FAILED, /* error and text are valid */
};

/* Where trainers that work in step wait for each other: as ranks sum their gradients. */
struct trainer_meeting {
	_Atomic uint32_t arrived; /* of this turn */
	_Atomic uint32_t turn; /* changed, with release, by the last to arrive; a futex */
};

struct trainer_board {
	_Atomic uint32_t state; /* enum trainer_state */
	_Atomic uint32_t
		stop; /* set by the parent; relaxed: one batch more or less does not matter */
	_Atomic uint32_t go; /* set by the parent: all have their first batch; relaxed as well */
	/* For whoever looks on; relaxed. Of the window so far; of the whole run: how long batches
	 * were waited for, and since when one is (0: none is). */
	_Atomic uint64_t images, waited_ns, asked_ns;
	struct trainer_meeting meeting; /* the first trainer's is that of all */
	struct penstock_stream_info info;
	pid_t daemon;
	uint64_t first_ns, warm_ns, begin_ns, end_ns; /* arrivals, on CLOCK_MONOTONIC */
	uint64_t window_images, window_batches;
	uint64_t waited_begin_ns, waited_end_ns; /* waited_ns at both ends of the window */
	uint64_t cpu_begin_ns, cpu_end_ns; /* of the daemon; first trainer only */
	char stats_begin[TRAINER_STATS], stats_end[TRAINER_STATS]; /* "" where not noted */
	int error; /* negative errno */
	char text[TRAINER_TEXT]; /* the sentence about it */
	struct histogram arrivals, waits; /* between batches; until one came that was asked for */
	/* From a batch's being complete to its arrival, of those that were waited for. */
	struct histogram announced;
	uint32_t fine[3][HISTOGRAM_FINE]; /* of the histograms, in this order */
};

struct trainer_plan {
	struct penstock_options options;
	double warmup_s, seconds;
	double step_s, rate; /* at most one of them; 0: as fast as batches come */
	bool notes_cpu, notes_stats;
	struct trainer_meeting *meeting; /* after every batch; NULL: each for itself */
	unsigned meets; /* how many */
};

/* Boards for `count` trainers in shared memory, zeroed; NULL when memory is out. */
struct trainer_board *trainer_boards_new(unsigned count);
void trainer_boards_free(struct trainer_board *boards, unsigned count);

/* Forks a trainer. Returns its pid, or a negative errno. */
pid_t trainer_start(const struct trainer_plan *plan, struct trainer_board *board);
