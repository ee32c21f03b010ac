/* trainer: a process that takes batches as a trainer does, and times them.
 *
 * The command forks N of them, like the processes of a training job, and reads their boards in
 * shared memory. A trainer warms up for a second once all trainers have their first batch. Its
 * window then begins with the arrival of a batch and ends with the first one that arrives at least
 * `seconds` later, so that no fraction of a batch, or of the work on it, is counted or lost. It
 * goes on taking batches until it is told to stop, so that no trainer is measured without the
 * others. At both ends of its window the first trainer notes the daemon's CPU time; each trainer
 * that has a stream of its own notes the stream's statistics, and if all share one stream, the
 * first trainer does.
 *
 * It takes batches as fast as they come, or like a trainer that works. With `step_s` it holds
 * each batch for that long, while the daemon makes the next ones. With `rate` it takes at most
 * that many images a second, evenly; a batch that is a whole interval late delays the following
 * ones. Work is a wait for the clock, so that it takes no processor time from the daemon, just
 * as work on a GPU takes none. */
#pragma once

#include "penstock/penstock.h"
#include "stats/histogram.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TRAINER_MAX = 64, TRAINER_STATS = 65536, TRAINER_TEXT = 1024 };

/* Only increases. The trainer stores it with release order after the fields that it announces; the
 * parent loads it with acquire order. */
enum trainer_state {
	TRAINER_OPENING = 0,
	TRAINER_WAITING, /* open: info and daemon are valid */
	TRAINER_WARMING, /* first_ns is valid */
	TRAINER_MEASURING, /* begin_ns, cpu_begin_ns, stats_begin are valid */
	TRAINER_DONE, /* all is valid */
	TRAINER_FAILED, /* error and text are valid */
};

/* Where trainers wait for each other after each batch, as ranks do that sum their gradients. */
struct trainer_meeting {
	_Atomic uint32_t arrived; /* of this turn */
	_Atomic uint32_t turn; /* the last to arrive changes it, with release order; a futex */
};

struct trainer_board {
	_Atomic uint32_t state; /* enum trainer_state */
	/* The parent sets both, relaxed: one batch more or less does not matter. `go`: all trainers
	 * have their first batch. */
	_Atomic uint32_t stop, go;
	/* For the parent, relaxed: images of the window so far; how long the trainer has waited for
	 * batches in the whole run; since when it is waiting (0: it is not). */
	_Atomic uint64_t images, waited_ns, asked_ns;
	struct trainer_meeting meeting; /* all trainers use that of the first */
	struct penstock_stream_info info;
	pid_t daemon;
	uint64_t first_ns, warm_ns, begin_ns, end_ns; /* arrivals, on CLOCK_MONOTONIC */
	uint64_t window_images, window_batches;
	uint64_t waited_begin_ns, waited_end_ns; /* waited_ns at both ends of the window */
	uint64_t cpu_begin_ns, cpu_end_ns; /* of the daemon; first trainer only */
	char stats_begin[TRAINER_STATS], stats_end[TRAINER_STATS]; /* "" if not noted */
	int error; /* negative errno */
	char text[TRAINER_TEXT]; /* why it failed */
	/* Times between two arrivals; from the request of a batch to its arrival; and from its
	 * completion to its arrival, of the batches that the trainer was waiting for. */
	struct histogram arrivals, waits, announced;
	uint32_t fine[3][HISTOGRAM_FINE]; /* of the histograms, in this order */
};

struct trainer_plan {
	struct penstock_options options;
	double warmup_s, seconds;
	double step_s, rate; /* at most one of them; 0: as fast as batches come */
	bool notes_cpu, notes_stats;
	struct trainer_meeting *meeting; /* after each batch; NULL: none */
	unsigned meets; /* how many meet there */
};

/* Boards for `count` trainers in shared memory, zeroed; NULL if memory runs out. */
struct trainer_board *trainer_boards_new(unsigned count);
void trainer_boards_free(struct trainer_board *boards, unsigned count);

/* Forks a trainer. Returns its pid, or a negative errno. */
pid_t trainer_start(const struct trainer_plan *plan, struct trainer_board *board);
