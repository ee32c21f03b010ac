/* feed: gives the runs of images to the lanes, and gathers what became of them.
 *
 * An image's runs (plan.h) form chains: one that starts at an entry point, and those that go on
 * where it ended. A lane takes a chain at a time; other lanes take the image's other chains, and
 * when there are none left, those of the next image. So it is all one whether there are many entry
 * points or many images. An image whose first run fails is given up at once; its other lanes finish
 * the run they are at, and drop their chains. Thread: the lanes'. */
#pragma once

#include "decode/jpeg/entry_points.h"
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
	const uint8_t *bytes; /* unstuffed; LANE_SLACK readable behind */
	const struct unstuff_segment *segments; /* by entry point, from `entry0` on */
	size_t segment_count;
	uint32_t entry0;
	const struct entry_point *entry_points; /* by entry point, or NULL: restart markers */
	uint32_t entry_point_count;
	int16_t *coefficients; /* blocks and spare blocks as planned */
	/* Where to note checkpoints, by MCU / record_interval, or NULL. In bits of the scan's
	 * unstuffed bytes: see entry_point_settle. Needs one chain from the scan's start. */
	struct entry_point *record;
	uint32_t record_interval;
	/* In: the place for MCU_PLAN_RESUME. Out: where the last run ended. */
	struct feed_place place;

	/* What became of it: 0 or an enum stepback, valid when it is done. */
	int outcome;
	/* The feed's own; zero at first. */
	size_t cursor; /* the next run that no lane has taken */
	unsigned lanes; /* at work on it */
};

struct feed {
	/* The next image to decode, or NULL: there are no more. */
	struct feed_image *(*more)(void *context);
	/* All lanes have left it: its blocks and its outcome are there. */
	void (*done)(void *context, struct feed_image *image);
	void *context;
	/* The feed's own; zero at first. */
	struct feed_image *current;
	bool dry;
};

/* Decodes until `more` returns NULL and all images are done. Neither callback may decode. */
void feed_decode(struct feed *feed, const struct lanes *lanes);

/* The same for a single image; returns its outcome. */
int feed_decode_one(struct feed_image *image, const struct lanes *lanes);

/* Unstuffs what the planned runs need for an image with checkpoints, neighbours in one go, to
 * `out`, and notes the stretches in segments[entry - entry0] for entries up to entry0 + capacity.
 * `out` has room for what entry_point_room says of each row of neighbours, and UNSTUFF_SLACK +
 * LANE_SLACK; *ret_bytes: how many were written. 0, STEPBACK_ENTRY_POINT, STEPBACK_SIZE, or
 * STEPBACK_END where the image's last MCU is wanted and no end marker follows. */
int feed_unstuff(const struct feed_image *image, unstuff_fn *unstuff, const uint8_t *data,
	size_t size, uint8_t *out, struct unstuff_segment *segments, size_t capacity,
	size_t *ret_bytes);
