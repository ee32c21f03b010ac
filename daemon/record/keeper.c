/* keeper: see keeper.h. One thread with one poll.
 *
 * How a process ended: its pidfd becomes readable when the process has ended, and hangs up when it
 * has been reaped. From Linux 6.15 on, the pidfd then tells any holder the exit status
 * (PIDFD_GET_INFO, linux/pidfd.h). Before, /proc/PID/stat shows it (field 52) while the process is
 * a zombie; the parent may reap it before it is read. If neither works, the status is not known.
 *
 * Whether the OOM killer ended it: compares the kill counter of the process's cgroup, or else of
 * the machine, with the sample before. The counter moves a moment after the kill, so after SIGKILL
 * or an unknown end it is read for a tenth of a second, until it has moved. A process that ended
 * otherwise may have done so some time after a child of it was killed: its counter is compared with
 * a sample of five to ten seconds before. */
#include "record/keeper.h"

#include "base/clock.h"
#include "base/host/cgroup.h"
#include "base/host/procfile.h"
#include "base/util.h"
#include "record/nvml.h"
#include "record/probe.h"
#include "record/ring.h"
#include "record/ring_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

enum {
	KEEPER_TRAINERS = 4096,
	KEEPER_FILES = 32, /* open files other than pidfds; most belong to the NVIDIA driver */
	KEEPER_MESSAGES = 256, /* handled in one turn */
	KEEPER_IDLE_TICKS = 10, /* one in so many is written while no trainer is attached */
	KEEPER_RETRY_TICKS = 5, /* between two attempts to make the file */
};
#define KEEPER_MS ((uint64_t)1000000)
#define KEEPER_SECOND_NS (1000 * KEEPER_MS)
#define KEEPER_PENDING_MS 5 /* between two looks at a process that has ended */
#define KEEPER_OOM_NS (100 * KEEPER_MS) /* how long the OOM counter is read after an end */
#define KEEPER_KILLS_NS (5 * KEEPER_SECOND_NS) /* how often `old` and `older` move on */
#define KEEPER_STATUS_NS (800 * KEEPER_MS) /* how long to wait for an exit status */
#define KEEPER_AFTER_NS (900 * KEEPER_MS) /* how long to outlive the daemon at most */

/* The first version of linux/pidfd.h's struct pidfd_info, with the field that later took the place
 * of its spare one. The size is part of the ioctl's number, and newer kernels accept this size. */
struct keeper_pidfd_info {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* as waitpid gives it */
};
_Static_assert(sizeof(struct keeper_pidfd_info) == 64, "PIDFD_INFO_SIZE_VER0");
#define KEEPER_PIDFD_GET_INFO _IOWR(0xFF, 11, struct keeper_pidfd_info)
#define KEEPER_PIDFD_INFO_EXIT ((uint64_t)1 << 3)

/* Counters of OOM kills: in the process's cgroup, and on the machine; UINT64_MAX: not known. */
struct keeper_kills {
	uint64_t cgroup, machine;
};

/* The daemon, or a trainer. */
struct keeper_process {
	int pid, pidfd; /* pid 0: in another PID namespace, so nothing is known of it */
	uint64_t start_ticks, cpu_ticks, sampled_ns;
	/* At the last sample, at the one before, and seconds before. */
	struct keeper_kills kills, before, old, older;
	uint64_t old_ns;
	float cpu; /* in processors; negative: not known */
	struct record_memory memory;
	struct cgroup_view view;
	uint64_t ended_ns; /* 0: it lives */
	bool known, reaped, noted;
	int status;
};

struct keeper_trainer {
	struct keeper_process process;
	struct record_attach attach;
	struct record_trainer now; /* the newest numbers from the daemon */
	bool left;
};

struct keeper {
	struct keeper_options options;
	int socket; /* -1 when the daemon has closed it */
	uint64_t ticks_per_s;
	struct ring *ring; /* NULL: the file could not be made yet */
	int ring_error; /* reported last, so that it is reported once */
	uint64_t lost; /* entries that could not be written since the last one that was */
	uint64_t ticks, next_tick_ns;
	uint64_t machine_oom_kills;
	struct record start; /* the first entry of the file, whenever that is made */
	struct record daemon_now;
	struct keeper_process daemon;
	struct keeper_trainer *trainer[KEEPER_TRAINERS];
	unsigned trainers, room;
	bool told_full;
	struct nvml *nvml;
	struct pollfd poll[KEEPER_TRAINERS + 2];
};

/* ---- out ---- */

/* A record of this kind and of this moment; the size is that of a member of its body. */
#define KEEPER_RECORD(kind_, member)                               \
	{                                                          \
		.time_ns = clock_unix_ns(), .kind = (kind_),       \
		.bytes = sizeof(((struct record *)0)->body.member) \
	}

static void keeper_send(const struct keeper *keeper, const struct record *record)
{
	if (keeper->socket >= 0)
		(void)send(keeper->socket, record, offsetof(struct record, body) + record->bytes,
			MSG_DONTWAIT | MSG_NOSIGNAL);
}

static struct record keeper_note(const char *text)
{
	struct record note = KEEPER_RECORD(RECORD_NOTE, note);
	(void)snprintf(note.body.note.text, sizeof note.body.note.text, "%s", text);
	return note;
}

static void keeper_say_lost(struct keeper *keeper)
{
	char text[RECORD_TEXT];
	uint64_t lost = keeper->lost;
	keeper->lost = 0;
	keeper->ring_error = 0;
	(void)snprintf(text, sizeof text,
		"%" PRIu64 " entries before this one could not be written", lost);
	struct record note = keeper_note(text);
	if (ring_append(keeper->ring, &note))
		keeper->lost = lost;
}

static void keeper_write(struct keeper *keeper, const struct record *record)
{
	char text[RECORD_TEXT];
	int result = keeper->ring ? ring_append(keeper->ring, record) : 0;
	if (keeper->ring && !result && keeper->lost)
		keeper_say_lost(keeper);
	keeper->lost += result != 0;
	if (!result || result == keeper->ring_error)
		return;
	keeper->ring_error = result;
	(void)snprintf(text, sizeof text,
		"the flight recorder cannot write its file %.100s: %s; it will keep trying",
		keeper->options.path, strerror(-result));
	struct record note = keeper_note(text);
	keeper_send(keeper, &note);
}

/* Sends the record to the daemon, and writes it if `write`. */
static void keeper_keep(struct keeper *keeper, const struct record *record, bool write)
{
	if (write)
		keeper_write(keeper, record);
	keeper_send(keeper, record);
}

static void keeper_complain(struct keeper *keeper, const char *text)
{
	struct record note = keeper_note(text);
	keeper_keep(keeper, &note, true);
}

/* ---- the file ---- */

static void keeper_begin_file(struct keeper *keeper)
{
	if (keeper->start.kind)
		keeper_keep(keeper, &keeper->start, true);
	for (unsigned i = 0; i < keeper->trainers; i++) {
		struct record record = KEEPER_RECORD(RECORD_ATTACH, attach);
		record.body.attach = keeper->trainer[i]->attach;
		keeper_write(keeper, &record);
	}
}

static void keeper_open(struct keeper *keeper)
{
	const struct keeper_options *o = &keeper->options;
	struct fault fault;
	int result = ring_folder_make(o->folder, &fault);
	if (!result) {
		ring_folder_tidy(o->folder, o->keep ? o->keep - 1 : 0);
		result = ring_create(o->path, o->bytes, &keeper->ring, &fault);
	}
	if (result == keeper->ring_error)
		return;
	keeper->ring_error = result;
	if (result)
		keeper_complain(keeper, fault.text);
	else
		keeper_begin_file(keeper);
}

/* ---- processes ---- */

/* False when the process has ended, or another process has its number now. */
static bool keeper_look(struct keeper_process *process, struct probe_process *ret)
{
	return probe_process_at("", process->pid, ret) &&
	       ret->start_ticks == process->start_ticks && !ret->ended;
}

static void keeper_process_begin(struct keeper_process *process, int pid, int pidfd)
{
	struct probe_process sample = {.start_ticks = 0};
	*process = (struct keeper_process){.pid = pid, .pidfd = pidfd, .cpu = -1};
	memset(&process->memory, 0xff, sizeof process->memory);
	process->kills.cgroup = UINT64_MAX;
	if (pid <= 0)
		return;
	(void)probe_process_at("", pid, &sample);
	process->start_ticks = sample.start_ticks;
	process->cpu_ticks = sample.cpu_ticks;
	process->sampled_ns = clock_ns();
	cgroup_view_at("", pid, &process->view);
	process->kills =
		(struct keeper_kills){cgroup_oom_kills(&process->view), probe_oom_kills_at("")};
	process->before = process->old = process->older = process->kills;
	process->old_ns = process->sampled_ns;
	probe_memory_at("", pid, &process->memory);
}

static void keeper_process_sample(struct keeper *keeper, struct keeper_process *process)
{
	struct probe_process sample;
	uint64_t now = clock_ns();
	if (process->pid <= 0 || process->ended_ns)
		return;
	if (!keeper_look(process, &sample)) {
		/* Without a pidfd only this shows its end. */
		if (process->pidfd < 0)
			process->ended_ns = now;
		return;
	}
	double seconds = (double)(now - process->sampled_ns) * 1e-9;
	if (seconds > 0.1)
		process->cpu = (float)((double)(sample.cpu_ticks - process->cpu_ticks) /
				       (double)keeper->ticks_per_s / seconds);
	process->cpu_ticks = sample.cpu_ticks;
	process->sampled_ns = now;
	if (now - process->old_ns >= KEEPER_KILLS_NS) {
		process->older = process->old;
		process->old = process->kills;
		process->old_ns = now;
	}
	process->before = process->kills;
	process->kills =
		(struct keeper_kills){cgroup_oom_kills(&process->view), keeper->machine_oom_kills};
	probe_memory_at("", process->pid, &process->memory);
}

static void keeper_learn(struct keeper_process *process)
{
	struct keeper_pidfd_info info = {.mask = KEEPER_PIDFD_INFO_EXIT};
	struct probe_process sample;
	struct pollfd fd = {.fd = process->pidfd, .events = POLLIN};
	/* Look before asking: if it has been reaped by now, no later attempt will learn more. */
	process->reaped = process->pidfd >= 0 && poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP;
	if (process->pidfd >= 0 && ioctl(process->pidfd, KEEPER_PIDFD_GET_INFO, &info) == 0 &&
		info.mask & KEEPER_PIDFD_INFO_EXIT) {
		process->known = true;
		process->status = info.exit_code;
	} else if (probe_process_at("", process->pid, &sample) &&
		   sample.start_ticks == process->start_ticks && sample.ended) {
		process->known = true;
		process->status = sample.status;
	}
}

/* How many processes the OOM killer has ended there since `then`. */
static uint32_t keeper_oom_kills(
	const struct keeper_process *process, const struct keeper_kills *then)
{
	uint64_t before = then->cgroup, now = cgroup_oom_kills(&process->view);
	if (now == UINT64_MAX || before == UINT64_MAX) {
		before = then->machine;
		now = probe_oom_kills_at("");
	}
	return now != UINT64_MAX && before != UINT64_MAX && now > before
		       ? (uint32_t)UTIL_MIN(now - before, (uint64_t)UINT32_MAX)
		       : 0;
}

static uint64_t keeper_lived(const struct keeper *keeper, const struct keeper_process *process)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	uint64_t started = process->start_ticks / keeper->ticks_per_s;
	return process->start_ticks && (uint64_t)now.tv_sec >= started
		       ? (uint64_t)now.tv_sec - started
		       : UINT64_MAX;
}

static void keeper_note_end(
	struct keeper *keeper, struct keeper_process *process, uint64_t trainer, uint32_t kills)
{
	struct record record = KEEPER_RECORD(RECORD_EXIT, exit);
	record.body.exit = (struct record_exit){.trainer = trainer,
		.pid = process->pid,
		.known = process->known,
		.status = process->status,
		.oom_kills = kills,
		.lived_s = keeper_lived(keeper, process),
		.cpu_s = process->start_ticks ? process->cpu_ticks / keeper->ticks_per_s
					      : UINT64_MAX,
		.memory = process->memory,
		.cpu_ns =
			(uint64_t)((double)process->cpu_ticks * 1e9 / (double)keeper->ticks_per_s)};
	probe_cgroup(&process->view, &record.body.exit.cgroup);
	process->noted = true;
	keeper_keep(keeper, &record, true);
}

/* Looks at a process that has ended, and records its end once everything that can be known is. */
static void keeper_process_end(
	struct keeper *keeper, struct keeper_process *process, uint64_t trainer)
{
	uint64_t since = clock_ns() - process->ended_ns;
	if (!process->known)
		keeper_learn(process);
	bool settled = process->known || process->reaped || since >= KEEPER_STATUS_NS;
	bool killed = !process->known ||
		      (WIFSIGNALED(process->status) && WTERMSIG(process->status) == SIGKILL);
	/* The kernel counts a kill before the process is gone, so the last sample may be too
	 * new. */
	const struct keeper_kills *then = killed ? &process->before : &process->older;
	uint32_t kills = settled ? keeper_oom_kills(process, then) : 0;
	if (settled && (!killed || kills || since >= KEEPER_OOM_NS))
		keeper_note_end(keeper, process, trainer, kills);
}

/* ---- trainers ---- */

static struct keeper_trainer *keeper_find(struct keeper *keeper, uint64_t number)
{
	for (unsigned i = 0; i < keeper->trainers; i++)
		if (keeper->trainer[i]->attach.trainer == number)
			return keeper->trainer[i];
	return NULL;
}

static void keeper_forget(struct keeper *keeper, unsigned i)
{
	struct keeper_trainer *trainer = keeper->trainer[i];
	if (trainer->process.pidfd >= 0)
		(void)close(trainer->process.pidfd);
	free(trainer);
	memmove(&keeper->trainer[i], &keeper->trainer[i + 1],
		(--keeper->trainers - i) * sizeof keeper->trainer[0]);
}

/* A process that left and attached again ends once, so its old entry is dropped. */
static void keeper_supersede(struct keeper *keeper, const struct keeper_process *process)
{
	for (unsigned i = keeper->trainers; i-- > 0;) {
		const struct keeper_trainer *trainer = keeper->trainer[i];
		if (trainer->left && trainer->process.pid == process->pid &&
			trainer->process.start_ticks == process->start_ticks)
			keeper_forget(keeper, i);
	}
}

/* Adds what only the kernel knows of the trainer. */
static void keeper_complete_attach(
	const struct keeper_process *process, struct record_attach *attach)
{
	struct probe_process sample;
	int pid = process->pid;
	attach->deadline_s = 0;
	attach->cpu_limit_s = UINT64_MAX;
	attach->start_ticks = process->start_ticks;
	probe_cgroup(&process->view, &attach->cgroup);
	if (pid <= 0 || !probe_process_at("", pid, &sample))
		return;
	attach->parent = sample.parent;
	attach->deadline_s = probe_deadline_at("", pid);
	attach->cpu_limit_s = probe_cpu_limit_at("", pid);
	probe_command_at("", pid, attach->command, sizeof attach->command);
	if (sample.parent > 0)
		probe_command_at(
			"", sample.parent, attach->parent_command, sizeof attach->parent_command);
}

static struct keeper_trainer *keeper_add(
	struct keeper *keeper, const struct record_attach *attach, int pidfd)
{
	bool full = keeper->trainers == keeper->room;
	struct keeper_trainer *trainer = full ? NULL : calloc(1, sizeof *trainer);
	if (!trainer) {
		if (pidfd >= 0)
			(void)close(pidfd);
		if (!keeper->told_full)
			keeper_complain(keeper,
				"the flight recorder watches as many trainers as it can and will "
				"not record how others end; raise ulimit -n");
		keeper->told_full = true;
		return NULL;
	}
	keeper_process_begin(&trainer->process, attach->pid, pidfd);
	keeper_supersede(keeper, &trainer->process);
	trainer->now = (struct record_trainer){.trainer = attach->trainer, .pid = attach->pid};
	keeper->trainer[keeper->trainers++] = trainer;
	return trainer;
}

static void keeper_hear_attach(struct keeper *keeper, struct record *record, int pidfd)
{
	struct record_attach *attach = &record->body.attach;
	struct keeper_trainer *trainer = keeper_find(keeper, attach->trainer);
	if (trainer && pidfd >= 0)
		(void)close(pidfd);
	if (!trainer)
		trainer = keeper_add(keeper, attach, pidfd);
	if (trainer) {
		keeper_complete_attach(&trainer->process, attach);
		trainer->attach = *attach;
	}
	keeper_keep(keeper, record, true);
}

static void keeper_hear_leave(struct keeper *keeper, const struct record *record)
{
	const struct record_leave *leave = &record->body.leave;
	struct keeper_trainer *trainer = keeper_find(keeper, leave->trainer);
	if (trainer) {
		trainer->left = true;
		trainer->now.held = 0;
		trainer->now.waits = 0;
		trainer->now.epoch = leave->epoch;
		trainer->now.batch = leave->batch;
		trainer->now.given = leave->given;
	}
	keeper_write(keeper, record);
}

/* ---- in ---- */

static void keeper_text_file(const char *path, char *buffer, size_t room)
{
	(void)procfile_read("", path, buffer, room);
	buffer[strcspn(buffer, "\n")] = 0;
}

static void keeper_hear_start(struct keeper *keeper, struct record *record)
{
	struct record_start *start = &record->body.start;
	struct utsname machine;
	struct record_machine memory;
	struct probe_process sample;
	int pid = keeper->options.daemon;
	start->pid = pid;
	start->start_ticks = keeper->daemon.start_ticks;
	start->deadline_s = probe_deadline_at("", pid);
	start->cpu_limit_s = probe_cpu_limit_at("", pid);
	probe_machine_at("", &keeper->daemon.view, NULL, &memory);
	start->memory_total = memory.total;
	start->cgroup = memory.cgroup;
	keeper_text_file("/proc/sys/kernel/random/boot_id", start->boot_id, sizeof start->boot_id);
	if (uname(&machine) == 0) {
		(void)snprintf(start->kernel, sizeof start->kernel, "%s", machine.release);
		(void)snprintf(start->host, sizeof start->host, "%s", machine.nodename);
	}
	if (probe_process_at("", pid, &sample) && sample.parent > 0) {
		start->parent = sample.parent;
		probe_command_at(
			"", sample.parent, start->parent_command, sizeof start->parent_command);
	}
	keeper->start = *record;
	if (keeper->ring)
		keeper_keep(keeper, record, true);
}

static void keeper_hear(struct keeper *keeper, struct record *record, int pidfd)
{
	struct keeper_trainer *trainer;
	switch (record->kind) {
	case RECORD_START:
		keeper_hear_start(keeper, record);
		break;
	case RECORD_ATTACH:
		keeper_hear_attach(keeper, record, pidfd);
		return;
	case RECORD_LEAVE:
		keeper_hear_leave(keeper, record);
		break;
	case RECORD_DAEMON:
		keeper->daemon_now = *record;
		break;
	case RECORD_TRAINER:
		trainer = keeper_find(keeper, record->body.trainer.trainer);
		if (trainer && !trainer->left)
			trainer->now = record->body.trainer;
		break;
	case RECORD_END:
	case RECORD_NOTE:
		keeper_write(keeper, record);
		break;
	default:
		break;
	}
	if (pidfd >= 0)
		(void)close(pidfd);
}

/* Receives one message: its bytes, and the descriptor that came with it or -1. */
static ssize_t keeper_receive(int socket, struct record *ret, int *ret_fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = ret, .iov_len = sizeof *ret};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	memset(ret, 0, sizeof *ret);
	*ret_fd = -1;
	ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(head), sizeof *ret_fd);
	return n;
}

static void keeper_hear_all(struct keeper *keeper)
{
	for (int i = 0; i < KEEPER_MESSAGES && keeper->socket >= 0; i++) {
		struct record record;
		int fd;
		ssize_t n = keeper_receive(keeper->socket, &record, &fd);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < (ssize_t)offsetof(struct record, body)) {
			(void)close(keeper->socket);
			keeper->socket = -1;
			return;
		}
		keeper_hear(keeper, &record, fd);
	}
}

/* ---- once a second ---- */

static void keeper_tick_machine(struct keeper *keeper, bool write)
{
	struct record record = KEEPER_RECORD(RECORD_MACHINE, machine);
	probe_machine_at("", &keeper->daemon.view, keeper->options.folder, &record.body.machine);
	keeper->machine_oom_kills = record.body.machine.oom_kills;
	keeper_keep(keeper, &record, write);
}

static void keeper_tick_daemon(struct keeper *keeper, bool write)
{
	struct record record = keeper->daemon_now;
	keeper_process_sample(keeper, &keeper->daemon);
	if (!record.kind || keeper->daemon.ended_ns)
		return;
	record.time_ns = clock_unix_ns();
	record.bytes = sizeof record.body.daemon;
	record.body.daemon.memory = keeper->daemon.memory;
	keeper_keep(keeper, &record, write);
}

static void keeper_tick_trainer(struct keeper *keeper, struct keeper_trainer *trainer, bool write)
{
	struct keeper_process *process = &trainer->process;
	struct record record = KEEPER_RECORD(RECORD_TRAINER, trainer);
	keeper_process_sample(keeper, process);
	if (process->ended_ns)
		return;
	record.body.trainer = trainer->now;
	record.body.trainer.memory = process->memory;
	record.body.trainer.cpu = process->cpu;
	record.body.trainer.gpu_bytes = nvml_process_bytes(keeper->nvml, process->pid);
	keeper_keep(keeper, &record, write);
}

static void keeper_tick_gpus(struct keeper *keeper, bool write)
{
	struct record_gpu gpu[RECORD_GPUS];
	char note[RECORD_TEXT] = "";
	unsigned count = keeper->nvml ? nvml_sample(keeper->nvml, gpu, note, sizeof note) : 0;
	for (unsigned i = 0; i < count; i++) {
		struct record record = KEEPER_RECORD(RECORD_GPU, gpu);
		record.body.gpu = gpu[i];
		keeper_keep(keeper, &record, write);
	}
	if (note[0])
		keeper_complain(keeper, note);
}

static bool keeper_attached(const struct keeper *keeper)
{
	for (unsigned i = 0; i < keeper->trainers; i++)
		if (!keeper->trainer[i]->left)
			return true;
	return false;
}

static void keeper_tick(struct keeper *keeper)
{
	bool write = keeper_attached(keeper) || keeper->ticks % KEEPER_IDLE_TICKS == 0;
	if (!keeper->ring && keeper->ticks && keeper->ticks % KEEPER_RETRY_TICKS == 0)
		keeper_open(keeper);
	keeper->ticks++;
	keeper_tick_machine(keeper, write);
	keeper_tick_daemon(keeper, write);
	keeper_tick_gpus(keeper, write);
	for (unsigned i = 0; i < keeper->trainers; i++)
		keeper_tick_trainer(keeper, keeper->trainer[i], write);
}

/* ---- the loop ---- */

/* A process that has ended is not polled any more, since its pidfd stays readable. */
static void keeper_watch(struct keeper *keeper, unsigned at, const struct keeper_process *process)
{
	keeper->poll[at] =
		(struct pollfd){.fd = process->ended_ns ? -1 : process->pidfd, .events = POLLIN};
}

static void keeper_wait(struct keeper *keeper, bool pending)
{
	uint64_t now = clock_ns();
	uint64_t left = keeper->next_tick_ns > now ? keeper->next_tick_ns - now : 0;
	int timeout = (int)((left + KEEPER_MS - 1) / KEEPER_MS);
	keeper->poll[0] = (struct pollfd){.fd = keeper->socket, .events = POLLIN};
	keeper_watch(keeper, 1, &keeper->daemon);
	for (unsigned i = 0; i < keeper->trainers; i++)
		keeper_watch(keeper, i + 2, &keeper->trainer[i]->process);
	if (pending)
		timeout = UTIL_MIN(timeout, KEEPER_PENDING_MS);
	if (poll(keeper->poll, keeper->trainers + 2, timeout) <= 0)
		return;
	now = clock_ns();
	if (keeper->poll[1].revents)
		keeper->daemon.ended_ns = now;
	for (unsigned i = 0; i < keeper->trainers; i++)
		if (keeper->poll[i + 2].revents)
			keeper->trainer[i]->process.ended_ns = now;
	/* After the ends, since a message may move trainers to other places of the array. */
	if (keeper->poll[0].revents)
		keeper_hear_all(keeper);
}

/* For kernels without pidfds, and where no descriptor was left. */
static void keeper_check_parent(struct keeper *keeper)
{
	if (!keeper->daemon.ended_ns && getppid() != keeper->options.daemon)
		keeper->daemon.ended_ns = clock_ns();
}

/* Records the ends of processes. True while one that has ended is still to be recorded. */
static bool keeper_ends(struct keeper *keeper)
{
	bool pending = false;
	for (unsigned i = 0; i < keeper->trainers;) {
		struct keeper_trainer *trainer = keeper->trainer[i];
		if (trainer->process.ended_ns)
			keeper_process_end(keeper, &trainer->process, trainer->attach.trainer);
		if (trainer->process.noted) {
			keeper_forget(keeper, i);
			continue;
		}
		pending |= trainer->process.ended_ns != 0;
		i++;
	}
	if (keeper->daemon.ended_ns && !keeper->daemon.noted) {
		/* Its last messages come before its end. */
		keeper_hear_all(keeper);
		keeper_process_end(keeper, &keeper->daemon, 0);
		pending |= !keeper->daemon.noted;
	}
	return pending;
}

static void keeper_loop(struct keeper *keeper)
{
	bool pending = false;
	for (;;) {
		keeper_wait(keeper, pending);
		keeper_check_parent(keeper);
		pending = keeper_ends(keeper);
		uint64_t now = clock_ns(), ended = keeper->daemon.ended_ns;
		if (ended && (!pending || now - ended > KEEPER_AFTER_NS))
			return;
		if (now >= keeper->next_tick_ns && !ended) {
			keeper_tick(keeper);
			keeper->next_tick_ns =
				UTIL_MAX(keeper->next_tick_ns + KEEPER_SECOND_NS, now);
		}
	}
}

/* How many trainers can be watched: as many as there may be pidfds. poll refuses more descriptors
 * than the process may have open. */
static unsigned keeper_room(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return KEEPER_TRAINERS;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	rlim_t files = UTIL_MAX(limit.rlim_cur, (rlim_t)KEEPER_FILES) - KEEPER_FILES;
	return (unsigned)UTIL_MIN(files, (rlim_t)KEEPER_TRAINERS);
}

static void keeper_start_nvml(struct keeper *keeper)
{
	char note[RECORD_TEXT];
	keeper->nvml = nvml_open(note, sizeof note);
	if (note[0])
		keeper_complain(keeper, note);
}

void keeper_run(const struct keeper_options *options)
{
	static struct keeper keeper; /* large, but unused pages cost no memory */
	long ticks = sysconf(_SC_CLK_TCK);
	keeper.options = *options;
	keeper.socket = options->socket;
	keeper.ticks_per_s = ticks > 0 ? (uint64_t)ticks : 100;
	keeper.room = keeper_room();
	keeper.next_tick_ns = clock_ns() + KEEPER_SECOND_NS;
	keeper_process_begin(&keeper.daemon, options->daemon, options->pidfd);
	keeper.machine_oom_kills = keeper.daemon.kills.machine;
	keeper_open(&keeper);
	keeper_start_nvml(&keeper);
	keeper_loop(&keeper);
	ring_free(keeper.ring);
}
