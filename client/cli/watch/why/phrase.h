/* phrase: the sentence that says what happened to one process. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

/* Writes end->sentence. The cause of every end of the story is known by now. */
void phrase_write(struct story_end *end, const struct story *story);
