/* record: what the flight recorder keeps: the kinds of entries, and what each holds.
 *
 * A map of this folder:
 *   record.h            the entries, which daemon, witness, ring and `penstock why` exchange
 *   record_json.[ch]    parts of entries as JSON
 *   witness.[ch]        the daemon's side: starts the witness process, sends and receives records
 *   keeper.[ch]         what the witness process does: listens, samples, writes, sees ends
 *   probe.[ch]          what the kernel reports of processes, cgroups and the machine
 *   nvml.[ch]           what NVIDIA's library reports of devices; looked up at run time
 *   ring.[ch]           the file of fixed size that entries are kept in
 *   ring_folder.[ch]    the folder of these files
 *
 * `penstock why` reads the file and explains it: client/cli/watch/why.
 *
 * The daemon forks its witness before it has any thread. It reports its numbers to the witness once
 * a second, and at once each trainer that attaches or leaves. The witness is outside the trainers
 * and outside the daemon: it survives both, sees by their pidfds how they ended, and a file system
 * that hangs holds up only the witness. It sends what it measured back to the daemon, for status
 * and metrics.
 *
 * Entries are plain data of fixed size in the machine's byte order, since a file is read on the
 * machine that wrote it. New fields go to the end of their struct, or else the version grows. */
#pragma once

#include <stdint.h>

enum {
	RECORD_VERSION = 1,
	RECORD_TEXT = 256, /* a sentence, cut; always terminated */
	RECORD_NAME = 64,
	RECORD_PATH = 192,
	RECORD_GPUS = 8,
};

/* Never renumbered. Marks are kept longer than moments, see ring.h. */
enum record_kind {
	RECORD_START = 1, /* mark: struct record_start, once */
	RECORD_ATTACH, /* mark: struct record_attach: a trainer opened a stream */
	RECORD_LEAVE, /* mark: struct record_leave: a trainer's connection ended */
	RECORD_EXIT, /* mark: struct record_exit: the process of a trainer, or the daemon, ended */
	/* Mark: struct record_note: the daemon ends, and why: "asked: by signal 15 from pid 7",
	 * "idle: no client for 10 s", or "failed: " and the fault's sentence. */
	RECORD_END,
	RECORD_NOTE, /* mark: struct record_note: something that the operator should know */
	RECORD_DAEMON, /* moment, each second: struct record_daemon */
	RECORD_TRAINER, /* moment, each second and trainer: struct record_trainer */
	RECORD_MACHINE, /* moment, each second: struct record_machine */
	RECORD_GPU, /* moment, each second and device: struct record_gpu */
	RECORD_KINDS
};

/* Memory of a process or a cgroup, in bytes. UINT64_MAX where the kernel does not report it. */
struct record_memory {
	uint64_t resident, anonymous, shared, swapped, peak;
};

/* A cgroup (v1 or v2), with the tightest limit of all its ancestors. UINT64_MAX: not known. */
struct record_cgroup {
	uint64_t used, limit; /* bytes; limit UINT64_MAX: none */
	uint64_t oom_kills; /* ever, in that cgroup and below */
	char path[RECORD_PATH]; /* as in /proc/PID/cgroup */
};

struct record_start {
	int32_t pid;
	uint32_t threads, cpus;
	/* As in /proc/PID/stat; together with the pid it identifies the process for ever. */
	uint64_t start_ticks;
	uint64_t budget, memory_total; /* bytes: the daemon's, the machine's */
	char boot_id[40], version[24], kernel[72], socket[112], config[RECORD_PATH];
	struct record_cgroup cgroup;
	/* uname's nodename, since several machines may share a home; "": not known. */
	char host[RECORD_NAME];
	/* As in struct record_attach: what may end the daemon when its time is up. */
	int32_t parent, reserved;
	char parent_command[RECORD_TEXT];
	int64_t deadline_s;
	uint64_t cpu_limit_s;
};

struct record_attach {
	uint64_t trainer; /* the daemon's number for it, never used twice */
	int32_t pid, parent;
	uint64_t start_ticks;
	char stream[RECORD_NAME], source[RECORD_PATH], group[RECORD_NAME];
	uint32_t batch_size, rank, world_size;
	/* Of the process and its parent, cut. The parent may hint at a time limit (timeout,
	 * slurmstepd). */
	char command[RECORD_TEXT], parent_command[RECORD_TEXT];
	int64_t deadline_s; /* Unix time at which its job ends (SLURM_JOB_END_TIME); 0: not known */
	uint64_t cpu_limit_s; /* RLIMIT_CPU; UINT64_MAX: none */
	struct record_cgroup cgroup;
};

enum record_leaving {
	RECORD_CLOSED = 1, /* it closed its streams, and hung up */
	RECORD_HUNG_UP, /* it hung up without closing them */
	RECORD_PROCESS_ENDED, /* its process ended, by its pidfd */
	RECORD_EXPELLED, /* the daemon closed the connection: `text` says why */
	RECORD_DRAINED, /* the daemon closed the connection because the daemon ends */
};

struct record_leave {
	uint64_t trainer;
	uint32_t how; /* enum record_leaving */
	uint32_t held; /* batches that it held at that time */
	uint64_t epoch, batch, given; /* of the batch announced last; number of batches in all */
	char text[RECORD_TEXT];
};

struct record_exit {
	uint64_t trainer; /* 0: the daemon */
	int32_t pid;
	/* 1: `status` is what waitpid gives. 0: not known; kernels before 6.15 tell only the
	 * parent. */
	uint32_t known;
	int32_t status;
	/* How many more OOM kills than one to two seconds before, in its cgroup, or on the machine
	 * where the cgroup does not count them. For a process that did not end by SIGKILL: more
	 * than five to ten seconds before. */
	uint32_t oom_kills;
	uint64_t lived_s, cpu_s; /* UINT64_MAX: not known */
	struct record_memory memory; /* the last sample */
	struct record_cgroup cgroup; /* right after its end */
	uint64_t cpu_ns; /* as cpu_s, exact to the clock tick; 0: none, or from an older release */
};

struct record_note {
	char text[RECORD_TEXT];
};

struct record_daemon {
	struct record_memory memory;
	uint64_t reserved, budget; /* of the ledger */
	uint64_t images, batches, read_bytes; /* since the start */
	uint32_t trainers, streams;
	/* Of the last second; all but the first are shares 0..1. */
	float images_per_s, trainer_wait, slots_full, workers_idle;
	char verdict[RECORD_TEXT]; /* of the stream whose trainers wait most */
};

struct record_trainer {
	uint64_t trainer;
	int32_t pid;
	uint32_t held, slots;
	uint64_t epoch, batch, given;
	/* The share of the last second in which it held no batch and waited for one. */
	float waits;
	/* CPU time in the last second, in processors; negative: not known. */
	float cpu;
	struct record_memory memory;
	uint64_t gpu_bytes; /* on all devices; UINT64_MAX: not known */
};

/* PSI: percent of the last ten seconds; negative: not known. */
struct record_pressure {
	float cpu_some, memory_some, memory_full, io_some, io_full;
};

struct record_machine {
	uint64_t available, total, swap_free; /* bytes of MemAvailable, MemTotal, SwapFree */
	uint64_t oom_kills; /* of the machine, ever: /proc/vmstat */
	uint64_t disk_free; /* bytes where the recorder writes */
	struct record_cgroup cgroup; /* the daemon's */
	struct record_pressure pressure; /* of that cgroup; of the machine where it has none */
};

struct record_gpu {
	uint32_t device;
	char name[RECORD_NAME];
	uint64_t used, total; /* bytes */
	/* The share of NVML's last sample period in which a kernel ran; negative: not known. */
	float busy;
};

/* One entry as it is sent, kept and read. `bytes` says how much of `body` its kind has. A reader
 * takes the smaller of that and the size that it knows, and the rest as zero. */
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
