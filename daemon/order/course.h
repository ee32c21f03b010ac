/* course: the batches of a stream, numbered from 0 without gaps over all epochs, and the place of
 * each in its epoch.
 *
 * The first epoch may begin in its middle, where a state was taken, perhaps at another batch size.
 * It is cut into global batches from that place on, every later epoch from 0. A course needs no
 * other state, so the place of any batch is known long before the batch is made.
 *
 * Pure functions; any thread. */
#pragma once

#include "order/order.h"

struct course {
	struct order_epoch epoch; /* has at least one batch */
	uint64_t start_epoch, start_position; /* of serial 0 */
};

/* A course that starts at `position` of epoch `number`, or at the next epoch where too little is
 * left of this one for a batch. */
struct course course_from(const struct order_epoch *epoch, uint64_t number, uint64_t position);

struct course_batch {
	uint64_t epoch, batch; /* the batch's name */
	uint64_t origin; /* the position at which the global batch begins */
	struct order_slice slice; /* the rank's part of it */
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
