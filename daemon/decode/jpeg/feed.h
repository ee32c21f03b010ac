/* feed: gives the runs of images to the lanes, and collects their outcomes.
 *
 * An image's runs (mcu_plan.h) form chains: one that starts at an entry point, and those that
 * continue where it ended. A lane takes one chain at a time; other lanes take the image's other
 * chains, and when none are left, those of the next image. So many entry points serve as well as
 * many images. When a run of an image fails, its other lanes finish their present run and drop
 * their chains.
 *
 * An image without entry points can have a plan of chunks (chunk_plan.h) instead of runs. Then the
 * lanes take the plan's runs, and go on to the next image when it has none at present. An image
 * whose plan fails is `astray`: it has to be decoded again, in order. Thread: the lanes'. */
#pragma once

#include "decode/jpeg/chunk_blocks.h"
#include "decode/jpeg/mcu_plan.h"

/* A lane's place between two runs. */
struct feed_place {
	const uint8_t *bytes;
	uint64_t bits, bit;
	int32_t dc[BLOCKS_COMPONENTS];
};

struct feed_image {
	/* Set by the caller; all of it stays until the image is done. */
	const struct parse *parse;
	const struct huffman *huffman;
	const struct mcu_plan_run *runs;
	size_t run_count; /* at least 1 */
	uint32_t interval; /* as planned; 0: the scan's start is the only entry point */
	const uint8_t *bytes; /* unstuffed; LANE_SLACK readable after them */
	const struct unstuff_segment *segments; /* by entry point, from `entry0` on */
	size_t segment_count;
	uint32_t entry0;
	const struct entry_point *entry_points; /* by entry point, or NULL: restart markers */
	uint32_t entry_point_count;
	int16_t *coefficients; /* blocks and spare blocks as planned */
	/* Where to record the entry points record_from < number < record_count, by MCU /
	 * record_interval, or NULL. Their places are bits of the unstuffed bytes from entry point
	 * record_from on: see entry_point_settle. Needs one chain from there. */
	struct entry_point *record;
	uint32_t record_interval, record_from, record_count;
	/* In: the place for MCU_PLAN_RESUME. Out: where the last run ended. */
	struct feed_place place;
	/* A plan that has begun, or NULL; then the driver is one for chunks, the scan has one
	 * segment, and there are no runs. */
	struct chunk_plan *chunks;
	struct chunk_place chunk_place; /* in: where the plan begins; out: where its need ends */
	const struct blocks *band; /* of such an image, and its `where` */
	uint32_t *where;

	/* 0 or an enum stepback; valid when the image is done. */
	int outcome;
	bool astray; /* the outcome says nothing: its chunks did not lead to its end */
	/* Used by the feed; zero at first. */
	size_t cursor; /* the next run that no lane has taken */
	unsigned lanes; /* how many work on it */
	struct feed_image *link; /* the next one with chunks */
};

struct feed {
	/* The next image to decode, or NULL: no more. */
	struct feed_image *(*more)(void *context);
	/* All lanes have left the image: its blocks and its outcome are complete. */
	void (*done)(void *context, struct feed_image *image);
	void *context;
	/* `more` has returned NULL. `done` may set it to false where there is an image after all:
	 * the lanes that still have work take it. */
	bool dry;
	/* Used by the feed; zero at first. */
	struct feed_image *current;
	struct feed_image *open; /* images with chunks that are not done */
};

/* Decodes until `more` returns NULL and all images are done. Neither callback may decode. */
void feed_decode(struct feed *feed, const struct lanes *lanes);

/* The same for a single image; returns its outcome. */
int feed_decode_one(struct feed_image *image, const struct lanes *lanes);

/* Unstuffs what the planned runs need for an image with kept entry points to `out`, adjacent
 * stretches in one go, and notes the stretches in segments[entry - entry0] for entries up to
 * entry0 + capacity. `out` has room for entry_point_room of each group of adjacent stretches, and
 * UNSTUFF_SLACK + LANE_SLACK. *ret_bytes: how many were written. 0, STEPBACK_ENTRY_POINT,
 * STEPBACK_SIZE, or STEPBACK_END where the image's last MCU is wanted and no end marker follows. */
int feed_unstuff(const struct feed_image *image, unstuff_fn *unstuff, const uint8_t *data,
	size_t size, uint8_t *out, struct unstuff_segment *segments, size_t capacity,
	size_t *ret_bytes);
