/* environment_launch: starts a program in an environment that a shell cannot make.
 *
 *   environment_launch WORD... -- PROGRAM ARGUMENT...
 *
 *       limit=RESOURCE:N      a limit, soft and hard, by the number of its RLIMIT_
 *       user=N                group and user N, no other groups, and no capabilities with it
 *       deny=ERRNO:CALL,...   system calls that fail with that number
 *       namespaces=ERRNO      clone() that asks for a namespace fails
 *       block=N  ignore=N     a signal that is blocked, or ignored
 *       fds=N                 so many descriptors of /dev/null, inherited
 *       close=N               a descriptor that is closed
 *       personality=N         personality(2)
 *       argv0=TEXT            the program's name for itself
 *
 * In the order given, but that system calls are forbidden last. A call that this machine does not
 * have, or what cannot be set, ends it with 125 and a sentence: the row is then skipped. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LAUNCH_CANNOT = 125 };

static scmp_filter_ctx launch_filter;
static char *launch_name;

static scmp_filter_ctx filter(void)
{
	if (!launch_filter)
		launch_filter = seccomp_init(SCMP_ACT_ALLOW);
	return launch_filter;
}

static int launch_limit(char *value)
{
	char *colon = strchr(value, ':');
	if (!colon)
		return -1;
	rlim_t most = strtoull(colon + 1, NULL, 10);
	struct rlimit limit = {most, most};
	return setrlimit((__rlimit_resource_t)atoi(value), &limit);
}

static int launch_user(char *value)
{
	unsigned id = (unsigned)strtoul(value, NULL, 10);
	return setgroups(0, NULL) || setgid(id) || setuid(id) ? -1 : 0;
}

static int launch_deny(char *value)
{
	char *names = strchr(value, ':');
	unsigned error = (unsigned)atoi(value);
	if (!names)
		return -1;
	for (char *name = strtok(names + 1, ","); name; name = strtok(NULL, ",")) {
		int number = seccomp_syscall_resolve_name(name);
		/* One that this machine never had is forbidden anyhow. */
		if (number < 0)
			continue;
		int result = seccomp_rule_add(filter(), SCMP_ACT_ERRNO(error), number, 0);
		if (result) {
			errno = -result;
			return -1;
		}
	}
	return 0;
}

static int launch_namespaces(char *value)
{
	static const scmp_datum_t kinds[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS,
		CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		int result = seccomp_rule_add(filter(), SCMP_ACT_ERRNO((unsigned)atoi(value)),
			SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, kinds[i], kinds[i]));
		if (result) {
			errno = -result;
			return -1;
		}
	}
	return 0;
}

static int launch_block(char *value)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, atoi(value));
	return sigprocmask(SIG_BLOCK, &set, NULL);
}

static int launch_ignore(char *value)
{
	return signal(atoi(value), SIG_IGN) == SIG_ERR ? -1 : 0;
}

static int launch_fds(char *value)
{
	for (int left = atoi(value); left > 0; left--)
		if (open("/dev/null", O_RDWR) < 0)
			return -1;
	return 0;
}

static int launch_close(char *value)
{
	(void)close(atoi(value));
	return 0;
}

static int launch_personality(char *value)
{
	return personality(strtoul(value, NULL, 0)) < 0 ? -1 : 0;
}

static int launch_argv0(char *value)
{
	launch_name = value;
	return 0;
}

static int launch_apply(char *word)
{
	static const struct {
		const char *key;
		int (*apply)(char *value);
	} words[] = {{"limit", launch_limit}, {"user", launch_user}, {"deny", launch_deny},
		{"namespaces", launch_namespaces}, {"block", launch_block},
		{"ignore", launch_ignore}, {"fds", launch_fds}, {"close", launch_close},
		{"personality", launch_personality}, {"argv0", launch_argv0}};
	char *equals = strchr(word, '=');
	errno = EINVAL;
	for (size_t i = 0; equals && i < sizeof words / sizeof *words; i++) {
		size_t n = strlen(words[i].key);
		if (n == (size_t)(equals - word) && memcmp(word, words[i].key, n) == 0)
			return words[i].apply(equals + 1);
	}
	return -1;
}

static int launch_cannot(const char *what)
{
	(void)fprintf(stderr, "environment_launch: %s: %s\n", what, strerror(errno));
	return LAUNCH_CANNOT;
}

int main(int argc, char **argv)
{
	int at = 1;
	for (; at < argc && strcmp(argv[at], "--") != 0; at++)
		if (launch_apply(argv[at]))
			return launch_cannot(argv[at]);
	if (++at >= argc)
		return launch_cannot("no program");
	const char *program = argv[at];
	if (launch_filter && (errno = -seccomp_load(launch_filter)))
		return launch_cannot("seccomp");
	if (launch_name)
		argv[at] = launch_name;
	(void)execvp(program, argv + at);
	return launch_cannot(program);
}
