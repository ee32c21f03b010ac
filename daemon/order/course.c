/* course: see course.h. */
#include "order/course.h"

#include <assert.h>
#include <stddef.h>

/* The number of an epoch has 32 bits in the counter of every random draw. After 2^32 epochs the
 * draws would repeat. */
#define COURSE_EPOCHS ((uint64_t)1 << 32)

/* ---- buckets ---- */

static struct buckets_key course_key(const struct order_epoch *epoch, uint64_t number)
{
	return (struct buckets_key){epoch->seed, (uint32_t)number, epoch->shuffle};
}

/* A course that starts with a whole epoch. */
static struct course course_whole(const struct order_epoch *epoch, uint64_t number)
{
	const uint64_t global = order_global(epoch);
	struct course course = {
		.epoch = *epoch, .start_epoch = number, .cuts = {.count = 1, .at = {{0, global}}}};
	course.whole = buckets_stretch(epoch->buckets, NULL, global, epoch->drop_last);
	course.first = course.whole;
	return course;
}

/* The batches of a stretch that begins at `from` and is left at `to`. False: no batch begins at
 * `to`. */
static bool course_gone(
	const struct buckets_stretch *stretch, uint64_t from, uint64_t to, uint64_t *ret_batches)
{
	if (to < from || (to - from) % stretch->global)
		return false;
	*ret_batches = (to - from) / stretch->global;
	return *ret_batches <= stretch->total;
}

/* Follows the cuts of a state. The last stretch goes on where its global batch is the present
 * one. */
static bool course_follow(struct course *course, uint64_t position, const struct buckets_cuts *cuts)
{
	const struct order_epoch *epoch = &course->epoch;
	const struct buckets_key key = course_key(epoch, course->start_epoch);
	uint64_t taken[BUCKETS_MAX] = {0}, gone = 0;
	if (!cuts->count)
		return !position;
	if (cuts->count > BUCKETS_CUTS || cuts->at[0].position)
		return false;
	for (uint32_t i = 0; i < cuts->count; i++) {
		const struct buckets_cut *cut = &cuts->at[i];
		uint64_t end = i + 1 < cuts->count ? cut[1].position : position;
		if (!cut->global)
			return false;
		course->first =
			buckets_stretch(epoch->buckets, taken, cut->global, epoch->drop_last);
		if (!course_gone(&course->first, cut->position, end, &gone))
			return false;
		buckets_taken(epoch->buckets, &course->first, &key, gone, taken);
	}
	course->cuts = *cuts;
	course->gone = gone;
	return true;
}

/* Cuts what is left of the first epoch with the present global batch. False: it has been cut too
 * often. */
static bool course_cut(struct course *course, uint64_t position)
{
	const struct order_epoch *epoch = &course->epoch;
	const struct buckets_key key = course_key(epoch, course->start_epoch);
	const uint64_t global = order_global(epoch);
	struct buckets_cuts *cuts = &course->cuts;
	uint64_t taken[BUCKETS_MAX];
	course->start_position = position;
	if (course->first.global == global)
		return true;
	buckets_taken(epoch->buckets, &course->first, &key, course->gone, taken);
	/* A cut at which no batch was made is forgotten. */
	if (cuts->at[cuts->count - 1].position == position)
		cuts->count--;
	if (cuts->count == BUCKETS_CUTS)
		return false;
	cuts->at[cuts->count++] = (struct buckets_cut){position, global};
	course->first = buckets_stretch(epoch->buckets, taken, global, epoch->drop_last);
	course->gone = 0;
	return true;
}

static bool course_resume_buckets(const struct order_epoch *epoch, uint64_t number,
	uint64_t position, const struct buckets_cuts *cuts, struct course *ret, bool *ret_full)
{
	struct course course = course_whole(epoch, number);
	if (!course_follow(&course, position, cuts))
		return false;
	*ret_full = !course_cut(&course, position);
	if (*ret_full)
		return false;
	*ret = course.gone < course.first.total ? course : course_whole(epoch, number + 1);
	return true;
}

static struct course_batch course_bucket(
	const struct course *course, uint64_t serial, uint32_t rank)
{
	const struct order_epoch *epoch = &course->epoch;
	const uint64_t left = course_left(course);
	const bool first = serial < left;
	const struct buckets_stretch *stretch = first ? &course->first : &course->whole;
	const uint64_t number = first ? course->gone + serial : (serial - left) % stretch->total;
	struct course_batch batch = {.epoch = course->start_epoch};
	if (first)
		batch.origin = course->cuts.at[course->cuts.count - 1].position;
	else
		batch.epoch += 1 + (serial - left) / stretch->total;
	const struct buckets_key key = course_key(epoch, batch.epoch);
	const struct buckets_batch rows = buckets_batch(epoch->buckets, stretch, &key, number);
	batch.origin += number * stretch->global;
	batch.position = batch.origin + (uint64_t)epoch->batch_size * rank;
	/* The batches that are left count back from the end of a whole epoch. */
	batch.batch = course->whole.total - stretch->total + number;
	batch.bucket = rows.bucket;
	batch.slice = order_share(epoch, rows.first, rows.rows, rank);
	batch.slice.last = number + 1 == stretch->total;
	batch.slice.next = batch.slice.last ? 0 : batch.origin + stretch->global;
	return batch;
}

/* How many batches come before `position`, from the start of the course's first epoch or, in a
 * later one, of that epoch; more than it has where the position is beyond its last. */
static bool course_bucket_steps(
	const struct course *course, bool first, uint64_t position, uint64_t *ret_batches)
{
	const struct buckets_stretch *stretch = first ? &course->first : &course->whole;
	uint64_t from = first ? course->cuts.at[course->cuts.count - 1].position : 0;
	if (position < from || (position - from) % stretch->global)
		return false;
	uint64_t steps = (position - from) / stretch->global, gone = first ? course->gone : 0;
	if (steps < gone)
		return false;
	*ret_batches = steps - gone;
	return true;
}

static bool course_bucket_ends(const struct course *course, bool first, uint64_t position)
{
	const struct buckets_stretch *stretch = first ? &course->first : &course->whole;
	uint64_t from = first ? course->cuts.at[course->cuts.count - 1].position : 0;
	return position >= from + stretch->total * stretch->global;
}

/* ---- all ---- */

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
	if (epoch->buckets) {
		assert(!position);
		return course_whole(epoch, number);
	}
	course_normalize(epoch, &number, &position);
	return (struct course){.epoch = *epoch, .start_epoch = number, .start_position = position};
}

bool course_resume(const struct order_epoch *epoch, uint64_t number, uint64_t position,
	const struct buckets_cuts *cuts, struct course *ret, bool *ret_full)
{
	*ret_full = false;
	if (epoch->buckets)
		return course_resume_buckets(epoch, number, position, cuts, ret, ret_full);
	if (cuts->count)
		return false;
	*ret = course_from(epoch, number, position);
	return true;
}

bool course_agrees(const struct course *course, const struct course *later)
{
	const struct buckets_cuts whole = {.count = 1, .at = {{0, order_global(&course->epoch)}}};
	if (!course->epoch.buckets || later->start_epoch < course->start_epoch)
		return true;
	return buckets_cuts_equal(
		later->start_epoch == course->start_epoch ? &course->cuts : &whole, &later->cuts);
}

uint64_t course_left(const struct course *course)
{
	return course->epoch.buckets ? course->first.total - course->gone
				     : order_batches(&course->epoch, course->start_position);
}

uint64_t course_samples(const struct course *course)
{
	if (!course->epoch.buckets)
		return order_left(&course->epoch, course->start_position);
	const struct buckets_key key = course_key(&course->epoch, course->start_epoch);
	return buckets_left(course->epoch.buckets, &course->first, &key, course->gone);
}

/* Batches of a whole epoch. */
static uint64_t course_each(const struct course *course)
{
	return course->epoch.buckets ? course->whole.total : order_batches(&course->epoch, 0);
}

/* Batches of the first epoch and of `epochs` whole ones; UINT64_MAX where that overflows. */
static uint64_t course_batches(const struct course *course, uint64_t epochs)
{
	uint64_t rest, all;
	if (__builtin_mul_overflow(epochs, course_each(course), &rest) ||
		__builtin_add_overflow(course_left(course), rest, &all))
		return UINT64_MAX;
	return all;
}

struct course_batch course_batch(const struct course *course, uint64_t serial, uint32_t rank)
{
	const struct order_epoch *epoch = &course->epoch;
	if (epoch->buckets)
		return course_bucket(course, serial, rank);
	uint64_t global = order_global(epoch), first = course_left(course);
	struct course_batch batch = {
		.epoch = course->start_epoch, .origin = course->start_position + serial * global};
	if (serial >= first) {
		uint64_t each = order_batches(epoch, 0);
		batch.epoch += 1 + (serial - first) / each;
		batch.origin = (serial - first) % each * global;
	}
	batch.batch = batch.origin / global;
	batch.slice = order_slice(epoch, batch.origin, rank);
	batch.position = batch.slice.position;
	return batch;
}

uint64_t course_rows(const struct course *course, uint64_t serial)
{
	const uint32_t last = course->epoch.world_size - 1;
	const struct course_batch a = course_batch(course, serial, 0),
				  b = course_batch(course, serial, last);
	/* A padded slice repeats the last row. */
	return b.slice.position + b.slice.count - a.slice.position;
}

/* Adds a batch of `rows` rows to a rank's share. */
static void course_add(const struct course *course, uint64_t rows, uint32_t rank, uint64_t batches,
	struct course_share *share)
{
	if (!rows || !batches)
		return;
	const struct order_slice slice = order_share(&course->epoch, 0, rows, rank);
	share->rows += slice.count * batches;
	share->padded += slice.padded * batches;
}

struct course_share course_share(const struct course *course, uint32_t rank)
{
	const struct order_epoch *epoch = &course->epoch;
	const uint64_t global = order_global(epoch);
	struct course_share share = {0, 0};
	uint64_t taken[BUCKETS_MAX], all[BUCKETS_MAX];
	if (!epoch->buckets) {
		uint64_t rows = course_samples(course);
		course_add(course, global, rank, rows / global, &share);
		course_add(course, rows % global, rank, 1, &share);
		return share;
	}
	const struct buckets_key key = course_key(epoch, course->start_epoch);
	buckets_taken(epoch->buckets, &course->first, &key, course->gone, taken);
	buckets_taken(epoch->buckets, &course->first, &key, course->first.total, all);
	for (uint32_t i = 0; i < epoch->buckets->count; i++) {
		uint64_t rows = all[i] - taken[i];
		course_add(course, global, rank, rows / global, &share);
		course_add(course, rows % global, rank, 1, &share);
	}
	return share;
}

/* How many batches of an epoch come before `position`, from the start of the course in its first
 * epoch. False: no batch begins there, or it is before the start. */
static bool course_steps(
	const struct course *course, bool first, uint64_t position, uint64_t *ret_batches)
{
	return course->epoch.buckets
		       ? course_bucket_steps(course, first, position, ret_batches)
		       : order_steps(&course->epoch, first ? course->start_position : 0, position,
				 ret_batches);
}

bool course_serial(
	const struct course *course, uint64_t epoch, uint64_t position, uint64_t *ret_serial)
{
	uint64_t before = 0, steps;
	if (course->epoch.buckets) {
		if (course_bucket_ends(course, epoch == course->start_epoch, position)) {
			epoch++;
			position = 0;
		}
	} else {
		course_normalize(&course->epoch, &epoch, &position);
	}
	if (epoch < course->start_epoch)
		return false;
	if (epoch > course->start_epoch)
		before = course_batches(course, epoch - course->start_epoch - 1);
	return before != UINT64_MAX &&
	       course_steps(course, epoch == course->start_epoch, position, &steps) &&
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
