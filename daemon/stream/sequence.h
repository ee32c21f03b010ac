/* sequence: one sample through a list of operations in any order.
 *
 * The list is drawn for the image's size (augment/step.h), which gives ops and the sizes between
 * them. If the first op is a crop, the decoder delivers only that part; if it is a resize to at
 * most the side of the sink, with or without a crop, rows are resampled while they arrive.
 * Otherwise the whole image is decoded. The other ops follow in memory (raster.h). All three ways
 * give the same bytes, except for `decode: fast`, which applies to a first resize.
 *
 * Belongs to one thread. Order of calls, for one sample at a time: sequence_start, sequence_row for
 * each row of the region, sequence_end. sequence_plan may be called for any sample at any time. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"
#include "decode/decode.h"
#include "pixel/pixel.h"
#include "stream/raster.h"

#include <stdbool.h>
#include <stdint.h>

struct sequence;

/* What it works with; all of them outlive the sample. */
struct sequence_tools {
	struct decoder *decoder;
	struct pixel_sink *sink;
	uint32_t max_side; /* of the sink */
	const struct raster_beyond *beyond;
};

/* `recipe` outlives it. 0; -ENOMEM; or as augment_kernels_choose. */
int sequence_new(const struct step_recipe *recipe, struct sequence **ret, struct fault *fault);
void sequence_free(struct sequence *sequence); /* takes NULL */

/* Bytes that sequence_new allocates, for the ledger. */
uint64_t sequence_bytes(void);

/* Draws the ops for an image of this size. `fast`: a first resize may be decoded shrunk. Sets what
 * the decoder must deliver: in any case at least one row. */
void sequence_plan(struct sequence *sequence, const struct sequence_tools *tools,
	const struct pixel_key *key, struct pixel_size size, bool fast, struct pixel_region *ret,
	uint8_t *ret_shrink);

/* Plans the sample again. The rows of *ret come next, which is the region of sequence_plan or a
 * little less. The image goes to `out`, with 3 bytes per pixel. */
void sequence_start(struct sequence *sequence, const struct sequence_tools *tools,
	const struct pixel_key *key, struct pixel_size size, bool fast, uint8_t *out,
	struct pixel_region *ret);

/* As decode_row_fn; `sequence` is a struct sequence. */
void sequence_row(void *sequence, const uint8_t *const rgb[DECODE_PLANES]);

/* Carries out the other ops, except OP_ERASE. DECODE_OK; DECODE_E_SMALL or DECODE_E_PIXELS, if the
 * list does not suit the image's size; -ENOMEM; or the negative errno for which memory could not be
 * spilled. sequence_text has the sentence. */
int sequence_end(struct sequence *sequence);
const char *sequence_text(const struct sequence *sequence);

/* Drops a sample. Does nothing after sequence_end. */
void sequence_abort(struct sequence *sequence);

/* The ops of the sample that was started last. */
const struct step_plan *sequence_ops(const struct sequence *sequence);

/* The size of the image after them. */
struct pixel_size sequence_size(const struct sequence *sequence);
