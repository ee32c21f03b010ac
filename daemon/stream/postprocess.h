/* postprocess: what happens to an image between its resampling and its row: the steps after its
 * sizing (augment/), the conversion to the stream's dtype and layout, and random erasing.
 *
 * A stream that does none of this, and whose rows are not too large for a worker's sink, has no
 * postprocess at all: its pixels are resampled straight into the row. Otherwise each worker has
 * scratch of its own for each stream (struct postprocessor). It is made when the stream opens and
 * charged to the ledger, so that a row allocates nothing. */
#pragma once

#include "augment/augment.h"
#include "base/fault.h"
#include "definition/spec.h"
#include "pixel/pixel.h"
#include "proto/convert/convert.h"
#include "stream/sequence.h"

#include <stdbool.h>
#include <stdint.h>

/* What a stream does to the images of one group of views; constant once made. */
struct postprocess {
	struct step_recipe steps;
	bool augments; /* there are steps other than erasing, which works on the row itself */
	struct shape shape;
	struct convert *convert; /* NULL: uint8 NHWC as it is */
	struct pixel_size size; /* of the group's largest images */
	bool whole; /* the steps decide the size: PIXEL_WHOLE */
};

/* Images with a longer side need a larger sink than workers have. */
enum { POSTPROCESS_SIDE = 2048 };

/* Scratch for one row at a time; belongs to one thread. */
struct postprocessor;

/* Whether a group of such a stream's views needs one. Pure. */
bool postprocess_needed(const struct stream_spec *spec, uint32_t group);

/* 0; -ENOMEM; -EINVAL or -ENOTSUP for kernels in PENSTOCK_KERNELS that are unknown or cannot run.
 */
int postprocess_init(struct postprocess *postprocess, const struct stream_spec *spec,
	uint32_t group, struct fault *fault);
void postprocess_deinit(struct postprocess *postprocess); /* takes a zeroed one */

/* Bytes of one worker's scratch for all groups, for the ledger; 0 where none is needed. Pure. */
uint64_t postprocess_bytes(const struct stream_spec *spec);

/* `postprocess` outlives it. Errors as postprocess_init. */
int postprocessor_new(
	const struct postprocess *postprocess, struct postprocessor **ret, struct fault *fault);
void postprocessor_free(struct postprocessor *postprocessor); /* takes NULL */

/* For a recipe of the kind PIXEL_WHOLE: what makes the image. Otherwise NULL. */
struct sequence *postprocessor_sequence(struct postprocessor *postprocessor);

/* Where the caller resamples the image to, whose row is `out`: a buffer of height x width x 3
 * bytes, or the row itself. */
uint8_t *postprocessor_image(struct postprocessor *postprocessor, uint8_t *out);

/* The sink for its images if they are larger than POSTPROCESS_SIDE; otherwise NULL. */
struct pixel_sink *postprocessor_sink(const struct postprocessor *postprocessor);

/* Makes the row of the image in that buffer, which of a sequence is complete but for erasing. `key`
 * is the sample's; `size` is the image's. */
void postprocessor_run(struct postprocessor *postprocessor, const struct pixel_key *key,
	struct pixel_size size, uint8_t *out);
