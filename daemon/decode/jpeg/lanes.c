/* lanes: which driver this processor runs; see lane.h.
 *
 * The drivers race (base/choose.h). The course is random bits. With a complete code each symbol
 * then occurs as often as its length suggests, as in files: about twelve symbols in a block, some
 * of them too long for the tables. Each lap has new bits, because a processor that has seen them
 * before would predict the end of every block. No byte ends in a one, so that the only missing
 * code, eight ones, never appears; the code has no runs of zeros, so that no block overflows.
 *
 * A second race decides whether images without entry points are decoded in chunks. There the driver
 * for chunks has two fifths more runs than the others. That stands for what chunks cost besides:
 * what they decode twice, the sums of their DC differences, and blocks that leave the cache, as the
 * course's do not. It was fitted on Zen 4, where chunks win the bare race by a fifth and take a
 * tenth more time in a daemon. */
#include "decode/jpeg/lane.h"

#include "base/choose.h"
#include "base/clock.h"

#include <string.h>

enum {
	RACE_RUNS = 256,
	RACE_MCUS = 8,
	RACE_IN_MCU = 3,
	RACE_RUN_BYTES = 288, /* from one run's start to the next: more than most take */
	RACE_BYTES = RACE_RUNS * RACE_RUN_BYTES,
	RACE_LAPS = 7,
	RACE_MORE = RACE_RUNS * 2 / 5, /* runs of a driver for chunks */
};

static const struct dispatch known = {{
	[DISPATCH_C] = {&lanes_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&lanes_avx2, PROCESSOR_AVX2 | PROCESSOR_BMI2),
	[DISPATCH_AVX512] = DISPATCH_X86(&lanes_avx512,
		PROCESSOR_BMI2 | PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL |
			PROCESSOR_AVX512DQ | PROCESSOR_AVX512VBMI2),
}};

static const struct dispatch known_chunks = {{
	[DISPATCH_C] = {&lanes_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&lanes_avx2, PROCESSOR_AVX2 | PROCESSOR_BMI2),
	[DISPATCH_AVX512] = DISPATCH_X86(&lanes_avx512_chunks,
		PROCESSOR_BMI2 | PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL |
			PROCESSOR_AVX512DQ | PROCESSOR_AVX512VBMI2),
}};

const struct lanes *lanes_at(unsigned i)
{
	return dispatch_at(&known, i);
}

static const uint8_t race_counts[16] = {0, 2, 2, 2, 2, 2, 2, 3};
static const uint8_t race_dc[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2};
static const uint8_t race_ac[] = {1, 2, 3, 1, 0, 4, 5, 0, 6, 3, 7, 4, 8, 9, 10};

struct course {
	struct huffman huffman;
	uint32_t random; /* state of the generator */
	unsigned runs; /* still to be handed out */
	bool chunks;
	uint32_t marks[LANES_MOST][RACE_MCUS];
	uint8_t bytes[RACE_BYTES + LANE_SLACK];
	_Alignas(BLOCKS_ALIGN)
		int16_t blocks[LANES_MOST][(RACE_MCUS * RACE_IN_MCU + 1) * BLOCKS_SIZE];
	_Alignas(BLOCKS_ALIGN) uint32_t tables[2 * BLOCKS_COMPONENTS << HUFFMAN_VALUE_BITS];
};

static bool course_next(void *context, struct lane *lane)
{
	struct course *course = context;
	if (course->runs == 0)
		return false;
	unsigned number = --course->runs % RACE_RUNS;
	lane->huffman = &course->huffman;
	lane->bytes = course->bytes + (size_t)number * RACE_RUN_BYTES;
	lane->bits = 8 * (RACE_BYTES - (uint64_t)number * RACE_RUN_BYTES);
	lane->bit = 0;
	lane->blocks = course->blocks[number % LANES_MOST];
	lane->mcus = RACE_MCUS;
	memset(lane->dc, 0, sizeof(lane->dc));
	lane->marks = course->chunks ? course->marks[number % LANES_MOST] : NULL;
	lane->stop = UINT64_MAX;
	return true;
}

static bool course_prepare(void *memory, const void *table)
{
	struct course *course = memory;
	const struct parse_code dc = {race_counts, race_dc, sizeof(race_dc)};
	const struct parse_code ac = {race_counts, race_ac, sizeof(race_ac)};
	struct parse parse = {.components = RACE_IN_MCU, .dc = {dc}, .ac = {ac}};
	for (int i = 0; i < RACE_IN_MCU; i++)
		parse.component[i].h = parse.component[i].v = 1;
	(void)huffman_build(
		&parse, ((const struct lanes *)table)->kind, course->tables, &course->huffman);
	course->random = 1;
	course->chunks = ((const struct lanes *)table)->chunks == table;
	return true;
}

static uint64_t course_lap(void *memory, const void *table)
{
	struct course *course = memory;
	for (unsigned i = 0; i < RACE_BYTES; i++) {
		/* The generator of Numerical Recipes. */
		course->random = course->random * 1664525 + 1013904223;
		course->bytes[i] = (uint8_t)(course->random >> 24 & 0xfe);
	}
	course->runs = RACE_RUNS + (course->chunks ? RACE_MORE : 0);
	uint64_t start = clock_ns();
	((const struct lanes *)table)->decode(course_next, course);
	return clock_ns() - start;
}

/* The race between the tables of a list. */
#define LANES_RACE(list, part)                                                     \
	{                                                                          \
		.known = &(list), .course_bytes = sizeof(struct course),           \
		.course_align = BLOCKS_ALIGN, .margin = (part), .laps = RACE_LAPS, \
		.prepare = course_prepare, .lap = course_lap, CHOOSE_RACE_START,   \
	}

int lanes_choose(const struct lanes **ret, struct fault *fault)
{
	static struct choose_race race = LANES_RACE(known, CHOOSE_MARGIN);
	const void *table;
	int result = choose_fastest(&race, &table, fault);
	if (!result)
		*ret = table;
	return result;
}

const struct lanes *lanes_choose_chunks(const struct lanes *chosen)
{
	static struct choose_race race = LANES_RACE(known_chunks, 0);
	const void *table;
	struct fault fault;
	if (!chosen->chunks || choose_fastest(&race, &table, &fault))
		return NULL;
	return table == chosen->chunks ? chosen->chunks : NULL;
}

const struct lanes *lanes_for(const struct lanes *chosen, size_t chains)
{
	return chosen->few && chains < chosen->few_below ? chosen->few : chosen;
}
