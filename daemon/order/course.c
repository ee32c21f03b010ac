/* course: see course.h. */
#include "order/course.h"

/* The number of an epoch has 32 bits in the counter of every random draw. After 2^32 epochs the
 * draws would repeat. */
#define COURSE_EPOCHS ((uint64_t)1 << 32)

/* Moves to the next epoch where too little is left of this one for a batch. */
static void course_normalize(const struct order_epoch *epoch, uint64_t *number, uint64_t *position)
{
	if (order_batches(epoch, *position))
		return;
	++*number;
	*position = 0;
}

struct course course_from(const struct order_epoch *epoch, uint64_t number, uint64_t position)
{
	course_normalize(epoch, &number, &position);
	return (struct course){.epoch = *epoch, .start_epoch = number, .start_position = position};
}

/* Batches of the first epoch and of `epochs` whole ones; UINT64_MAX where that overflows. */
static uint64_t course_batches(const struct course *course, uint64_t epochs)
{
	uint64_t first = order_batches(&course->epoch, course->start_position), rest, all;
	if (__builtin_mul_overflow(epochs, order_batches(&course->epoch, 0), &rest) ||
		__builtin_add_overflow(first, rest, &all))
		return UINT64_MAX;
	return all;
}

struct course_batch course_batch(const struct course *course, uint64_t serial, uint32_t rank)
{
	const struct order_epoch *epoch = &course->epoch;
	uint64_t global = (uint64_t)epoch->batch_size * epoch->world_size,
		 first = order_batches(epoch, course->start_position);
	struct course_batch batch = {
		.epoch = course->start_epoch, .origin = course->start_position + serial * global};
	if (serial >= first) {
		uint64_t each = order_batches(epoch, 0);
		batch.epoch += 1 + (serial - first) / each;
		batch.origin = (serial - first) % each * global;
	}
	batch.batch = batch.origin / global;
	batch.slice = order_slice(epoch, batch.origin, rank);
	return batch;
}

bool course_serial(
	const struct course *course, uint64_t epoch, uint64_t position, uint64_t *ret_serial)
{
	uint64_t before = 0, steps, start = course->start_position;
	course_normalize(&course->epoch, &epoch, &position);
	if (epoch < course->start_epoch)
		return false;
	if (epoch > course->start_epoch) {
		before = course_batches(course, epoch - course->start_epoch - 1);
		start = 0;
	}
	return before != UINT64_MAX && order_steps(&course->epoch, start, position, &steps) &&
	       !__builtin_add_overflow(before, steps, ret_serial);
}

uint64_t course_end(const struct course *course, uint64_t epochs)
{
	if (!epochs)
		epochs = COURSE_EPOCHS;
	return epochs > course->start_epoch
		       ? course_batches(course, epochs - course->start_epoch - 1)
		       : 0;
}
