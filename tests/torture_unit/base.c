/* Scenarios of the foundations: the journal, cgroups and small files, the page's server,
 * NVML's absence. */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/host/procfile.h"
#include "base/log.h"
#include "http/http.h"
#include "http/sheet_png.h"
#include "record/nvml.h"
#include "record/probe.h"
#include "serve/budget.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- logs ---- */

static int journal_at(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
	TORTURE_WANT(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
	return fd;
}

static void run_log(void)
{
	char line[2048];
	struct fault fault = {""};
	int journal = journal_at(torture_own("journal"));
	torture_on();
	int code = log_set_target(LOG_JOURNAL, LOG_JSON, torture_own("journal"), &fault);
	for (int i = 0; i < 8; i++)
		log_info("line %d", i);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	int lines = 0;
	while (recv(journal, line, sizeof line, 0) > 0)
		lines++;
	/* One may be lost, and is counted; where sending goes on failing, all are. */
	TORTURE_WANT(torture_struck() || lines == 8);
	(void)log_set_target(LOG_STDERR, LOG_HUMAN, NULL, &fault);
	(void)close(journal);
}

/* ---- cgroups and small files ---- */

static void run_machine(void)
{
	struct cgroup_memory memory;
	struct cgroup_view view;
	struct cgroup_usage usage;
	struct record_machine machine;
	struct record_memory mine;
	struct probe_process process;
	char text[PROCFILE_ROOM];
	torture_on();
	cgroup_memory_read(&memory);
	(void)cgroup_cpus();
	(void)cgroup_throttled_us();
	cgroup_view_at("", 0, &view);
	cgroup_usage_read(&view, &usage);
	probe_machine_at("", &view, "/tmp", &machine);
	probe_memory_at("", getpid(), &mine);
	probe_command_at("", getpid(), text, sizeof text);
	(void)probe_process_at("", getpid(), &process);
	uint64_t budget = budget_default();
	unsigned cpus = cpu_available();
	ssize_t size = procfile_read("", "/proc/self/status", text, sizeof text);
	torture_off();
	TORTURE_WANT(budget >= 35 << 20 && cpus >= 1);
	TORTURE_WANT(size > 0 || text[0] == '\0');
}

static void run_nvml(void)
{
	char note[512] = "";
	torture_on();
	struct nvml *nvml = nvml_open(note, sizeof note);
	TORTURE_WANT(nvml_process_bytes(nvml, 1) == UINT64_MAX || nvml);
	nvml_close(nvml);
	torture_off();
}

/* ---- http ---- */

static void wake(void *context)
{
	atomic_store((atomic_int *)context, 1);
}

/* What one asks for; the bytes that came back. Runs in a process of its own, where nothing fails.
 */
static ssize_t ask(const char *path, const char *what, char *answer, size_t room)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char request[256];
	ssize_t size = 0, n;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
	if (connect(fd, (struct sockaddr *)&name, sizeof name) < 0) {
		(void)close(fd);
		return -1;
	}
	struct timeval limit = {.tv_sec = 1};
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	int bytes = snprintf(request, sizeof request,
		"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", what);
	/* The daemon may have hung up already: it refuses by that, too. */
	(void)send(fd, request, (size_t)bytes, MSG_NOSIGNAL);
	while ((n = read(fd, answer + size, room - 1 - (size_t)size)) > 0)
		size += n;
	answer[size] = '\0';
	(void)close(fd);
	return size;
}

/* A process that asks for three things: 0 when it was told what is right, or nothing, or a refusal.
 */
static void ask_all(const char *path)
{
	static const char *const what[] = {"/", "/metrics", "/status", "/sheet?stream=0", "/none"};
	static char answer[1 << 20];
	int bad = 0;
	for (size_t i = 0; i < UTIL_COUNT(what); i++) {
		ssize_t size = ask(path, what[i], answer, sizeof answer);
		if (size > 0)
			bad |= strncmp(answer, "HTTP/1.1 ", 9) != 0;
	}
	_exit(bad);
}

static void publish(struct http *http)
{
	char *metrics = strdup("# EOF\n"), *status = strdup("{}");
	if (metrics)
		http_publish(http, HTTP_METRICS, metrics);
	if (status)
		http_publish(http, HTTP_STATUS, status);
}

static void run_http(void)
{
	atomic_int wanted = 0;
	struct http *http = NULL;
	struct fault fault = {""};
	struct http_options options = {
		.address = "auto", .folder = torture_room, .wake = wake, .wake_context = &wanted};
	torture_on();
	int code = http_new(&options, &http, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		return;
	}
	publish(http);
	torture_off();
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		ask_all(torture_own("http.sock"));
	torture_on();
	for (int i = 0; waitpid(pid, &status, WNOHANG) == 0 && i < 3000; i++) {
		uint32_t stream;
		if (http_sheet_wanted(http, &stream)) {
			struct http_sheet *sheet = http_sheet_new(4, 16, 16);
			http_sheet_give(http, sheet);
		}
		publish(http);
		(void)usleep(10000);
	}
	http_free(http);
	torture_off();
	TORTURE_WANT(status == 0);
	TORTURE_WANT(torture_struck_by("unlink") || access(torture_own("http.sock"), F_OK) < 0);
}

const struct torture_scenario torture_base[] = {
	{"base.log", NULL, run_log},
	{"base.machine", NULL, run_machine},
	{"base.nvml", NULL, run_nvml},
	{"base.http", NULL, run_http},
	{0},
};
