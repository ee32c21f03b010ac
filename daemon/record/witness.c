/* witness: see witness.h. The daemon's side, in its event loop, and the fork.
 *
 * A message is a struct record, cut after the body's bytes, in one datagram of a SEQPACKET socket
 * pair. That keeps messages apart, carries descriptors, and tells each side when the other has
 * gone. */
#include "record/witness.h"

#include "base/clock.h"
#include "base/util.h"
#include "record/keeper.h"
#include "record/ring_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum {
	WITNESS_BUFFER = 1 << 20, /* requested; the system may grant less */
	WITNESS_APART = 1, /* bytes of its first message, which is not a record */
};

struct witness {
	int fd;
	pid_t pid;
	bool gone;
	uint64_t dropped;
	char folder[PATH_MAX], path[PATH_MAX];
};

/* ---- the child ---- */

static void witness_close_range(unsigned first, unsigned last)
{
	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return;
#endif
	DIR *dir = opendir("/proc/self/fd");
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		unsigned long fd = strtoul(entry->d_name, NULL, 10);
		if (fd >= first && fd <= last && (int)fd != dirfd(dir))
			(void)close((int)fd);
	}
	if (dir)
		(void)closedir(dir);
}

/* Closes all that was inherited: sockets and locks of the daemon, pipes of its parent. */
static void witness_close_others(int a, int b)
{
	unsigned low = (unsigned)(b < 0 ? a : UTIL_MIN(a, b));
	unsigned high = (unsigned)UTIL_MAX(a, b);
	witness_close_range(3, low - 1);
	witness_close_range(low + 1, high - 1);
	witness_close_range(high + 1, ~0u);
}

static void witness_no_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2; fd++) {
		if (null >= 0)
			(void)dup2(null, fd);
		else
			(void)close(fd);
	}
	if (null > 2)
		(void)close(null);
}

/* The daemon answers signals that a terminal or a supervisor sends to the whole group. In a session
 * of its own the witness also survives a SIGKILL to the daemon's group, and can record it. */
static void witness_set_apart(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ, SIGUSR1,
		SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
	for (size_t i = 0; i < UTIL_COUNT(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)setsid();
	(void)prctl(PR_SET_NAME, "penstock-record");
	(void)!chdir("/");
}

static _Noreturn void witness_live(
	const struct witness *witness, const struct witness_options *options, int fd, pid_t daemon)
{
	int pidfd = -1;
#ifdef SYS_pidfd_open
	pidfd = (int)syscall(SYS_pidfd_open, daemon, 0);
#endif
	/* The daemon may have died before the pidfd was opened, which then is another process's. */
	if (getppid() != daemon)
		_exit(0);
	witness_set_apart();
	witness_no_stdio();
	witness_close_others(fd, pidfd);
	(void)send(fd, "", WITNESS_APART, MSG_NOSIGNAL);
	if (options->confine)
		options->confine(options->confine_context);
	struct keeper_options keeper = {.socket = fd,
		.pidfd = pidfd,
		.daemon = daemon,
		.folder = witness->folder,
		.path = witness->path,
		.bytes = options->bytes,
		.keep = options->keep};
	keeper_run(&keeper);
	_exit(0);
}

/* ---- the daemon ---- */

static int witness_place(
	struct witness *witness, const struct witness_options *options, struct fault *fault)
{
	char name[64];
	int result = ring_folder_resolve(
		options->folder, witness->folder, sizeof witness->folder - sizeof name, fault);
	if (result)
		return result;
	ring_folder_name(getpid(), name, sizeof name);
	int n = snprintf(witness->path, sizeof witness->path, "%s/%s", witness->folder, name);
	if (n < 0 || (size_t)n >= sizeof witness->path)
		return fault_set(fault, -ENAMETOOLONG,
			"recorder: the path %s is too long: set it to a shorter one",
			witness->folder);
	return 0;
}

/* Waits until the process has closed what it inherited: sockets, and the daemon's lock, which would
 * outlive a daemon that is killed. Nothing that it does before takes long. If it has no processor
 * for two seconds the daemon goes on, and witness_hear skips the message when it comes. */
static void witness_await(const struct witness *witness)
{
	struct pollfd poll_fd = {.fd = witness->fd, .events = POLLIN};
	char word;
	if (poll(&poll_fd, 1, 2000) == 1)
		(void)!recv(witness->fd, &word, sizeof word, MSG_DONTWAIT);
}

static int witness_fork(
	struct witness *witness, const struct witness_options *options, struct fault *fault)
{
	int pair[2], size = WITNESS_BUFFER;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return fault_set(fault, -errno,
			"the flight recorder cannot be started: %s; raise ulimit -n",
			strerror(errno));
	for (int i = 0; i < 2; i++)
		(void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	/* Bytes still in a buffer of stdio must not be written twice. */
	(void)fflush(NULL);
	pid_t daemon = getpid(), pid = fork();
	if (pid == 0)
		witness_live(witness, options, pair[1], daemon);
	int error = errno;
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return fault_set(fault, -error,
			"the flight recorder cannot be started: %s; raise ulimit -u",
			strerror(error));
	}
	witness->fd = pair[0];
	witness->pid = pid;
	witness_await(witness);
	return 0;
}

int witness_start(const struct witness_options *options, struct witness **ret, struct fault *fault)
{
	struct witness *witness = calloc(1, sizeof *witness);
	if (!witness)
		return fault_set(fault, -ENOMEM, "no memory for the flight recorder");
	witness->fd = -1;
	int result = witness_place(witness, options, fault);
	if (!result)
		result = witness_fork(witness, options, fault);
	if (result) {
		free(witness);
		return result;
	}
	*ret = witness;
	return 0;
}

void witness_tell(struct witness *witness, const struct record *record, int pidfd)
{
	if (!witness || witness->fd < 0)
		return;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct record stamped = *record;
	if (!stamped.time_ns)
		stamped.time_ns = clock_unix_ns();
	struct iovec part = {.iov_base = &stamped,
		.iov_len = offsetof(struct record, body) +
			   UTIL_MIN(record->bytes, sizeof record->body)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (pidfd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.head), &pidfd, sizeof pidfd);
	}
	if (sendmsg(witness->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		witness->dropped++;
}

bool witness_hear(struct witness *witness, struct record *ret)
{
	if (!witness || witness->fd < 0)
		return false;
	struct record record;
	memset(&record, 0, sizeof record);
	ssize_t n = recv(witness->fd, &record, sizeof record, MSG_DONTWAIT);
	if ((n < 0 && (errno == EAGAIN || errno == EINTR)) || n == WITNESS_APART)
		return false;
	if (n < (ssize_t)offsetof(struct record, body)) {
		witness->gone = true;
		return false;
	}
	*ret = record;
	return true;
}

bool witness_gone(struct witness *witness, char *ret_text, size_t room)
{
	int status;
	if (!witness || !witness->gone)
		return false;
	if (witness->fd >= 0)
		(void)close(witness->fd);
	witness->fd = -1;
	/* Its socket closes a moment before it can be reaped. If that takes longer, it stays a
	 * zombie. */
	pid_t reaped = 0;
	for (int i = 0; i < 20 && reaped == 0; i++) {
		reaped = waitpid(witness->pid, &status, WNOHANG);
		struct timespec pause = {0, 500000};
		if (reaped == 0)
			(void)nanosleep(&pause, NULL);
	}
	if (reaped == witness->pid && WIFSIGNALED(status))
		(void)snprintf(ret_text, room, "ended by signal %d", WTERMSIG(status));
	else if (reaped == witness->pid)
		(void)snprintf(ret_text, room, "ended with status %d", WEXITSTATUS(status));
	else
		(void)snprintf(ret_text, room, "ended");
	return true;
}

int witness_fd(const struct witness *witness)
{
	return witness ? witness->fd : -1;
}

pid_t witness_pid(const struct witness *witness)
{
	return witness->pid;
}

const char *witness_path(const struct witness *witness)
{
	return witness->path;
}

uint64_t witness_dropped(const struct witness *witness)
{
	return witness->dropped;
}

void witness_end(struct witness *witness, const char *why)
{
	if (!witness)
		return;
	if (why) {
		struct record record = {.kind = RECORD_END, .bytes = sizeof record.body.note};
		(void)snprintf(record.body.note.text, sizeof record.body.note.text, "%s", why);
		witness_tell(witness, &record, -1);
	}
	if (witness->fd >= 0)
		(void)close(witness->fd);
	free(witness);
}
