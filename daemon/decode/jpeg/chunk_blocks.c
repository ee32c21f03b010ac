/* chunk_blocks: see chunk_blocks.h. */
#include "decode/jpeg/chunk_blocks.h"

#include "decode/jpeg/lane.h"

struct settling {
	const struct chunk_blocks *of;
	uint32_t row, column; /* of the MCU, in the image */
	int32_t dc[BLOCKS_COMPONENTS];
	uint32_t strange;
	uint8_t component[BLOCKS_IN_MCU]; /* by block of an MCU */
	uint32_t bit; /* where the last MCU ended */
	uint32_t until_record; /* MCUs up to the next entry point */
	struct entry_point *record;
};

/* Notes where the wanted ones of these MCUs are, which have blocks from number `block` on. */
static void place(struct settling *s, uint32_t mcus, uint32_t block)
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

static void record(struct settling *s, uint32_t bit)
{
	*s->record = (struct entry_point){.bit = bit};
	for (unsigned c = 0; c < BLOCKS_COMPONENTS; c++)
		s->record->dc[c] = (int16_t)s->dc[c];
	s->record++;
	s->until_record = s->of->record_interval;
}

/* Sums up the differences of MCUs that end at these bits. */
static void predict(struct settling *s, uint32_t mcus, int16_t *block, const uint32_t *marks)
{
	const unsigned in_mcu = s->of->parse->in_mcu;
	for (uint32_t i = 0; i < mcus; i++) {
		if (s->record && s->until_record == 0)
			record(s, s->bit);
		s->until_record--;
		for (unsigned n = 0; n < in_mcu; n++, block += BLOCKS_SIZE) {
			int32_t *dc = &s->dc[s->component[n]];
			*dc = (int32_t)((uint32_t)*dc + (uint32_t)*block);
			s->strange |= lane_dc_strange(*dc);
			*block = (int16_t)*dc;
		}
		s->bit = marks[i];
	}
}

int chunk_blocks_settle(const struct chunk_blocks *of)
{
	struct settling s = {.of = of, .until_record = of->record_interval};
	struct chunk_plan_walk walk = {0};
	struct chunk_plan_piece piece;
	unsigned blocks = 0;
	for (unsigned c = 0; c < of->parse->components; c++)
		for (int i = 0; i < of->parse->component[c].h * of->parse->component[c].v; i++)
			s.component[blocks++] = (uint8_t)c;
	if (of->record)
		s.record = of->record + 1; /* the first one is the scan's start */
	while (chunk_plan_walk(of->plan, &walk, &piece)) {
		size_t block =
			piece.page * chunk_blocks_stride(of->plan->page_mcus, of->parse->in_mcu) +
			(size_t)piece.at * of->parse->in_mcu;
		place(&s, piece.mcus, (uint32_t)block);
		predict(&s, piece.mcus, of->coefficients + block * BLOCKS_SIZE,
			of->plan->marks + (size_t)piece.page * of->plan->page_mcus + piece.at);
	}
	if (s.strange)
		return STEPBACK_RANGE;
	return of->plan->need == of->plan->mcus && of->plan->bits - s.bit >= 8 ? STEPBACK_END : 0;
}
