/* finish: what is done to an image between its resampling and its row: the steps behind its size
 * (augment/), the conversion to the stream's dtype and layout, and what is erased of that.
 *
 * A stream without any of it has no finish at all, and its pixels go from the resampling straight
 * into the row. Otherwise each worker has scratch of its own for each stream (struct finisher),
 * made when the stream opens and charged to the ledger: nothing is allocated for a row. */
#pragma once

#include "augment/augment.h"
#include "base/fault.h"
#include "definition/spec.h"
#include "pixel/pixel.h"
#include "proto/convert.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a stream; constant once made. */
struct finish {
	struct step_recipe steps;
	bool augments; /* there are steps besides erasing, which needs no second image */
	struct shape shape;
	struct convert *convert; /* NULL: uint8 NHWC as it is */
	uint32_t side; /* of the largest images */
};

/* Scratch for one row at a time, of one thread. */
struct finisher;

/* Whether such a stream needs one. Pure. */
bool finish_needed(const struct stream_spec *spec);

/* 0; -ENOMEM; -EINVAL, -ENOTSUP where PENSTOCK_KERNELS names what is not there. */
int finish_init(struct finish *finish, const struct stream_spec *spec, struct fault *fault);
void finish_deinit(struct finish *finish); /* takes a zeroed one */

/* What the scratch of one worker takes, for the ledger; 0 where none is needed. Pure. */
uint64_t finish_bytes(const struct stream_spec *spec);

/* `finish` outlives it. 0, -ENOMEM, and as kernels where PENSTOCK_KERNELS names what is not there.
 */
int finisher_new(const struct finish *finish, struct finisher **ret, struct fault *fault);
void finisher_free(struct finisher *finisher); /* takes NULL */

/* Where the resampling is to put the image whose row is `out`: side x side x 3 bytes, or the row
 * itself. */
uint8_t *finisher_image(struct finisher *finisher, uint8_t *out);

/* Makes the row of what was put there. `key` is the sample's; images are side x side. */
void finisher_run(
	struct finisher *finisher, const struct pixel_key *key, uint32_t side, uint8_t *out);
