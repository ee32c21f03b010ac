/* course: the batches of a stream, numbered from 0 without gaps over all epochs, and the place of
 * each in its epoch.
 *
 * The first epoch may begin in its middle, where a state was taken, perhaps at another batch size.
 * It is cut into global batches from that place on, every later epoch from 0. A course needs no
 * other state, so the place of any batch is known long before the batch is made.
 *
 * With buckets (buckets.h), the batches before that place are part of the course: how they were cut
 * decides which samples they had.
 *
 * Pure functions; any thread. */
#pragma once

#include "order/order.h"

struct course {
	struct order_epoch epoch; /* has at least one batch */
	uint64_t start_epoch, start_position; /* of serial 0 */
	/* With buckets: how the first epoch is cut, the present global batch last; the stretch that
	 * it makes, and how many batches of it come before serial 0; and a whole epoch. */
	struct buckets_cuts cuts;
	struct buckets_stretch first, whole;
	uint64_t gone;
};

/* A course that starts at `position` of epoch `number`, or at the next epoch where too little is
 * left of this one for a batch. With buckets, `position` is 0. */
struct course course_from(const struct order_epoch *epoch, uint64_t number, uint64_t position);

/* The same where a state's cuts come with the position; without buckets, they must be empty. False:
 * no such epoch could have been cut so, or it has been cut BUCKETS_CUTS times already and `full` is
 * set. */
bool course_resume(const struct order_epoch *epoch, uint64_t number, uint64_t position,
	const struct buckets_cuts *cuts, struct course *ret, bool *ret_full);

/* Whether both give the same samples from the start of `later` on, as far as how their epochs were
 * cut decides it. */
bool course_agrees(const struct course *course, const struct course *later);

/* The batches of the first epoch from its start on, and their samples, of all ranks together. */
uint64_t course_left(const struct course *course);
uint64_t course_samples(const struct course *course);

/* What a rank gets from the start of the course to the end of its first epoch: rows with those that
 * are padded, and the padded ones. */
struct course_share {
	uint64_t rows, padded;
};
struct course_share course_share(const struct course *course, uint32_t rank);

/* The rows of the global batch `serial`, of all ranks together, without padding. */
uint64_t course_rows(const struct course *course, uint64_t serial);

struct course_batch {
	uint64_t epoch, batch; /* the batch's name */
	uint64_t origin; /* the position at which the global batch begins */
	uint64_t position; /* that of the rank's part, as it is announced */
	struct order_slice slice; /* the rank's part of it: its rows in the sampler's sequence */
	uint32_t bucket; /* 0 without buckets */
};
struct course_batch course_batch(const struct course *course, uint64_t serial, uint32_t rank);

/* The serial of the batch that begins at `position` of an epoch; where the epoch has no batch after
 * `position`, that of the next epoch's first batch. False: the batch is before the start of the
 * course, no batch begins there, or its serial overflows. */
bool course_serial(
	const struct course *course, uint64_t epoch, uint64_t position, uint64_t *ret_serial);

/* The serial after the last batch of `epochs` epochs, counted from epoch 0; 0 where they end before
 * the course starts. `epochs` 0: as many as there are numbers for. UINT64_MAX where it
 * overflows. */
uint64_t course_end(const struct course *course, uint64_t epochs);
