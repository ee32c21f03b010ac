/* advice: see advice.h. */
#include "client/cli/watch/why/advice.h"

#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/phrase.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ADVICE_GREW 1.5 /* times its first memory: then growth is what to look at */

static void advice_set(struct story_end *end, const char *text)
{
	(void)snprintf(end->advice, sizeof end->advice, "%s", text);
}

#define ADVICE_ADD(end, ...) phrase_add((end)->advice, sizeof(end)->advice, __VA_ARGS__)

static bool advice_grew(const struct story_numbers *n)
{
	return n->memory_last != STORY_UNKNOWN && n->memory_first != STORY_UNKNOWN &&
	       (double)n->memory_last > ADVICE_GREW * (double)n->memory_first;
}

static void advice_cgroup(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	const char *where = phrase_cgroup(n->cgroup.path);
	char limit[PHRASE_NUMBER], budget[PHRASE_NUMBER];
	phrase_bytes(n->cgroup.limit, limit);
	phrase_bytes(n->budget, budget);
	if (end->daemon)
		ADVICE_ADD(end,
			"give penstockd a --memory below %s, so that it and the trainers fit into "
			"the %s's %s, or give the %s more",
			budget, where, limit, where);
	else if (advice_grew(n))
		ADVICE_ADD(end,
			"find what it keeps from batch to batch (losses with their graphs, lists, "
			"caches), or give the %s more than %s",
			where, limit);
	else
		ADVICE_ADD(end,
			"give the %s more than %s, or put less into it: smaller batches, fewer "
			"processes, a smaller --memory of penstockd (now %s)",
			where, limit, budget);
}

static void advice_machine(struct story_end *end)
{
	char total[PHRASE_NUMBER];
	ADVICE_ADD(end,
		"put less on this machine (it has %s), or give each job a cgroup with a memory "
		"limit, "
		"so that one that grows ends alone",
		phrase_bytes(end->numbers.total, total));
}

static void advice_time(struct story_end *end)
{
	static const char *const texts[] = {
		[STORY_LIMIT_NONE] = "give it more time",
		[STORY_LIMIT_CPU] =
			"raise the limit of CPU time (`ulimit -t`) of the shell or service "
			"that starts it",
		[STORY_LIMIT_TIMEOUT] = "give `timeout` more, or write a checkpoint on SIGTERM "
					"(timeout -k 60 sends SIGKILL only later)",
		[STORY_LIMIT_DEADLINE] = "ask for more (--time), or have Slurm say it beforehand "
					 "(--signal=TERM@120) and write a checkpoint then",
	};
	advice_set(end, texts[end->limit]);
}

static void advice_signal(struct story_end *end)
{
	int sig = cause_signal(end);
	if (strstr(end->parent_command, "slurmstepd"))
		advice_set(end,
			"Slurm started it: `sacct -j JOB -o State,ExitCode,Elapsed,"
			"Timelimit` says whether it was cancelled, preempted or out of time");
	else if (sig == SIGTERM)
		advice_set(end, "ask who ended it: a scheduler, a container that was stopped, "
				"systemd, kill; a trainer can write a checkpoint on SIGTERM");
	else if (sig == SIGHUP)
		advice_set(end, "start it with setsid, nohup or in tmux, so that it outlives the "
				"terminal");
	else if (sig == SIGKILL)
		advice_set(end,
			"ask who sends SIGKILL here: a scheduler, a container that is stopped "
			"by force, systemd's or earlyoom's watch over memory, kill -9");
	else if (sig == SIGXFSZ)
		advice_set(end, "raise the limit of file sizes (`ulimit -f`)");
	else
		advice_set(end, "its own output may say more");
}

static void advice_crash(struct story_end *end)
{
	if (end->daemon)
		ADVICE_ADD(end,
			"this is a fault of penstock's: please report it with its log and "
			"`coredumpctl info %d`; trainers may set reconnect_ms",
			end->pid);
	else if (cause_signal(end) == SIGBUS)
		advice_set(end, "look whether /dev/shm or a disk is full, or a data file was cut; "
				"PYTHONFAULTHANDLER=1 shows where a Python program was");
	else
		ADVICE_ADD(end,
			"`coredumpctl gdb %d` where cores are kept; PYTHONFAULTHANDLER=1 shows "
			"where "
			"a Python program was",
			end->pid);
}

static void advice_exit_code(struct story_end *end)
{
	int code = cause_exit_code(end);
	if (end->daemon)
		advice_set(end, "its log says why");
	else if (code == 128 + SIGKILL)
		advice_set(end,
			"look at what it starts: the OOM killer or a kill -9 took that, and "
			"its own output may name it");
	else if (code > 128)
		advice_set(end, "look at what it starts: its output names the one that died");
	else
		advice_set(end, "its own output has the reason (a Python trainer's traceback, on "
				"stderr or in the job's log)");
}

static void advice_gone(struct story_end *end)
{
	advice_set(end,
		"see how penstockd ended; with reconnect_ms a trainer waits for the next one "
		"and goes on");
}

static void advice_ended(struct story_end *end)
{
	advice_set(end, "whoever started it knows its exit code: a shell, the job's log, `sacct`");
}

static const char *const advice_plain[STORY_CAUSES] = {
	[STORY_RUNNING] = "",
	[STORY_ORDER] = "",
	[STORY_GPU_OOM] =
		"make its batches or its model smaller, or look with nvidia-smi who else holds "
		"that device's memory",
	[STORY_UNCLOSED] =
		"if it stopped too early, its own output says why; otherwise close the stream "
		"before the end (penstock_stream_close)",
	[STORY_EXPELLED] = "mend what the daemon says there; its log has it, too",
	[STORY_HUNG_UP] =
		"it has no data any more: see whether it closes descriptors that are not its "
		"own, or replaced itself by another program",
	[STORY_OUTLIVED] = "",
	[STORY_ASKED] = "",
	[STORY_IDLE] = "to keep it, start it with --idle-exit 0",
	[STORY_FAILED] = "do what it says there; its log has it, too",
	[STORY_VANISHED] =
		"look what ended both at once: a container or job that was removed, kill -9 of "
		"a process group, `journalctl -k`",
	[STORY_REBOOT] = "`last -x` and `journalctl -b -1 -e` show how the machine went down",
};

/* memory.oom.group, which Kubernetes sets, has the kernel kill all of a container at once. */
static void advice_vanished(struct story_end *end)
{
	if (cause_limit_near(&end->numbers))
		ADVICE_ADD(end,
			"the %s was nearly out of memory: look whether all of it was killed for "
			"that (`kubectl describe pod`: OOMKilled, `journalctl -k`), and give it "
			"more, or put less into it",
			phrase_cgroup(end->numbers.cgroup.path));
	else
		advice_set(end, advice_plain[STORY_VANISHED]);
}

void advice_write(struct story_end *end)
{
	static void (*const made[STORY_CAUSES])(struct story_end * end) = {
		[STORY_CGROUP_OOM] = advice_cgroup,
		[STORY_MACHINE_OOM] = advice_machine,
		[STORY_TIME] = advice_time,
		[STORY_SIGNAL] = advice_signal,
		[STORY_CRASH] = advice_crash,
		[STORY_EXIT_CODE] = advice_exit_code,
		[STORY_DAEMON_GONE] = advice_gone,
		[STORY_VANISHED] = advice_vanished,
		[STORY_ENDED] = advice_ended,
	};
	end->advice[0] = 0;
	if (made[end->cause])
		made[end->cause](end);
	else
		advice_set(end, advice_plain[end->cause]);
}
