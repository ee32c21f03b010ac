/* process: see process.h. The files are those of proc(5). */
#include "client/cli/process.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

/* Reads a small file of /proc and ends it with a zero byte. */
static int process_read(pid_t pid, const char *name, char *buffer, size_t room)
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size_t size = 0;
	for (ssize_t n; size + 1 < room; size += (size_t)n) {
		n = read(fd, buffer + size, room - 1 - size);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
	}
	buffer[size] = 0;
	return 0;
}

/* The number after `key`, which begins a line. */
static int process_field(const char *text, const char *key, uint64_t *ret)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, strlen(key)) == 0) {
			*ret = strtoull(line + strlen(key), NULL, 10);
			return 0;
		}
	}
	return -ENODATA;
}

int process_pss(pid_t pid, uint64_t *ret_bytes)
{
	char text[2048];
	uint64_t kib;
	int r = process_read(pid, "smaps_rollup", text, sizeof text);
	if (r == 0)
		r = process_field(text, "Pss:", &kib);
	if (r == 0)
		*ret_bytes = kib * 1024;
	return r;
}

/* The process's CPU clock counts nanoseconds; /proc/PID/stat only shows hundredths of a second. */
int process_cpu_ns(pid_t pid, uint64_t *ret_ns)
{
	clockid_t clock;
	struct timespec t;
	int r = clock_getcpuclockid(pid, &clock);
	if (r)
		return -r;
	if (clock_gettime(clock, &t) < 0)
		return -errno;
	*ret_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return 0;
}

int process_bytes_read(pid_t pid, uint64_t *ret_bytes)
{
	char text[1024];
	int r = process_read(pid, "io", text, sizeof text);
	return r < 0 ? r : process_field(text, "read_bytes:", ret_bytes);
}

unsigned process_children(pid_t pid, pid_t *ret_pids, unsigned room)
{
	char name[48], text[1024];
	unsigned count = 0;
	(void)snprintf(name, sizeof name, "task/%d/children", (int)pid);
	if (process_read(pid, name, text, sizeof text) < 0)
		return 0;
	for (char *at = text, *end; count < room; at = end) {
		long child = strtol(at, &end, 10);
		if (end == at)
			break;
		ret_pids[count++] = (pid_t)child;
	}
	return count;
}

uint64_t process_age_ns(void)
{
	enum { PROCESS_START_FIELD = 22, PROCESS_AGE_LIMIT_NS = 100000000 };
	char text[1024];
	if (process_read(getpid(), "stat", text, sizeof text) < 0)
		return 0;
	/* The second field, the name in parentheses, may contain anything: count from its end. */
	const char *field = strrchr(text, ')');
	for (int i = 2; field && i < PROCESS_START_FIELD; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		return 0;
	struct timespec now;
	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start_ns = strtoull(field, NULL, 10) * tick_ns;
	uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint64_t age_ns = now_ns > start_ns ? now_ns - start_ns : 0;
	return age_ns > PROCESS_AGE_LIMIT_NS ? 0 : age_ns;
}
