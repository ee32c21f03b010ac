/* words: the sentence that goes with an outcome.
 *
 * Each layer that refuses an image writes what it saw, once, at the place where it knows; the
 * decoder keeps the text until the next image. Nothing here is printed. Thread: the decoder's. */
#pragma once

#include "decode/decode.h"

enum { SENTENCE_TEXT = 256 };

struct sentence {
	char text[SENTENCE_TEXT];
};

/* Writes the sentence and returns `outcome`, so that refusing reads as one step. A text that is too
 * long is cut. */
int sentence_set(struct sentence *words, enum decode_outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
