/* state_equal: whether two states are equal, field by field. */
#pragma once

#include "definition/spec.h"

static inline bool state_equal(const struct spec_state *a, const struct spec_state *b)
{
	return a->given == b->given && a->version == b->version &&
	       a->fingerprint == b->fingerprint && a->order == b->order &&
	       a->transform == b->transform && a->seed == b->seed && a->epoch == b->epoch &&
	       a->position == b->position && buckets_cuts_equal(&a->cuts, &b->cuts);
}
