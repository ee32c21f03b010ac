/* limits: see limits.h. */
#include "base/host/limits.h"

#include "base/size.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>

enum {
	LIMITS_STACK = 1 << 20, /* the largest frames are those of the command's reports */
	LIMITS_STACK_USUAL = 8 << 20,
	LIMITS_THREAD_STACK = 2 << 20,
	LIMITS_FILES = 32, /* with one trainer, a folder and its index */
	LIMITS_FILES_USUAL = 1024,
	LIMITS_KERNEL_MAJOR = 5,
	LIMITS_KERNEL_MINOR = 4,
};

int limits_kernel_release(const char *release, struct fault *fault)
{
	int major, minor;
	if (sscanf(release, "%d.%d", &major, &minor) != 2 || major > LIMITS_KERNEL_MAJOR ||
		(major == LIMITS_KERNEL_MAJOR && minor >= LIMITS_KERNEL_MINOR))
		return 0;
	return fault_set(fault, -ENOSYS,
		"this kernel is Linux %s, but penstock needs Linux %d.%d or later", release,
		LIMITS_KERNEL_MAJOR, LIMITS_KERNEL_MINOR);
}

int limits_kernel(struct fault *fault)
{
	struct utsname kernel;
	return uname(&kernel) < 0 ? 0 : limits_kernel_release(kernel.release, fault);
}

/* Raises a soft limit that is below `least` to `usual`, or to the hard limit. Returns the new soft
 * limit; `least` where it was enough already. */
static rlim_t limits_raise(__rlimit_resource_t resource, rlim_t least, rlim_t usual)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur >= least)
		return least;
	limit.rlim_cur = UTIL_MIN(usual, limit.rlim_max);
	return setrlimit(resource, &limit) < 0 ? 0 : limit.rlim_cur;
}

/* The C library reads RLIMIT_STACK before main() and uses it for threads that are started without a
 * stack size. */
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
			"the stack limit (RLIMIT_STACK) is %s, but penstock needs %s: raise it "
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
			"the limit on open files (RLIMIT_NOFILE) is %llu, but penstock needs %d, "
			"and more with several trainers or shards: raise it (ulimit -n)",
			(unsigned long long)now, LIMITS_FILES);
	return 0;
}

const char *limits_hint(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
		return "; raise the limit on open files (RLIMIT_NOFILE, ulimit -n)";
	case EFBIG:
		return "; raise the limit on file sizes (RLIMIT_FSIZE, ulimit -f)";
	case EAGAIN:
		return "; raise the limit on threads (pids.max, or RLIMIT_NPROC, ulimit -u)";
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
	/* The C library tries clone3() and falls back where the answer is ENOSYS; seccomp filters
	 * that are older than clone3() answer EPERM. */
	if (error == EPERM)
		return "; this container's seccomp filter forbids clone3, which starts threads: "
		       "update the container runtime, or run it with seccomp=unconfined";
	if (limits_bound(RLIMIT_AS) || limits_bound(RLIMIT_DATA))
		return "; use fewer threads, or raise the limits on memory (ulimit -v, -d) or on "
		       "threads (pids.max, ulimit -u)";
	return "; use fewer threads, or raise the limit on threads (pids.max, ulimit -u)";
}
