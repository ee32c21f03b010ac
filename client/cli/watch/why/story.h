/* story: turns the recorder's entries into what happened: how each trainer and the daemon ended, in
 * sentences with their numbers.
 *
 * Pure: it uses only the records and what the caller tells about the present, and claims no more
 * than they show; where a doubt remains, the sentence and `sure` say so. A process that attached
 * several times (one stream per epoch) has one story. Any thread. */
#pragma once

#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STORY_SENTENCE = 768,
	STORY_LINES = 24,
	STORY_LABEL = 12,
	STORY_TEXT = 640,
};

/* An unknown number of bytes or seconds. */
#define STORY_UNKNOWN UINT64_MAX

enum story_cause {
	STORY_RUNNING, /* as far as the record tells */
	STORY_ORDER, /* closed all that it had opened, with no known bad exit code */
	STORY_CGROUP_OOM, /* killed because of the memory limit of its cgroup */
	STORY_MACHINE_OOM, /* killed because the whole machine was short of memory */
	STORY_TIME, /* ran out of time: CPU limit, `timeout`, the deadline of its job */
	STORY_SIGNAL, /* killed by any other signal */
	STORY_CRASH, /* ended by a signal that it raised itself, such as SIGSEGV */
	STORY_GPU_OOM, /* ended with an exit code while the memory of a GPU was full */
	STORY_EXIT_CODE, /* ended with another nonzero exit code */
	STORY_UNCLOSED, /* ended with exit code 0 and its streams open */
	STORY_EXPELLED, /* the daemon closed the connection */
	STORY_HUNG_UP, /* hung up without closing its streams; the process is running */
	STORY_OUTLIVED, /* was connected when the daemon ended; no end is known */
	STORY_DAEMON_GONE, /* ended right after the daemon had */
	STORY_ASKED, /* the daemon: ended on request */
	STORY_IDLE, /* the daemon: no trainer was left */
	STORY_FAILED, /* the daemon: with its own error */
	STORY_VANISHED, /* the record stops without an end */
	STORY_REBOOT, /* the same, and the machine has booted since */
	STORY_ENDED, /* ended in an unknown way */
	STORY_CAUSES
};

enum story_sure { STORY_CERTAIN, STORY_LIKELY, STORY_POSSIBLE };

enum story_limit { /* of STORY_TIME */
	STORY_LIMIT_NONE,
	STORY_LIMIT_CPU, /* RLIMIT_CPU */
	STORY_LIMIT_TIMEOUT, /* its parent was timeout(1) */
	STORY_LIMIT_DEADLINE, /* of its job */
};

/* What led to the end. Unknown bytes and seconds are STORY_UNKNOWN, unknown shares negative. */
struct story_numbers {
	/* Resident memory; `before`: ten minutes before the end. */
	uint64_t memory_first, memory_before, memory_last, memory_peak;
	uint64_t anonymous, shared, swapped; /* at the last sample */
	uint64_t first_ns, last_ns; /* Unix time of those samples; 0: there is none */
	bool grows; /* whether growth_per_hour is known */
	double growth_per_hour; /* bytes; over the last ten minutes if it lived that long */
	struct record_cgroup cgroup; /* `used` before its end */
	uint64_t cgroup_used_after;
	uint32_t oom_kills; /* counted since the last sample */
	uint64_t lived_s, cpu_ns;
	bool machine_known;
	uint64_t available, total, swap_free, disk_free;
	struct record_pressure pressure;
	struct record_gpu gpu[RECORD_GPUS]; /* `used`: the most in its last seconds */
	unsigned gpus;
	uint64_t gpu_bytes; /* of this process, on all GPUs */
	bool place_known;
	uint64_t epoch, batch, given;
	uint32_t held, slots;
	float waits; /* mean of its last minute */
	bool daemon_known;
	uint64_t reserved, budget, daemon_resident;
	float images_per_s;
	char verdict[RECORD_TEXT];
};

struct story_line {
	char label[STORY_LABEL], text[STORY_TEXT];
};

/* What is known about a process besides these records. */
struct story_fate {
	int32_t daemon; /* pid of the later daemon that it attached to; 0: none known */
	bool lives; /* it is running now */
};

/* One process. The pointers lead into the records. */
struct story_end {
	bool daemon;
	int32_t pid;
	uint64_t start_ticks; /* 0: not known */
	/* The latest; NULL for the daemon, or when newer entries replaced it in the file. */
	const struct record_attach *attach;
	const struct record_leave *leave; /* the latest; an expulsion takes precedence */
	const struct record_exit *exit;
	const char *parent_command; /* "": not known */
	int64_t deadline_s; /* as in record_attach */
	uint64_t cpu_limit_s;
	uint64_t since_ns, left_ns, exit_ns; /* Unix time; 0: unknown, or not yet */
	uint64_t end_ns; /* when it ended; if it runs, when it was last seen */
	unsigned opened, left, closed; /* connections: all, ended, ended normally */
	struct story_fate fate; /* of STORY_OUTLIVED */

	enum story_cause cause;
	enum story_sure sure;
	enum story_limit limit;
	uint64_t
		limit_s; /* seconds of that limit; for a deadline: how long after it the end came */
	int event; /* processes with the same number ended together, 0 the latest; -1: no event */
	struct story_numbers numbers;
	char sentence[STORY_SENTENCE], advice[STORY_TEXT];
	struct story_line line[STORY_LINES];
	unsigned lines;
};

/* What the caller knows about the present. */
struct story_now {
	uint64_t time_ns; /* Unix time */
	const char *boot_id; /* of this machine; "" if unknown */
	const char *host;
	bool daemon_lives; /* the process that story_start names */
	/* What became of a trainer after the daemon of these records ended; NULL: unknown. */
	struct story_fate (*fate)(void *context, const struct record_start *start,
		const struct record_attach *attach, uint64_t since_ns);
	void *fate_context;
};

struct story {
	const struct record_start *start; /* NULL: not in the file */
	const char *why; /* the daemon's own reason for its end, or NULL */
	uint64_t first_ns, last_ns, why_ns; /* of the records */
	struct story_end *end;
	size_t count;
	int events;
	bool elsewhere; /* written on another machine */
};

/* The daemon that wrote the records, or NULL. Callers need it to fill in story_now. */
const struct record_start *story_start(const struct record *records, size_t count);

/* Tells everything. The texts in the records are zero-terminated, as ring_read delivers them;
 * `records` must outlive the story. Processes that did not end normally come first, the latest
 * event first, and within an event by time; then the others, the latest first. 0 or -ENOMEM. */
int story_tell(const struct record *records, size_t count, const struct story_now *now,
	struct story *ret_story);
void story_free(struct story *story);

/* Whether to report it to a user who did not ask about this process: the daemon once it has ended,
 * and a trainer that did not end normally. */
bool story_matters(const struct story_end *end);

/* "2 trainers and penstockd ended within 0.8 s; the first was trainer 4121". False if fewer than
 * two processes belong to the event. */
bool story_event(const struct story *story, int event, char *buffer, size_t room);

const char *story_cause_name(enum story_cause cause); /* "cgroup_oom" */
const char *story_sure_name(enum story_sure sure); /* "certain", "likely", "possible" */
