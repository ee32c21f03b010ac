/* pipeline: samples of a dataset in their order, each made into what is packed, by several threads.
 *
 * Workers take the next number, read the sample and make its image; the caller, who writes, gets
 * them in order. Bounded twice: at most PIPELINE_AHEAD samples per thread are under way or wait for
 * the writer, and their bytes, files read and images made, stay within `window_bytes`; only the
 * sample that the writer waits for may always go on, whatever it takes: at most four times its
 * file, or what coding it anew made of it. Samples are let in by number, so that one never waits
 * for a later one. A file larger than the window is broken (too-large).
 *
 * The caller's thread and the workers share one lock, held for a few instructions. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/image.h"
#include "dataset/dataset.h"

#include <stdint.h>

enum { PIPELINE_AHEAD = 8 };

struct pipeline;

struct pipeline_options {
	struct image_options image;
	struct image_memory memory;
	uint64_t window_bytes;
	unsigned threads;
	uint64_t first; /* sample to begin with */
};

/* One sample, as the writer gets it. */
struct pipeline_item {
	uint64_t number, bytes_in;
	int64_t label;
	const char *name; /* in the dataset */
	const char *broken; /* NULL, or the name of its outcome: there is no image */
	const char *message; /* of what is broken */
	const struct image *image;
};

enum pipeline_outcome {
	PIPELINE_ITEM = 0,
	PIPELINE_E_WAIT = 1, /* not ready within the time given */
	PIPELINE_E_END = 2, /* there are no more */
};

/* Starts the threads. 0 or a negative errno with a fault. `dataset` outlives the pipeline. */
int pipeline_new(const struct dataset *dataset, const struct pipeline_options *options,
	struct pipeline **ret, struct fault *fault);

/* Stops and joins the threads. */
void pipeline_free(struct pipeline *pipeline);

/* The next sample, valid until pipeline_done, which must be called before the next one. Waits up to
 * `wait_ns`. A pipeline_outcome, or a negative errno with a fault: the machine is at fault. */
int pipeline_next(struct pipeline *pipeline, uint64_t wait_ns, struct pipeline_item *ret,
	struct fault *fault);
void pipeline_done(struct pipeline *pipeline);
