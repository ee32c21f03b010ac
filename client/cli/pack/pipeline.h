/* pipeline: several threads make the packed images of a dataset; the writer gets them in order.
 *
 * Workers take the next sample number, read the sample and make its image; the caller, which
 * writes, gets them in order. Two bounds hold: at most PIPELINE_AHEAD samples per thread are in
 * progress or wait for the writer, and their bytes (files read and images made) stay within
 * `window_bytes`. Only the sample that the writer waits for may always continue, whatever it takes:
 * at most four times its file, or the size of the image encoded again. Samples enter by number, so
 * that none waits for a later one. A file larger than the window counts as broken (too-large).
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
	uint64_t first; /* the first sample */
};

/* One sample, as the writer receives it. */
struct pipeline_item {
	uint64_t number, bytes_in;
	int64_t label;
	const char *name; /* in the dataset */
	const char *broken; /* NULL, or the name of the outcome: the image is broken */
	const char *message; /* why it is broken */
	const struct image *image;
};

enum pipeline_outcome {
	PIPELINE_ITEM = 0,
	PIPELINE_E_WAIT = 1, /* not ready within the given time */
	PIPELINE_E_END = 2, /* no more samples */
};

/* Starts the threads. 0 or a negative errno with a fault. `dataset` outlives the pipeline. */
int pipeline_new(const struct dataset *dataset, const struct pipeline_options *options,
	struct pipeline **ret, struct fault *fault);

/* Stops and joins the threads. */
void pipeline_free(struct pipeline *pipeline);

/* The next sample, valid until pipeline_done, which the caller must call before it asks for
 * another. Waits up to `wait_ns`. A pipeline_outcome, or a negative errno with a fault of the
 * machine. */
int pipeline_next(struct pipeline *pipeline, uint64_t wait_ns, struct pipeline_item *ret,
	struct fault *fault);
void pipeline_done(struct pipeline *pipeline);
