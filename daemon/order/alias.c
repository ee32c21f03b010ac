/* alias: see alias.h. Pure functions.
 *
 * The sweep: of the heavy samples, those higher than a column, one at a time gives what it has
 * above others to the light ones, in the order in which they lie, until it is itself no higher than
 * a column; then the next heavy one fills that up. Heavy cells carry a mark until the end, so that
 * the light ones are those without it, whatever has become of either. */
#include "order/alias.h"

#include "proto/philox.h"

#include <assert.h>
#include <math.h>

#define ALIAS_COLUMN ((uint64_t)1 << 32) /* a column's height */
#define ALIAS_HEAVY ((uint64_t)1 << 63)

/* Bits of all numbers that alias_raise multiplies, which must stay within 127, and of an integer
 * weight, which must stay within 63. */
enum { ALIAS_BITS = 127 - 32, ALIAS_UNIT_BITS = 62 };

__extension__ typedef unsigned __int128 alias_wide;

/* How often `stop` is asked. */
#define ALIAS_ROUND ((uint64_t)1 << 16)

struct alias_work {
	alias_cell *cell;
	uint64_t samples;
	int shift; /* weights become integers: times a power of two */
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

/* At least 1 where it is above 0. */
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

/* Heights, which add up to exactly as many columns as there are samples: each is what lies between
 * two rounded sums. */
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

/* The first from `at` on that is heavy, or that is not; `samples` where there is none. */
static uint64_t alias_next(const alias_cell *cell, uint64_t samples, uint64_t at, bool heavy)
{
	while (at < samples && ((cell[at] & ALIAS_HEAVY) != 0) != heavy)
		at++;
	return at;
}

/* The light ones that a heavy one of height `left` fills up, from `*light` on; what it has left. */
static uint64_t alias_give(
	alias_cell *cell, uint64_t samples, uint64_t heavy, uint64_t left, uint64_t *light)
{
	while (left > ALIAS_COLUMN) {
		uint64_t i = alias_next(cell, samples, *light, false);
		assert(i < samples); /* the heights are as many columns as there are samples */
		left -= ALIAS_COLUMN - cell[i];
		/* A full one needs nobody else. */
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
			left -= ALIAS_COLUMN; /* what the next one owes it: wraps, and back */
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
