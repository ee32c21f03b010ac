/* chunk_blocks: see chunk_blocks.h. */
#include "decode/jpeg/chunk_blocks.h"

#include "decode/jpeg/lane.h"

enum { AHEAD = 16 }; /* blocks */

struct settling {
	const struct chunk_blocks *of;
	struct chunk_place *place; /* the next MCU's */
	uint32_t row, column; /* of the MCU, in the image */
	uint32_t strange;
	uint8_t component[BLOCKS_IN_MCU]; /* by block of an MCU */
	uint32_t until_record; /* MCUs up to the next entry point */
	struct entry_point *record;
};

/* Notes where the wanted ones of these MCUs are, which have blocks from number `block` on. */
static void note(struct settling *s, uint32_t mcus, uint32_t block)
{
	const struct chunk_blocks *of = s->of;
	const struct blocks *band = of->band;
	for (uint32_t i = 0; i < mcus; i++, block += of->parse->in_mcu) {
		uint32_t row = s->row - band->mcu_y0, column = s->column - band->mcu_x0;
		if (row < band->rows && column < band->columns)
			of->where[(size_t)row * band->columns + column] = block;
		if (++s->column == of->parse->mcus_across) {
			s->column = 0;
			s->row++;
		}
	}
}

/* Sets which entry point is recorded next, and after how many MCUs. */
static void begin_record(struct settling *s)
{
	uint32_t interval = s->of->record_interval, mcu = s->place->mcu;
	uint32_t number = mcu ? (mcu - 1) / interval + 1 : 1;
	s->record = s->of->record + number;
	s->until_record = number * interval - mcu;
}

static void record(struct settling *s)
{
	*s->record = (struct entry_point){.bit = s->place->bit};
	for (unsigned c = 0; c < BLOCKS_COMPONENTS; c++)
		s->record->dc[c] = (int16_t)s->place->dc[c];
	s->record++;
	s->until_record = s->of->record_interval;
}

/* Sums up the differences of MCUs that end at these bits. */
static void predict(struct settling *s, uint32_t mcus, int16_t *block, const uint32_t *marks)
{
	const unsigned in_mcu = s->of->parse->in_mcu;
	for (uint32_t i = 0; i < mcus; i++) {
		if (s->record && s->until_record == 0)
			record(s);
		s->until_record--;
		for (unsigned n = 0; n < in_mcu; n++, block += BLOCKS_SIZE) {
			/* The blocks may have left the cache, and only a line of each is read. */
			__builtin_prefetch(block + (size_t)AHEAD * BLOCKS_SIZE, 1);
			int32_t *dc = &s->place->dc[s->component[n]];
			*dc = (int32_t)((uint32_t)*dc + (uint32_t)*block);
			s->strange |= lane_dc_strange(*dc);
			*block = (int16_t)*dc;
		}
		s->place->bit = marks[i];
	}
}

int chunk_blocks_settle(const struct chunk_blocks *of, struct chunk_place *place)
{
	const uint32_t across = of->parse->mcus_across;
	struct settling s = {.of = of,
		.place = place,
		.row = place->mcu / across,
		.column = place->mcu % across};
	struct chunk_plan_walk walk = {0};
	struct chunk_plan_piece piece;
	unsigned blocks = 0;
	for (unsigned c = 0; c < of->parse->components; c++)
		for (int i = 0; i < of->parse->component[c].h * of->parse->component[c].v; i++)
			s.component[blocks++] = (uint8_t)c;
	if (of->record)
		begin_record(&s);
	while (chunk_plan_walk(of->plan, &walk, &piece)) {
		size_t block =
			piece.page * chunk_blocks_stride(of->plan->page_mcus, of->parse->in_mcu) +
			(size_t)piece.at * of->parse->in_mcu;
		note(&s, piece.mcus, (uint32_t)block);
		predict(&s, piece.mcus, of->coefficients + block * BLOCKS_SIZE,
			of->plan->marks + (size_t)piece.page * of->plan->page_mcus + piece.at);
	}
	place->mcu += of->plan->need;
	if (s.strange)
		return STEPBACK_RANGE;
	return of->plan->need == of->plan->mcus && of->plan->bits - place->bit >= 8 ? STEPBACK_END
										    : 0;
}
