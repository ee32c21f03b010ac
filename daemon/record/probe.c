/* probe: see probe.h. File formats: proc(5), and the kernel's Documentation/accounting/psi.rst and
 * Documentation/admin-guide/cgroup-v2.rst. */
#include "record/probe.h"

#include "base/host/procfile.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

enum { PROBE_ENVIRONMENT = 256 << 10 };

static ssize_t probe_read(const char *root, int pid, const char *name, char *buffer, size_t room)
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	return procfile_read(root, path, buffer, room);
}

bool probe_process_at(const char *root, int pid, struct probe_process *ret)
{
	char text[2048];
	unsigned long long user, system, start;
	int parent, status = 0;
	char state;
	if (probe_read(root, pid, "stat", text, sizeof text) < 0)
		return false;
	/* The name in field 2 may contain anything, including brackets. */
	const char *rest = strrchr(text, ')');
	/* Fields 3, 4, 14, 15, 22 and, where the kernel shows it, 52. */
	int n = rest ? sscanf(rest,
			       ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s "
			       "%*s %*s %*s %llu %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			       "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			       "%*s %d",
			       &state, &parent, &user, &system, &start, &status)
		     : 0;
	if (n < 5)
		return false;
	*ret = (struct probe_process){.parent = parent,
		.start_ticks = start,
		.cpu_ticks = user + system,
		.ended = n == 6 && (state == 'Z' || state == 'X'),
		.status = status};
	return true;
}

static uint64_t probe_kib(const char *text, const char *key)
{
	uint64_t kib;
	return procfile_value(text, key, &kib) ? kib << 10 : UINT64_MAX;
}

void probe_memory_at(const char *root, int pid, struct record_memory *ret)
{
	char text[PROCFILE_ROOM];
	(void)probe_read(root, pid, "status", text, sizeof text);
	*ret = (struct record_memory){
		.resident = probe_kib(text, "VmRSS"),
		.anonymous = probe_kib(text, "RssAnon"),
		.shared = probe_kib(text, "RssShmem"),
		.swapped = probe_kib(text, "VmSwap"),
		.peak = probe_kib(text, "VmHWM"),
	};
}

/* Makes one line of any bytes: zeros and control characters become spaces. */
static void probe_line(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			text[i] = ' ';
	while (size && text[size - 1] == ' ')
		text[--size] = 0;
}

void probe_command_at(const char *root, int pid, char *buffer, size_t room)
{
	char name[64];
	ssize_t n = probe_read(root, pid, "cmdline", buffer, room);
	probe_line(buffer, n > 0 ? (size_t)n : 0);
	if (buffer[0])
		return;
	n = probe_read(root, pid, "comm", name, sizeof name);
	probe_line(name, n > 0 ? (size_t)n : 0);
	if (name[0])
		(void)snprintf(buffer, room, "[%s]", name);
}

int64_t probe_deadline_at(const char *root, int pid)
{
	static const char key[] = "SLURM_JOB_END_TIME=";
	static char text[PROBE_ENVIRONMENT]; /* one thread; unused pages cost no memory */
	ssize_t size = probe_read(root, pid, "environ", text, sizeof text);
	for (const char *at = text; at < text + UTIL_MAX(size, 0); at += strlen(at) + 1)
		if (strncmp(at, key, sizeof key - 1) == 0)
			return UTIL_MAX(strtoll(at + sizeof key - 1, NULL, 10), 0);
	return 0;
}

uint64_t probe_cpu_limit_at(const char *root, int pid)
{
	static const char key[] = "Max cpu time";
	char text[4096];
	(void)probe_read(root, pid, "limits", text, sizeof text);
	const char *line = strstr(text, key);
	line = line ? line + sizeof key - 1 : "";
	line += strspn(line, " ");
	return isdigit((unsigned char)*line) ? strtoull(line, NULL, 10) : UINT64_MAX;
}

void probe_cgroup(const struct cgroup_view *view, struct record_cgroup *ret)
{
	struct cgroup_usage usage;
	cgroup_usage_read(view, &usage);
	*ret = (struct record_cgroup){
		.used = usage.used, .limit = usage.limit, .oom_kills = usage.oom_kills};
	(void)snprintf(ret->path, sizeof ret->path, "%s", view->path);
}

uint64_t probe_oom_kills_at(const char *root)
{
	char text[PROCFILE_ROOM];
	uint64_t kills;
	(void)procfile_read(root, "/proc/vmstat", text, sizeof text);
	return procfile_value(text, "oom_kill", &kills) ? kills : UINT64_MAX;
}

/* "some avg10=1.53 avg60=..." at the beginning of a line. */
static float probe_stalled(const char *text, const char *which)
{
	const char *line = strstr(text, which);
	const char *average = line ? strstr(line, "avg10=") : NULL;
	return average ? strtof(average + sizeof "avg10=" - 1, NULL) : -1;
}

static void probe_pressure(const char *root, const struct cgroup_view *view, const char *what,
	float *ret_some, float *ret_full)
{
	char name[64], text[512];
	ssize_t n = -ENOENT;
	(void)snprintf(name, sizeof name, "/%s.pressure", what);
	if (view->has_unified)
		n = procfile_read(view->unified.dir, name, text, sizeof text);
	(void)snprintf(name, sizeof name, "/proc/pressure/%s", what);
	if (n <= 0)
		(void)procfile_read(root, name, text, sizeof text);
	*ret_some = probe_stalled(text, "some ");
	*ret_full = probe_stalled(text, "full ");
}

static uint64_t probe_disk_free(const char *folder)
{
	struct statvfs disk;
	return folder && statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize
						     : UINT64_MAX;
}

void probe_machine_at(const char *root, const struct cgroup_view *view, const char *folder,
	struct record_machine *ret)
{
	char text[PROCFILE_ROOM];
	float unused;
	(void)procfile_read(root, "/proc/meminfo", text, sizeof text);
	*ret = (struct record_machine){
		.available = probe_kib(text, "MemAvailable"),
		.total = probe_kib(text, "MemTotal"),
		.swap_free = probe_kib(text, "SwapFree"),
		.oom_kills = probe_oom_kills_at(root),
		.disk_free = probe_disk_free(folder),
	};
	struct record_pressure *pressure = &ret->pressure;
	probe_cgroup(view, &ret->cgroup);
	probe_pressure(root, view, "cpu", &pressure->cpu_some, &unused);
	probe_pressure(root, view, "memory", &pressure->memory_some, &pressure->memory_full);
	probe_pressure(root, view, "io", &pressure->io_some, &pressure->io_full);
}
