/* buckets: the batches of epochs whose samples are divided, walked batch by batch and resumed at
 * other global batches. */
#include "order/course.h"
#include "order/sampler.h"
#include "proto/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MOST = 4096 };

static struct buckets make(const uint64_t *rows, uint32_t count)
{
	struct buckets buckets = {.count = count};
	memcpy(buckets.rows, rows, count * sizeof *rows);
	(void)buckets_settle(&buckets);
	return buckets;
}

static struct order_epoch epoch_of(
	const struct buckets *buckets, uint32_t batch_size, uint32_t world_size, bool drop_last)
{
	struct order_epoch epoch = {.batch_size = batch_size,
		.world_size = world_size,
		.drop_last = drop_last,
		.buckets = buckets,
		.seed = 7,
		.shuffle = true};
	for (uint32_t i = 0; i < buckets->count; i++)
		epoch.samples += buckets->rows[i];
	return epoch;
}

/* Marks the rows of the batches from `serial` on, up to `end` or the end of the epoch. Returns the
 * serial after them. */
static uint64_t deliver(const struct course *course, uint64_t serial, uint64_t end, uint8_t *seen,
	uint64_t *ret_next)
{
	const struct order_epoch *epoch = &course->epoch;
	const struct buckets *buckets = epoch->buckets;
	for (; serial < end; serial++) {
		uint64_t rows = 0;
		bool last = false;
		for (uint32_t rank = 0; rank < epoch->world_size; rank++) {
			struct course_batch batch = course_batch(course, serial, rank);
			for (uint32_t i = 0; i < batch.slice.count && !batch.slice.padded; i++) {
				uint64_t row = batch.slice.position + i;
				assert_int_equal(buckets_of(buckets, row), batch.bucket);
				seen[row]++;
				rows++;
			}
			if (batch.slice.padded)
				assert_int_equal(
					buckets_of(buckets, batch.slice.position), batch.bucket);
			assert_int_equal(
				batch.position, batch.origin + (uint64_t)rank * epoch->batch_size);
			last = batch.slice.last;
			*ret_next = batch.slice.next;
		}
		assert_true(rows > 0 && rows <= order_global(epoch));
		if (epoch->drop_last)
			assert_int_equal(rows, order_global(epoch));
		if (last)
			return serial + 1;
	}
	return serial;
}

/* Each bucket's rows from its first one on were delivered once, without a gap. */
static void assert_fronts(
	const struct order_epoch *epoch, const uint8_t *seen, bool whole, uint64_t global)
{
	for (uint32_t b = 0; b < epoch->buckets->count; b++) {
		uint64_t first = epoch->buckets->first[b], rows = epoch->buckets->rows[b],
			 front = 0;
		while (front < rows && seen[first + front] == 1)
			front++;
		for (uint64_t i = front; i < rows; i++)
			assert_int_equal(seen[first + i], 0);
		if (whole && epoch->drop_last)
			assert_true(rows - front < global);
		else if (whole)
			assert_int_equal(front, rows);
	}
}

static void assert_walk(const struct order_epoch *epoch)
{
	uint8_t seen[ROWS_MOST] = {0};
	struct course course = course_from(epoch, 3, 0);
	uint64_t batches = order_batches(epoch, 0), next = 0, found, total = 0;
	assert_int_equal(course_left(&course), batches);
	assert_int_equal(course_samples(&course), order_left(epoch, 0));
	for (uint64_t serial = 0; serial < batches; serial++) {
		struct course_batch batch = course_batch(&course, serial, 0);
		assert_int_equal(batch.epoch, 3);
		assert_int_equal(batch.batch, serial);
		assert_int_equal(batch.origin, next);
		assert_true(course_serial(&course, 3, next, &found));
		assert_int_equal(found, serial);
		if (order_global(epoch) > 1)
			assert_false(
				course_serial(&course, 3, next + 1, &found) && found <= serial);
		assert_int_equal(deliver(&course, serial, serial + 1, seen, &next), serial + 1);
		assert_fronts(epoch, seen, false, 0);
		assert_int_equal(batch.slice.last, serial + 1 == batches);
	}
	assert_fronts(epoch, seen, true, order_global(epoch));
	for (size_t i = 0; i < ROWS_MOST; i++)
		total += seen[i];
	assert_int_equal(total, order_left(epoch, 0));
	assert_int_equal(next, 0);
	assert_int_equal(course_batch(&course, batches, 0).epoch, 4);
	assert_true(course_serial(&course, 3, batches * order_global(epoch), &found));
	assert_int_equal(found, batches);
	assert_true(course_serial(&course, 5, 0, &found));
	assert_int_equal(found, 2 * batches);
	assert_false(course_serial(&course, 2, 0, &found));
	assert_int_equal(course_end(&course, 4), batches);
	assert_int_equal(course_end(&course, 6), 3 * batches);
	assert_int_equal(course_end(&course, 3), 0);
}

static const uint64_t divisions[][5] = {{1}, {7}, {40, 3}, {5, 0, 9}, {33, 65, 2}, {0, 0, 11},
	{1, 1, 1, 1, 1}, {300, 100, 20, 4, 1}};

static uint32_t count_of(size_t i)
{
	static const uint32_t counts[] = {1, 1, 2, 3, 3, 3, 5, 5};
	return counts[i];
}

static void delivers_each_row_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++) {
		const struct buckets buckets = make(divisions[i], count_of(i));
		for (uint32_t size = 1; size <= 5; size++)
			for (uint32_t world = 1; world <= 3; world++)
				for (int flags = 0; flags < 4; flags++) {
					struct order_epoch epoch =
						epoch_of(&buckets, size, world, flags & 1);
					epoch.shuffle = flags & 2;
					if (order_batches(&epoch, 0))
						assert_walk(&epoch);
				}
	}
}

static void assert_same_batch(const struct course_batch *a, const struct course_batch *b)
{
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->batch, b->batch);
	assert_int_equal(a->origin, b->origin);
	assert_int_equal(a->position, b->position);
	assert_int_equal(a->bucket, b->bucket);
	assert_int_equal(a->slice.position, b->slice.position);
	assert_int_equal(a->slice.count, b->slice.count);
	assert_int_equal(a->slice.last, b->slice.last);
}

/* One epoch in three runs, each with a batch size and a world size of its own: nothing is lost or
 * comes twice, and a run that goes on with the same global batch goes on with the same batches. */
static void resumes_with_other_batches(void **state)
{
	(void)state;
	static const uint64_t rows[] = {300, 100, 20, 4, 1};
	const struct buckets buckets = make(rows, 5);
	for (uint32_t i = 0; i < 200; i++) {
		uint8_t seen[ROWS_MOST] = {0};
		struct course course, again;
		struct buckets_cuts cuts = {.count = 0};
		uint64_t position = 0, global = 0;
		const bool drop_last = i & 1;
		bool full;
		for (uint32_t run = 0; run < 3; run++) {
			struct philox r = philox_draw(1, i, run, PHILOX_SHUFFLE, 0);
			struct order_epoch epoch =
				epoch_of(&buckets, 1 + r.word[0] % 9, 1 + r.word[1] % 3, drop_last);
			assert_true(course_resume(&epoch, 6, position, &cuts, &course, &full));
			global = order_global(&epoch);
			if (course.start_epoch != 6)
				break;
			uint64_t end =
				run < 2 ? r.word[2] % (course_left(&course) + 1) : UINT64_MAX;
			uint64_t left = course_left(&course), samples = course_samples(&course);
			uint64_t serial = deliver(&course, 0, end, seen, &position);
			if (serial == left) {
				for (size_t k = 0; k < ROWS_MOST; k++)
					samples -= run == 0 && seen[k];
				assert_true(run > 0 || samples == 0);
				position = 0;
				break;
			}
			position = course_batch(&course, serial, 0).origin;
			cuts = course.cuts;
			assert_true(course_resume(&epoch, 6, position, &cuts, &again, &full));
			assert_true(buckets_cuts_equal(&again.cuts, &cuts));
			assert_true(course_agrees(&course, &again));
			for (uint64_t k = 0; k < course_left(&again); k++) {
				struct course_batch a = course_batch(&course, serial + k, 0),
						    b = course_batch(&again, k, 0);
				assert_same_batch(&a, &b);
			}
			assert_fronts(&epoch, seen, false, 0);
		}
		const struct order_epoch all = epoch_of(&buckets, 1, 1, drop_last);
		assert_fronts(&all, seen, true, global);
	}
}

static void refuses_cuts_that_no_epoch_has(void **state)
{
	(void)state;
	static const uint64_t rows[] = {30, 10};
	const struct buckets buckets = make(rows, 2);
	const struct order_epoch epoch = epoch_of(&buckets, 4, 1, true);
	static const struct {
		uint64_t position;
		struct buckets_cuts cuts;
	} wrong[] = {
		{4, {.count = 0}},
		{6, {1, {{0, 4}}}},
		{4, {1, {{4, 4}}}},
		{40, {1, {{0, 4}}}},
		{4, {1, {{0, 0}}}},
		{0, {2, {{0, 4}, {4, 4}}}},
		{9, {2, {{0, 4}, {5, 4}}}},
		{1000, {2, {{0, 4}, {4, UINT32_MAX}}}},
	};
	struct course course;
	bool full;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(course_resume(
			&epoch, 0, wrong[i].position, &wrong[i].cuts, &course, &full));
		assert_false(full);
	}
	/* 9 batches of 4: positions up to 36; at 36 the next epoch begins. */
	assert_true(
		course_resume(&epoch, 0, 36, &(struct buckets_cuts){1, {{0, 4}}}, &course, &full));
	assert_int_equal(course.start_epoch, 1);
	assert_int_equal(course.cuts.count, 1);
	assert_int_equal(course.cuts.at[0].global, 4);
	/* Without buckets, a state has no cuts. */
	struct order_epoch plain = epoch;
	plain.buckets = NULL;
	assert_false(
		course_resume(&plain, 0, 4, &(struct buckets_cuts){1, {{0, 4}}}, &course, &full));
	assert_true(
		course_resume(&plain, 0, 4, &(struct buckets_cuts){.count = 0}, &course, &full));
}

static void an_epoch_is_cut_so_often(void **state)
{
	(void)state;
	static const uint64_t rows[] = {500, 500};
	const struct buckets buckets = make(rows, 2);
	struct course course;
	struct buckets_cuts cuts = {.count = 0};
	bool full = false;
	uint64_t position = 0;
	for (uint32_t i = 0; i < BUCKETS_CUTS; i++) {
		const struct order_epoch epoch = epoch_of(&buckets, 3 + i % 2, 1, true);
		assert_true(course_resume(&epoch, 0, position, &cuts, &course, &full));
		/* A cut at which no batch is made does not count. */
		const struct order_epoch none = epoch_of(&buckets, 7, 1, true);
		if (i + 1 < BUCKETS_CUTS) {
			assert_true(
				course_resume(&none, 0, position, &course.cuts, &course, &full));
			assert_int_equal(course.cuts.count, i + 1);
			assert_true(
				course_resume(&epoch, 0, position, &course.cuts, &course, &full));
		}
		assert_int_equal(course.cuts.count, i + 1);
		cuts = course.cuts;
		position = course_batch(&course, 1, 0).origin;
	}
	const struct order_epoch ninth = epoch_of(&buckets, 5, 1, true),
				 same = epoch_of(&buckets, 4, 1, true);
	assert_false(course_resume(&ninth, 0, position, &cuts, &course, &full));
	assert_true(full);
	assert_true(course_resume(&same, 0, position, &cuts, &course, &full));
}

/* A group that continues with a cut of its own does not give what a state of other cuts names. */
static void tells_courses_apart(void **state)
{
	(void)state;
	static const uint64_t rows[] = {100, 60};
	const struct buckets buckets = make(rows, 2);
	const struct order_epoch four = epoch_of(&buckets, 4, 1, true);
	struct course a, b, later;
	bool full;
	assert_true(course_resume(&four, 2, 40, &(struct buckets_cuts){1, {{0, 4}}}, &a, &full));
	assert_true(course_resume(
		&four, 2, 40, &(struct buckets_cuts){2, {{0, 8}, {16, 4}}}, &b, &full));
	assert_false(course_agrees(&a, &b));
	assert_true(course_agrees(&a, &a));
	assert_true(course_resume(&four, 3, 8, &(struct buckets_cuts){1, {{0, 4}}}, &later, &full));
	assert_true(course_agrees(&a, &later));
	assert_true(course_agrees(&b, &later));
	assert_true(course_resume(&four, 3, 8, &(struct buckets_cuts){1, {{0, 8}}}, &later, &full));
	assert_false(course_agrees(&b, &later));
}

/* Every stretch of some blocks has each bucket's share, and buckets of one batch come anywhere. */
static void mixes_the_buckets(void **state)
{
	(void)state;
	static const uint64_t rows[] = {6400, 3200, 1600, 10};
	const struct buckets buckets = make(rows, 4);
	const struct order_epoch epoch = epoch_of(&buckets, 10, 1, true);
	unsigned early = 0;
	for (uint32_t number = 0; number < 40; number++) {
		struct course course = course_from(&epoch, number, 0);
		unsigned count[4] = {0}, alike = 0;
		for (uint64_t serial = 0; serial < 560; serial++) {
			uint32_t bucket = course_batch(&course, serial, 0).bucket;
			count[bucket]++;
			alike += serial && bucket == course_batch(&course, serial - 1, 0).bucket;
			early += bucket == 3;
		}
		assert_true(count[0] >= 310 && count[0] <= 330);
		assert_true(count[1] >= 152 && count[1] <= 168);
		/* 42 % of neighbors are alike by chance. */
		assert_true(alike > 150 && alike < 330);
	}
	assert_true(early > 8 && early < 32);
}

/* Samples: each comes once, and which comes where depends on neither batch size nor world size. */
static void picks_each_sample_once(void **state)
{
	(void)state;
	enum { SAMPLES = 700, CLASSES = 3 };
	static const uint32_t list[] = {5, 5, 9, 1, 0, 3, 7};
	uint64_t *memory = calloc(members_words(SAMPLES, CLASSES), sizeof *memory);
	uint64_t count[BUCKETS_MAX];
	for (int shuffle = 0; shuffle < 2; shuffle++)
		for (uint32_t repeats = 1; repeats <= 3; repeats += 2)
			for (int few = 0; few < 2; few++) {
				uint64_t samples = few ? 7 : SAMPLES;
				struct order order = {
					.samples = samples, .seed = 3, .shuffle = shuffle};
				order.subset.narrow = few ? list : NULL;
				struct sampler sampler = sampler_plain(&order);
				struct members members = members_lay(samples, CLASSES, memory);
				sampler.repeats = repeats;
				for (uint64_t i = 0; i < samples; i++)
					members_set(&members, i, (uint32_t)(i * i % CLASSES));
				members_count(&members, count);
				sampler_divide(&sampler, CLASSES, &members, count);
				assert_int_equal(sampler.length, samples);
				unsigned seen[SAMPLES] = {0};
				for (uint64_t p = 0; p < samples; p++) {
					struct sampler_pick pick = sampler_pick(&sampler, 2, p);
					uint32_t bucket = buckets_of(&sampler.buckets, p);
					uint64_t inside = p - sampler.buckets.first[bucket];
					assert_int_equal(pick.part, 0);
					seen[pick.number]++;
					if (!few)
						assert_int_equal(
							members_get(&members, pick.number), bucket);
					if (inside % repeats)
						assert_int_equal(pick.number,
							sampler_pick(&sampler, 2, p - 1).number);
					if (repeats == 1 && !few)
						assert_int_equal(
							sampler_position(&sampler, 2, pick.number),
							p);
					struct sampler_pick other =
						sampler_substitute(&sampler, 2, p, 1);
					if (!few)
						assert_int_equal(
							members_get(&members, other.number),
							bucket);
				}
				for (uint64_t i = 0; i < SAMPLES && repeats == 1; i++)
					assert_int_equal(seen[i],
						few ? (i == 5) + (i == 5 || i == 9 || i == 1 ||
									 i == 0 || i == 3 || i == 7)
						    : 1);
				memset(memory, 0, members_words(SAMPLES, CLASSES) * sizeof *memory);
			}
	free(memory);
}

/* These numbers are part of the promise "same seed, same order". */
static void keeps_its_order(void **state)
{
	(void)state;
	static const uint64_t rows[] = {900, 600, 300};
	static const unsigned expected[2][24] = {
		{1, 0, 1, 0, 0, 2, 1, 1, 0, 2, 0, 0, 1, 0, 1, 1, 2, 2, 1, 2, 0, 1, 0, 1},
		{2, 1, 1, 0, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 1, 0, 2, 0, 2, 0, 1, 0, 1, 2},
	};
	const struct buckets buckets = make(rows, 3);
	const struct order_epoch epoch = epoch_of(&buckets, 10, 1, true);
	struct course course = course_from(&epoch, 0, 0);
	for (unsigned e = 0; e < 2; e++)
		for (unsigned i = 0; i < 24; i++)
			assert_int_equal(
				course_batch(&course, e * 180 + i, 0).bucket, expected[e][i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delivers_each_row_once),
		cmocka_unit_test(resumes_with_other_batches),
		cmocka_unit_test(refuses_cuts_that_no_epoch_has),
		cmocka_unit_test(an_epoch_is_cut_so_often),
		cmocka_unit_test(tells_courses_apart),
		cmocka_unit_test(mixes_the_buckets),
		cmocka_unit_test(picks_each_sample_once),
		cmocka_unit_test(keeps_its_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
