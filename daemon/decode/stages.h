/* stages: where a decoder's time goes.
 *
 * One clock that always runs for exactly one stage; whoever begins another kind of work says so and
 * puts the stage before back when it is done. So the sum is all the time since the decoder was
 * made, and nothing is counted twice. Belongs to the decoder's thread. */
#pragma once

#include "base/ticks.h"
#include "decode/decode.h"

struct stages {
	uint64_t ticks[DECODE_STAGES];
	uint64_t since; /* when the present one began */
	enum decode_stage stage;
};

/* Goes on in another stage; returns the one before. */
static inline enum decode_stage stages_enter(struct stages *stages, enum decode_stage stage)
{
	enum decode_stage before = stages->stage;
	uint64_t now = ticks_now();
	stages->ticks[before] += ticks_since(stages->since, now);
	stages->since = now;
	stages->stage = stage;
	return before;
}
