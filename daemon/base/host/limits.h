/* limits: checks the kernel, and the resource limits that the process was started with.
 *
 * An old kernel lacks calls that nothing here does without. A stack that is too small ends in a
 * signal, and a daemon that runs out of descriptors leaves clients waiting. All are refused at
 * start, with a sentence. The functions that raise a limit run at start, before there are
 * threads. */
#pragma once

#include "base/fault.h"

/* 0, or -ENOSYS with a fault: this kernel is older than Linux 5.4. */
int limits_kernel(struct fault *fault);

/* The same for a kernel's release as uname() has it. One that does not begin with two numbers is
 * accepted. */
int limits_kernel_release(const char *release, struct fault *fault);

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
