/* alias: see alias.h. Pure functions.
 *
 * The sweep works on heights. A heavy sample is higher than a column. One heavy sample at a time
 * fills up the columns of light samples, in their order in the table, until its own height is at
 * most a column; then the next heavy sample fills up that column. Heavy cells are marked until the
 * end, so that the light ones can be told from them although the sweep changes both. */
#include "order/alias.h"

#include "proto/philox.h"

#include <assert.h>
#include <math.h>

#define ALIAS_COLUMN ((uint64_t)1 << 32) /* the height of a column */
#define ALIAS_HEAVY ((uint64_t)1 << 63)

/* The factors that alias_raise multiplies have at most 127 bits together, of which 32 belong to a
 * column. An integer weight has at most 63 bits. */
enum { ALIAS_BITS = 127 - 32, ALIAS_UNIT_BITS = 62 };

__extension__ typedef unsigned __int128 alias_wide;

/* `stop` is called once for this many samples. */
#define ALIAS_ROUND ((uint64_t)1 << 16)

struct alias_work {
	alias_cell *cell;
	uint64_t samples;
	int shift; /* a weight times 2^shift is an integer */
	bool (*stop)(void *context);
	void *context;
};

static bool alias_stopped(const struct alias_work *work, uint64_t at)
{
	return work->stop && at % ALIAS_ROUND == 0 && work->stop(work->context);
}

static double alias_value(alias_cell cell)
{
	double weight;
	memcpy(&weight, &cell, sizeof weight);
	return weight;
}

/* A weight as an integer, at least 1 where it is above 0. */
static uint64_t alias_units(const struct alias_work *work, uint64_t sample)
{
	double weight = alias_value(work->cell[sample]);
	uint64_t units = (uint64_t)ldexp(weight, work->shift);
	return units || weight <= 0 ? units : 1;
}

static void alias_scale(struct alias_work *work)
{
	double most = 0;
	int exponent, bits = ALIAS_BITS - 2 * (64 - __builtin_clzll(work->samples));
	for (uint64_t i = 0; i < work->samples; i++) {
		double weight = alias_value(work->cell[i]);
		most = weight > most ? weight : most;
	}
	assert(most > 0);
	(void)frexp(most, &exponent);
	work->shift = (bits < ALIAS_UNIT_BITS ? bits : ALIAS_UNIT_BITS) - exponent;
}

/* Turns weights into heights, whose sum is exactly one column for each sample: each height is the
 * difference of two rounded partial sums. */
static bool alias_raise(const struct alias_work *work)
{
	alias_wide total = 0, sum = 0;
	uint64_t before = 0;
	for (uint64_t i = 0; i < work->samples; i++) {
		if (alias_stopped(work, i))
			return false;
		total += alias_units(work, i);
	}
	assert(total);
	for (uint64_t i = 0; i < work->samples; i++) {
		if (alias_stopped(work, i))
			return false;
		sum += alias_units(work, i);
		uint64_t reached = (uint64_t)(sum * (work->samples << 32) / total);
		work->cell[i] = reached - before;
		before = reached;
	}
	return true;
}

static alias_cell alias_column(uint64_t threshold, uint64_t other)
{
	return threshold | other << 32;
}

static void alias_mark(alias_cell *cell, uint64_t samples)
{
	for (uint64_t i = 0; i < samples; i++)
		if (cell[i] > ALIAS_COLUMN)
			cell[i] |= ALIAS_HEAVY;
}

/* The first sample from `at` on that is heavy, or light; `samples` where there is none. */
static uint64_t alias_next(const alias_cell *cell, uint64_t samples, uint64_t at, bool heavy)
{
	while (at < samples && ((cell[at] & ALIAS_HEAVY) != 0) != heavy)
		at++;
	return at;
}

/* Fills up light columns from `*light` on with a heavy sample of height `left`, and returns the
 * height that is left. */
static uint64_t alias_give(
	alias_cell *cell, uint64_t samples, uint64_t heavy, uint64_t left, uint64_t *light)
{
	while (left > ALIAS_COLUMN) {
		uint64_t i = alias_next(cell, samples, *light, false);
		assert(i < samples); /* the heights add up to one column for each sample */
		left -= ALIAS_COLUMN - cell[i];
		/* A full column belongs to its own sample only. */
		cell[i] =
			cell[i] < ALIAS_COLUMN ? alias_column(cell[i], heavy) : alias_column(0, i);
		*light = i + 1;
	}
	return left;
}

/* Turns heights into columns. */
static void alias_sweep(alias_cell *cell, uint64_t samples)
{
	uint64_t light = 0, heavy, left = 0;
	alias_mark(cell, samples);
	for (heavy = alias_next(cell, samples, 0, true); heavy < samples;) {
		uint64_t next = alias_next(cell, samples, heavy + 1, true);
		left += cell[heavy] & ~ALIAS_HEAVY;
		left = alias_give(cell, samples, heavy, left, &light);
		if (left == ALIAS_COLUMN) {
			cell[heavy] = ALIAS_HEAVY | alias_column(0, heavy);
			left = 0;
		} else {
			assert(next < samples);
			cell[heavy] = ALIAS_HEAVY | alias_column(left, next);
			left -= ALIAS_COLUMN; /* the next one's debt: below 0, wraps and back */
		}
		heavy = next;
	}
	while ((light = alias_next(cell, samples, light, false)) < samples) {
		assert(cell[light] == ALIAS_COLUMN);
		cell[light] = alias_column(0, light);
		light++;
	}
	for (uint64_t i = 0; i < samples; i++)
		cell[i] &= ~ALIAS_HEAVY;
}

bool alias_make(alias_cell *cell, uint64_t samples, bool (*stop)(void *context), void *context)
{
	struct alias_work work = {
		.cell = cell, .samples = samples, .stop = stop, .context = context};
	assert(samples && samples < ALIAS_SAMPLES_MAX);
	alias_scale(&work);
	if (!alias_raise(&work))
		return false;
	alias_sweep(cell, samples);
	return true;
}

uint64_t alias_draw(const alias_cell *cell, uint64_t samples, const uint32_t word[4])
{
	uint64_t column = philox_below(word[0], word[1], samples);
	return word[2] < (uint32_t)cell[column] ? column : cell[column] >> 32;
}
