/* chunked: decodes a subject (coefficients.h) in chunks instead of in order, for tests. */
#pragma once

#include "unit/decode/jpeg/coefficients.h"

#include "base/util.h"

/* What a chunked subject has in addition. */
struct chunked {
	struct chunk_plan plan;
	int16_t *coefficients;
	size_t blocks;
};

/* The driver that takes chunks: that of `lanes`, or itself. */
static inline const struct lanes *chunked_lanes(const struct lanes *lanes)
{
	return lanes->chunks ? lanes->chunks : lanes;
}

/* Cuts a prepared subject's scan, which has no restart markers, into `count` chunks (0: as the
 * decoder does) of pages of so many MCUs (0: the same). `whole` as for subject_init. */
static inline struct chunked chunked_init(
	struct subject *s, uint32_t count, uint32_t page_mcus, bool whole)
{
	const struct parse *p = &s->parse;
	const struct blocks *b = &s->band;
	uint32_t bits = 8 * s->segments[0].bytes;
	struct chunked c = {
		.plan = {
			.bits = bits,
			.count = count ? count : chunk_plan_count(bits, CHUNK_PLAN_BITS),
			.mcus = p->mcus_across * p->mcus_down,
			.page_mcus = page_mcus ? page_mcus : chunk_plan_page_mcus(p->in_mcu),
		}};
	struct chunk_plan *plan = &c.plan;
	plan->need = (b->mcu_y0 + b->rows - 1) * p->mcus_across + b->mcu_x0 + b->columns;
	if (whole)
		plan->need = plan->mcus;
	plan->pages = chunk_plan_pages(plan->count, plan->need, plan->page_mcus);
	plan->chunk = want(malloc(plan->count * sizeof(*plan->chunk)));
	plan->marks = want(malloc((size_t)plan->pages * plan->page_mcus * sizeof(uint32_t)));
	plan->next_page = want(malloc(plan->pages * sizeof(uint32_t)));
	c.blocks = plan->pages * chunk_blocks_stride(plan->page_mcus, p->in_mcu);
	c.coefficients =
		want(aligned_alloc(BLOCKS_ALIGN, c.blocks * BLOCKS_SIZE * sizeof(int16_t)));
	chunk_plan_begin(plan);
	s->image.coefficients = c.coefficients;
	s->image.band = &s->band;
	s->image.where = s->where;
	s->band.coefficients = c.coefficients;
	return c;
}

static inline void chunked_deinit(struct chunked *c)
{
	free(c->plan.chunk);
	free(c->plan.marks);
	free(c->plan.next_page);
	free(c->coefficients);
}

/* Decodes it by a driver. False: it went astray. */
static inline bool chunked_decode(struct subject *s, struct chunked *c, const struct lanes *lanes)
{
	s->image.chunks = &c->plan;
	(void)feed_decode_one(&s->image, chunked_lanes(lanes));
	return !s->image.astray;
}

/* Decodes the next part by a driver, in the first `pages` pages. `need` and `mcus` are the whole
 * plan's. False: it went astray. */
static inline bool chunked_part(struct subject *s, struct chunked *c, const struct lanes *lanes,
	uint32_t pages, uint32_t need, uint32_t mcus)
{
	struct chunk_plan *plan = &c->plan;
	const struct chunk_place *place = &s->image.chunk_place;
	plan->first = place->bit;
	plan->count = UTIL_MAX(UTIL_MIN(plan->count, plan->bits - plan->first), 1u);
	plan->pages = UTIL_MIN(plan->pages, pages);
	plan->need = need - place->mcu;
	plan->mcus = mcus - place->mcu;
	plan->row = s->parse.mcus_across;
	chunk_plan_begin(plan);
	return chunked_decode(s, c, lanes);
}

/* Compares the wanted MCUs of two subjects of the same file and crop, or `a` may be a part. */
static inline bool chunked_same(const struct subject *a, const struct subject *b)
{
	size_t mcus = (size_t)a->band.rows * a->band.columns;
	const uint32_t *where =
		b->where + (size_t)(a->band.mcu_y0 - b->band.mcu_y0) * b->band.columns;
	for (size_t i = 0; i < mcus; i++)
		if (memcmp(a->band.coefficients + (size_t)a->where[i] * BLOCKS_SIZE,
			    b->band.coefficients + (size_t)where[i] * BLOCKS_SIZE,
			    a->parse.in_mcu * BLOCKS_SIZE * sizeof(int16_t)) != 0)
			return false;
	return true;
}
