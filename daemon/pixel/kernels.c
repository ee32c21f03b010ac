/* kernels: chooses the table for this CPU; see kernels.h. The tables race (base/choose.h) on the
 * usual case: a crop of an ImageNet image, shrunk by a fifth. */
#include "pixel/kernels.h"

#include "base/choose.h"
#include "base/clock.h"

enum {
	RACE_SOURCE = 280,
	RACE_RESULT = 224,
	RACE_PITCH = 320,
	RACE_TAPS = 3,
	RACE_ROWS = 64,
	RACE_LAPS = 4,
};

#define WIDE (PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL)

static const struct dispatch known = {{
	[DISPATCH_C] = {&kernels_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&kernels_avx2, PROCESSOR_AVX2),
	[DISPATCH_AVX512] = DISPATCH_X86(&kernels_avx512, WIDE),
	[DISPATCH_VNNI] =
		DISPATCH_X86(&kernels_vnni, WIDE | PROCESSOR_AVX512VBMI | PROCESSOR_AVX512VNNI),
	[DISPATCH_NEON] = DISPATCH_ARM(&kernels_neon),
}};

const struct kernels *kernels_at(unsigned i)
{
	return dispatch_at(&known, i);
}

/* The data of a lap: source rows of zeros, an intermediate row, the weights. */
struct course {
	uint8_t rows[3][RACE_PITCH + KERNELS_SLACK];
	_Alignas(KERNELS_GRAIN) uint8_t narrow[RACE_TAPS][3][256];
	_Alignas(KERNELS_GRAIN) uint8_t line[3][256], out[3 * RACE_RESULT];
	_Alignas(KERNELS_GRAIN) uint8_t table[256 * KERNELS_PACKED];
	struct weights weights;
	uint32_t first[RACE_RESULT], taps[RACE_RESULT];
	int32_t value[RACE_RESULT * WEIGHTS_FEW];
};

/* Makes one row of the window, from the average number of source rows. */
static void course_row(struct course *course, const struct kernels *k)
{
	const struct weights *w = &course->weights;
	const uint8_t *const from[3] = {course->rows[0], course->rows[1], course->rows[2]};
	const uint8_t *rows[RACE_TAPS];
	for (int t = 0; t < RACE_TAPS; t++)
		rows[t] = course->narrow[t][0];
	uint8_t(*narrow)[256] = course->narrow[0];
	k->across((uint8_t *const[]){narrow[0], narrow[1], narrow[2]}, from, w, course->table);
	k->down(course->line[0], rows, w->value + w->stride, RACE_TAPS, sizeof(course->line));
	k->weave(course->out,
		(const uint8_t *const[]){course->line[0], course->line[1], course->line[2]},
		RACE_RESULT);
}

static bool course_prepare(void *memory, const void *table)
{
	struct course *course = memory;
	const struct kernels *k = table;
	course->weights = (struct weights){
		.first = course->first, .taps = course->taps, .value = course->value};
	weights_make(&course->weights,
		&(struct weights_axis){
			.source = RACE_SOURCE, .result = RACE_RESULT, .window = RACE_RESULT},
		false);
	return k->pack(&course->weights, course->table);
}

static uint64_t course_lap(void *course, const void *table)
{
	uint64_t start = clock_ns();
	for (int row = 0; row < RACE_ROWS; row++)
		course_row(course, table);
	return clock_ns() - start;
}

int kernels_choose(const struct kernels **ret, struct fault *fault)
{
	static struct choose_race race = {
		.known = &known,
		.course_bytes = sizeof(struct course),
		.course_align = KERNELS_GRAIN,
		.margin = CHOOSE_MARGIN,
		.laps = RACE_LAPS,
		.prepare = course_prepare,
		.lap = course_lap,
		CHOOSE_RACE_START,
	};
	const void *table;
	int result = choose_fastest(&race, &table, fault);
	if (!result)
		*ret = table;
	return result;
}
