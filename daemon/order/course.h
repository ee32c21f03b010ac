/* course: the batches of a stream that begins somewhere, numbered from 0 without gaps over all
 * epochs, and where each lies.
 *
 * The first epoch may begin in its middle (a state was taken there, perhaps at another batch size),
 * and is cut into global batches from that place on; every later one from 0. Nothing else is kept,
 * so any batch can be named long before it comes.
 *
 * Pure functions; any thread. */
#pragma once

#include "order/order.h"

struct course {
	struct order_epoch epoch; /* that has at least one batch */
	uint64_t start_epoch, start_position; /* of serial 0 */
};

/* A course from here; where less is left of the epoch than makes a batch, from the next one. */
struct course course_from(const struct order_epoch *epoch, uint64_t number, uint64_t position);

struct course_batch {
	uint64_t epoch, batch; /* its name */
	uint64_t origin; /* where the global batch begins */
	struct order_slice slice; /* what the rank gets of it */
};
struct course_batch course_batch(const struct course *course, uint64_t serial, uint32_t rank);

/* The serial of the batch that begins at `position` of an epoch; where the epoch is over by then,
 * that of the next one's first. False: it lies before the first, none begins there, or it has no
 * number. */
bool course_serial(
	const struct course *course, uint64_t epoch, uint64_t position, uint64_t *ret_serial);

/* The serial after the last batch of `epochs` epochs, the ones before the start included; 0 when
 * they are over by then. 0 epochs: all that there are numbers for. UINT64_MAX beyond what can be
 * counted. */
uint64_t course_end(const struct course *course, uint64_t epochs);
