/* lanes: which driver this processor runs; see lane.h. The choice is made once, by whichever thread
 * asks first.
 *
 * Gathers are fast on some processors and slow on others that name the same features, so the
 * drivers race. The course is made of random bits: a complete code gives each symbol the share that
 * its length stands for, as in files: about twelve to a block, and some too long for the tables.
 * Each round has bits of its own, for a processor that saw them before would know where every block
 * ends. No byte ends in a one, so that the one missing code, eight ones, never comes; runs of zeros
 * are left out, so that no block overflows. */
#include "decode/jpeg/lane.h"

#include "base/clock.h"
#include "base/util.h"
#include "base/variant.h"
#include "proto/processor.h"

#include <pthread.h>
#include <string.h>

enum {
	RACE_RUNS = 256,
	RACE_MCUS = 8,
	RACE_IN_MCU = 3,
	RACE_RUN_BYTES = 288, /* from one run's start to the next: more than most take */
	RACE_BYTES = RACE_RUNS * RACE_RUN_BYTES,
	RACE_ROUNDS = 5, /* the first one warms up; the best counts */
};

static bool lanes_run(const void *table)
{
#ifdef __x86_64__
	if (table == &lanes_avx2)
		return processor_has(PROCESSOR_AVX2 | PROCESSOR_BMI2);
	if (table == &lanes_avx512)
		return processor_has(PROCESSOR_BMI2 | PROCESSOR_AVX512F | PROCESSOR_AVX512BW |
				     PROCESSOR_AVX512VL | PROCESSOR_AVX512DQ |
				     PROCESSOR_AVX512VBMI2);
#endif
	return table == &lanes_c;
}

static const struct variants known = {
	.table =
		{
			[VARIANT_C] = &lanes_c,
#ifdef __x86_64__
			[VARIANT_AVX2] = &lanes_avx2,
			[VARIANT_AVX512] = &lanes_avx512,
#endif
		},
	.runs = lanes_run,
};

const struct lanes *lanes_at(unsigned i)
{
	return variant_at(&known, i);
}

static const uint8_t race_counts[16] = {0, 2, 2, 2, 2, 2, 2, 3};
static const uint8_t race_dc[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2};
static const uint8_t race_ac[] = {1, 2, 3, 1, 0, 4, 5, 0, 6, 3, 7, 4, 8, 9, 10};

struct race {
	struct huffman huffman;
	unsigned runs; /* still to be given out */
	uint8_t bytes[RACE_BYTES + LANE_SLACK];
	_Alignas(BLOCKS_ALIGN)
		int16_t blocks[LANES_MOST][(RACE_MCUS * RACE_IN_MCU + 1) * BLOCKS_SIZE];
	_Alignas(BLOCKS_ALIGN) uint32_t tables[2 * BLOCKS_COMPONENTS << HUFFMAN_VALUE_BITS];
};

static bool race_next(void *context, struct lane *lane)
{
	struct race *race = context;
	if (race->runs == 0)
		return false;
	unsigned number = --race->runs;
	lane->huffman = &race->huffman;
	lane->bytes = race->bytes + (size_t)number * RACE_RUN_BYTES;
	lane->bits = 8 * (RACE_BYTES - (uint64_t)number * RACE_RUN_BYTES);
	lane->bit = 0;
	lane->blocks = race->blocks[number % LANES_MOST];
	lane->mcus = RACE_MCUS;
	memset(lane->dc, 0, sizeof(lane->dc));
	return true;
}

/* Nanoseconds of the best round. */
static uint64_t race_time(struct race *race, const struct lanes *table)
{
	const struct parse_code dc = {race_counts, race_dc, sizeof(race_dc)};
	const struct parse_code ac = {race_counts, race_ac, sizeof(race_ac)};
	struct parse parse = {.components = RACE_IN_MCU, .dc = {dc}, .ac = {ac}};
	for (int i = 0; i < RACE_IN_MCU; i++)
		parse.component[i].h = parse.component[i].v = 1;
	(void)huffman_build(&parse, table->kind, race->tables, &race->huffman);
	uint64_t best = UINT64_MAX;
	uint32_t random = 1;
	for (int round = 0; round < RACE_ROUNDS; round++) {
		for (unsigned i = 0; i < RACE_BYTES; i++) {
			random = random * 1664525 + 1013904223; /* Numerical Recipes' generator */
			race->bytes[i] = (uint8_t)(random >> 24 & 0xfe);
		}
		uint64_t start = clock_ns();
		race->runs = RACE_RUNS;
		table->decode(race_next, race);
		uint64_t time = clock_ns() - start;
		best = round ? UTIL_MIN(best, time) : best;
	}
	return best;
}

static const struct lanes *lanes_fastest(void)
{
	const struct lanes *best = lanes_at(0);
	struct race *race = aligned_alloc(BLOCKS_ALIGN, util_align(sizeof(*race), BLOCKS_ALIGN));
	if (!race)
		return best;
	memset(race, 0, sizeof(*race));
	uint64_t best_time = UINT64_MAX;
	for (unsigned i = 0; lanes_at(i); i++) {
		uint64_t time = race_time(race, lanes_at(i));
		if (time < best_time) {
			best_time = time;
			best = lanes_at(i);
		}
	}
	free(race);
	return best;
}

static const struct lanes *fastest;

static void choose_once(void)
{
	fastest = lanes_fastest();
}

int lanes_choose(const struct lanes **ret, struct fault *fault)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const void *forced;
	int result = variant_forced(&known, &forced, fault);
	if (result || forced) {
		if (!result)
			*ret = forced;
		return result;
	}
	(void)pthread_once(&once, choose_once);
	*ret = fastest;
	return 0;
}

const struct lanes *lanes_for(const struct lanes *chosen, size_t chains)
{
	return chosen->few && chains < chosen->few_below ? chosen->few : chosen;
}
