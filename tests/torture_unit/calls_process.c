/* calls_process: see calls_impl.h. Memory, mappings, threads and processes. Calls that
 * AddressSanitizer replaces are passed on to it. */
#include "torture_unit/calls_impl.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ---- */

/* The C library's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
extern int __interceptor_posix_memalign(void **ret, size_t align, size_t size)
	__attribute__((weak));
extern void *__interceptor_aligned_alloc(size_t align, size_t size) __attribute__((weak));
extern int __interceptor_pthread_create(pthread_t *ret, const pthread_attr_t *attributes,
	void *(*run)(void *), void *argument) __attribute__((weak));
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
	FAIL_OR(malloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	FAIL_OR(calloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_calloc ? __interceptor_calloc(count, size)
				    : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	FAIL_OR(realloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t size)
{
	FAIL_OR(aligned_alloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_aligned_alloc ? __interceptor_aligned_alloc(align, size)
					   : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	if (calls_fails("posix_memalign", CALLS_MEMORY, false, false) >= 0)
		return ENOMEM;
	if (__interceptor_posix_memalign)
		return __interceptor_posix_memalign(ret, align, size);
	void *memory = __libc_memalign(align, size);
	if (!memory)
		return ENOMEM;
	*ret = memory;
	return 0;
}

char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);
	return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	char *copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, text, size);
		copy[size] = '\0';
	}
	return copy;
}

/* ---- mappings ---- */

enum { MAPPINGS = 512 };
static struct mapping {
	_Atomic uintptr_t base;
} mapping[MAPPINGS];

static void remember(void *base)
{
	for (int i = 0; i < MAPPINGS; i++) {
		uintptr_t none = 0;
		if (atomic_compare_exchange_strong(&mapping[i].base, &none, (uintptr_t)base))
			return;
	}
}

static void forget(const void *base)
{
	for (int i = 0; i < MAPPINGS; i++) {
		uintptr_t this = (uintptr_t)base;
		if (atomic_compare_exchange_strong(&mapping[i].base, &this, 0))
			return;
	}
}

unsigned calls_mappings(void)
{
	unsigned count = 0;
	for (int i = 0; i < MAPPINGS; i++)
		count += atomic_load(&mapping[i].base) != 0;
	return count;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	REAL(mmap);
	FAIL_OR(mmap, CALLS_MAP, false, ENOMEM, MAP_FAILED);
	void *base = real(at, size, protection, flags, fd, offset);
	if (base != MAP_FAILED && atomic_load(&calls_armed) && !calls_inside &&
		!(flags & MAP_FIXED))
		remember(base);
	return base;
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap(at, size, protection, flags, fd, offset);
}

int munmap(void *at, size_t size)
{
	REAL(munmap);
	forget(at);
	return real(at, size);
}

CALL(int, mprotect, (void *at, size_t size, int protection), (at, size, protection), CALLS_MAP,
	ENOMEM, -1)
CALL(int, mlock, (const void *at, size_t size), (at, size), CALLS_MAP, ENOMEM, -1)
CALL(int, madvise, (void *at, size_t size, int advice), (at, size, advice), CALLS_MAP, ENOMEM, -1)

/* ---- threads and processes ---- */

int pthread_create(pthread_t *restrict ret, const pthread_attr_t *restrict attributes,
	void *(*run)(void *), void *restrict argument)
{
	REAL(pthread_create);
	if (calls_fails("pthread_create", CALLS_PROCESS, false, false) >= 0)
		return EAGAIN;
	return __interceptor_pthread_create
		       ? __interceptor_pthread_create(ret, attributes, run, argument)
		       : real(ret, attributes, run, argument);
}

/* Sanitizers ask when a thread starts, and end the program where this has no memory. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret)
{
	REAL(pthread_getattr_np);
	bool was = calls_inside;
	calls_inside = true;
	int result = real(thread, ret);
	calls_inside = was;
	return result;
}

CALL(pid_t, fork, (void), (), CALLS_PROCESS, EAGAIN, -1)

/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */
