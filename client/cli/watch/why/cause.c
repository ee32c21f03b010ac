/* cause: see cause.h. */
#include "client/cli/watch/why/cause.h"

#include "base/util.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CAUSE_SECOND_NS 1000000000ull
enum {
	/* Slurm sends SIGTERM at the deadline and SIGKILL KillWait (30 s by default) later; it
	 * checks jobs about every half minute. */
	CAUSE_DEADLINE_BEFORE_S = 65,
	CAUSE_DEADLINE_AFTER_S = 180,
	CAUSE_TOGETHER_S = 10, /* an end so soon after the daemon's is blamed on the daemon's */
	CAUSE_KILLS_S = 2, /* the counter that an end is compared with is up to a second old */
	CAUSE_WORD = 96,
};
/* Share of a limit that counts as "nearly used up": samples are a second apart. */
#define CAUSE_NEAR 0.85
/* Share of the machine's memory: less than this left counts as short. */
#define CAUSE_SHORT 0.05
#define CAUSE_GPU_FULL 0.95

int cause_signal(const struct story_end *end)
{
	const struct record_exit *e = end->exit;
	return e && e->known && WIFSIGNALED(e->status) ? WTERMSIG(e->status) : 0;
}

int cause_exit_code(const struct story_end *end)
{
	const struct record_exit *e = end->exit;
	return e && e->known && WIFEXITED(e->status) ? WEXITSTATUS(e->status) : -1;
}

static void cause_set(struct story_end *end, enum story_cause cause, enum story_sure sure)
{
	end->cause = cause;
	end->sure = sure;
}

/* ---- memory ---- */

static bool cause_limited(const struct story_numbers *n)
{
	return n->cgroup.limit != STORY_UNKNOWN && n->cgroup.limit > 0;
}

bool cause_limit_near(const struct story_numbers *n)
{
	return cause_limited(n) && n->cgroup.used != STORY_UNKNOWN &&
	       (double)n->cgroup.used >= CAUSE_NEAR * (double)n->cgroup.limit;
}

static bool cause_machine_short(const struct story_numbers *n)
{
	return n->machine_known && n->available != STORY_UNKNOWN && n->total != STORY_UNKNOWN &&
	       (double)n->available < CAUSE_SHORT * (double)n->total;
}

/* The cgroup's counter counts kills by either OOM killer. So the counters do not tell the two
 * apart; whichever memory was nearly used up does. */
static void cause_oom(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	bool narrow = cause_machine_short(n), near = cause_limit_near(n);
	bool own = n->cgroup.oom_kills != STORY_UNKNOWN, killed = cause_signal(end) == SIGKILL;
	bool cgroup = near || (cause_limited(n) && !narrow);
	bool clear = cgroup ? own && !narrow : narrow;
	cause_set(end, cgroup ? STORY_CGROUP_OOM : STORY_MACHINE_OOM,
		killed && clear ? STORY_CERTAIN : STORY_LIKELY);
}

/* ---- time ---- */

static double cause_seconds(const char *text, const char **ret_behind)
{
	static const char units[] = "smhd";
	static const double each[] = {1, 60, 3600, 86400};
	char *behind;
	double value = strtod(text, &behind);
	const char *unit = *behind ? strchr(units, *behind) : NULL;
	if (behind == text || !(value > 0) || !isfinite(value))
		return -1;
	if (unit)
		value *= each[unit - units];
	*ret_behind = behind + (unit != NULL);
	return value;
}

/* The seconds of a word that is a duration; negative if it is not one. */
static double cause_duration(const char *word)
{
	const char *behind;
	double seconds = cause_seconds(word, &behind);
	return seconds > 0 && !*behind ? seconds : -1;
}

static const char *cause_word(const char *text, char word[CAUSE_WORD])
{
	size_t length;
	text += strspn(text, " ");
	length = strcspn(text, " ");
	size_t kept = UTIL_MIN(length, (size_t)CAUSE_WORD - 1);
	memcpy(word, text, kept);
	word[kept] = 0;
	return text + length;
}

/* The value of an option in one of getopt's forms: "-k5", "--kill-after=5", or "" for "-k 5", whose
 * value is the next word. NULL if the word is not this option. */
static const char *cause_option(const char *word, const char *shortly, const char *longly)
{
	size_t length = strlen(longly);
	if (strncmp(word, longly, length) == 0 && (word[length] == '=' || !word[length]))
		return word + length + (word[length] == '=');
	return strncmp(word, shortly, 2) == 0 ? word + 2 : NULL;
}

bool cause_timeout(const char *command, double *ret_s, double *ret_kill_s)
{
	char word[CAUSE_WORD], value[CAUSE_WORD];
	command = cause_word(command, word);
	const char *name = strrchr(word, '/');
	if (strcmp(name ? name + 1 : word, "timeout") != 0)
		return false;
	double kill_s = 0;
	for (;;) {
		command = cause_word(command, word);
		if (word[0] != '-')
			break;
		const char *kill = cause_option(word, "-k", "--kill-after");
		const char *given = kill ? kill : cause_option(word, "-s", "--signal");
		if (given && !*given)
			command = cause_word(command, value);
		if (kill)
			kill_s = cause_duration(*kill ? kill : value);
	}
	double seconds = cause_duration(word);
	if (seconds <= 0)
		return false;
	*ret_s = seconds;
	*ret_kill_s = UTIL_MAX(kill_s, 0.0);
	return true;
}

static double cause_lived(const struct story_end *end)
{
	if (end->numbers.lived_s != STORY_UNKNOWN)
		return (double)end->numbers.lived_s;
	return (double)(end->end_ns - UTIL_MIN(end->since_ns, end->end_ns)) / CAUSE_SECOND_NS;
}

static bool cause_about(double lived, double limit)
{
	return lived >= limit - 1.5 && lived <= limit + UTIL_MAX(3.0, limit / 50);
}

static bool cause_was_timeout(struct story_end *end)
{
	double limit, kill, lived = cause_lived(end);
	if (!cause_timeout(end->parent_command, &limit, &kill))
		return false;
	if (!cause_about(lived, limit) && !(kill > 0 && cause_about(lived, limit + kill)))
		return false;
	end->limit = STORY_LIMIT_TIMEOUT;
	end->limit_s = (uint64_t)(limit + 0.5);
	return true;
}

static bool cause_was_deadline(struct story_end *end)
{
	if (end->deadline_s <= 0)
		return false;
	int64_t late = (int64_t)(end->end_ns / CAUSE_SECOND_NS) - end->deadline_s;
	if (late < -CAUSE_DEADLINE_BEFORE_S || late > CAUSE_DEADLINE_AFTER_S)
		return false;
	end->limit = STORY_LIMIT_DEADLINE;
	end->limit_s = (uint64_t)UTIL_MAX(late, (int64_t)0);
	return true;
}

static bool cause_was_cpu(struct story_end *end, int sig)
{
	uint64_t limit = end->cpu_limit_s, used = end->numbers.cpu_ns;
	bool spent = limit != STORY_UNKNOWN && used != STORY_UNKNOWN &&
		     used / CAUSE_SECOND_NS + 1 >= limit;
	if (sig != SIGXCPU && !(sig == SIGKILL && spent))
		return false;
	end->limit = STORY_LIMIT_CPU;
	end->limit_s = limit;
	return true;
}

/* `sig` 0: the exit status is unknown, so only the time tells. */
static bool cause_time(struct story_end *end, int sig)
{
	bool asked = sig == SIGTERM || sig == SIGKILL || sig == SIGINT || sig == SIGHUP || !sig;
	if (cause_was_cpu(end, sig)) {
		cause_set(end, STORY_TIME, sig == SIGXCPU ? STORY_CERTAIN : STORY_LIKELY);
		return true;
	}
	if (!asked || !(cause_was_timeout(end) || cause_was_deadline(end)))
		return false;
	cause_set(end, STORY_TIME, sig ? STORY_LIKELY : STORY_POSSIBLE);
	return true;
}

/* ---- a status ---- */

static bool cause_crashes(int sig)
{
	static const int raised[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
	for (size_t i = 0; i < UTIL_COUNT(raised); i++)
		if (sig == raised[i])
			return true;
	return false;
}

static void cause_of_signal(struct story_end *end, int sig)
{
	if (sig == SIGKILL && end->numbers.oom_kills)
		cause_oom(end);
	else if (cause_crashes(sig))
		cause_set(end, STORY_CRASH, STORY_CERTAIN);
	else if (!cause_time(end, sig))
		cause_set(end, STORY_SIGNAL, STORY_CERTAIN);
}

static bool cause_gpu_full(const struct story_numbers *n)
{
	for (unsigned i = 0; n->gpu_bytes && i < n->gpus; i++)
		if (n->gpu[i].total && n->gpu[i].total != STORY_UNKNOWN &&
			(double)n->gpu[i].used >= CAUSE_GPU_FULL * (double)n->gpu[i].total)
			return true;
	return false;
}

/* Its exit status is unknown: only what surrounded its end tells. */
static void cause_of_silence(struct story_end *end, bool orderly)
{
	if (end->numbers.oom_kills) {
		cause_oom(end);
		return;
	}
	if (orderly)
		cause_set(end, STORY_ORDER, STORY_LIKELY);
	else if (!cause_time(end, 0))
		cause_set(end, STORY_ENDED, STORY_CERTAIN);
}

/* ---- trainers ---- */

uint64_t cause_gone_ns(const struct story *story, const struct story_end *daemon)
{
	if (!daemon || daemon->cause == STORY_RUNNING)
		return 0;
	return story->why_ns ? UTIL_MIN(story->why_ns, daemon->end_ns) : daemon->end_ns;
}

/* Whether it ended within seconds after the daemon began to end. */
static bool cause_follows(uint64_t end_ns, uint64_t gone_ns)
{
	return gone_ns && end_ns >= gone_ns &&
	       end_ns - gone_ns < CAUSE_TOGETHER_S * CAUSE_SECOND_NS;
}

/* The exit codes by which a shell, or the process's own handler, reports a signal that asked it to
 * end. */
static bool cause_code_of_asking(int code)
{
	return code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGHUP ||
	       code == 128 + SIGKILL;
}

/* The signal that the daemon received may have reached its trainers, too: Ctrl-C, the end of a
 * job. */
static enum story_sure cause_gone_sure(const struct story *story)
{
	static const char signalled[] = "asked: by signal";
	bool all = story->why && strncmp(story->why, signalled, sizeof signalled - 1) == 0;
	return all ? STORY_POSSIBLE : STORY_LIKELY;
}

static void cause_of_code(struct story_end *end, const struct story *story, uint64_t gone_ns)
{
	int code = cause_exit_code(end);
	bool orderly = end->opened && end->closed == end->opened;
	bool own = end->numbers.gpu_bytes != STORY_UNKNOWN;
	if (code && end->leave && end->leave->how == RECORD_EXPELLED)
		cause_set(end, STORY_EXPELLED, STORY_CERTAIN);
	else if (code && !cause_code_of_asking(code) && cause_follows(end->end_ns, gone_ns))
		cause_set(end, STORY_DAEMON_GONE, cause_gone_sure(story));
	else if (code == 1 && cause_gpu_full(&end->numbers))
		cause_set(end, STORY_GPU_OOM, own ? STORY_LIKELY : STORY_POSSIBLE);
	else if (code)
		cause_set(end, STORY_EXIT_CODE, STORY_CERTAIN);
	else
		cause_set(end, orderly ? STORY_ORDER : STORY_UNCLOSED, STORY_CERTAIN);
}

/* Recorder and daemon each write an end when they see it, so the exit status may appear a moment
 * later. */
static bool cause_fresh(const struct story_end *end, const struct story *story,
	const struct story_end *daemon, const struct story_now *now)
{
	enum { FRESH_S = 2 };
	bool goes_on = daemon && daemon->cause == STORY_RUNNING;
	uint64_t last_ns = goes_on ? UTIL_MAX(now->time_ns, story->last_ns) : story->last_ns;
	return end->left_ns + FRESH_S * CAUSE_SECOND_NS > last_ns;
}

static bool cause_drained(const struct story_end *end)
{
	return end->leave && end->leave->how == RECORD_DRAINED;
}

static bool cause_is_known(const struct story_end *end)
{
	return end->fate.daemon || end->fate.lives;
}

/* A daemon that is asked to end announces that, and a trainer that waits for the next daemon then
 * closes its streams. */
static bool cause_goes_on(const struct story_end *end, uint64_t gone_ns)
{
	return cause_is_known(end) && gone_ns &&
	       end->left_ns + CAUSE_TOGETHER_S * CAUSE_SECOND_NS >= gone_ns;
}

/* The record has no exit status of this process. */
static void cause_without_exit(
	struct story_end *end, const struct story_end *daemon, uint64_t gone_ns, bool fresh)
{
	bool over = end->opened && end->left == end->opened;
	if (over && end->closed == end->opened)
		cause_set(end, cause_goes_on(end, gone_ns) ? STORY_OUTLIVED : STORY_ORDER,
			STORY_CERTAIN);
	else if (over && end->leave && end->leave->how == RECORD_EXPELLED)
		cause_set(end, STORY_EXPELLED, STORY_CERTAIN);
	else if (over && end->leave && end->leave->how == RECORD_PROCESS_ENDED)
		cause_set(end, STORY_ENDED, fresh ? STORY_POSSIBLE : STORY_CERTAIN);
	else if (over && fresh && !gone_ns && !cause_drained(end))
		cause_set(end, STORY_ENDED, STORY_POSSIBLE);
	else if (over && !cause_drained(end) && !cause_follows(end->left_ns, gone_ns))
		cause_set(end, STORY_HUNG_UP, STORY_CERTAIN);
	else if (!gone_ns)
		cause_set(end, STORY_RUNNING, STORY_CERTAIN);
	else if (!cause_is_known(end) &&
		 (daemon->cause == STORY_REBOOT || daemon->cause == STORY_VANISHED))
		cause_set(end, daemon->cause, STORY_POSSIBLE);
	else
		cause_set(end, STORY_OUTLIVED, STORY_CERTAIN);
}

static struct story_fate cause_fate(const struct story_end *end, const struct story *story,
	uint64_t gone_ns, const struct story_now *now)
{
	if (!now->fate || !gone_ns || !story->start || !end->attach)
		return (struct story_fate){0};
	return now->fate(now->fate_context, story->start, end->attach, gone_ns);
}

void cause_of_trainer(struct story_end *end, const struct story *story,
	const struct story_end *daemon, const struct story_now *now)
{
	uint64_t gone_ns = cause_gone_ns(story, daemon);
	bool orderly = end->opened && end->closed == end->opened;
	int sig = cause_signal(end);
	end->fate = cause_fate(end, story, gone_ns, now);
	if (!end->exit)
		cause_without_exit(end, daemon, gone_ns, cause_fresh(end, story, daemon, now));
	else if (sig)
		cause_of_signal(end, sig);
	else if (cause_exit_code(end) >= 0)
		cause_of_code(end, story, gone_ns);
	else
		cause_of_silence(end, orderly);
}

/* Whether the same kills of the same cgroup had been counted when the other one ended, a moment
 * before. */
static bool cause_same_kills(const struct story_end *end, const struct story_end *other)
{
	uint64_t at = other->exit_ns;
	return other->exit && cause_signal(other) == SIGKILL && at <= end->exit_ns &&
	       end->exit_ns - at < CAUSE_KILLS_S * CAUSE_SECOND_NS &&
	       other->exit->cgroup.oom_kills == end->exit->cgroup.oom_kills &&
	       strcmp(other->exit->cgroup.path, end->exit->cgroup.path) == 0;
}

void cause_share_kills(const struct story *story, struct story_end *end)
{
	size_t before = 0;
	if ((end->cause != STORY_CGROUP_OOM && end->cause != STORY_MACHINE_OOM) || !end->exit)
		return;
	for (const struct story_end *other = story->end; other < story->end + story->count; other++)
		before += other != end && (other->exit_ns < end->exit_ns || other < end) &&
			  cause_same_kills(end, other);
	if (before >= end->numbers.oom_kills && end->sure == STORY_CERTAIN)
		end->sure = STORY_LIKELY;
}

/* ---- the daemon ---- */

static enum story_cause cause_said(const char *why)
{
	if (strncmp(why, "idle", 4) == 0)
		return STORY_IDLE;
	return strncmp(why, "failed", 6) == 0 ? STORY_FAILED : STORY_ASKED;
}

/* The record stops without an end. */
static void cause_of_nothing(
	struct story_end *end, const struct story *story, const struct story_now *now)
{
	const struct record_start *start = story->start;
	/* Entries come every second, or every tenth second while no trainer is connected. */
	enum { FRESH_S = 15 };
	bool fresh = now->time_ns < story->last_ns + FRESH_S * CAUSE_SECOND_NS;
	bool told = start && start->boot_id[0] && now->boot_id[0];
	if (now->daemon_lives || (story->elsewhere && fresh))
		cause_set(end, STORY_RUNNING, STORY_CERTAIN);
	else if (story->elsewhere)
		cause_set(end, STORY_VANISHED, STORY_POSSIBLE);
	else if (told && strcmp(start->boot_id, now->boot_id) != 0)
		cause_set(end, STORY_REBOOT, start->host[0] ? STORY_LIKELY : STORY_POSSIBLE);
	else
		cause_set(end, STORY_VANISHED, STORY_CERTAIN);
}

void cause_of_daemon(struct story_end *end, const struct story *story, const struct story_now *now)
{
	int sig = cause_signal(end), code = cause_exit_code(end);
	if (sig)
		cause_of_signal(end, sig);
	else if (code > 0 && !(story->why && cause_said(story->why) != STORY_FAILED))
		cause_set(end, story->why ? STORY_FAILED : STORY_EXIT_CODE, STORY_CERTAIN);
	else if (story->why)
		cause_set(end, cause_said(story->why), STORY_CERTAIN);
	else if (end->exit && code < 0)
		cause_of_silence(end, false);
	else if (end->exit)
		cause_set(end, STORY_ENDED, STORY_CERTAIN);
	else
		cause_of_nothing(end, story, now);
}
