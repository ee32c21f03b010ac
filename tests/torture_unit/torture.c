/* torture: the walk. See torture.h.
 *
 *   PROGRAM                what CI has time for: some sites of each scenario
 *   PROGRAM --all          each call site in each way (the nightly promise)
 *   PROGRAM --every        beyond that, each single call
 *   ... [--from N --of M] SCENARIO...       only those; of them a share
 *   PROGRAM --one MODE:SITE:NTH SCENARIO    one run, here, its output seen
 *
 * MODE is once, forever, eintr, short. One thread; each run is a child with an alarm. */
#include "torture_unit/torture.h"
#include "torture_unit/calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
const char *__lsan_default_suppressions(void);

/* libyaml 0.2.5 loses the pairs of a mapping when there is no memory for its node. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:yaml_parser_load\n";
}

enum { PATH_ROOM = 200, SENTENCE = 512, LIMIT_S = 40, BOUNDED_SITES = 5, FINDINGS_SHOWN = 200 };

static const char *const mode_name[CALLS_MODES] = {"once", "forever", "eintr", "short"};

enum outcome { RIGHT, REFUSED, MUTE, WRONG };

/* What a run's process tells. */
static struct told {
	bool ended; /* it came to its end */
	enum outcome outcome;
	int code;
	char sentence[SENTENCE], wrong[SENTENCE];
	int fds_before, fds_after, threads_after;
	unsigned mappings;
	bool leaked;
} * told;

char torture_room[96], torture_shared[96];

static struct {
	bool all, every;
	unsigned from, of;
	uint64_t runs, sites, refused, findings;
} walk = {.of = 1};

/* ---- what scenarios call ---- */

static char *join(const char *folder, const char *name)
{
	static char buffer[8][PATH_ROOM];
	static unsigned turn;
	char *path = buffer[turn++ % 8];
	(void)snprintf(path, PATH_ROOM, "%s/%s", folder, name);
	return path;
}

char *torture_given(const char *name)
{
	return join(torture_shared, name);
}

char *torture_own(const char *name)
{
	return join(torture_room, name);
}

static bool over;

void torture_on(void)
{
	calls_arm(!over);
}

void torture_over(void)
{
	over = true;
	calls_arm(false);
}

void torture_off(void)
{
	calls_arm(false);
}

bool torture_struck(void)
{
	return atomic_load(&calls->struck);
}

bool torture_struck_by(const char *call)
{
	return torture_struck() && strcmp(calls->struck_name, call) == 0;
}

static void say(enum outcome outcome, int code, const char *sentence)
{
	if (told->outcome != RIGHT)
		return;
	told->outcome = outcome;
	told->code = code;
	(void)snprintf(told->sentence, sizeof told->sentence, "%s", sentence ? sentence : "");
}

void torture_refused(int code, const char *sentence)
{
	torture_off();
	say(REFUSED, code, sentence);
}

void torture_mute(int code)
{
	torture_off();
	say(MUTE, code, "");
}

void torture_wrong(const char *format, ...)
{
	va_list list;
	torture_off();
	if (told->wrong[0])
		return;
	va_start(list, format);
	(void)vsnprintf(told->wrong, sizeof told->wrong, format, list);
	va_end(list);
}

/* ---- a run ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_all(const char *folder)
{
	(void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int count_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	int count = 0;
	while (dir && readdir(dir))
		count++;
	if (dir)
		(void)closedir(dir);
	return count;
}

/* Threads that were joined may be seen for a moment. */
static int threads_left(void)
{
	int count = 0;
	for (int i = 0; i < 200; i++) {
		count = count_entries("/proc/self/task") - 2;
		if (count <= 1)
			return count;
		(void)usleep(10000);
	}
	return count;
}

static _Noreturn void child(const struct torture_scenario *scenario, bool quiet)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIMIT_S);
	if (quiet) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		(void)dup2(null, 1);
		(void)close(null);
	}
	told->fds_before = count_entries("/proc/self/fd");
	scenario->run();
	torture_over();
	told->mappings = calls_mappings();
	told->fds_after = count_entries("/proc/self/fd");
	told->threads_after = threads_left();
	told->leaked = __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
	told->ended = true;
	_exit(0);
}

/* The child's standard error goes to a file, shown where there is something to tell. */
static int run(const struct torture_scenario *scenario, const char *log)
{
	int status = 0;
	*told = (struct told){0};
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(2);
	}
	if (pid == 0) {
		int out = log ? open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600)
			      : -1;
		if (out >= 0) {
			(void)dup2(out, 2);
			(void)close(out);
		}
		(void)mkdir(torture_room, 0700);
		child(scenario, log != NULL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	remove_all(torture_room);
	walk.runs++;
	return status;
}

/* ---- judging ---- */

/* NULL: as it has to be. */
static const char *judge(int status)
{
	static char text[SENTENCE + 64];
	if (WIFSIGNALED(status)) {
		(void)snprintf(text, sizeof text, "%s (%s)",
			WTERMSIG(status) == SIGALRM ? "hangs" : "ended by a signal",
			strsignal(WTERMSIG(status)));
		return text;
	}
	if (!told->ended) {
		(void)snprintf(text, sizeof text, "exited with %d", WEXITSTATUS(status));
		return text;
	}
	if (told->wrong[0]) {
		(void)snprintf(text, sizeof text, "wrong: %s", told->wrong);
		return text;
	}
	if (told->outcome != RIGHT && !atomic_load(&calls->struck)) {
		(void)snprintf(text, sizeof text, "refused without a reason: %s", told->sentence);
		return text;
	}
	if (told->outcome == REFUSED && !told->sentence[0])
		return "refused without a sentence";
	if (told->outcome == REFUSED && strstr(told->sentence, "Success"))
		return "refused with \"Success\"";
	if (told->outcome != RIGHT && calls->mode == CALLS_EINTR)
		return "refused for EINTR";
	if (told->outcome != RIGHT && calls->mode == CALLS_SHORT)
		return "refused for a short count";
	if (told->fds_after != told->fds_before) {
		(void)snprintf(text, sizeof text, "%d descriptors stay",
			told->fds_after - told->fds_before);
		return text;
	}
	if (told->mappings)
		return "mappings stay";
	if (told->threads_after > 1)
		return "threads stay";
	return told->leaked ? "memory leaks" : NULL;
}

static void show_frames(void)
{
	char exe[PATH_ROOM] = "", command[2048];
	(void)!readlink("/proc/self/exe", exe, sizeof exe - 1);
	extern const char __executable_start;
	unsigned long base = (unsigned long)(uintptr_t)&__executable_start;
	int size = snprintf(command, sizeof command, "addr2line -Cfpse %s", exe);
	for (int i = 0; i < calls->frames && size < (int)sizeof command - 24; i++)
		size += snprintf(command + size, sizeof command - (size_t)size, " 0x%lx",
			(unsigned long)(uintptr_t)calls->frame[i] - base - 1);
	(void)snprintf(
		command + size, sizeof command - (size_t)size, " | grep ':[0-9]' | sed 's/^/\t/'");
	(void)fflush(NULL);
	if (system(command) != 0)
		(void)printf("\t(no addr2line)\n");
}

static void show_log(const char *log)
{
	char line[400];
	FILE *file = fopen(log, "re");
	for (int i = 0; file && i < 25 && fgets(line, sizeof line, file); i++)
		(void)printf("\t| %s", line);
	if (file)
		(void)fclose(file);
}

static void finding(const struct torture_scenario *scenario, const char *what, const char *log)
{
	if (walk.findings++ >= FINDINGS_SHOWN)
		return;
	(void)printf("%s: %s\n\t%s failing (%s), --one %s:%" PRIx64 ":%" PRIu64 "\n",
		scenario->name, what, atomic_load(&calls->struck) ? calls->struck_name : "nothing",
		mode_name[calls->mode], mode_name[calls->mode], calls->target, calls->nth);
	if (told->outcome != RIGHT)
		(void)printf("\tcode %d: %s\n", told->code, told->sentence);
	if (atomic_load(&calls->struck))
		show_frames();
	show_log(log);
	(void)fflush(stdout);
}

/* ---- the walk ---- */

static void set_up(uint64_t target, uint64_t nth, enum calls_mode mode)
{
	calls->watch = false;
	calls->target = target;
	calls->nth = nth;
	calls->mode = mode;
	atomic_store(&calls->count, 0);
	atomic_store(&calls->at_target, 0);
	atomic_store(&calls->struck, false);
	atomic_store(&calls->strikes, 0);
	atomic_store(&calls->lock, 0);
	calls->frames = 0;
}

static bool verbose;

static void try(const struct torture_scenario *scenario, uint64_t target, uint64_t nth,
	enum calls_mode mode, const char *log)
{
	set_up(target, nth, mode);
	const char *what = judge(run(scenario, log));
	walk.refused += told->outcome != RIGHT;
	if (what)
		finding(scenario, what, log);
	else if (verbose && told->outcome == REFUSED)
		(void)printf("%s: %s %s: %d: %s\n", scenario->name, calls->struck_name,
			mode_name[mode], told->code, told->sentence);
}

static bool goes(enum calls_mode mode, const struct calls_site *site)
{
	return mode == CALLS_EINTR   ? site->interruptible
	       : mode == CALLS_SHORT ? site->divisible
				     : true;
}

static void walk_sites(const struct torture_scenario *scenario, const char *log)
{
	static struct calls_site site[CALLS_SITES];
	uint32_t sites = calls->sites;
	memcpy(site, calls->site, sites * sizeof *site);
	uint32_t step = walk.all || sites <= BOUNDED_SITES ? 1 : sites / BOUNDED_SITES;
	for (uint32_t i = (walk.all ? walk.from * step : step / 2); i < sites;
		i += step * (walk.all ? walk.of : 1)) {
		for (int mode = 0; mode < (walk.all ? CALLS_MODES : 1); mode++) {
			if (!goes(mode, &site[i]))
				continue;
			try(scenario, site[i].hash, 1, mode, log);
			/* In its steady state, too. */
			if (walk.all && site[i].times > 2 && mode < CALLS_EINTR)
				try(scenario, site[i].hash, site[i].times / 2 + 1, mode, log);
		}
	}
}

static void walk_every(const struct torture_scenario *scenario, uint64_t count, const char *log)
{
	for (uint64_t nth = 1 + walk.from; nth <= count; nth += walk.of)
		for (int mode = CALLS_ONCE; mode <= CALLS_FOREVER; mode++)
			try(scenario, 0, nth, mode, log);
}

static void set_folders(const struct torture_scenario *scenario, const char *base)
{
	(void)snprintf(torture_shared, sizeof torture_shared, "%s/given-%s", base, scenario->name);
	(void)snprintf(torture_room, sizeof torture_room, "%s/room", base);
}

static bool prepare(const struct torture_scenario *scenario)
{
	int status = 0;
	(void)mkdir(torture_shared, 0700);
	if (!scenario->prepare)
		return true;
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		scenario->prepare();
		(void)fflush(NULL);
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	return status == 0;
}

static void torture(const struct torture_scenario *scenario, const char *base)
{
	char log[PATH_ROOM];
	(void)snprintf(log, sizeof log, "%s/log", base);
	set_folders(scenario, base);
	if (!prepare(scenario)) {
		(void)printf("%s: cannot be prepared\n", scenario->name);
		walk.findings++;
		return;
	}
	set_up(0, 0, CALLS_ONCE);
	calls->watch = true;
	calls->sites = 0;
	struct timespec began, ended;
	(void)clock_gettime(CLOCK_MONOTONIC, &began);
	const char *what = judge(run(scenario, log));
	uint64_t count = atomic_load(&calls->count);
	uint32_t sites = calls->sites;
	if (what) {
		finding(scenario, what, log);
	} else {
		walk.sites += sites;
		if (walk.every)
			walk_every(scenario, count, log);
		else
			walk_sites(scenario, log);
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &ended);
	(void)printf("%-24s %5" PRIu32 " sites, %7" PRIu64
		     " calls, %.0f s, findings so far %" PRIu64 "\n",
		scenario->name, sites, count, difftime(ended.tv_sec, began.tv_sec), walk.findings);
	(void)fflush(stdout);
	remove_all(torture_shared);
}

static int one(const struct torture_scenario *scenario, const char *which, const char *base)
{
	char word[16] = "";
	uint64_t target = 0, nth = 0;
	if (sscanf(which, "%15[a-z]:%" SCNx64 ":%" SCNu64, word, &target, &nth) != 3)
		return 2;
	set_folders(scenario, base);
	if (!prepare(scenario))
		return 2;
	for (int mode = 0; mode < CALLS_MODES; mode++) {
		if (strcmp(word, mode_name[mode]) != 0)
			continue;
		set_up(target, nth, mode);
		const char *what = judge(run(scenario, NULL));
		(void)printf("%s: struck %s, code %d: %s\n", what ? what : "as it has to be",
			atomic_load(&calls->struck) ? calls->struck_name : "nothing", told->code,
			told->sentence);
		show_frames();
		remove_all(torture_shared);
		return what != NULL;
	}
	return 2;
}

static bool wanted(const struct torture_scenario *scenario, char **names)
{
	bool all = !*names;
	for (; *names && !all; names++)
		all = strncmp(scenario->name, *names, strlen(*names)) == 0;
	return all;
}

/* `last` NULL: the first one. */
static const struct torture_scenario *next_scenario(
	size_t *list, const struct torture_scenario *last)
{
	const struct torture_scenario *next = last ? last + 1 : torture_lists[*list];
	while (next && !next->name)
		next = torture_lists[++*list];
	return next;
}

static char **options(int argc, char **argv, const char **ret_one)
{
	char **at = argv + 1;
	(void)argc;
	for (; *at && strncmp(*at, "--", 2) == 0; at++) {
		if (strcmp(*at, "--all") == 0)
			walk.all = true;
		else if (strcmp(*at, "--every") == 0)
			walk.every = walk.all = true;
		else if (strcmp(*at, "--verbose") == 0)
			verbose = true;
		else if (strcmp(*at, "--from") == 0 && at[1])
			walk.from = (unsigned)strtoul(*++at, NULL, 10);
		else if (strcmp(*at, "--of") == 0 && at[1])
			walk.of = (unsigned)strtoul(*++at, NULL, 10);
		else if (strcmp(*at, "--one") == 0 && at[1])
			*ret_one = *++at;
		else
			exit(2);
	}
	if (walk.of == 0)
		walk.of = 1;
	return at;
}

/* Addresses, and so the names of sites, are the same each time. */
static void settle(char **argv)
{
	const int fixed = 0x0040000; /* ADDR_NO_RANDOMIZE */
	extern int personality(unsigned long persona);
	int now = personality(0xffffffff);
	if (now >= 0 && !(now & fixed) && personality((unsigned long)now | fixed) >= 0)
		(void)execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	const char *which = NULL;
	settle(argv);
	char **names = options(argc, argv, &which);
	char base[64] = "/tmp/penstock-torture-XXXXXX";
	int result = 0;
	calls = mmap(
		NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (calls == MAP_FAILED || told == MAP_FAILED || !mkdtemp(base)) {
		perror("torture");
		return 2;
	}
	size_t list = 0;
	const struct torture_scenario *scenario = NULL;
	while ((scenario = next_scenario(&list, scenario))) {
		if (!wanted(scenario, names))
			continue;
		if (which)
			result = one(scenario, which, base);
		else
			torture(scenario, base);
	}
	remove_all(base);
	if (which)
		return result;
	(void)printf("%s%" PRIu64 " call sites, %" PRIu64 " runs, %" PRIu64
		     " refused in a sentence, %" PRIu64 " findings\n",
		getenv("PENSTOCK_TEST_NIGHTLY") && !walk.findings ? "promise: " : "", walk.sites,
		walk.runs, walk.refused, walk.findings);
	return walk.findings != 0;
}
