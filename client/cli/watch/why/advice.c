/* advice: see advice.h. */
#include "client/cli/watch/why/advice.h"

#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A process that grew by more than this factor is advised about growth. */
#define ADVICE_GREW 1.5

static void advice_set(struct story_end *end, const char *text)
{
	(void)snprintf(end->advice, sizeof end->advice, "%s", text);
}

#define ADVICE_ADD(end, ...) words_add((end)->advice, sizeof(end)->advice, __VA_ARGS__)

static bool advice_grew(const struct story_numbers *n)
{
	return n->memory_last != STORY_UNKNOWN && n->memory_first != STORY_UNKNOWN &&
	       (double)n->memory_last > ADVICE_GREW * (double)n->memory_first;
}

static void advice_cgroup(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	const char *where = words_cgroup(n->cgroup.path);
	char limit[WORDS_NUMBER], budget[WORDS_NUMBER];
	words_bytes(n->cgroup.limit, limit);
	words_bytes(n->budget, budget);
	if (end->daemon)
		ADVICE_ADD(end,
			"start penstockd with a --memory below %s, so that it and the trainers fit "
			"into the %s's %s, or give the %s more memory",
			budget, where, limit, where);
	else if (advice_grew(n))
		ADVICE_ADD(end,
			"find what the trainer keeps from batch to batch (losses with their "
			"graphs, "
			"lists, caches), or give the %s more than %s",
			where, limit);
	else
		ADVICE_ADD(end,
			"give the %s more than %s, or use less: smaller batches, fewer processes, "
			"a "
			"smaller --memory of penstockd (now %s)",
			where, limit, budget);
}

static void advice_machine(struct story_end *end)
{
	char total[WORDS_NUMBER];
	ADVICE_ADD(end,
		"run less on this machine (it has %s), or give each job a cgroup with a memory "
		"limit, so that a job that grows ends only itself",
		words_bytes(end->numbers.total, total));
}

static void advice_time(struct story_end *end)
{
	static const char *const texts[] = {
		[STORY_LIMIT_NONE] = "give it more time",
		[STORY_LIMIT_CPU] =
			"raise the CPU time limit (`ulimit -t`) of the shell or service that "
			"starts it",
		[STORY_LIMIT_TIMEOUT] =
			"give `timeout` more time, or write a checkpoint on SIGTERM "
			"(timeout -k 60 sends SIGKILL 60 s later)",
		[STORY_LIMIT_DEADLINE] = "ask for more time (--time), or have Slurm warn the job "
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
		advice_set(end, "find what ended it: a scheduler, a container that was stopped, "
				"systemd, or kill; a trainer can write a checkpoint on SIGTERM");
	else if (sig == SIGHUP)
		advice_set(end, "start it with setsid, nohup or in tmux, so that it outlives the "
				"terminal");
	else if (sig == SIGKILL)
		advice_set(end,
			"find what sends SIGKILL here: a scheduler, a container that is stopped "
			"by force, systemd-oomd or earlyoom, kill -9");
	else if (sig == SIGXFSZ)
		advice_set(end, "raise the file size limit (`ulimit -f`)");
	else
		advice_set(end, "its own output may say more");
}

static void advice_crash(struct story_end *end)
{
	if (end->daemon)
		ADVICE_ADD(end,
			"this is a bug in penstock: please report it with its log and `coredumpctl "
			"info %d`; trainers can set reconnect_ms to survive it",
			end->pid);
	else if (cause_signal(end) == SIGBUS)
		advice_set(end, "check whether /dev/shm or a disk is full, or a data file was cut; "
				"PYTHONFAULTHANDLER=1 shows where a Python program was");
	else
		ADVICE_ADD(end,
			"run `coredumpctl gdb %d` where the system keeps core dumps; "
			"PYTHONFAULTHANDLER=1 shows where a Python program was",
			end->pid);
}

static void advice_exit_code(struct story_end *end)
{
	int code = cause_exit_code(end);
	if (end->daemon)
		advice_set(end, "read its log");
	else if (code == 128 + SIGKILL)
		advice_set(end,
			"check the programs that it runs: the OOM killer or a kill -9 ended one, "
			"and its own output may name it");
	else if (code > 128)
		advice_set(
			end, "check the programs that it runs: its output names the one that died");
	else
		advice_set(end, "its own output has the reason (a Python trainer's traceback, on "
				"stderr or in the job's log)");
}

static void advice_gone(struct story_end *end)
{
	advice_set(end,
		"see how penstockd ended; with reconnect_ms a trainer waits for the next daemon "
		"and continues");
}

static void advice_ended(struct story_end *end)
{
	advice_set(end, "ask what started it for its exit code: the shell, the job's log, `sacct`");
}

static const char *const advice_plain[STORY_CAUSES] = {
	[STORY_RUNNING] = "",
	[STORY_ORDER] = "",
	[STORY_GPU_OOM] =
		"make its batches or its model smaller, or look in nvidia-smi for other processes "
		"that hold memory of that GPU",
	[STORY_UNCLOSED] =
		"if it stopped too early, read its own output; otherwise close the stream before "
		"the end (penstock_stream_close)",
	[STORY_EXPELLED] = "fix what the daemon reports there; its log has it, too",
	[STORY_HUNG_UP] = "it gets no more data: check whether it closes descriptors that it did "
			  "not open, or "
			  "replaced itself by another program (exec)",
	[STORY_OUTLIVED] = "",
	[STORY_ASKED] = "",
	[STORY_IDLE] = "to keep it, start it with --idle-exit 0",
	[STORY_FAILED] = "do what that message says; its log has it, too",
	[STORY_VANISHED] =
		"find what ended both at once: a container or job that was removed, kill -9 of a "
		"process group; `journalctl -k` may tell",
	[STORY_REBOOT] = "`last -x` and `journalctl -b -1 -e` show how the machine went down",
};

/* With memory.oom.group, which Kubernetes sets, the kernel kills all of a container at once. */
static void advice_vanished(struct story_end *end)
{
	if (cause_limit_near(&end->numbers))
		ADVICE_ADD(end,
			"the %s was nearly out of memory: check whether the kernel killed all of "
			"it "
			"for that (`kubectl describe pod`: OOMKilled, `journalctl -k`), and give "
			"it more memory, or use less",
			words_cgroup(end->numbers.cgroup.path));
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
