/* limits: checks the resource limits that the process was started with.
 *
 * A stack that is too small ends in a signal, and a daemon that runs out of descriptors leaves
 * clients waiting. Both are refused at start, with a sentence. The functions that raise a limit run
 * at start, before there are threads. */
#pragma once

#include "base/fault.h"

/* Raises the stack limit where it is small and may be raised, and keeps threads from inheriting a
 * small one. 0, or -ENOMEM with a fault. */
int limits_stack(struct fault *fault);

/* Raises the limit on open files where it is small and may be raised. 0, or -EMFILE with a
 * fault. */
int limits_files(struct fault *fault);

/* What to do about an errno, to append to the text of strerror(): "; raise ..." or "". */
const char *limits_hint(int error);

/* The same for a thread that could not be started. */
const char *limits_thread_hint(int error);
