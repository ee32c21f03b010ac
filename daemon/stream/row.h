/* row: makes one row of a batch from one sample's bytes. The only place where decode and pixel
 * meet, and augment for streams that have such steps (postprocess.h).
 *
 * The daemon's workers and `penstock replay` call the same code, so a replayed row equals the row
 * that was served. */
#pragma once

#include "base/fault.h"
#include "decode/decode.h"
#include "pixel/pixel.h"
#include "proto/slots.h"
#include "stream/postprocess.h"
#include "stream/raster.h"

#include <stddef.h>
#include <stdint.h>

/* Belongs to one thread. */
struct row_maker {
	struct decoder *decoder;
	struct pixel_sink *sink;
	uint32_t max_side; /* of the sink */
	struct raster_beyond beyond; /* for images that a raster's own block does not hold */
	unsigned number; /* of its worker, from 0 */
};

/* A further view of the sample of a row_job, which may be made from the same decoding. */
struct row_view {
	/* Set by the caller. */
	const struct pixel_recipe *recipe;
	uint32_t view;
	struct postprocessor *postprocessor;
	uint8_t *out;
	struct slots_record record;
	/* Set when the job is done: the row and its record are made. */
	bool made;
	/* Used by the maker. */
	struct pixel_plan plan;
};

enum { ROW_VIEWS_MAX = 32 };

/* One row of those that row_make_many makes. */
struct row_job {
	/* Set by the caller; as for row_make. */
	const uint8_t *data;
	size_t size;
	const struct pixel_recipe *recipe;
	struct pixel_key key;
	struct postprocessor *postprocessor; /* NULL: the image is the row */
	uint8_t *out;
	struct slots_record record;
	size_t entry_point_room; /* as in struct decode_job, and these two */
	uint64_t pixels;
	bool mapped;
	/* Other views of the sample, below ROW_VIEWS_MAX: those for which it takes less time are
	 * made together with this row, from one decoding (row_share.h). */
	struct row_view *more;
	uint32_t more_count;
	struct raster *raster; /* for the decoded image; NULL where there are no others */
	/* Set when it is done. */
	int outcome; /* as row_make returns it */
	unsigned stepback; /* an enum stepback: why libjpeg-turbo decoded it, or 0 */
	unsigned entry_points; /* DECODE_ENTRY_POINTS_* */
	/* The raster had no memory for the image: nothing was made. The outcome is DECODE_OK, and
	 * the caller makes the job again without others. */
	bool apart;
	uint64_t stage_ns[DECODE_STAGES], pixel_ns; /* CPU time since the job before was done */
	/* Used by the maker. */
	struct decode_job decode;
	struct pixel_plan plan;
	bool fast; /* of a recipe of the kind PIXEL_WHOLE: may be decoded shrunk */
	struct pixel_region shared; /* of all views that are made together */
	uint32_t chosen; /* bit i + 1: more[i] is one of them; 0: this row is made by itself */
};

/* Where the rows of row_make_many come from and go to. Called on the maker's thread. None of these
 * functions may use the maker, except that `done` may call decoder_message. */
struct row_source {
	struct row_job *(*next)(void *context); /* NULL: none at present */
	void (*done)(void *context, struct row_job *job);
	void *context;
	/* As in struct decode_stream; NULL where no job has room for entry points. */
	size_t (*recall)(void *context, struct row_job *job, uint8_t *to, size_t room);
	bool (*keeps)(void *context, struct row_job *job);
	bool (*keep)(void *context, struct row_job *job, const uint8_t *pack, size_t size);
};

int row_maker_init(struct row_maker *maker, const struct decode_limits *limits, uint32_t max_side,
	struct fault *fault);
void row_maker_deinit(struct row_maker *maker);
/* Bytes that a maker holds, for the ledger; `scratch` as in the decoder's limits. */
uint64_t row_maker_bytes(uint32_t max_side, uint64_t scratch);

/* With a recipe of the kind PIXEL_WHOLE, the postprocessor must be that of the recipe's list. The
 * record's crop is then the whole image, and has no flags: the key draws again what was done.
 *
 * Decodes, crops, resizes and flips into `out` (height x width x 3 values); the
 * postprocessor, unless NULL, does the rest. Sets the record's crop_* and src_* and the flags
 * SLOTS_FLIPPED and SLOTS_FLIPPED_VERTICALLY; the caller sets index, label, position, view and the
 * other flags. Returns an enum decode_outcome (the row is undefined unless DECODE_OK) or -ENOMEM.
 */
int row_make(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct pixel_key *key,
	struct postprocessor *postprocessor, uint8_t *out, struct slots_record *record);

/* The same for many rows, several of which are decoded at a time, until `next` returns NULL. Then
 * all of them are done, not always in the order of `next`. */
void row_make_many(struct row_maker *maker, const struct row_source *source);

/* Makes a served row again: as row_make, but with the crop and flip of `record` instead of drawn
 * ones. The postprocessor, unless NULL, still draws by `key`. -EINVAL when the image does not have
 * the record's source size, or its crop is not inside the image. */
int row_make_again(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct slots_record *record,
	const struct pixel_key *key, struct postprocessor *postprocessor, uint8_t *out);
