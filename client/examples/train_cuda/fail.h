/* fail: train_cuda ends with a sentence; no function of it returns an error. */
#pragma once

#include <stddef.h>
#include <stdnoreturn.h>

/* Prints "train_cuda: " and the sentence, and ends the process with exit code 1. */
noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory of the host. */
void *host_new(size_t count, size_t bytes);
