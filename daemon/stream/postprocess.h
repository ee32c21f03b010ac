/* finish: what is done to an image between its resampling and its row: the steps behind its size
 * (augment/), the conversion to the stream's dtype and layout, and what is erased of that.
 *
 * A stream without any of it has no finish at all, and its pixels go from the resampling straight
 * into the row. Otherwise each worker has scratch of its own for each stream (struct postprocessor),
 * made when the stream opens and charged to the ledger: nothing is allocated for a row. */
#pragma once

#include "augment/augment.h"
#include "base/fault.h"
#include "definition/spec.h"
#include "pixel/pixel.h"
#include "proto/convert/convert.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a stream; constant once made. */
struct postprocess {
	struct step_recipe steps;
	bool augments; /* there are steps besides erasing, which needs no second image */
	struct shape shape;
	struct convert *convert; /* NULL: uint8 NHWC as it is */
	uint32_t side; /* of the largest images */
};

/* Scratch for one row at a time, of one thread. */
struct postprocessor;

/* Whether such a stream needs one. Pure. */
bool postprocess_needed(const struct stream_spec *spec);

/* 0; -ENOMEM; -EINVAL, -ENOTSUP where PENSTOCK_KERNELS names what is not there. */
int postprocess_init(
	struct postprocess *finish, const struct stream_spec *spec, struct fault *fault);
void postprocess_deinit(struct postprocess *finish); /* takes a zeroed one */

/* What the scratch of one worker takes, for the ledger; 0 where none is needed. Pure. */
uint64_t postprocess_bytes(const struct stream_spec *spec);

/* `finish` outlives it. 0, -ENOMEM, and as kernels where PENSTOCK_KERNELS names what is not there.
 */
int postprocessor_new(
	const struct postprocess *finish, struct postprocessor **ret, struct fault *fault);
void postprocessor_free(struct postprocessor *finisher); /* takes NULL */

/* Where the resampling is to put the image whose row is `out`: side x side x 3 bytes, or the row
 * itself. */
uint8_t *postprocessor_image(struct postprocessor *finisher, uint8_t *out);

/* Makes the row of what was put there. `key` is the sample's; images are side x side. */
void postprocessor_run(
	struct postprocessor *finisher, const struct pixel_key *key, uint32_t side, uint8_t *out);
