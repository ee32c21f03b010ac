/* record: what the flight recorder keeps: the kinds of entries, and what each holds.
 *
 * A map of this folder:
 *   record.h       this: the entries, which daemon, witness, ring and story all speak of
 *   ring.[ch]      the file of bounded size that they are kept in
 *   sample.[ch]    what the kernel says of processes and cgroups: memory, PSI, OOM kills
 *   nvml.[ch]      what NVIDIA's library says of devices, looked up at run time
 *   witness.[ch]   the process that samples, writes, and sees how everybody ends
 *   story.[ch]     entries into sentences: what happened, for `penstock why`; of it:
 *   trace.[ch]     the samples of one process into the numbers that matter
 *   cause.[ch]     those and its end into one cause, and how sure that is
 *   phrase.[ch]    that in a sentence; detail.[ch] what led to it, advice.[ch] what to do
 *
 * The daemon forks its witness before it has any thread, and tells it once a second how it goes and
 * at once who came and who left. The witness is outside the trainers and outside the daemon: it
 * survives both, sees how they ended by their pidfds, and a file system that hangs holds up nobody
 * but it. It tells the daemon in turn what it measured, for status and metrics.
 *
 * All of it is plain data of fixed size in the machine's byte order: a file is read on the machine
 * that wrote it. A field is added at the end of its struct, or the version grows. */
#pragma once

#include <stdint.h>

enum {
	RECORD_VERSION = 1,
	RECORD_TEXT = 256, /* a sentence, cut; always terminated */
	RECORD_NAME = 64,
	RECORD_PATH = 192,
	RECORD_GPUS = 8,
};

/* Never renumbered. What is worth keeping longest comes as marks, the rest as moments; see ring.h.
 */
enum record_kind {
	RECORD_START = 1, /* mark: struct record_start, once */
	RECORD_ATTACH, /* mark: struct record_attach: a trainer opened a stream */
	RECORD_LEAVE, /* mark: struct record_leave: its connection is over */
	RECORD_EXIT, /* mark: struct record_exit: its process has ended, or the daemon's has */
	RECORD_END, /* mark: struct record_note: the daemon ends, and why: "asked: by signal 15 from
		       pid 7", "idle: no client for 10 s", "failed: " and the fault's sentence */
	RECORD_NOTE, /* mark: struct record_note: something worth telling */
	RECORD_DAEMON, /* moment, each second: struct record_daemon */
	RECORD_TRAINER, /* moment, each second and trainer: struct record_trainer */
	RECORD_MACHINE, /* moment, each second: struct record_machine */
	RECORD_GPU, /* moment, each second and device: struct record_gpu */
	RECORD_KINDS
};

/* Memory of a process or a cgroup, in bytes. UINT64_MAX wherever the kernel does not say. */
struct record_memory {
	uint64_t resident, anonymous, shared, swapped, peak;
};

/* What a cgroup (v1 or v2) says, by the tightest limit of all ancestors. UINT64_MAX: not known. */
struct record_cgroup {
	uint64_t used, limit; /* bytes; limit UINT64_MAX: none */
	uint64_t oom_kills; /* ever, in that cgroup and below */
	char path[RECORD_PATH]; /* as /proc/PID/cgroup has it */
};

struct record_start {
	int32_t pid;
	uint32_t threads, cpus;
	uint64_t start_ticks; /* of the process, as /proc/PID/stat says: with the pid its name for
				 ever */
	uint64_t budget, memory_total; /* bytes: the daemon's, the machine's */
	char boot_id[40], version[24], kernel[72], socket[112], config[RECORD_PATH];
	struct record_cgroup cgroup;
	char host[RECORD_NAME]; /* uname's nodename: homes are shared by machines; "": not known */
	/* As of a trainer, see below: what may end the daemon when its time is up. */
	int32_t parent, reserved;
	char parent_command[RECORD_TEXT];
	int64_t deadline_s;
	uint64_t cpu_limit_s;
};

struct record_attach {
	uint64_t trainer; /* the daemon's number of it, never used twice */
	int32_t pid, parent;
	uint64_t start_ticks;
	char stream[RECORD_NAME], source[RECORD_PATH], group[RECORD_NAME];
	uint32_t batch_size, rank, world_size;
	/* Of the process and its parent, cut: who started it tells of time limits (timeout,
	 * slurmstepd). */
	char command[RECORD_TEXT], parent_command[RECORD_TEXT];
	int64_t deadline_s; /* Unix time at which its job ends (SLURM_JOB_END_TIME); 0: none is
			       known */
	uint64_t cpu_limit_s; /* RLIMIT_CPU; UINT64_MAX: none */
	struct record_cgroup cgroup;
};

enum record_leaving {
	RECORD_CLOSED = 1, /* it closed its streams, and hung up */
	RECORD_HUNG_UP, /* without closing them */
	RECORD_PROCESS_ENDED, /* its pidfd said so first */
	RECORD_EXPELLED, /* the daemon closed the connection: `text` says why */
	RECORD_DRAINED, /* the daemon closed it since it ends itself */
};

struct record_leave {
	uint64_t trainer;
	uint32_t how; /* enum record_leaving */
	uint32_t held; /* batches that it held then */
	uint64_t epoch, batch, given; /* of the batch announced last; batches in all */
	char text[RECORD_TEXT];
};

struct record_exit {
	uint64_t trainer; /* 0: the daemon */
	int32_t pid;
	uint32_t known; /* 1: `status` is what waitpid gives; 0: this kernel does not tell others
			   than the parent (before 6.15) */
	int32_t status;
	uint32_t oom_kills; /* more than one to two seconds before, in its cgroup; where that does
			       not say, of the machine. Of one that ended otherwise than by
			       SIGKILL: more than five to ten seconds before */
	uint64_t lived_s, cpu_s; /* UINT64_MAX: not known */
	struct record_memory memory; /* the last sample */
	struct record_cgroup cgroup; /* right after its end */
	uint64_t cpu_ns; /* cpu_s to the clock tick; 0: none of it, or an older release wrote this
			  */
};

struct record_note {
	char text[RECORD_TEXT];
};

struct record_daemon {
	struct record_memory memory;
	uint64_t reserved, budget; /* of the ledger */
	uint64_t images, batches, read_bytes; /* since the start */
	uint32_t trainers, streams;
	float images_per_s, trainer_wait, slots_full,
		workers_idle; /* of the last second: shares 0..1 */
	char verdict[RECORD_TEXT]; /* of the stream whose trainers wait most */
};

struct record_trainer {
	uint64_t trainer;
	int32_t pid;
	uint32_t held, slots;
	uint64_t epoch, batch, given;
	float waits; /* share of the last second in which it held nothing and waited for a batch */
	float cpu; /* processors' worth of CPU time in the last second; negative: not known */
	struct record_memory memory;
	uint64_t gpu_bytes; /* on all devices; UINT64_MAX: not known */
};

struct record_pressure { /* PSI: per cent of the last ten seconds; negative: not known */
	float cpu_some, memory_some, memory_full, io_some, io_full;
};

struct record_machine {
	uint64_t available, total, swap_free; /* bytes of MemAvailable, MemTotal, SwapFree */
	uint64_t oom_kills; /* of the machine, ever: /proc/vmstat */
	uint64_t disk_free; /* bytes where the recorder writes */
	struct record_cgroup cgroup; /* the daemon's */
	struct record_pressure pressure; /* of that cgroup where it says, else of the machine */
};

struct record_gpu {
	uint32_t device;
	char name[RECORD_NAME];
	uint64_t used, total; /* bytes */
	float busy; /* share of the last sample period in which a kernel ran; negative: not known */
};

/* One entry as it is sent, kept and read. `bytes` of `body` are what its kind has; a reader takes
 * the smaller of that and the size that it knows, and the rest as zero. */
struct record {
	uint64_t time_ns; /* Unix time */
	uint32_t kind, bytes;
	union {
		struct record_start start;
		struct record_attach attach;
		struct record_leave leave;
		struct record_exit exit;
		struct record_note note;
		struct record_daemon daemon;
		struct record_trainer trainer;
		struct record_machine machine;
		struct record_gpu gpu;
	} body;
};
