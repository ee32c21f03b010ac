/* error: the sentence behind penstock_error(). */
#pragma once

#include <stddef.h>

enum { ERROR_TEXT = 1024 };

/* Writes this thread's sentence and returns `code`, so that `return error_set(-EINVAL, ...)` is
 * one step. A sentence that is too long is cut. Control characters become spaces, since paths,
 * variables and other processes' text could control a terminal. */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with a text that need not end in a zero byte. */
int error_take(int code, const char *text, size_t text_bytes);

/* This thread's sentence. */
const char *error_text(void);
