/* words: see words.h. */
#include "client/cli/watch/why/words.h"

#include "base/size.h"
#include "base/util.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void words_add(char *buffer, size_t room, const char *format, ...)
{
	size_t at = strnlen(buffer, room);
	va_list args;
	va_start(args, format);
	if (at < room)
		(void)vsnprintf(buffer + at, room - at, format, args);
	va_end(args);
}

const char *words_who(const struct story_end *end, char *buffer, size_t room)
{
	const struct record_attach *attach = end->attach;
	(void)snprintf(buffer, room, "%s", end->daemon ? "penstockd" : "trainer");
	if (end->pid)
		words_add(buffer, room, " %d", end->pid);
	if (attach && attach->world_size > 1)
		words_add(buffer, room, " (rank %u)", attach->rank);
	return buffer;
}

const char *words_duration(double seconds, char *buffer, size_t room)
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

const char *words_bytes(uint64_t bytes, char *buffer)
{
	if (bytes == STORY_UNKNOWN)
		(void)snprintf(buffer, WORDS_NUMBER, "?");
	else
		size_format(bytes, buffer, WORDS_NUMBER);
	return buffer;
}

/* clang-format off */
/* glibc has had sigabbrev_np() since 2.32. */
static const char *const words_signals[] = {
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

const char *words_signal(int sig, char *buffer)
{
	const char *name =
		sig >= 0 && sig < (int)UTIL_COUNT(words_signals) ? words_signals[sig] : NULL;
	if (name)
		(void)snprintf(buffer, WORDS_NUMBER, "SIG%s", name);
	else
		(void)snprintf(buffer, WORDS_NUMBER, "signal %d", sig);
	return buffer;
}

const char *words_cgroup(const char *path)
{
	static const struct {
		const char *part, *name;
	} names[] = {{"docker", "container"}, {"kubepods", "container"}, {"libpod", "container"},
		{"containerd", "container"}, {"crio", "container"}, {"lxc", "container"},
		{"slurm", "job"}, {".service", "service"}};
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		if (strstr(path, names[i].part))
			return names[i].name;
	/* A limit on what looks like the root: the root of a namespace. */
	return strcmp(path, "/") == 0 ? "container" : "cgroup";
}
