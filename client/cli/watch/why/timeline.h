/* timeline: reduces the samples of one process, and of what surrounded it, to the numbers that
 * matter. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

/* Fills end->numbers from all samples up to its end, and from how it left. */
void timeline_fill(struct story_end *end, const struct record *records, size_t count);
