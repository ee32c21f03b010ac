/* phrase: see phrase.h. */
#include "client/cli/watch/why/phrase.h"

#include "base/size.h"
#include "base/util.h"
#include "client/cli/watch/why/advice.h"
#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/detail.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PHRASE_SECOND_NS 1e9
#define PHRASE_CHANGED 1.1 /* memory that differs by less has stayed what it was */

void phrase_add(char *buffer, size_t room, const char *format, ...)
{
	size_t at = strnlen(buffer, room);
	va_list args;
	va_start(args, format);
	if (at < room)
		(void)vsnprintf(buffer + at, room - at, format, args);
	va_end(args);
}

const char *phrase_who(const struct story_end *end, char *buffer, size_t room)
{
	const struct record_attach *attach = end->attach;
	(void)snprintf(buffer, room, "%s", end->daemon ? "penstockd" : "trainer");
	if (end->pid)
		phrase_add(buffer, room, " %d", end->pid);
	if (attach && attach->world_size > 1)
		phrase_add(buffer, room, " (rank %u)", attach->rank);
	return buffer;
}

const char *phrase_duration(double seconds, char *buffer, size_t room)
{
	enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };
	uint64_t s = seconds > 0 && seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
	unsigned long long n = s;
	bool whole = seconds <= 0 || seconds == (double)(uint64_t)UTIL_MIN(seconds, 10.0);
	if (seconds < 10 && !whole)
		(void)snprintf(buffer, room, "%.1f s", seconds);
	else if (s < MINUTE)
		(void)snprintf(buffer, room, "%llu s", n);
	else if (s < HOUR)
		(void)snprintf(buffer, room, "%llu min %llu s", n / MINUTE, n % MINUTE);
	else if (s < DAY)
		(void)snprintf(buffer, room, "%llu h %llu min", n / HOUR, n % HOUR / MINUTE);
	else
		(void)snprintf(buffer, room, "%llu d %llu h", n / DAY, n % DAY / HOUR);
	return buffer;
}

const char *phrase_bytes(uint64_t bytes, char *buffer)
{
	if (bytes == STORY_UNKNOWN)
		(void)snprintf(buffer, PHRASE_NUMBER, "?");
	else
		size_format(bytes, buffer, PHRASE_NUMBER);
	return buffer;
}

/* clang-format off */
/* glibc has had sigabbrev_np() since 2.32. */
static const char *const phrase_signals[] = {
	[SIGHUP] = "HUP", [SIGINT] = "INT", [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
	[SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS", [SIGFPE] = "FPE",
	[SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
	[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
	[SIGCHLD] = "CHLD", [SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
	[SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU", [SIGURG] = "URG", [SIGXCPU] = "XCPU",
	[SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
	[SIGPOLL] = "POLL", [SIGPWR] = "PWR", [SIGSYS] = "SYS",
};
/* clang-format on */

const char *phrase_signal(int sig, char *buffer)
{
	const char *name =
		sig >= 0 && sig < (int)UTIL_COUNT(phrase_signals) ? phrase_signals[sig] : NULL;
	if (name)
		(void)snprintf(buffer, PHRASE_NUMBER, "SIG%s", name);
	else
		(void)snprintf(buffer, PHRASE_NUMBER, "signal %d", sig);
	return buffer;
}

const char *phrase_cgroup(const char *path)
{
	static const struct {
		const char *part, *name;
	} names[] = {{"docker", "container"}, {"kubepods", "container"}, {"libpod", "container"},
		{"containerd", "container"}, {"crio", "container"}, {"lxc", "container"},
		{"slurm", "job"}, {".service", "service"}};
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		if (strstr(path, names[i].part))
			return names[i].name;
	/* A limit on what looks like the root: that of a namespace of its own. */
	return strcmp(path, "/") == 0 ? "container" : "cgroup";
}

/* ---- clauses ---- */

struct phrase {
	const struct story_end *end;
	const struct story *story;
	char *text; /* STORY_SENTENCE bytes */
};

#define PHRASE_ADD(p, ...) phrase_add((p)->text, STORY_SENTENCE, __VA_ARGS__)

static const char *phrase_doubt(const struct story_end *end)
{
	static const char *const words[] = {"", "most likely ", "possibly "};
	return words[end->sure];
}

/* "; its memory rose from 3.1 GiB to 11.8 GiB" */
static void phrase_memory(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char first[PHRASE_NUMBER], last[PHRASE_NUMBER];
	if (n->memory_last == STORY_UNKNOWN)
		return;
	double a = (double)n->memory_first, b = (double)n->memory_last;
	phrase_bytes(n->memory_first, first);
	phrase_bytes(n->memory_last, last);
	if (b > a * PHRASE_CHANGED)
		PHRASE_ADD(p, "; its memory rose from %s to %s", first, last);
	else if (a > b * PHRASE_CHANGED)
		PHRASE_ADD(p, "; its memory fell from %s to %s", first, last);
	else
		PHRASE_ADD(p, "; its memory was %s", last);
}

/* "; penstock held 1.9 GiB of its 2.0 GiB" */
static void phrase_held(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char reserved[PHRASE_NUMBER], budget[PHRASE_NUMBER];
	if (!n->daemon_known)
		return;
	PHRASE_ADD(p, "; %s held %s of its %s", p->end->daemon ? "it" : "penstock",
		phrase_bytes(n->reserved, reserved), phrase_bytes(n->budget, budget));
}

static void phrase_unclosed(const struct phrase *p)
{
	unsigned open = p->end->opened - UTIL_MIN(p->end->closed, p->end->opened);
	if (p->end->daemon || !p->end->opened)
		return;
	if (open)
		PHRASE_ADD(p, " without closing its %s", open == 1 ? "stream" : "streams");
	else
		PHRASE_ADD(p, " after it had closed its %s",
			p->end->opened == 1 ? "stream" : "streams");
}

/* "; the container had 15.9 GiB of its 16.0 GiB in use": where no counter says that it was that. */
static void phrase_near(const struct phrase *p)
{
	const struct record_cgroup *cgroup = &p->end->numbers.cgroup;
	char used[PHRASE_NUMBER], limit[PHRASE_NUMBER];
	if (cause_limit_near(&p->end->numbers))
		PHRASE_ADD(p, "; the %s had %s of its %s in use", phrase_cgroup(cgroup->path),
			phrase_bytes(cgroup->used, used), phrase_bytes(cgroup->limit, limit));
}

/* Others of its cgroup that were killed then: a worker process of a trainer, say. */
static void phrase_kills(const struct phrase *p)
{
	uint32_t kills = p->end->numbers.oom_kills;
	if (kills)
		PHRASE_ADD(p, "; %u OOM kill%s beside it in its last seconds", kills,
			kills == 1 ? "" : "s");
}

/* ---- causes ---- */

static const struct story_end *phrase_daemon(const struct phrase *p)
{
	for (size_t i = 0; i < p->story->count; i++)
		if (p->story->end[i].daemon)
			return &p->story->end[i];
	return NULL;
}

static void phrase_say_running(const struct phrase *p)
{
	PHRASE_ADD(p, " is running");
	phrase_memory(p);
}

static void phrase_say_order(const struct phrase *p)
{
	int code = cause_exit_code(p->end);
	PHRASE_ADD(p, " ended in order: it closed its %s%s",
		p->end->opened == 1 ? "stream" : "streams",
		!p->end->exit ? ""
		: code == 0   ? ", and its exit code was 0"
			      : "; its exit code is not known");
}

static void phrase_say_cgroup_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char limit[PHRASE_NUMBER];
	PHRASE_ADD(p, " %s %sthe %s's OOM killer (+%u)",
		cause_signal(p->end) ? "was killed:" : "ended:", phrase_doubt(p->end),
		phrase_cgroup(n->cgroup.path), n->oom_kills);
	phrase_memory(p);
	if (n->cgroup.limit != STORY_UNKNOWN)
		PHRASE_ADD(p, "; the %s's limit is %s", phrase_cgroup(n->cgroup.path),
			phrase_bytes(n->cgroup.limit, limit));
	phrase_held(p);
}

static void phrase_say_machine_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char left[PHRASE_NUMBER], total[PHRASE_NUMBER];
	PHRASE_ADD(p, " %s %sthe machine's OOM killer (+%u)",
		cause_signal(p->end) ? "was killed:" : "ended:", phrase_doubt(p->end),
		n->oom_kills);
	phrase_memory(p);
	if (n->machine_known)
		PHRASE_ADD(p, "; the machine had %s of %s left", phrase_bytes(n->available, left),
			phrase_bytes(n->total, total));
	phrase_held(p);
}

/* "was killed by SIGKILL", "was ended by SIGTERM", "ended" */
static void phrase_by_signal(const struct phrase *p)
{
	char name[PHRASE_NUMBER];
	int sig = cause_signal(p->end);
	if (sig)
		PHRASE_ADD(p, " was %s by %s", sig == SIGKILL ? "killed" : "ended",
			phrase_signal(sig, name));
	else
		PHRASE_ADD(p, " ended");
}

static void phrase_limit_cpu(const struct phrase *p)
{
	char used[PHRASE_NUMBER], limit[PHRASE_NUMBER];
	const struct story_end *end = p->end;
	PHRASE_ADD(p, ": its CPU time was up (RLIMIT_CPU)");
	if (end->limit_s != STORY_UNKNOWN)
		PHRASE_ADD(p, ": the limit is %s",
			phrase_duration((double)end->limit_s, limit, sizeof limit));
	if (end->numbers.cpu_ns == STORY_UNKNOWN)
		return;
	double seconds = (double)end->numbers.cpu_ns / PHRASE_SECOND_NS;
	PHRASE_ADD(p, ", %s %s were used", seconds < (double)end->limit_s ? "at least" : "and",
		phrase_duration(seconds, used, sizeof used));
}

static void phrase_say_time(const struct phrase *p)
{
	char lived[PHRASE_NUMBER], limit[PHRASE_NUMBER];
	const struct story_end *end = p->end;
	phrase_by_signal(p);
	if (end->limit == STORY_LIMIT_CPU) {
		phrase_limit_cpu(p);
		return;
	}
	if (end->numbers.lived_s != STORY_UNKNOWN)
		PHRASE_ADD(p, " %s after its start",
			phrase_duration((double)end->numbers.lived_s, lived, sizeof lived));
	if (end->limit == STORY_LIMIT_TIMEOUT)
		PHRASE_ADD(p, ": its time was up, %sby `timeout`, which gave it %s",
			phrase_doubt(end),
			phrase_duration((double)end->limit_s, limit, sizeof limit));
	else if (end->limit_s)
		PHRASE_ADD(p, ": its job's time was up, %ssince its deadline had passed %s before",
			phrase_doubt(end),
			phrase_duration((double)end->limit_s, limit, sizeof limit));
	else
		PHRASE_ADD(p, ": its job's time was up, %ssince its deadline was about to pass",
			phrase_doubt(end));
}

static void phrase_say_signal(const struct phrase *p)
{
	static const struct {
		int sig;
		const char *who;
	} senders[] = {{SIGTERM, "somebody asked it to end"},
		{SIGINT, "it was interrupted (Ctrl-C)"},
		{SIGHUP, "its terminal or session was closed"},
		{SIGPIPE, "it wrote to a pipe or socket that nobody reads any more"},
		{SIGXFSZ, "a file became larger than its limit allows (RLIMIT_FSIZE)"},
		{SIGALRM, "a timer of its own rang"}};
	phrase_by_signal(p);
	for (size_t i = 0; i < UTIL_COUNT(senders); i++)
		if (senders[i].sig == cause_signal(p->end))
			PHRASE_ADD(p, ": %s", senders[i].who);
	if (cause_signal(p->end) == SIGKILL)
		PHRASE_ADD(p, "%s",
			p->end->numbers.cgroup.oom_kills == STORY_UNKNOWN
				? "; whether for want of memory, no counter tells"
				: ", not by the kernel's OOM killer: somebody sent it");
	phrase_memory(p);
	if (cause_signal(p->end) == SIGKILL)
		phrase_near(p);
}

static const char *phrase_crash(int sig)
{
	static const struct {
		int sig;
		const char *what;
	} crashes[] = {{SIGSEGV, "it touched memory that it does not have"},
		{SIGBUS, "a mapped file had become shorter, or memory could not be had"},
		{SIGABRT, "it aborted itself: an assertion, a damaged heap, a C++ exception"},
		{SIGFPE, "a division by zero, or the like"},
		{SIGILL, "an instruction that this processor does not know"},
		{SIGSYS, "a system call that is forbidden here (seccomp)"}};
	for (size_t i = 0; i < UTIL_COUNT(crashes); i++)
		if (crashes[i].sig == sig)
			return crashes[i].what;
	return "it raised it itself";
}

static void phrase_say_crash(const struct phrase *p)
{
	char name[PHRASE_NUMBER];
	int sig = cause_signal(p->end);
	PHRASE_ADD(p, " crashed with %s: %s; %s", phrase_signal(sig, name), phrase_crash(sig),
		WCOREDUMP(p->end->exit->status) ? "a core was dumped" : "no core was dumped");
	phrase_memory(p);
}

static void phrase_say_gpu_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char used[PHRASE_NUMBER], total[PHRASE_NUMBER];
	unsigned at = 0;
	for (unsigned i = 1; i < n->gpus; i++)
		if ((double)n->gpu[i].used * (double)n->gpu[at].total >
			(double)n->gpu[at].used * (double)n->gpu[i].total)
			at = i;
	PHRASE_ADD(p,
		" ended with exit code %d, %ssince device %u was out of memory: %s of %s were "
		"in use",
		cause_exit_code(p->end), phrase_doubt(p->end), n->gpu[at].device,
		phrase_bytes(n->gpu[at].used, used), phrase_bytes(n->gpu[at].total, total));
}

static void phrase_say_exit_code(const struct phrase *p)
{
	char name[PHRASE_NUMBER];
	int code = cause_exit_code(p->end);
	PHRASE_ADD(p, " ended with exit code %d", code);
	phrase_unclosed(p);
	if (code == 124)
		PHRASE_ADD(p, ": timeout(1) says with it that the time was up");
	else if (code == 126 || code == 127)
		PHRASE_ADD(p, ": a shell says with it that a command could not be %s",
			code == 126 ? "run" : "found");
	else if (code > 128 && code <= 128 + 64)
		PHRASE_ADD(p, " = 128 + %d: it, or something that it ran, was ended by %s",
			code - 128, phrase_signal(code - 128, name));
	else if (code == 1 && !p->end->daemon)
		PHRASE_ADD(p, ": an exception, or an error of its own");
	phrase_kills(p);
	phrase_memory(p);
}

static void phrase_say_unclosed(const struct phrase *p)
{
	PHRASE_ADD(p, " ended with exit code 0");
	phrase_unclosed(p);
}

static void phrase_say_expelled(const struct phrase *p)
{
	const struct record_leave *leave = p->end->leave;
	int code = cause_exit_code(p->end);
	PHRASE_ADD(p, " was disconnected by the daemon%s%s", leave && leave->text[0] ? ": " : "",
		leave ? leave->text : "");
	if (code > 0)
		PHRASE_ADD(p, "; then it ended with exit code %d", code);
}

static void phrase_say_hung_up(const struct phrase *p)
{
	PHRASE_ADD(p, " hung up");
	phrase_unclosed(p);
	PHRASE_ADD(p, "; its process lives on");
}

static void phrase_say_outlived(const struct phrase *p)
{
	const struct story_fate *fate = &p->end->fate;
	PHRASE_ADD(p, " was connected when penstockd ended, and ");
	if (fate->daemon)
		PHRASE_ADD(p, "went on with penstockd %d", fate->daemon);
	else if (fate->lives)
		PHRASE_ADD(p, "its process lives on");
	else
		PHRASE_ADD(p, "may have gone on with the next daemon");
	phrase_memory(p);
}

static void phrase_say_daemon_gone(const struct phrase *p)
{
	char span[PHRASE_NUMBER];
	const struct story_end *end = p->end;
	uint64_t gone = UTIL_MIN(cause_gone_ns(p->story, phrase_daemon(p)), end->end_ns);
	PHRASE_ADD(p, " ended with exit code %d, %s after penstockd %s, %sfor that",
		cause_exit_code(end),
		phrase_duration((double)(end->end_ns - gone) / PHRASE_SECOND_NS, span, sizeof span),
		p->story->why_ns ? "had begun to end" : "had ended", phrase_doubt(end));
}

/* What stands behind "asked: ", "failed: " in the daemon's own word. */
static const char *phrase_reason(const char *why)
{
	const char *colon = why ? strchr(why, ':') : NULL;
	if (!colon)
		return why ? why : "it does not say why";
	return colon + 1 + strspn(colon + 1, " ");
}

static void phrase_say_asked(const struct phrase *p)
{
	PHRASE_ADD(p, " ended on request: %s", phrase_reason(p->story->why));
}

static void phrase_say_idle(const struct phrase *p)
{
	PHRASE_ADD(p, " ended since nobody needed it: %s", phrase_reason(p->story->why));
}

static void phrase_say_failed(const struct phrase *p)
{
	int code = cause_exit_code(p->end);
	PHRASE_ADD(p, " failed: %s", phrase_reason(p->story->why));
	if (code > 0)
		PHRASE_ADD(p, "; exit code %d", code);
}

static void phrase_say_vanished(const struct phrase *p)
{
	if (p->end->daemon && p->story->elsewhere)
		PHRASE_ADD(p,
			" ran on %s, and its record stops without a word of an end; look there",
			p->story->start->host);
	else if (p->end->daemon)
		PHRASE_ADD(p,
			" vanished without a word: the record stops and the process is gone, so "
			"its recorder was ended with it");
	else
		PHRASE_ADD(p,
			" was running when the record stopped with the daemon; its end was not "
			"seen");
	phrase_memory(p);
	phrase_near(p);
}

static void phrase_say_reboot(const struct phrase *p)
{
	PHRASE_ADD(p,
		" went down with the machine: the record stops, and the boot id is another "
		"since%s",
		p->end->sure == STORY_LIKELY ? ""
		: p->end->daemon             ? "; or the file is another machine's"
					     : ", possibly");
	phrase_memory(p);
}

static void phrase_say_ended(const struct phrase *p)
{
	const struct story_end *end = p->end;
	const char *how = "; how is not known: kernels before 6.15 tell only the parent";
	if (end->exit && end->exit->known)
		how = " and gave no reason";
	else if (!end->exit)
		how = end->sure == STORY_POSSIBLE
			      ? "; whether its process has ended, too, is not recorded yet"
			      : "; how its process ended was not recorded";
	PHRASE_ADD(p, "%s", end->exit ? " ended" : " hung up");
	phrase_unclosed(p);
	PHRASE_ADD(p, "%s", how);
	phrase_memory(p);
	phrase_near(p);
}

static void (*const phrase_say[STORY_CAUSES])(const struct phrase *p) = {
	[STORY_RUNNING] = phrase_say_running,
	[STORY_ORDER] = phrase_say_order,
	[STORY_CGROUP_OOM] = phrase_say_cgroup_oom,
	[STORY_MACHINE_OOM] = phrase_say_machine_oom,
	[STORY_TIME] = phrase_say_time,
	[STORY_SIGNAL] = phrase_say_signal,
	[STORY_CRASH] = phrase_say_crash,
	[STORY_GPU_OOM] = phrase_say_gpu_oom,
	[STORY_EXIT_CODE] = phrase_say_exit_code,
	[STORY_UNCLOSED] = phrase_say_unclosed,
	[STORY_EXPELLED] = phrase_say_expelled,
	[STORY_HUNG_UP] = phrase_say_hung_up,
	[STORY_OUTLIVED] = phrase_say_outlived,
	[STORY_DAEMON_GONE] = phrase_say_daemon_gone,
	[STORY_ASKED] = phrase_say_asked,
	[STORY_IDLE] = phrase_say_idle,
	[STORY_FAILED] = phrase_say_failed,
	[STORY_VANISHED] = phrase_say_vanished,
	[STORY_REBOOT] = phrase_say_reboot,
	[STORY_ENDED] = phrase_say_ended,
};

void phrase_write(struct story_end *end, const struct story *story)
{
	const struct phrase p = {.end = end, .story = story, .text = end->sentence};
	phrase_who(end, end->sentence, sizeof end->sentence);
	phrase_say[end->cause](&p);
	detail_write(end, story);
	advice_write(end);
}
