/* calls: see calls.h. Where a call comes from, and whether it is the one that fails. */
#include "torture_unit/calls_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unwind.h>

enum { RING_STRIKES = 200 };

struct calls *calls;

atomic_bool calls_armed;
_Thread_local bool calls_inside;

void calls_arm(bool on)
{
	atomic_store(&calls_armed, on);
}

/* ---- where a call comes from ---- */

struct walk {
	void **frame;
	int count, skip;
};

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	if (walk->skip > 0)
		walk->skip--;
	else
		walk->frame[walk->count++] = (void *)(uintptr_t)_Unwind_GetIP(context);
	return walk->count < CALLS_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint64_t hash_of(void *const *frame, int count, const char *name)
{
	uint64_t h = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u;
	for (int i = 0; i < count && i < CALLS_HASHED; i++) {
		h ^= (uint64_t)(uintptr_t)frame[i];
		h *= 0x94d049bb133111ebu;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

static void lock(void)
{
	while (atomic_exchange_explicit(&calls->lock, 1, memory_order_acquire))
		;
}

static void unlock(void)
{
	atomic_store_explicit(&calls->lock, 0, memory_order_release);
}

static void note(uint64_t hash, const struct calls_site *like)
{
	lock();
	uint32_t i = 0;
	while (i < calls->sites && calls->site[i].hash != hash)
		i++;
	if (i < CALLS_SITES) {
		if (i == calls->sites) {
			calls->site[i] = *like;
			calls->site[i].hash = hash;
			calls->sites++;
		}
		calls->site[i].times++;
	}
	unlock();
}

/* Whether this is the call that is to fail, and in which way. */
static bool is_target(uint64_t hash, const struct calls_site *like)
{
	if ((calls->mode == CALLS_EINTR && !like->interruptible) ||
		(calls->mode == CALLS_SHORT && !like->divisible))
		return false;
	if (!calls->target)
		return atomic_load(&calls->count) == calls->nth;
	return hash == calls->target && atomic_fetch_add(&calls->at_target, 1) + 1 == calls->nth;
}

static void strike(const struct calls_site *like, void *const *frame, int count)
{
	calls->struck_name = like->name;
	calls->struck_family = like->family;
	calls->frames = count;
	memcpy(calls->frame, frame, (size_t)count * sizeof *frame);
	atomic_fetch_add(&calls->strikes, 1);
	atomic_store(&calls->struck, true);
}

/* -1: goes on; else the enum calls_mode in which it fails. */
static int decide(const struct calls_site *like)
{
	void *frame[CALLS_FRAMES];
	struct walk walk = {frame, 0, 2};
	if (atomic_load(&calls->struck)) {
		if (calls->mode != CALLS_FOREVER || calls->struck_family != like->family)
			return -1;
		/* A ring that is busy, or short of memory, is so for a time. */
		if (atomic_fetch_add(&calls->strikes, 1) >= RING_STRIKES &&
			like->family == CALLS_RING)
			return -1;
		return CALLS_FOREVER;
	}
	atomic_fetch_add(&calls->count, 1);
	if (!calls->watch && !calls->target && atomic_load(&calls->count) < calls->nth)
		return -1;
	(void)_Unwind_Backtrace(walk_step, &walk);
	uint64_t hash = hash_of(frame, walk.count, like->name);
	if (calls->watch) {
		note(hash, like);
		return -1;
	}
	if (!is_target(hash, like))
		return -1;
	strike(like, frame, walk.count);
	return (int)calls->mode;
}

/* Not inlined: the walk skips its frame. */
__attribute__((noinline)) int calls_fails(
	const char *name, enum calls_family family, bool interruptible, bool divisible)
{
	if (!atomic_load_explicit(&calls_armed, memory_order_relaxed) || calls_inside)
		return -1;
	int saved = errno;
	calls_inside = true;
	struct calls_site like = {.family = (uint8_t)family,
		.interruptible = interruptible,
		.divisible = divisible,
		.name = name};
	int mode = decide(&like);
	calls_inside = false;
	errno = saved;
	return mode;
}

void *calls_real(const char *name)
{
	bool was = calls_inside;
	calls_inside = true;
	void *real = dlsym(RTLD_NEXT, name);
	calls_inside = was;
	return real;
}
