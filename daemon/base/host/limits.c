/* limits: see limits.h. */
#include "base/host/limits.h"

#include "base/size.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

enum {
	LIMITS_STACK = 1 << 20, /* the largest frames are those of the command's reports */
	LIMITS_STACK_USUAL = 8 << 20,
	LIMITS_THREAD_STACK = 2 << 20,
	LIMITS_FILES = 32, /* with one trainer, a folder and its index */
	LIMITS_FILES_USUAL = 1024,
};

/* Where the soft limit is below `least`, it becomes `usual`, or what the hard one allows. What it
 * is then. */
static rlim_t limits_raise(__rlimit_resource_t resource, rlim_t least, rlim_t usual)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur >= least)
		return least;
	limit.rlim_cur = UTIL_MIN(usual, limit.rlim_max);
	return setrlimit(resource, &limit) < 0 ? 0 : limit.rlim_cur;
}

/* The library took RLIMIT_STACK for threads that are started without a size, before main(). */
static void limits_thread_stack(void)
{
	pthread_attr_t attr;
	size_t bytes;
	if (pthread_getattr_default_np(&attr) != 0)
		return;
	if (pthread_attr_getstacksize(&attr, &bytes) == 0 && bytes < LIMITS_THREAD_STACK &&
		pthread_attr_setstacksize(&attr, LIMITS_THREAD_STACK) == 0)
		(void)pthread_setattr_default_np(&attr);
	(void)pthread_attr_destroy(&attr);
}

int limits_stack(struct fault *fault)
{
	char size[16], least[16];
	rlim_t now = limits_raise(RLIMIT_STACK, LIMITS_STACK, LIMITS_STACK_USUAL);
	if (now < LIMITS_STACK)
		return fault_set(fault, -ENOMEM,
			"the limit of the stack (RLIMIT_STACK) is %s, and %s are needed: raise it "
			"(ulimit -s)",
			size_format(now, size, sizeof size),
			size_format(LIMITS_STACK, least, sizeof least));
	limits_thread_stack();
	return 0;
}

int limits_files(struct fault *fault)
{
	rlim_t now = limits_raise(RLIMIT_NOFILE, LIMITS_FILES, LIMITS_FILES_USUAL);
	if (now < LIMITS_FILES)
		return fault_set(fault, -EMFILE,
			"the limit of open files (RLIMIT_NOFILE) is %llu, and %d are needed, more "
			"with several trainers or shards: raise it (ulimit -n)",
			(unsigned long long)now, LIMITS_FILES);
	return 0;
}

const char *limits_hint(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
		return "; raise the limit of open files (RLIMIT_NOFILE, ulimit -n)";
	case EFBIG:
		return "; raise the limit of a file's size (RLIMIT_FSIZE, ulimit -f)";
	case EAGAIN:
		return "; raise the limit of threads (pids.max, or RLIMIT_NPROC, ulimit -u)";
	case ENOSYS:
		return "; this kernel or sandbox does not allow it";
	default:
		return "";
	}
}

static bool limits_bound(__rlimit_resource_t resource)
{
	struct rlimit limit;
	return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

const char *limits_thread_hint(int error)
{
	/* The library asks by clone3() and falls back where it is told ENOSYS; filters that are
	 * older than the call say EPERM. */
	if (error == EPERM)
		return "; this container's filter forbids clone3, by which threads are started: "
		       "update its runtime, or run it with seccomp=unconfined";
	if (limits_bound(RLIMIT_AS) || limits_bound(RLIMIT_DATA))
		return "; give fewer threads, or raise the limits of memory (ulimit -v, -d) or of "
		       "threads (pids.max, ulimit -u)";
	return "; give fewer threads, or raise the limit of threads (pids.max, ulimit -u)";
}
