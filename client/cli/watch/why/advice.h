/* advice: what to do about an end, one concrete thing for each cause. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

void advice_write(struct story_end *end);
