/* per_class: see per_class.h. Pure functions. */
#include "order/per_class.h"

#include "base/util.h"
#include "order/permutation.h"

#include <assert.h>

/* A permutation's number has 48 bits. Beyond them the permutations would repeat; no run gets that
 * far. */
#define PER_CLASS_PASSES (((uint64_t)1 << 48) - 1)

/* The place of a row in its class. */
struct per_class_at {
	uint64_t class, samples; /* the class's number among all, and how many samples it has */
	uint64_t chunk, row; /* which K of the permutation, and which of the K */
	struct permutation permutation;
};

static uint64_t per_class_number(const struct per_class *table, uint64_t class, uint64_t place)
{
	uint64_t at = table->first[class] + place;
	return table->narrow ? table->narrow[at] : table->wide[at];
}

static struct per_class_at per_class_find(
	const struct per_class *table, uint64_t seed, per_class_wide block, uint64_t row)
{
	assert(table->all >= table->classes && row < per_class_block(table));
	const uint64_t blocks = table->all / table->classes;
	const uint64_t pass = (uint64_t)(block / blocks) & PER_CLASS_PASSES;
	const uint64_t place = (uint64_t)(block % blocks) * table->classes + row / table->each;
	struct permutation classes = permutation_make(table->all, seed, PHILOX_CLASSES, pass);
	struct per_class_at at = {
		.class = permutation_at(&classes, place), .row = row % table->each};
	at.samples = table->first[at.class + 1] - table->first[at.class];
	const uint64_t chunks = UTIL_MAX(at.samples / table->each, (uint64_t)1);
	at.chunk = pass % chunks;
	/* Each class has its own permutations. Classes with equal low bits share them, which
	 * nobody can see: their samples are others. */
	at.permutation = permutation_make(at.samples, seed, PHILOX_CLASS_SAMPLES,
		(pass / chunks & UINT32_MAX) | (at.class & UINT16_MAX) << 32);
	return at;
}

uint64_t per_class_sample(
	const struct per_class *table, uint64_t seed, per_class_wide block, uint64_t row)
{
	const struct per_class_at at = per_class_find(table, seed, block, row);
	/* A class of fewer than K samples begins again. */
	const uint64_t place = (at.chunk * table->each + at.row) % at.samples;
	return per_class_number(table, at.class, permutation_at(&at.permutation, place));
}

bool per_class_substitute(const struct per_class *table, uint64_t seed, per_class_wide block,
	uint64_t row, uint32_t attempt, uint64_t *ret_sample)
{
	const struct per_class_at at = per_class_find(table, seed, block, row);
	const uint64_t shown = UTIL_MIN(at.samples, (uint64_t)table->each);
	const uint64_t others = at.samples - shown, begin = at.chunk * table->each;
	uint64_t place;
	assert(attempt);
	if (attempt <= others)
		place = begin + shown + (at.row + attempt - 1) % others;
	else if (attempt < at.samples)
		place = begin + (at.row + attempt - others) % shown;
	else
		return false;
	*ret_sample = per_class_number(
		table, at.class, permutation_at(&at.permutation, place % at.samples));
	return true;
}
