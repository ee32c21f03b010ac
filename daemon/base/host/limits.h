/* limits: what this process was started with, looked at before it is short of it.
 *
 * A stack that is too small ends in a signal, and a daemon without descriptors lets clients wait
 * for it: both are refused at start, in a sentence. At start, before threads. */
#pragma once

#include "base/fault.h"

/* Raises the stack's limit where it is small and may be raised, and sees to it that threads do not
 * inherit a small one. 0, or -ENOMEM with a fault. */
int limits_stack(struct fault *fault);

/* Raises the limit of open files where it is small and may be raised. 0, or -EMFILE with a fault.
 */
int limits_files(struct fault *fault);

/* What to do about an errno, to be put behind strerror()'s words: "; raise ..." or "". */
const char *limits_hint(int error);

/* The same where a thread could not be started. */
const char *limits_thread_hint(int error);
