/* step_draw: what step.c and the families of steps share: the sample whose ops are drawn, and how
 * random words become chances and amounts. */
#pragma once

#include "augment/step.h"
#include "augment/step_warp.h"
#include "pixel/draw.h"

/* The sample that is being planned: new ops follow those in `plan`. */
struct step_sample {
	const struct pixel_key *key;
	uint32_t width, height;
	struct step_plan *plan;
};

/* Draw `number` of a step. */
struct philox step_words(const struct step_sample *sample, enum philox_operation operation,
	const struct step *step, uint32_t number);

/* Words 0 and 1: true with probability `p`. */
bool step_happens(struct philox r, double p);

/* One word: uniform in [range[0], range[1]), or 0 .. count - 1 (count far below 2^32). */
double step_between(uint32_t word, const double range[2]);
uint32_t step_pick(uint32_t word, uint32_t count);

/* Adds an op. */
void step_push(struct step_sample *sample, const struct op *op);
void step_push_amount(struct step_sample *sample, enum op_kind kind, double amount);

struct step_warp step_warp_of(const struct step_sample *sample, const struct step *step);
