/* inject: see inject.h. What is shared, the rules, and where calls came from. */
#include "inject/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

static const struct {
	const char *name;
	int error;
} inject_table[INJECT_CALLS] = {
#define INJECT_ROW(name, error) {#name, error},
	INJECT_TABLE(INJECT_ROW)
#undef INJECT_ROW
};

static struct inject_shared *_Atomic inject_state;
static int inject_log = -1;
static bool inject_child; /* this process is a fork of the program */
/* This thread is in here already: what the unwinder calls is nobody's call. */
static _Thread_local bool inject_inside __attribute__((tls_model("initial-exec")));

void *inject_real(const char *name)
{
	void *real = dlsym(RTLD_NEXT, name);
	if (!real)
		abort();
	return real;
}

/* ---- places ---- */

enum { INJECT_OWN = 6 }; /* frames of this library, at most */

struct inject_walk {
	void *address[INJECT_OWN + INJECT_FRAMES];
	unsigned count;
};

static _Unwind_Reason_Code inject_step(struct _Unwind_Context *context, void *data)
{
	struct inject_walk *walk = data;
	walk->address[walk->count++] = (void *)_Unwind_GetIP(context);
	return walk->count < INJECT_OWN + INJECT_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Its first frames are this library's. */
static unsigned inject_own(const struct inject_walk *walk)
{
	struct dl_find_object own, found;
	unsigned i = 0;
	(void)_dl_find_object((void *)inject_verdict, &own);
	while (i < walk->count && _dl_find_object(walk->address[i], &found) == 0 &&
		found.dlfo_link_map == own.dlfo_link_map)
		i++;
	return i;
}

/* The number of a module, from 1; 0 when there is no room. */
static uint32_t inject_module_of(struct inject_shared *shared, const char *path)
{
	for (uint32_t i = 0; i < INJECT_MODULES; i++) {
		struct inject_module *module = &shared->module[i];
		uint32_t state = 0;
		if (atomic_compare_exchange_strong(&module->state, &state, 1)) {
			(void)snprintf(module->path, sizeof module->path, "%s", path);
			atomic_store(&module->state, 2);
			return i + 1;
		}
		while (atomic_load(&module->state) != 2)
			;
		if (strncmp(module->path, path, sizeof module->path - 1) == 0)
			return i + 1;
	}
	return 0;
}

static struct inject_frame inject_frame_of(struct inject_shared *shared, void *address)
{
	struct dl_find_object found;
	if (_dl_find_object(address, &found) != 0)
		return (struct inject_frame){0};
	const char *path = found.dlfo_link_map->l_name;
	static char self[INJECT_PATH];
	if (!*path) { /* the program: the same text whichever thread writes it */
		if (!*self)
			(void)!readlink("/proc/self/exe", self, sizeof self - 1);
		path = self;
	}
	/* The call, not where it returns to. */
	uint32_t offset = (uint32_t)((uintptr_t)address - found.dlfo_link_map->l_addr) - 1;
	return (struct inject_frame){inject_module_of(shared, path), offset};
}

static uint64_t inject_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ (hash >> 29);
}

/* Of a frame: the same whenever the program runs, wherever it was put. */
static uint64_t inject_mix_frame(
	uint64_t hash, const struct inject_shared *shared, const struct inject_frame *frame)
{
	if (frame->module > 0)
		for (const char *c = shared->module[frame->module - 1].path; *c; c++)
			hash = inject_mix(hash, (uint8_t)*c);
	return inject_mix(hash, frame->offset);
}

/* Where the caller of this library is; never 0. */
static uint64_t inject_place(
	struct inject_shared *shared, enum inject_call call, struct inject_frame frames[])
{
	struct inject_walk walk = {0};
	uint64_t hash = (uint64_t)call + 1;
	uint32_t depth = atomic_load_explicit(&shared->depth, memory_order_relaxed);
	(void)_Unwind_Backtrace(inject_step, &walk);
	memset(frames, 0, INJECT_FRAMES * sizeof *frames);
	unsigned own = inject_own(&walk);
	for (unsigned i = 0; i < INJECT_FRAMES && own + i < walk.count; i++) {
		frames[i] = inject_frame_of(shared, walk.address[own + i]);
		if (i < depth)
			hash = inject_mix_frame(hash, shared, &frames[i]);
	}
	return hash ? hash : 1;
}

static void inject_collect(struct inject_shared *shared, enum inject_call call, uint64_t hash,
	const struct inject_frame frames[])
{
	for (uint64_t i = 0; i < INJECT_SITES; i++) {
		struct inject_site *site = &shared->site[(hash + i) % INJECT_SITES];
		uint64_t old = 0;
		if (atomic_compare_exchange_strong(&site->hash, &old, hash)) {
			site->call = call;
			memcpy(site->frames, frames, sizeof site->frames);
			site->ready = 1;
			old = hash;
		}
		if (old == hash) {
			atomic_fetch_add(&site->count, 1);
			return;
		}
	}
}

/* ---- rules ---- */

static bool inject_path_fits(const char *word, int fd, const char *path)
{
	char link[32], target[4096];
	if (!*word)
		return true;
	if (!path && fd >= 0) {
		(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, target, sizeof target - 1);
		target[n > 0 ? n : 0] = '\0';
		path = target;
	}
	return path && strstr(path, word);
}

static bool inject_fires(
	struct inject_rule *rule, enum inject_call call, uint64_t site, int fd, const char *path)
{
	if (!atomic_load_explicit(&rule->on, memory_order_acquire) ||
		strcmp(rule->call, inject_table[call].name) != 0 ||
		(rule->site && rule->site != site) || !inject_path_fits(rule->path, fd, path))
		return false;
	uint64_t seen = atomic_fetch_add(&rule->seen, 1) + 1;
	return seen >= rule->first && seen <= rule->last;
}

static bool inject_needs_place(const struct inject_shared *shared)
{
	if (atomic_load_explicit(&shared->collect, memory_order_relaxed))
		return true;
	for (int i = 0; i < INJECT_RULES; i++)
		if (atomic_load_explicit(&shared->rule[i].on, memory_order_acquire))
			return true;
	return false;
}

static void inject_tell(
	const struct inject_shared *shared, const struct inject_failure *failure, uint64_t number)
{
	char line[4096];
	int n = snprintf(line, sizeof line,
		"%s %llu effect %d pid %u tid %u site %llx:", inject_table[failure->call].name,
		(unsigned long long)number, failure->effect, failure->pid, failure->tid,
		(unsigned long long)failure->site);
	for (int i = 0; i < INJECT_FRAMES && failure->frames[i].module > 0; i++)
		if ((size_t)n < sizeof line)
			n += snprintf(line + n, sizeof line - (size_t)n, " %s+0x%x",
				shared->module[failure->frames[i].module - 1].path,
				failure->frames[i].offset);
	n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
	line[n++] = '\n';
	(void)!syscall(SYS_write, inject_log, line, (size_t)n);
}

static void inject_note(struct inject_shared *shared, enum inject_call call, int effect,
	uint64_t site, const struct inject_frame frames[])
{
	uint64_t number = atomic_fetch_add(&shared->count[call].failed, 1) + 1;
	uint64_t at = atomic_fetch_add(&shared->failures, 1) % INJECT_FAILED;
	struct inject_failure *failure = &shared->failure[at];
	*failure = (struct inject_failure){.call = call,
		.effect = effect,
		.site = site,
		.pid = (uint32_t)getpid(),
		.tid = (uint32_t)gettid()};
	memcpy(failure->frames, frames, sizeof failure->frames);
	if (inject_log >= 0)
		inject_tell(shared, failure, number);
}

/* An eventfd, a timer, a signalfd. */
static bool inject_is_counter(enum inject_call call, int fd)
{
	char link[32], target[64];
	if (call != INJECT_read && call != INJECT_write)
		return false;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, target, sizeof target - 1);
	return n > 11 && memcmp(target, "anon_inode:", 11) == 0;
}

static int inject_judge(
	struct inject_shared *shared, enum inject_call call, int fd, const char *path)
{
	struct inject_frame frames[INJECT_FRAMES];
	if (inject_is_counter(call, fd))
		return INJECT_PASS;
	uint64_t site = inject_place(shared, call, frames);
	if (atomic_load_explicit(&shared->collect, memory_order_relaxed))
		inject_collect(shared, call, site, frames);
	for (int i = 0; i < INJECT_RULES; i++) {
		struct inject_rule *rule = &shared->rule[i];
		if (inject_fires(rule, call, site, fd, path)) {
			inject_note(shared, call, rule->effect, site, frames);
			return rule->effect;
		}
	}
	return INJECT_PASS;
}

int inject_verdict(enum inject_call call, int fd, const char *path)
{
	struct inject_shared *shared = atomic_load_explicit(&inject_state, memory_order_acquire);
	if (!shared || inject_inside)
		return INJECT_PASS;
	atomic_fetch_add_explicit(&shared->count[call].count, 1, memory_order_relaxed);
	if (!inject_needs_place(shared))
		return INJECT_PASS;
	int saved = errno;
	inject_inside = true;
	int effect = inject_judge(shared, call, fd, path);
	inject_inside = false;
	errno = saved;
	return effect;
}

/* ---- the heap ---- */

static void inject_live(void *piece, int64_t pieces)
{
	struct inject_shared *shared = atomic_load_explicit(&inject_state, memory_order_acquire);
	if (!shared || !piece || inject_child)
		return;
	int64_t bytes = pieces * (int64_t)malloc_usable_size(piece);
	atomic_fetch_add_explicit(&shared->live, pieces, memory_order_relaxed);
	atomic_fetch_add_explicit(&shared->live_bytes, bytes, memory_order_relaxed);
}

void inject_given(void *piece)
{
	inject_live(piece, 1);
}

void inject_given_back(void *piece)
{
	inject_live(piece, -1);
}

static void inject_forked(void)
{
	inject_child = true;
}

/* ---- the environment ---- */

static void inject_usage(const char *what, const char *text)
{
	char line[512];
	int n = snprintf(line, sizeof line,
		"PENSTOCK_INJECT: %s: \"%s\" (CALL:FROM[+|-TO][@SITE][:EFFECT][,...])\n", what,
		text);
	(void)!syscall(SYS_write, STDERR_FILENO, line, (size_t)n);
	_exit(2);
}

static int inject_effect(const char *name)
{
	if (strcmp(name, "short") == 0)
		return INJECT_SHORT;
	if (strcmp(name, "zero") == 0)
		return INJECT_ZERO;
	for (int error = 1; error < 134; error++) {
		const char *known = strerrorname_np(error);
		if (known && strcmp(known, name) == 0)
			return error;
	}
	inject_usage("no such effect", name);
	return 0;
}

static enum inject_call inject_call_of(const char *name)
{
	for (int i = 0; i < INJECT_CALLS; i++)
		if (strcmp(name, inject_table[i].name) == 0)
			return (enum inject_call)i;
	inject_usage("no such call", name);
	return 0;
}

/* FROM[+|-TO][@SITE] */
static void inject_numbers(struct inject_rule *rule, char *text)
{
	char *end;
	rule->first = rule->last = strtoull(text, &end, 10);
	if (*end == '+') {
		rule->last = UINT64_MAX;
		end++;
	} else if (*end == '-') {
		rule->last = strtoull(end + 1, &end, 10);
	}
	if (*end == '@')
		rule->site = strtoull(end + 1, &end, 16);
	if (*end || rule->first == 0 || rule->last < rule->first)
		inject_usage("no numbers of calls", text);
}

static void inject_rule_read(struct inject_rule *rule, char *text)
{
	char *rest = strchr(text, ':');
	if (!rest)
		inject_usage("no number", text);
	*rest++ = '\0';
	enum inject_call call = inject_call_of(text);
	char *effect = strchr(rest, ':');
	if (effect)
		*effect++ = '\0';
	const char *word = getenv("PENSTOCK_INJECT_PATH");
	(void)snprintf(rule->call, sizeof rule->call, "%s", text);
	(void)snprintf(rule->path, sizeof rule->path, "%s", word ? word : "");
	inject_numbers(rule, rest);
	rule->effect = effect ? inject_effect(effect) : inject_table[call].error;
	atomic_store_explicit(&rule->on, 1, memory_order_release);
}

static void inject_rules_read(struct inject_shared *shared, const char *text)
{
	char copy[1024], *place = NULL;
	int count = 0;
	if (strlen(text) >= sizeof copy)
		inject_usage("too long", text);
	strcpy(copy, text);
	for (char *one = strtok_r(copy, ",", &place); one; one = strtok_r(NULL, ",", &place)) {
		if (count == INJECT_RULES)
			inject_usage("too many rules", text);
		inject_rule_read(&shared->rule[count++], one);
	}
}

static struct inject_shared *inject_map(const char *path)
{
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	if (path && fd < 0)
		inject_usage("PENSTOCK_INJECT_FILE cannot be opened", path);
	void *shared = mmap(NULL, sizeof(struct inject_shared), PROT_READ | PROT_WRITE,
		path ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
	if (fd >= 0)
		(void)syscall(SYS_close, fd);
	return shared == MAP_FAILED ? NULL : shared;
}

static void inject_fill(struct inject_shared *shared)
{
	shared->calls = INJECT_ROOM;
	shared->rules = INJECT_RULES;
	shared->failed = INJECT_FAILED;
	shared->modules = INJECT_MODULES;
	shared->sites = INJECT_SITES;
	shared->frames = INJECT_FRAMES;
	if (!atomic_load(&shared->depth))
		atomic_store(&shared->depth, 5);
	if (getenv("PENSTOCK_INJECT_COLLECT"))
		atomic_store(&shared->collect, 1);
	for (int i = 0; i < INJECT_CALLS; i++)
		(void)snprintf(shared->count[i].name, sizeof shared->count[i].name, "%s",
			inject_table[i].name);
	shared->magic = INJECT_MAGIC;
}

static __attribute__((constructor)) void inject_begin(void)
{
	const char *program = getenv("PENSTOCK_INJECT_PROGRAM"), *rules = getenv("PENSTOCK_INJECT"),
		   *file = getenv("PENSTOCK_INJECT_FILE"), *log = getenv("PENSTOCK_INJECT_LOG");
	if ((!rules && !file) || (program && strcmp(program, program_invocation_short_name) != 0))
		return;
	struct inject_shared *shared = inject_map(file);
	if (!shared)
		inject_usage("no memory", "");
	inject_fill(shared);
	if (log) {
		int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
		int fd = (int)syscall(SYS_openat, AT_FDCWD, log, flags, 0600);
		/* Out of the way of programs that count their descriptors from 3. */
		inject_log = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
		(void)syscall(SYS_close, fd);
	}
	if (rules)
		inject_rules_read(shared, rules);
	(void)pthread_atfork(NULL, NULL, inject_forked);
	atomic_store_explicit(&inject_state, shared, memory_order_release);
}
