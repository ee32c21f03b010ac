/* step_draw: what step.c and the families of steps share: the sample whose ops are drawn, and how
 * random words become chances and amounts. */
#pragma once

#include "augment/step.h"
#include "augment/step_warp.h"
#include "pixel/draw.h"

/* The sample that is being planned: new ops follow those in `plan`. Width and height are those of
 * the image after them. */
struct step_sample {
	const struct pixel_key *key;
	uint32_t width, height;
	struct step_plan *plan;
	uint64_t pixels;
};

/* Draw `number` of a step. */
struct philox step_words(const struct step_sample *sample, enum philox_operation operation,
	const struct step *step, uint32_t number);

/* Words 0 and 1: true with probability `p`. */
bool step_happens(struct philox r, double p);

/* One word: uniform in [range[0], range[1]), or 0 .. count - 1 (count far below 2^32). */
double step_between(uint32_t word, const double range[2]);
uint32_t step_pick(uint32_t word, uint32_t count);

/* Says that the sample has no plan. */
void step_refuse(struct step_sample *sample, const struct step *step, enum step_refusal refusal);

/* Adds an op that makes an image of this size, or refuses it. */
void step_push_size(struct step_sample *sample, const struct step *step, struct op *op,
	uint64_t width, uint64_t height);

/* Adds an op that keeps the size. */
void step_push(struct step_sample *sample, const struct op *op);
void step_push_amount(struct step_sample *sample, enum op_kind kind, double amount);

struct step_warp step_warp_of(const struct step_sample *sample, const struct step *step);
