/* augment: see augment.h. An augmenter belongs to one thread. */
#include "augment/augment.h"

#include "augment/apply.h"
#include "augment/augmix.h"
#include "augment/filter.h"
#include "augment/kernels/kernels.h"
#include "augment/warp.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>

enum { AUGMENT_ALIGN = 64 };

struct augmenter {
	struct apply apply;
	uint32_t side;
	_Alignas(AUGMENT_ALIGN) uint8_t memory[];
};

/* ---- memory ---- */

static uint64_t image_bytes(uint32_t side)
{
	return util_align((uint64_t)3 * side * side, AUGMENT_ALIGN);
}

static uint64_t scratch_bytes(uint32_t side)
{
	return util_align(UTIL_MAX(filter_scratch(side, side), warp_scratch(side)), AUGMENT_ALIGN);
}

static bool recipe_mixes(const struct step_recipe *recipe)
{
	for (uint32_t i = 0; i < recipe->count; i++) {
		const struct step *step = &recipe->step[i];
		if (step->kind == STEP_AUG_MIX || (step->kind == STEP_TIMM_AUTO_AUGMENT &&
							  step->timm.policy == STEP_TIMM_AUGMIX))
			return true;
	}
	return false;
}

uint64_t augmenter_bytes(const struct step_recipe *recipe, uint32_t side)
{
	uint64_t image = image_bytes(side);
	uint64_t mix = recipe_mixes(recipe) ? 2 * image + sizeof(float) * image : 0;
	return util_align(sizeof(struct augmenter), AUGMENT_ALIGN) + 2 * image +
	       scratch_bytes(side) + mix;
}

static uint8_t *memory_take(uint8_t **memory, uint64_t bytes)
{
	uint8_t *taken = *memory;
	*memory += bytes;
	return taken;
}

static void augmenter_cut(struct augmenter *augmenter, bool mix)
{
	struct apply *apply = &augmenter->apply;
	uint8_t *memory = augmenter->memory;
	uint64_t image = image_bytes(augmenter->side);
	for (int i = 0; i < 2; i++)
		apply->image[i] = memory_take(&memory, image);
	apply->scratch = memory_take(&memory, scratch_bytes(augmenter->side));
	for (int i = 0; mix && i < 2; i++)
		apply->chain[i] = memory_take(&memory, image);
	if (mix)
		apply->sums = (float *)(void *)memory_take(&memory, sizeof(float) * image);
}

int augmenter_new(const struct step_recipe *recipe, uint32_t side, struct augmenter **ret,
	struct fault *fault)
{
	const struct augment_kernels *kernels;
	int rc = augment_kernels_choose(&kernels, fault);
	if (rc < 0)
		return rc;
	uint64_t bytes = augmenter_bytes(recipe, side);
	struct augmenter *augmenter = aligned_alloc(AUGMENT_ALIGN, bytes);
	if (!augmenter)
		return fault_set(fault, -ENOMEM,
			"not enough memory for images to augment (%llu bytes)",
			(unsigned long long)bytes);
	*augmenter = (struct augmenter){
		.apply = {.kernels = kernels, .mix = augmix_apply}, .side = side};
	augmenter_cut(augmenter, recipe_mixes(recipe));
	*ret = augmenter;
	return 0;
}

void augmenter_free(struct augmenter *augmenter)
{
	free(augmenter);
}

uint8_t *augmenter_image(struct augmenter *augmenter)
{
	return augmenter->apply.image[0];
}

/* The ops before OP_ERASE. */
static uint32_t augment_count(const struct step_plan *plan)
{
	uint32_t count = plan->count;
	while (count && plan->op[count - 1].kind == OP_ERASE)
		count--;
	return count;
}

void augmenter_run(struct augmenter *augmenter, const struct step_plan *plan, uint32_t width,
	uint32_t height, uint8_t *out)
{
	const struct apply *apply = &augmenter->apply;
	assert(width <= augmenter->side && height <= augmenter->side);
	uint32_t count = augment_count(plan);
	const struct op_image image = {apply->image[0], width, height};
	(void)apply_ops(apply, plan->op, count, &image, apply->image, out);
}

/* ---- images of any size ---- */

enum { ROOM_IMAGE, ROOM_OTHER, ROOM_SCRATCH, ROOM_CHAIN, ROOM_CHAIN_OTHER, ROOM_SUMS };

void augment_room(const struct step_plan *plan, uint32_t from, struct pixel_size size,
	struct augment_room *ret)
{
	const struct apply_room room =
		apply_room(plan->op + from, augment_count(plan) - from, size);
	const uint64_t part[] = {[ROOM_IMAGE] = room.buffer[0],
		[ROOM_OTHER] = room.buffer[1],
		[ROOM_SCRATCH] = room.scratch,
		[ROOM_CHAIN] = room.chain,
		[ROOM_CHAIN_OTHER] = room.chain,
		[ROOM_SUMS] = sizeof(float) * room.chain};
	_Static_assert(UTIL_COUNT(part) == UTIL_COUNT(ret->part), "all parts");
	ret->bytes = 0;
	for (size_t i = 0; i < UTIL_COUNT(part); i++) {
		ret->part[i] = util_align(part[i], AUGMENT_ALIGN);
		ret->bytes += ret->part[i];
	}
}

void augment_run(const struct augment_kernels *kernels, struct pixel_sink *sink,
	const struct step_plan *plan, uint32_t from, struct pixel_size size,
	const struct augment_room *room, uint8_t *memory, uint8_t *out)
{
	uint8_t *part[UTIL_COUNT(room->part)];
	for (size_t i = 0; i < UTIL_COUNT(part); i++)
		part[i] = memory_take(&memory, room->part[i]);
	const struct apply apply = {.kernels = kernels,
		.image = {part[ROOM_IMAGE], part[ROOM_OTHER]},
		.scratch = part[ROOM_SCRATCH],
		.mix = augmix_apply,
		.sink = sink,
		.chain = {part[ROOM_CHAIN], part[ROOM_CHAIN_OTHER]},
		.sums = (float *)(void *)part[ROOM_SUMS]};
	const struct op_image image = {part[ROOM_IMAGE], size.width, size.height};
	(void)apply_ops(
		&apply, plan->op + from, augment_count(plan) - from, &image, apply.image, out);
}
