/* detail: what a process was and what led to its end, one line per matter. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

/* Writes end->line and end->lines. */
void detail_write(struct story_end *end, const struct story *story);
