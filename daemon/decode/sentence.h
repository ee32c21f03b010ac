/* sentence: the sentence that goes with an outcome.
 *
 * The layer that refuses an image writes the sentence, at the place where it knows the reason. The
 * decoder keeps it until the next image. Nothing is printed here. Thread: the decoder's. */
#pragma once

#include "decode/decode.h"

enum { SENTENCE_TEXT = 512 };

struct sentence {
	char text[SENTENCE_TEXT];
};

/* Writes the sentence and returns `outcome`, so that refusing is one step. Cuts a text that is too
 * long. */
int sentence_set(struct sentence *sentence, enum decode_outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
