/* yardstick: how fast libjpeg-turbo decodes the same files in full on this machine. The ratio of
 * the loader's rate to it can be compared with other machines.
 *
 * The files are in memory before the clock runs. Each thread takes the next file in turn and
 * decodes it to RGB with the library's defaults, row by row into a buffer of its own. A loader
 * that decodes whole images cannot be faster, even before it resizes anything. Only JPEG files
 * count; files that are left out are counted by reason. Main thread; the decoding threads end
 * with each call. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

enum yardstick_left {
	YARDSTICK_NOT_JPEG, /* PNG, and everything else that is not JPEG */
	YARDSTICK_COLOR, /* CMYK and YCCK, which libjpeg-turbo does not convert to RGB */
	/* Refused by libjpeg-turbo; a file that it only warns about counts as decoded. */
	YARDSTICK_BROKEN,
	YARDSTICK_LARGE, /* more pixels or scans than the loader accepts, or too much memory */
	YARDSTICK_UNREADABLE, /* storage failed */
	YARDSTICK_LEFT
};
extern const char *const yardstick_left_name[YARDSTICK_LEFT];

struct yardstick_files {
	uint64_t samples; /* of the dataset */
	uint64_t looked; /* how many of them: all, or evenly spread ones if memory is short */
	uint64_t files; /* JPEGs that decode */
	uint64_t left[YARDSTICK_LEFT];
	uint64_t bytes; /* of the files, in memory */
};

struct yardstick;

/* Reads the dataset's files into at most `room` bytes of memory (0: a sixteenth of what is free,
 * at most 1 GiB), which forked trainers do not inherit. Decodes each file once on `threads`
 * threads, and leaves out those that fail. -ENODATA if nothing is left; -ENOMEM or -errno; each
 * with a fault. */
int yardstick_new(const struct dataset *dataset, uint64_t room, unsigned threads,
	struct yardstick **ret, struct fault *fault);
void yardstick_free(struct yardstick *yardstick);

const struct yardstick_files *yardstick_files(const struct yardstick *yardstick);

/* Decodes the files again and again for `seconds`. 0, or a negative errno with a fault. */
int yardstick_run(struct yardstick *yardstick, unsigned threads, double seconds,
	double *ret_images_per_s, struct fault *fault);
