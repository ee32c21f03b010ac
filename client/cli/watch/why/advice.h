/* advice: what to do about an end: one concrete action for each cause. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

/* Writes end->advice. */
void advice_write(struct story_end *end);
