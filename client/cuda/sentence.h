/* sentence: what penstock_error() says, from within this library. */
#pragma once

enum { SENTENCE_BYTES = 1024 };

/* Sets this thread's sentence and returns `code`, so that `return sentence_set(-EINVAL, ...)` reads
 * as one step. The arguments may contain the sentence that is there now. Too long is cut. */
int sentence_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
