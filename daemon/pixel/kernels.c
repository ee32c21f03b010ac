/* kernels: which table this processor runs; see kernels.h. The choice is made once, by whichever
 * thread asks first.
 *
 * Wide vectors and byte gathers are fast on some processors and slow on others that name the same
 * features, so the tables race over what most images are: a crop of ImageNet, shrunk by a fifth. */
#include "pixel/kernels.h"

#include "base/clock.h"
#include "base/util.h"
#include "base/variant.h"
#include "proto/processor.h"

#include <pthread.h>
#include <string.h>

enum {
	RACE_SOURCE = 280,
	RACE_RESULT = 224,
	RACE_PITCH = 320,
	RACE_TAPS = 3,
	RACE_ROWS = 64,
	RACE_ROUNDS = 4, /* the first one warms up; the best counts */
};

static bool kernels_run(const void *table)
{
#ifdef __x86_64__
	if (table == &kernels_avx2)
		return processor_has(PROCESSOR_AVX2);
	uint32_t wide = PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL;
	if (table == &kernels_avx512)
		return processor_has(wide);
	if (table == &kernels_vnni)
		return processor_has(wide | PROCESSOR_AVX512VBMI | PROCESSOR_AVX512VNNI);
#endif
#ifdef __aarch64__
	if (table == &kernels_neon)
		return true;
#endif
	return table == &kernels_c;
}

static const struct variants known = {
	.table =
		{
			[VARIANT_C] = &kernels_c,
#ifdef __x86_64__
			[VARIANT_AVX2] = &kernels_avx2,
			[VARIANT_AVX512] = &kernels_avx512,
			[VARIANT_VNNI] = &kernels_vnni,
#endif
#ifdef __aarch64__
			[VARIANT_NEON] = &kernels_neon,
#endif
		},
	.runs = kernels_run,
};

const struct kernels *kernels_at(unsigned i)
{
	return variant_at(&known, i);
}

struct race {
	uint8_t rows[3][RACE_PITCH + KERNELS_SLACK];
	_Alignas(KERNELS_GRAIN) uint8_t narrow[RACE_TAPS][3][256];
	_Alignas(KERNELS_GRAIN) uint8_t line[3][256], out[3 * RACE_RESULT];
	_Alignas(KERNELS_GRAIN) uint8_t table[256 * KERNELS_PACKED];
	uint32_t first[RACE_RESULT], taps[RACE_RESULT];
	int32_t value[RACE_RESULT * WEIGHTS_FEW];
};

/* A row of the window out of as many rows of the source as it has on average, more or less. */
static void race_row(struct race *race, const struct kernels *k, const struct weights *w)
{
	const uint8_t *const from[3] = {race->rows[0], race->rows[1], race->rows[2]};
	const uint8_t *rows[RACE_TAPS];
	for (int t = 0; t < RACE_TAPS; t++)
		rows[t] = race->narrow[t][0];
	uint8_t(*narrow)[256] = race->narrow[0];
	k->across((uint8_t *const[]){narrow[0], narrow[1], narrow[2]}, from, w, race->table);
	k->down(race->line[0], rows, w->value + w->stride, RACE_TAPS, sizeof(race->line));
	k->weave(race->out, (const uint8_t *const[]){race->line[0], race->line[1], race->line[2]},
		RACE_RESULT);
}

/* Nanoseconds of the best round. */
static uint64_t race_time(struct race *race, const struct kernels *k, const struct weights *w)
{
	uint64_t best = UINT64_MAX;
	if (!k->pack(w, race->table))
		return best;
	for (int round = 0; round < RACE_ROUNDS; round++) {
		uint64_t start = clock_ns();
		for (int row = 0; row < RACE_ROWS; row++)
			race_row(race, k, w);
		uint64_t time = clock_ns() - start;
		best = round ? UTIL_MIN(best, time) : best;
	}
	return best;
}

static const struct kernels *kernels_fastest(void)
{
	const struct kernels *best = kernels_at(0);
	struct race *race = aligned_alloc(KERNELS_GRAIN, util_align(sizeof(*race), KERNELS_GRAIN));
	if (!race)
		return best;
	memset(race, 0, sizeof(*race));
	struct weights weights = {.first = race->first, .taps = race->taps, .value = race->value};
	weights_make(&weights,
		&(struct weights_axis){
			.source = RACE_SOURCE, .result = RACE_RESULT, .window = RACE_RESULT},
		false);
	uint64_t best_time = UINT64_MAX;
	for (unsigned i = 0; kernels_at(i); i++) {
		uint64_t time = race_time(race, kernels_at(i), &weights);
		if (time < best_time) {
			best_time = time;
			best = kernels_at(i);
		}
	}
	free(race);
	return best;
}

static const struct kernels *fastest;

static void choose_once(void)
{
	fastest = kernels_fastest();
}

int kernels_choose(const struct kernels **ret, struct fault *fault)
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
