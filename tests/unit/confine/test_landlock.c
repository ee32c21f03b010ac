/* Landlock: no thread can open files outside, not even through a link; files that the daemon
 * needs can be opened; ports, signals and abstract sockets, where the kernel has them; and the
 * message for a kernel without Landlock. */
#include "confined.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

enum { LANDLOCK_PATH = 128 };

static char landlock_folder[LANDLOCK_PATH / 2];
static struct confine_state landlock_state;

static const char *landlock_path(const char *name)
{
	static char path[4][LANDLOCK_PATH];
	static unsigned turn;
	char *here = path[turn++ % UTIL_COUNT(path)];
	(void)snprintf(here, LANDLOCK_PATH, "%s/%s", landlock_folder, name);
	return here;
}

static void landlock_write(const char *name)
{
	int fd = open(landlock_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, "x", 1) == 1);
	(void)close(fd);
}

static int landlock_set_up(void **state)
{
	(void)state;
	(void)snprintf(landlock_folder, sizeof landlock_folder, "/tmp/penstock-landlock-XXXXXX");
	assert_non_null(mkdtemp(landlock_folder));
	assert_int_equal(mkdir(landlock_path("in"), 0700), 0);
	assert_int_equal(mkdir(landlock_path("out"), 0700), 0);
	assert_int_equal(mkdir(landlock_path("work"), 0700), 0);
	landlock_write("in/a");
	landlock_write("out/a");
	landlock_write("single");
	assert_int_equal(symlink("../out/a", landlock_path("in/link")), 0);
	return 0;
}

static int landlock_tear_down(void **state)
{
	static const char *const names[] = {"in/a", "in/link", "out/a", "single"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		(void)unlink(landlock_path(names[i]));
	(void)rmdir(landlock_path("in"));
	(void)rmdir(landlock_path("out"));
	(void)rmdir(landlock_path("work"));
	return rmdir(landlock_folder);
}

/* The kernel's ABI, or 0. */
static long landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	return abi < 0 ? 0 : abi;
}

static bool landlock_missing(long wanted)
{
	if (landlock_abi() >= wanted)
		return false;
	print_message("skipped: this kernel has Landlock ABI %ld; the test needs ABI %ld\n",
		landlock_abi(), wanted);
	return true;
}

static void landlock_bind(uint16_t port)
{
	const struct confine_place places[] = {{landlock_path("in"), CONFINE_READ, true},
		{landlock_path("work"), CONFINE_WRITE, true},
		{landlock_path("single"), CONFINE_READ_FILES, true},
		{landlock_path("gone"), CONFINE_READ, false}, {NULL, CONFINE_READ, false}};
	const struct confine_files_options options = {
		.places = places, .count = UTIL_COUNT(places), .port = port};
	struct fault fault = {.text = ""};
	confined_begin(&landlock_state);
	CONFINED_EXPECT(confine_files(&options, &landlock_state, &fault) == 0);
	CONFINED_EXPECT(landlock_state.landlock > 0 && !landlock_state.files_missing[0]);
}

static bool landlock_opens(const char *name, int flags)
{
	int fd = open(landlock_path(name), flags | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)close(fd);
	else
		CONFINED_EXPECT(errno == EACCES);
	return fd >= 0;
}

static void *landlock_thread(void *context)
{
	(void)context;
	CONFINED_EXPECT(!landlock_opens("out/a", O_RDONLY));
	CONFINED_EXPECT(landlock_opens("in/a", O_RDONLY));
	return NULL;
}

static void landlock_files(void)
{
	pthread_t thread;
	landlock_bind(0);
	CONFINED_EXPECT(landlock_opens("in/a", O_RDONLY));
	CONFINED_EXPECT(landlock_opens("in", O_RDONLY | O_DIRECTORY));
	CONFINED_EXPECT(landlock_opens("single", O_RDONLY));
	CONFINED_EXPECT(landlock_opens("work/new", O_RDWR | O_CREAT));
	CONFINED_EXPECT(!landlock_opens("out/a", O_RDONLY));
	CONFINED_EXPECT(!landlock_opens("out", O_RDONLY | O_DIRECTORY));
	CONFINED_EXPECT(!landlock_opens("in/link", O_RDONLY));
	CONFINED_EXPECT(!landlock_opens("in/../out/a", O_RDONLY));
	CONFINED_EXPECT(!landlock_opens("in/a", O_WRONLY));
	CONFINED_EXPECT(!landlock_opens("in/new", O_WRONLY | O_CREAT));
	CONFINED_EXPECT(!landlock_opens("single", O_WRONLY));
	CONFINED_EXPECT(open("/etc/passwd", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
	CONFINED_EXPECT(unlink(landlock_path("in/a")) == -1);
	CONFINED_EXPECT(rename(landlock_path("work/new"), landlock_path("work/newer")) == 0);
	CONFINED_EXPECT(rename(landlock_path("work/newer"), landlock_path("in/newer")) == -1);
	CONFINED_EXPECT(mkdir(landlock_path("work/deep"), 0700) == 0);
	CONFINED_EXPECT(rmdir(landlock_path("work/deep")) == 0);
	CONFINED_EXPECT(unlink(landlock_path("work/newer")) == 0);
	CONFINED_EXPECT(pthread_create(&thread, NULL, landlock_thread, NULL) == 0);
	CONFINED_EXPECT(pthread_join(thread, NULL) == 0);
}

static void test_files(void **state)
{
	(void)state;
	if (landlock_missing(1))
		skip();
	confined_run(landlock_files);
}

static int landlock_listen(uint16_t port)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int result = fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof name) ? -errno : fd;
	if (result < 0 && fd >= 0)
		(void)close(fd);
	return result;
}

static uint16_t landlock_free_port(void)
{
	struct sockaddr_in name;
	socklen_t size = sizeof name;
	int fd = landlock_listen(0);
	CONFINED_EXPECT(fd >= 0 && getsockname(fd, (struct sockaddr *)&name, &size) == 0);
	(void)close(fd);
	return ntohs(name.sin_port);
}

static void landlock_ports(void)
{
	uint16_t port = landlock_free_port();
	const struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	landlock_bind(port);
	CONFINED_EXPECT(landlock_state.ports);
	int fd = landlock_listen(port);
	CONFINED_EXPECT(fd >= 0 || fd == -EADDRINUSE); /* another process was faster */
	CONFINED_EXPECT(landlock_listen(0) == -EACCES);
	CONFINED_EXPECT(landlock_listen((uint16_t)(port ^ 1)) == -EACCES);
	int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CONFINED_EXPECT(connect(other, (const struct sockaddr *)&name, sizeof name) == -1 &&
			errno == EACCES);
}

static void test_ports(void **state)
{
	(void)state;
	if (landlock_missing(4))
		skip();
	confined_run(landlock_ports);
}

static void landlock_scope(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0penstock-landlock"};
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof "\0penstock-landlock";
	int outside = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "penstock-%d", getpid());
	CONFINED_EXPECT(bind(outside, (struct sockaddr *)&name, size) == 0);
	landlock_bind(0);
	CONFINED_EXPECT(landlock_state.scoped);
	CONFINED_EXPECT(kill(getppid(), 0) == -1 && errno == EPERM);
	CONFINED_EXPECT(kill(getpid(), 0) == 0);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CONFINED_EXPECT(
		sendto(fd, "x", 1, 0, (struct sockaddr *)&name, size) == -1 && errno == EPERM);
}

static void test_scope(void **state)
{
	(void)state;
	if (landlock_missing(6))
		skip();
	confined_run(landlock_scope);
}

static void landlock_needed(void)
{
	const struct confine_place places[] = {{landlock_path("gone"), CONFINE_READ, true}};
	const struct confine_files_options options = {.places = places, .count = 1};
	struct fault fault;
	confined_begin(&landlock_state);
	CONFINED_EXPECT(confine_files(&options, &landlock_state, &fault) == -ENOENT);
	CONFINED_EXPECT(strstr(fault.text, "gone cannot be allowed by Landlock"));
	CONFINED_EXPECT(!landlock_state.landlock);
	CONFINED_EXPECT(landlock_opens("out/a", O_RDONLY));
}

/* A required place does not exist: nothing is in force, and the fault says so. */
static void test_needed(void **state)
{
	(void)state;
	if (landlock_missing(1))
		skip();
	confined_run(landlock_needed);
}

static void landlock_old_kernel(void)
{
	const struct confine_files_options options = {.count = 0};
	struct fault fault;
	confined_begin(&landlock_state);
	confined_forbid(SYS_landlock_create_ruleset, ENOSYS);
	CONFINED_EXPECT(confine_files(&options, &landlock_state, &fault) == 0);
	CONFINED_EXPECT(!landlock_state.landlock);
	CONFINED_EXPECT(strstr(landlock_state.files_missing, "this kernel has no Landlock"));
	confine_describe(&landlock_state, fault.text, sizeof fault.text);
	CONFINED_EXPECT(strstr(fault.text, "files checked only by penstockd"));
}

static void test_old_kernel(void **state)
{
	(void)state;
	confined_run(landlock_old_kernel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_scope),
		cmocka_unit_test(test_needed),
		cmocka_unit_test(test_old_kernel),
	};
	return cmocka_run_group_tests(tests, landlock_set_up, landlock_tear_down);
}
