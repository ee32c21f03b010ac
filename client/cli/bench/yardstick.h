/* yardstick: how fast libjpeg-turbo decodes the same files in full on this machine, so that a
 * loader's rate can be told as a ratio that holds elsewhere too.
 *
 * The files lie in memory before the clock runs. Each thread takes the next file in turn, with all
 * of the library's defaults, to RGB, one row at a time into a buffer of its own: what a loader that
 * decodes whole images cannot be faster than, before it has resized anything. Only JPEG counts;
 * what is left out is counted by its reason. Main thread; the threads are the module's own. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

enum yardstick_left {
	YARDSTICK_NOT_JPEG, /* PNG, and whatever else is no JPEG */
	YARDSTICK_COLOR, /* CMYK and YCCK: libjpeg-turbo makes no RGB of them */
	YARDSTICK_BROKEN, /* refused by libjpeg-turbo; what it only warns of counts as decoded */
	YARDSTICK_LARGE, /* more pixels or scans than the loader takes, or too much memory */
	YARDSTICK_UNREADABLE, /* from storage */
	YARDSTICK_LEFT
};
extern const char *const yardstick_left_name[YARDSTICK_LEFT];

struct yardstick_files {
	uint64_t samples; /* of the dataset */
	uint64_t looked; /* at so many of them: all, or evenly spread ones where memory is short */
	uint64_t files; /* JPEGs that decode */
	uint64_t left[YARDSTICK_LEFT];
	uint64_t bytes; /* of the files, in memory */
};

struct yardstick_run {
	double images_per_s, seconds;
	uint64_t images;
	unsigned threads;
};

struct yardstick;

/* Reads the dataset's files into at most `room` bytes of memory (0: a sixteenth of what is free, at
 * most 1 GiB), which forked trainers do not get, and decodes each once on `threads` threads: what
 * fails is left out. -ENODATA where nothing is left; -ENOMEM, -errno; each with a fault. */
int yardstick_new(const struct dataset *dataset, uint64_t room, unsigned threads,
	struct yardstick **ret, struct fault *fault);
void yardstick_free(struct yardstick *yardstick);

void yardstick_files(const struct yardstick *yardstick, struct yardstick_files *ret);

/* Decodes for `seconds`. 0, or a negative errno with a fault. */
int yardstick_run(struct yardstick *yardstick, unsigned threads, double seconds,
	struct yardstick_run *ret, struct fault *fault);
