/* error: the sentence behind penstock_error(). */
#pragma once

#include <stddef.h>

enum { ERROR_TEXT = 1024 };

/* Writes this thread's sentence and returns `code`, so that `return error_set(-EINVAL, ...)` reads
 * as one step. Too long is cut; control characters become spaces (paths, variables and other
 * processes' words could steer a terminal). */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with a text that has no zero at its end. */
int error_take(int code, const char *text, size_t text_bytes);

/* This thread's sentence. */
const char *error_text(void);
