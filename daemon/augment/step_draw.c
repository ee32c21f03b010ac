/* step_draw: see step_draw.h. */
#include "augment/step_draw.h"

#include <assert.h>

struct philox step_words(const struct step_sample *sample, enum philox_operation operation,
	const struct step *step, uint32_t number)
{
	return draw_words(sample->key, operation, step->same, number);
}

bool step_happens(struct philox r, double p)
{
	assert(p >= 0 && p <= 1);
	return philox_unit(r.word[0], r.word[1]) < p;
}

double step_between(uint32_t word, const double range[2])
{
	assert(range[0] <= range[1]);
	return range[0] + philox_unit(word, 0) * (range[1] - range[0]);
}

uint32_t step_pick(uint32_t word, uint32_t count)
{
	return (uint32_t)philox_below(word, 0, count);
}

void step_refuse(struct step_sample *sample, const struct step *step, enum step_refusal refusal)
{
	sample->plan->refusal = refusal;
	sample->plan->refused = step->kind;
	sample->plan->at = (struct pixel_size){sample->height, sample->width};
}

void step_push_size(struct step_sample *sample, const struct step *step, struct op *op,
	uint64_t width, uint64_t height)
{
	const uint64_t most = OP_SIDE_MAX, pixels = sample->pixels;
	if (width > most || height > most || (pixels && width * height > pixels)) {
		step_refuse(sample, step, STEP_E_LARGE);
		return;
	}
	op->width = sample->width = (uint32_t)width;
	op->height = sample->height = (uint32_t)height;
	step_push(sample, op);
}

void step_push(struct step_sample *sample, const struct op *op)
{
	assert(sample->plan->count < STEP_PLAN_MAX);
	sample->plan->op[sample->plan->count++] = *op;
}

void step_push_amount(struct step_sample *sample, enum op_kind kind, double amount)
{
	step_push(sample, &(const struct op){.kind = kind, .amount = amount});
}

struct step_warp step_warp_of(const struct step_sample *sample, const struct step *step)
{
	return (struct step_warp){.width = sample->width,
		.height = sample->height,
		.interpolation = step->interpolation,
		.fill = {(uint8_t)step->fill[0], (uint8_t)step->fill[1], (uint8_t)step->fill[2]}};
}
