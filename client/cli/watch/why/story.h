/* story: entries of the recorder into what happened: how each trainer ended, and the daemon, in
 * sentences with their numbers.
 *
 * Pure: it looks at the records and at what its caller says of now, at nothing else, and claims no
 * more than they show; where they leave a doubt, the sentence and `sure` say so. A process that
 * attached several times (a stream per epoch) is one story. Any thread. */
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

/* Bytes and seconds that nobody knows. */
#define STORY_UNKNOWN UINT64_MAX

enum story_cause {
	STORY_RUNNING, /* as far as the record goes */
	STORY_ORDER, /* closed what it had opened; no bad exit code is known */
	STORY_CGROUP_OOM, /* killed for the memory limit of its cgroup */
	STORY_MACHINE_OOM, /* killed since the whole machine was short of memory */
	STORY_TIME, /* its time was up: CPU limit, `timeout`, the deadline of its job */
	STORY_SIGNAL, /* killed by a signal of none of these kinds */
	STORY_CRASH, /* by a signal that it raised itself: SIGSEGV and the like */
	STORY_GPU_OOM, /* an exit code, with the GPU's memory full just before */
	STORY_EXIT_CODE, /* another exit code than 0 */
	STORY_UNCLOSED, /* exit code 0, its streams still open */
	STORY_EXPELLED, /* the daemon closed the connection */
	STORY_HUNG_UP, /* without closing its streams, and the process lives on */
	STORY_OUTLIVED, /* was connected when the daemon ended, and no end of it is known */
	STORY_DAEMON_GONE, /* ended right after the daemon had */
	STORY_ASKED, /* the daemon: somebody asked it to end */
	STORY_IDLE, /* the daemon: nobody was there any more */
	STORY_FAILED, /* the daemon: with its own error */
	STORY_VANISHED, /* nobody saw the end: the record stops */
	STORY_REBOOT, /* the same, and the machine was started anew since */
	STORY_ENDED, /* how is not known */
	STORY_CAUSES
};

enum story_sure { STORY_CERTAIN, STORY_LIKELY, STORY_POSSIBLE };

enum story_limit { /* of STORY_TIME */
	STORY_LIMIT_NONE,
	STORY_LIMIT_CPU, /* RLIMIT_CPU */
	STORY_LIMIT_TIMEOUT, /* its parent was timeout(1) */
	STORY_LIMIT_DEADLINE, /* of its job */
};

/* What led to it. Bytes and seconds are STORY_UNKNOWN, shares negative where nobody knows. */
struct story_numbers {
	uint64_t memory_first, memory_before, memory_last,
		memory_peak; /* resident; `before`: ten minutes before the last */
	uint64_t anonymous, shared, swapped; /* at the last sample */
	uint64_t first_ns, last_ns; /* Unix time of those samples; 0: there is none */
	bool grows; /* whether growth_per_hour is known */
	double growth_per_hour; /* bytes, of the last ten minutes where it is that old */
	struct record_cgroup cgroup; /* `used` before its end */
	uint64_t cgroup_used_after;
	uint32_t oom_kills; /* more than before */
	uint64_t lived_s, cpu_ns;
	bool machine_known;
	uint64_t available, total, swap_free, disk_free;
	struct record_pressure pressure;
	struct record_gpu gpu[RECORD_GPUS]; /* `used`: the most in its last seconds */
	unsigned gpus;
	uint64_t gpu_bytes; /* its own, on all devices */
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

/* What is known of a process beyond these records. */
struct story_fate {
	int32_t daemon; /* the pid of the later one that it attached to; 0: none is known */
	bool lives; /* it does, now */
};

/* One process. The pointers lead into the records. */
struct story_end {
	bool daemon;
	int32_t pid;
	uint64_t start_ticks; /* 0: not known */
	const struct record_attach *attach; /* the latest; NULL for the daemon, or when it was
					       pushed out of the file */
	const struct record_leave *leave; /* the latest; an expulsion before any other */
	const struct record_exit *exit;
	const char *parent_command; /* "": not known */
	int64_t deadline_s; /* as in record_attach */
	uint64_t cpu_limit_s;
	uint64_t since_ns, left_ns, exit_ns; /* Unix time; 0: not known, not yet */
	uint64_t end_ns; /* when it ended; when it was last heard of, where it runs */
	unsigned opened, left, closed; /* connections: all, over, over in order */
	struct story_fate fate; /* of STORY_OUTLIVED */

	enum story_cause cause;
	enum story_sure sure;
	enum story_limit limit;
	uint64_t limit_s; /* seconds of that limit; of a deadline: how long after it the end came */
	int event; /* those with the same number ended together, 0 the latest; -1: none of them */
	struct story_numbers numbers;
	char sentence[STORY_SENTENCE], advice[STORY_TEXT];
	struct story_line line[STORY_LINES];
	unsigned lines;
};

/* What the caller knows of now. */
struct story_now {
	uint64_t time_ns; /* Unix time */
	const char *boot_id; /* of this machine; "" where it does not say */
	const char *host;
	bool daemon_lives; /* the process that story_start names */
	/* What became of a trainer since the daemon of the records ended; NULL: nobody knows. */
	struct story_fate (*fate)(void *context, const struct record_start *start,
		const struct record_attach *attach, uint64_t since_ns);
	void *fate_context;
};

struct story {
	const struct record_start *start; /* NULL: not in the file */
	const char *why; /* the daemon's own word of its end, or NULL */
	uint64_t first_ns, last_ns, why_ns; /* of the records */
	struct story_end *end;
	size_t count;
	int events;
	bool elsewhere; /* written on another machine */
};

/* The daemon that the records are of, or NULL: for story_now. */
const struct record_start *story_start(const struct record *records, size_t count);

/* Tells all. The texts in the records are terminated, as ring_read gives them; `records` must
 * outlive the story. Those that ended otherwise than in order come first, the latest event first,
 * and in an event by time; then the others, the latest first. 0 or -ENOMEM. */
int story_tell(const struct record *records, size_t count, const struct story_now *now,
	struct story *ret_story);
void story_free(struct story *story);

/* Whether it is worth a word when nobody asks for this process: the daemon once it has ended, a
 * trainer that ended otherwise than in order. */
bool story_matters(const struct story_end *end);

/* "2 trainers and penstockd ended within 0.8 s; the first was trainer 4121"; false where fewer than
 * two belong to the event. */
bool story_event(const struct story *story, int event, char *buffer, size_t room);

const char *story_cause_name(enum story_cause cause); /* "cgroup_oom" */
const char *story_sure_name(enum story_sure sure); /* "certain", "likely", "possible" */
