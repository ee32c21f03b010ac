/* jpegdec_impl: what the files jpegdec*.c share; see jpegdec.h. In the order of an image's way:
 *
 *   jpegdec_task.c     what a crop needs of an image, and where decoding enters
 *   jpegdec_layout.c   the parts of its piece of the memory
 *   jpegdec_image.c    the steps from its bytes to its rows, and what follows from their outcome
 *   jpegdec_alone.c    an image that does not fit: part by part, or band by band
 *   jpegdec.c          images in flight side by side */
#pragma once

#include "decode/jpeg/entry_pack.h"
#include "decode/jpeg/feed.h"
#include "decode/jpeg/jpegdec.h"
#include "decode/jpeg/planes.h"
#include "decode/jpeg/scans/scans.h"
#include "decode/stages.h"

enum {
	JPEGDEC_IMAGES = 16, /* in flight, at most */
	JPEGDEC_USUAL = 4, /* in flight, usually */
	/* Images are no longer decoded in chunks while more than about one in JPEGDEC_ASTRAY goes
	 * astray; JPEGDEC_ASTRAY_MOST is how long that is remembered. */
	JPEGDEC_ASTRAY = 16,
	JPEGDEC_ASTRAY_LIMIT = 4 * JPEGDEC_ASTRAY,
	JPEGDEC_ASTRAY_MOST = 16 * JPEGDEC_ASTRAY,
};

/* How an image is entered; decode_job's `entry`. */
enum jpegdec_entry {
	JPEGDEC_UNSEEN = 0, /* not decided yet */
	/* At kept entry points. If that fails: _RECORD, or _PLAIN where new ones would not be kept.
	 */
	JPEGDEC_KEPT,
	JPEGDEC_RECORD, /* at its start, to make entry points. If that fails: _PLAIN. */
	JPEGDEC_PLAIN, /* at its start, or at its restart markers */
};

/* An image to be decoded: what a crop needs of it, and where decoding can enter. */
struct jpegdec_task {
	struct decode_job *job;
	struct parse parse;
	struct blocks blocks;
	struct mcu_plan_request request;
	uint32_t known, points; /* entry points that are kept; with those to be made */
	uint32_t entry0, entries; /* the entry points that the crop needs */
	uint64_t bytes; /* unstuffed, at most */
	uint32_t chunks; /* at most; 0: it is not decoded in chunks */
	uint32_t chunk_bits; /* how long the chunks are, about */
	uint32_t need; /* the MCUs from the first to the last that is needed */
};

/* Offsets of the parts of an image's piece of memory. The parts that all bands share come first. */
struct jpegdec_layout {
	size_t tables, points, segments, bytes, runs, where, coefficients, end;
	size_t chunks, marks, pages; /* instead of runs */
	size_t run_capacity;
	uint64_t block_capacity;
	uint32_t page_count;
};

/* An image in flight. */
struct jpegdec_image {
	struct jpegdec_task task; /* job NULL: this place is free */
	size_t from, to; /* its piece of the memory */
	struct huffman huffman;
	struct feed_image feed;
	struct chunk_plan chunks;
};

struct jpegdec {
	const struct lanes *chosen;
	const struct lanes *chunks; /* the driver for chunks, or NULL */
	const struct scans_kernels *scans;
	struct planes *planes;
	uint8_t *memory; /* during a jpegdec_run */
	size_t bytes;
	const struct jpegdec_source *source;
	const struct lanes *lanes; /* the driver of all images in flight */
	struct jpegdec_task waiting; /* the next image, not begun; job NULL: none */
	struct decode_job *again; /* to be tried in another way; a list by `link` */
	struct decode_job *delivering; /* the job whose rows are being delivered */
	struct feed *feed; /* of the images in flight */
	unsigned astray; /* how many images went astray of late, times JPEGDEC_ASTRAY */
	struct jpegdec_image image[JPEGDEC_IMAGES];
	struct entry_point points[ENTRY_PACK_POINTS]; /* of the waiting image */
	struct script script; /* of the waiting image, if it has several scans */
	struct scan_plan plan;
	uint8_t pack[ENTRY_PACK_MOST + ENTRY_PACK_SLACK];
};

/* Enters another stage; returns the one before. */
static inline enum decode_stage jpegdec_enter(struct jpegdec *dec, enum decode_stage stage)
{
	return stages_enter(dec->source->stages, stage);
}

/* jpegdec_task.c */

/* How to enter at the start where no kept entry points serve. */
enum jpegdec_entry jpegdec_anew(const struct jpegdec *dec, struct decode_job *job);

/* Whether the image enters at kept entry points, and the crop needs MCUs after those to which they
 * lead. */
bool jpegdec_task_goes_beyond(const struct jpegdec_task *task);

/* Plans to enter at the file's start, or at its restart markers. */
void jpegdec_task_start(struct jpegdec *dec, struct jpegdec_task *task);

/* Plans what the crop needs of the waiting image, and where decoding can enter. */
void jpegdec_task_plan(struct jpegdec *dec, struct jpegdec_task *task);

/* The driver that suits the image when `images` images in all are in flight. One that goes on after
 * its last entry point has one long chain. */
const struct lanes *jpegdec_lanes(
	const struct jpegdec *dec, const struct jpegdec_task *task, size_t images);

/* Reads the scans of the waiting image, and plans what the crop needs of them. 0 or an enum
 * stepback. */
int jpegdec_scans_plan(struct jpegdec *dec, struct jpegdec_task *task);

/* jpegdec_layout.c */

/* Lays out the parts that all bands share. */
struct jpegdec_layout jpegdec_layout_fixed(
	const struct jpegdec_task *task, const struct lanes *lanes);

struct jpegdec_layout jpegdec_layout_whole(
	const struct jpegdec_task *task, const struct lanes *lanes);

/* How many rows a band may have when it has all the memory, and its layout; 0: not even one fits.
 */
uint32_t jpegdec_layout_bands(
	const struct jpegdec *dec, const struct jpegdec_task *task, struct jpegdec_layout *layout);

/* Lays out an image that is decoded in chunks, part by part, in all the memory. False: that is too
 * little, or the image has to be decoded in order. */
bool jpegdec_layout_parts(
	const struct jpegdec *dec, struct jpegdec_task *task, struct jpegdec_layout *layout);

/* jpegdec_image.c */

/* Builds the tables, and unstuffs what is known before any run is planned. 0 or an enum stepback.
 */
int jpegdec_prepare(struct jpegdec *dec, struct jpegdec_image *image, const struct lanes *lanes,
	const struct jpegdec_layout *layout);

/* Plans the runs for the rows of the task's blocks, and unstuffs for them. 0 or an enum stepback.
 */
int jpegdec_plan_band(struct jpegdec *dec, struct jpegdec_image *image, const struct lanes *lanes,
	const struct jpegdec_layout *layout);

/* Cuts the unstuffed scan into chunks, from the feed's chunk_place on. `row`: see chunk_plan.h. */
void jpegdec_plan_chunks(struct jpegdec *dec, struct jpegdec_image *image,
	const struct jpegdec_layout *layout, uint32_t row);

/* Tells the stream that this image's rows come next, and sets up the planes. 0 or an enum stepback.
 */
int jpegdec_rows_begin(
	struct jpegdec *dec, const struct jpegdec_task *task, struct planes_mcus *ret);

/* Delivers the rows of the blocks that are complete. 0 or STEPBACK_RANGE. */
int jpegdec_rows(struct jpegdec *dec, const struct blocks *blocks, const struct planes_mcus *mcus);

/* Notes what follows for the entry points of an image when all its blocks are complete, or when
 * they are not for `reason`. */
void jpegdec_entered(struct jpegdec *dec, struct jpegdec_image *image, int reason);

void jpegdec_finish(struct jpegdec *dec, struct decode_job *job, int reason);

/* Decoding an image's blocks failed: tries it in the next way, or steps back. */
void jpegdec_fail(struct jpegdec *dec, struct decode_job *job, int reason);

/* Decoding in chunks failed: decodes the image in order. */
void jpegdec_astray(struct jpegdec *dec, struct decode_job *job);

/* jpegdec_alone.c */

/* Decodes the waiting image by itself in chunks; no other image is in flight. False: it has to be
 * decoded in order. */
bool jpegdec_alone_in_chunks(struct jpegdec *dec);

/* Decodes the waiting image by itself in order, in bands; no other image is in flight. */
void jpegdec_alone(struct jpegdec *dec);
