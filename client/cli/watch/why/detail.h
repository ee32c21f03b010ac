/* detail: what a process was and what led to its end, a line for each matter. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

void detail_write(struct story_end *end, const struct story *story);
