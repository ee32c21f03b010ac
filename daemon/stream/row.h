/* row: one sample's bytes become one row of a batch. The only place where decode and pixel meet.
 *
 * The daemon's workers and `penstock replay` call the same function, so a replayed row is the row
 * that was served. */
#pragma once

#include "base/fault.h"
#include "decode/decode.h"
#include "pixel/pixel.h"
#include "proto/slots.h"

#include <stddef.h>
#include <stdint.h>

struct row_maker { /* belongs to one thread */
	struct decoder *decoder;
	struct pixel_sink *sink;
	uint64_t decode_ns, pixel_ns; /* CPU time of this thread in the last row_make */
};

int row_maker_init(struct row_maker *maker, const struct decode_limits *limits,
	uint32_t max_image_size, struct fault *fault);
void row_maker_deinit(struct row_maker *maker);
uint64_t row_maker_bytes(uint32_t max_image_size); /* for the ledger */

/* Decodes, crops, resizes and flips into `out` (image_size x image_size x 3 bytes). Fills the
 * record's crop_*, src_* and the flag SLOTS_FLIPPED; the caller sets index, label, position and
 * other flags. An enum decode_outcome (row undefined unless DECODE_OK) or -ENOMEM. */
int row_make(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct pixel_key *key, uint8_t *out,
	struct slots_record *record);

/* The same from the crop and flip of `record` instead of a key: makes a served row again. -EINVAL
 * when the record's source size is not the image's or its crop does not lie within. */
int row_make_again(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct slots_record *record, uint8_t *out);
