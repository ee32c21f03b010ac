/* stages: the clock that says where a decoder's time goes.
 *
 * The clock always runs for exactly one stage. A function that begins another kind of work enters
 * its stage, and enters the stage before again when it is done. So the sum over all stages is the
 * time since the decoder was made, and no time counts twice. Belongs to the decoder's thread. */
#pragma once

#include "base/ticks.h"
#include "decode/decode.h"

struct stages {
	uint64_t ticks[DECODE_STAGES];
	uint64_t since; /* when the present one began */
	enum decode_stage stage;
};

/* Enters another stage; returns the one before. */
static inline enum decode_stage stages_enter(struct stages *stages, enum decode_stage stage)
{
	enum decode_stage before = stages->stage;
	uint64_t now = ticks_now();
	stages->ticks[before] += ticks_since(stages->since, now);
	stages->since = now;
	stages->stage = stage;
	return before;
}
