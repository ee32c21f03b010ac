/* row: one sample's bytes become one row of a batch. The only place where decode and pixel meet,
 * and, for streams that want more done to it, augment (finish.h).
 *
 * The daemon's workers and `penstock replay` call the same function, so a replayed row is the row
 * that was served. */
#pragma once

#include "base/fault.h"
#include "decode/decode.h"
#include "pixel/pixel.h"
#include "proto/slots.h"
#include "stream/postprocess.h"

#include <stddef.h>
#include <stdint.h>

struct row_maker { /* belongs to one thread */
	struct decoder *decoder;
	struct pixel_sink *sink;
	unsigned number; /* among those of a pool, from 0 */
};

/* One row of many. */
struct row_job {
	/* The caller's; as for row_make. */
	const uint8_t *data;
	size_t size;
	const struct pixel_recipe *recipe;
	struct pixel_key key;
	struct postprocessor *finisher; /* NULL: the image is the row */
	uint8_t *out;
	struct slots_record record;
	size_t entry_point_room; /* as in struct decode_job */
	/* When it is done. */
	int outcome; /* as of row_make */
	unsigned stepback; /* an enum stepback, or 0: why libjpeg-turbo had it */
	unsigned entry_points; /* DECODE_ENTRY_POINTS_* */
	uint64_t stage_ns[DECODE_STAGES], pixel_ns; /* CPU time since the job before was done */
	/* The maker's. */
	struct decode_job decode;
	struct pixel_plan plan;
};

/* Where rows that are made together come from and go to. Called on the maker's thread; neither may
 * use the maker, but for decoder_message from `done`. */
struct row_source {
	struct row_job *(*next)(void *context); /* NULL: there are none now */
	void (*done)(void *context, struct row_job *job);
	void *context;
	/* As in struct decode_stream; NULL where no job has room for checkpoints. */
	size_t (*recall)(void *context, struct row_job *job, uint8_t *to, size_t room);
	bool (*keeps)(void *context, struct row_job *job);
	bool (*keep)(void *context, struct row_job *job, const uint8_t *pack, size_t size);
};

int row_maker_init(struct row_maker *maker, const struct decode_limits *limits,
	uint32_t max_image_size, struct fault *fault);
void row_maker_deinit(struct row_maker *maker);
uint64_t row_maker_bytes(
	uint32_t max_image_size, uint64_t scratch); /* for the ledger; of the decoder's limits */

/* Decodes, crops, resizes and flips, and has `finisher`, if there is one, do the rest, into `out`
 * (image_size x image_size x 3 values). Fills the record's crop_*, src_* and the flags
 * SLOTS_FLIPPED and SLOTS_FLIPPED_VERTICALLY; the caller sets index, label, position, view and
 * other flags. An enum decode_outcome (row undefined unless DECODE_OK) or -ENOMEM. */
int row_make(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct pixel_key *key,
	struct postprocessor *finisher, uint8_t *out, struct slots_record *record);

/* The same for many, of which several are decoded at a time, until `next` has no more; all are done
 * then, not always in the order of `next`. */
void row_make_many(struct row_maker *maker, const struct row_source *source);

/* The same from the crop and flip of `record` instead of drawing them: makes a served row again.
 * What the finisher draws, if there is one, hangs on `key` all the same; NULL where there is none.
 * -EINVAL when the record's source size is not the image's or its crop does not lie within. */
int row_make_again(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct slots_record *record,
	const struct pixel_key *key, struct postprocessor *finisher, uint8_t *out);
