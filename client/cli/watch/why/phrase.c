/* phrase: see phrase.h. */
#include "client/cli/watch/why/phrase.h"

#include "base/util.h"
#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PHRASE_SECOND_NS 1e9
/* Memory that changed by less counts as unchanged. */
#define PHRASE_CHANGED 1.1

/* ---- clauses ---- */

struct phrase {
	const struct story_end *end;
	const struct story *story;
	char *text; /* STORY_SENTENCE bytes */
};

#define PHRASE_ADD(p, ...) words_add((p)->text, STORY_SENTENCE, __VA_ARGS__)

static const char *phrase_doubt(const struct story_end *end)
{
	static const char *const words[] = {"", "most likely ", "possibly "};
	return words[end->sure];
}

/* "; its memory rose from 3.1 GiB to 11.8 GiB" */
static void phrase_memory(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char first[WORDS_NUMBER], last[WORDS_NUMBER];
	if (n->memory_last == STORY_UNKNOWN)
		return;
	double a = (double)n->memory_first, b = (double)n->memory_last;
	words_bytes(n->memory_first, first);
	words_bytes(n->memory_last, last);
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
	char reserved[WORDS_NUMBER], budget[WORDS_NUMBER];
	if (!n->daemon_known)
		return;
	PHRASE_ADD(p, "; %s held %s of its %s", p->end->daemon ? "it" : "penstock",
		words_bytes(n->reserved, reserved), words_bytes(n->budget, budget));
}

static void phrase_unclosed(const struct phrase *p)
{
	unsigned open = p->end->opened - UTIL_MIN(p->end->closed, p->end->opened);
	if (p->end->daemon || !p->end->opened)
		return;
	if (open)
		PHRASE_ADD(p, " without closing its %s", open == 1 ? "stream" : "streams");
	else
		PHRASE_ADD(p, " after closing its %s", p->end->opened == 1 ? "stream" : "streams");
}

/* "; the container had 15.9 GiB of its 16.0 GiB in use": a hint, where no counter proves it. */
static void phrase_near(const struct phrase *p)
{
	const struct record_cgroup *cgroup = &p->end->numbers.cgroup;
	char used[WORDS_NUMBER], limit[WORDS_NUMBER];
	if (cause_limit_near(&p->end->numbers))
		PHRASE_ADD(p, "; the %s had %s of its %s in use", words_cgroup(cgroup->path),
			words_bytes(cgroup->used, used), words_bytes(cgroup->limit, limit));
}

/* Other processes of its cgroup that were killed then: a worker process of a trainer, for
 * example. */
static void phrase_kills(const struct phrase *p)
{
	uint32_t kills = p->end->numbers.oom_kills;
	if (kills)
		PHRASE_ADD(p,
			"; the OOM killer ended %u other process%s of its cgroup in its last "
			"seconds",
			kills, kills == 1 ? "" : "es");
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
	PHRASE_ADD(p, " ended normally: it closed its %s%s",
		p->end->opened == 1 ? "stream" : "streams",
		!p->end->exit ? ""
		: code == 0   ? ", and its exit code was 0"
			      : "; its exit code is unknown");
}

static void phrase_say_cgroup_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char limit[WORDS_NUMBER];
	PHRASE_ADD(p, " %s %sthe %s's OOM killer (+%u)",
		cause_signal(p->end) ? "was killed:" : "ended:", phrase_doubt(p->end),
		words_cgroup(n->cgroup.path), n->oom_kills);
	phrase_memory(p);
	if (n->cgroup.limit != STORY_UNKNOWN)
		PHRASE_ADD(p, "; the %s's limit is %s", words_cgroup(n->cgroup.path),
			words_bytes(n->cgroup.limit, limit));
	phrase_held(p);
}

static void phrase_say_machine_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char left[WORDS_NUMBER], total[WORDS_NUMBER];
	PHRASE_ADD(p, " %s %sthe machine's OOM killer (+%u)",
		cause_signal(p->end) ? "was killed:" : "ended:", phrase_doubt(p->end),
		n->oom_kills);
	phrase_memory(p);
	if (n->machine_known)
		PHRASE_ADD(p, "; the machine had %s of %s left", words_bytes(n->available, left),
			words_bytes(n->total, total));
	phrase_held(p);
}

/* "was killed by SIGKILL", "was ended by SIGTERM", "ended" */
static void phrase_by_signal(const struct phrase *p)
{
	char name[WORDS_NUMBER];
	int sig = cause_signal(p->end);
	if (sig)
		PHRASE_ADD(p, " was %s by %s", sig == SIGKILL ? "killed" : "ended",
			words_signal(sig, name));
	else
		PHRASE_ADD(p, " ended");
}

static void phrase_limit_cpu(const struct phrase *p)
{
	char used[WORDS_NUMBER], limit[WORDS_NUMBER];
	const struct story_end *end = p->end;
	PHRASE_ADD(p, ": it used up its CPU time (RLIMIT_CPU)");
	if (end->limit_s != STORY_UNKNOWN)
		PHRASE_ADD(p, ": the limit is %s",
			words_duration((double)end->limit_s, limit, sizeof limit));
	if (end->numbers.cpu_ns == STORY_UNKNOWN)
		return;
	double seconds = (double)end->numbers.cpu_ns / PHRASE_SECOND_NS;
	PHRASE_ADD(p, ", it used %s%s", seconds < (double)end->limit_s ? "at least " : "",
		words_duration(seconds, used, sizeof used));
}

static void phrase_say_time(const struct phrase *p)
{
	char lived[WORDS_NUMBER], limit[WORDS_NUMBER];
	const struct story_end *end = p->end;
	phrase_by_signal(p);
	if (end->limit == STORY_LIMIT_CPU) {
		phrase_limit_cpu(p);
		return;
	}
	if (end->numbers.lived_s != STORY_UNKNOWN)
		PHRASE_ADD(p, " %s after its start",
			words_duration((double)end->numbers.lived_s, lived, sizeof lived));
	if (end->limit == STORY_LIMIT_TIMEOUT)
		PHRASE_ADD(p, ": %s`timeout` ended it after %s", phrase_doubt(end),
			words_duration((double)end->limit_s, limit, sizeof limit));
	else if (end->limit_s)
		PHRASE_ADD(p, ": %sits job ran out of time: the deadline had passed %s earlier",
			phrase_doubt(end),
			words_duration((double)end->limit_s, limit, sizeof limit));
	else
		PHRASE_ADD(p, ": %sits job ran out of time: the deadline was about to pass",
			phrase_doubt(end));
}

static void phrase_say_signal(const struct phrase *p)
{
	static const struct {
		int sig;
		const char *meaning;
	} senders[] = {{SIGTERM, "another process asked it to end"},
		{SIGINT, "a user interrupted it (Ctrl-C)"},
		{SIGHUP, "its terminal or session closed"},
		{SIGPIPE, "it wrote to a pipe or socket that has no reader any more"},
		{SIGXFSZ, "a file grew beyond its limit (RLIMIT_FSIZE)"},
		{SIGALRM, "a timer that it had set expired"}};
	phrase_by_signal(p);
	for (size_t i = 0; i < UTIL_COUNT(senders); i++)
		if (senders[i].sig == cause_signal(p->end))
			PHRASE_ADD(p, ": %s", senders[i].meaning);
	if (cause_signal(p->end) == SIGKILL)
		PHRASE_ADD(p, "%s",
			p->end->numbers.cgroup.oom_kills == STORY_UNKNOWN
				? "; no counter tells whether memory was short"
				: ", which the kernel's OOM killer did not send: another process "
				  "did");
	phrase_memory(p);
	if (cause_signal(p->end) == SIGKILL)
		phrase_near(p);
}

static const char *phrase_crash(int sig)
{
	static const struct {
		int sig;
		const char *what;
	} crashes[] = {{SIGSEGV, "it used memory that is not mapped"},
		{SIGBUS, "a mapped file became shorter, or memory ran out"},
		{SIGABRT, "it aborted: an assertion, a damaged heap, or a C++ exception"},
		{SIGFPE, "a division by zero or a similar error"},
		{SIGILL, "an instruction that this processor does not have"},
		{SIGSYS, "a forbidden system call (seccomp)"}};
	for (size_t i = 0; i < UTIL_COUNT(crashes); i++)
		if (crashes[i].sig == sig)
			return crashes[i].what;
	return "it raised the signal itself";
}

static void phrase_say_crash(const struct phrase *p)
{
	char name[WORDS_NUMBER];
	int sig = cause_signal(p->end);
	PHRASE_ADD(p, " crashed with %s: %s; %s", words_signal(sig, name), phrase_crash(sig),
		WCOREDUMP(p->end->exit->status) ? "it dumped core" : "it dumped no core");
	phrase_memory(p);
}

static void phrase_say_gpu_oom(const struct phrase *p)
{
	const struct story_numbers *n = &p->end->numbers;
	char used[WORDS_NUMBER], total[WORDS_NUMBER];
	unsigned at = 0;
	for (unsigned i = 1; i < n->gpus; i++)
		if ((double)n->gpu[i].used * (double)n->gpu[at].total >
			(double)n->gpu[at].used * (double)n->gpu[i].total)
			at = i;
	PHRASE_ADD(p,
		" ended with exit code %d, %sbecause GPU %u was out of memory: %s of %s were in "
		"use",
		cause_exit_code(p->end), phrase_doubt(p->end), n->gpu[at].device,
		words_bytes(n->gpu[at].used, used), words_bytes(n->gpu[at].total, total));
}

static void phrase_say_exit_code(const struct phrase *p)
{
	char name[WORDS_NUMBER];
	int code = cause_exit_code(p->end);
	PHRASE_ADD(p, " ended with exit code %d", code);
	phrase_unclosed(p);
	if (code == 124)
		PHRASE_ADD(p, ", by which timeout(1) reports that the time is over");
	else if (code == 126 || code == 127)
		PHRASE_ADD(p, ", by which a shell reports that a command could not be %s",
			code == 126 ? "run" : "found");
	else if (code > 128 && code <= 128 + 64)
		PHRASE_ADD(p, " = 128 + %d: %s ended it, or a program that it ran", code - 128,
			words_signal(code - 128, name));
	else if (code == 1 && !p->end->daemon)
		PHRASE_ADD(p, ": an exception or an error of its own");
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
	PHRASE_ADD(p, "; its process is still running");
}

static void phrase_say_outlived(const struct phrase *p)
{
	const struct story_fate *fate = &p->end->fate;
	PHRASE_ADD(p, " was connected when penstockd ended, and ");
	if (fate->daemon)
		PHRASE_ADD(p, "continued with penstockd %d", fate->daemon);
	else if (fate->lives)
		PHRASE_ADD(p, "its process is still running");
	else
		PHRASE_ADD(p, "may have continued with the next daemon");
	phrase_memory(p);
}

static void phrase_say_daemon_gone(const struct phrase *p)
{
	char span[WORDS_NUMBER];
	const struct story_end *end = p->end;
	uint64_t gone = UTIL_MIN(cause_gone_ns(p->story, phrase_daemon(p)), end->end_ns);
	PHRASE_ADD(p, " ended with exit code %d, %s after penstockd %s, %sbecause of that",
		cause_exit_code(end),
		words_duration((double)(end->end_ns - gone) / PHRASE_SECOND_NS, span, sizeof span),
		p->story->why_ns ? "began to end" : "ended", phrase_doubt(end));
}

/* The part of the daemon's own reason that follows "asked: " or "failed: ". */
static const char *phrase_reason(const char *why)
{
	const char *colon = why ? strchr(why, ':') : NULL;
	if (!colon)
		return why ? why : "it gave no reason";
	return colon + 1 + strspn(colon + 1, " ");
}

static void phrase_say_asked(const struct phrase *p)
{
	PHRASE_ADD(p, " ended on request: %s", phrase_reason(p->story->why));
}

static void phrase_say_idle(const struct phrase *p)
{
	PHRASE_ADD(p, " ended because no trainer needed it: %s", phrase_reason(p->story->why));
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
			" ran on %s; its record stops without reporting an end: look on that "
			"machine",
			p->story->start->host);
	else if (p->end->daemon)
		PHRASE_ADD(p,
			" vanished: the record stops and the process is gone, so its recorder "
			"was killed with it");
	else
		PHRASE_ADD(p,
			" was running when the record stopped with the daemon; the recorder did "
			"not see its end");
	phrase_memory(p);
	phrase_near(p);
}

static void phrase_say_reboot(const struct phrase *p)
{
	PHRASE_ADD(p,
		" went down with the machine: the record stops, and the machine has booted "
		"since%s",
		p->end->sure == STORY_LIKELY ? ""
		: p->end->daemon             ? "; or the file comes from another machine"
					     : ", possibly");
	phrase_memory(p);
}

static void phrase_say_ended(const struct phrase *p)
{
	const struct story_end *end = p->end;
	const char *how =
		"; the reason is unknown: kernels before 6.15 tell only the parent process";
	if (end->exit && end->exit->known)
		how = " and gave no reason";
	else if (!end->exit)
		how = end->sure == STORY_POSSIBLE
			      ? "; the record does not say yet whether its process ended, too"
			      : "; the record does not say how its process ended";
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
	words_who(end, end->sentence, sizeof end->sentence);
	phrase_say[end->cause](&p);
}
