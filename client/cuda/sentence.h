/* sentence: sets the text of penstock_error() from within this library. */
#pragma once

enum { SENTENCE_BYTES = 1024 };

/* Sets this thread's sentence and returns `code`, so that `return sentence_set(-EINVAL, ...)`
 * reads as one step. The arguments may contain the current sentence. Cuts what is too long. */
int sentence_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
