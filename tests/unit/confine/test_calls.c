/* seccomp: which calls are refused and which work, that every thread has the filter, and the
 * sentence where seccomp cannot be used. */
#include "confined.h"

#include "base/util.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static void calls_bind(void)
{
	struct confine_state state;
	struct fault fault;
	confined_begin(&state);
	CONFINED_EXPECT(confine_calls(CONFINE_ON, false, &state, &fault) == 0);
	CONFINED_EXPECT(state.calls && !state.calls_missing[0]);
}

static void calls_expect_refused(const int *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		errno = 0;
		long result = syscall(calls[i], 0, 0, 0, 0, 0, 0);
		if (result != -1 || errno != EPERM) {
			(void)dprintf(
				2, "system call %d gave %ld, errno %d\n", calls[i], result, errno);
			_exit(1);
		}
	}
}

/* Calls that sanitizers do not make. */
static const int calls_outward[] = {SYS_execveat, SYS_io_uring_setup, SYS_process_vm_writev,
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_bpf,
	SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key,
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
	SYS_swapon, SYS_acct, SYS_syslog, SYS_open_by_handle_at, SYS_setuid, SYS_setgid,
	SYS_setresuid, SYS_setgroups, SYS_capset, SYS_fchown, SYS_fchownat, SYS_fchmodat,
	SYS_mknodat, SYS_seccomp, SYS_bind, SYS_listen, SYS_socketpair, SYS_pidfd_send_signal,
	SYS_kcmp, SYS_clock_settime, SYS_sethostname};

static void calls_refused(void)
{
	calls_bind();
	calls_expect_refused(calls_outward, UTIL_COUNT(calls_outward));
	errno = 0;
	CONFINED_EXPECT(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
	CONFINED_EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) == -1 && errno == EAFNOSUPPORT);
}

/* A daemon that reads URLs connects to servers, looks up names, and does nothing else. */
static void calls_online(void)
{
	struct confine_state state;
	struct fault fault;
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof address;
	struct addrinfo *found = NULL;
	int ends[2];
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CONFINED_EXPECT(bind(server, (struct sockaddr *)&address, size) == 0);
	CONFINED_EXPECT(listen(server, 1) == 0);
	CONFINED_EXPECT(getsockname(server, (struct sockaddr *)&address, &size) == 0);
	confined_begin(&state);
	CONFINED_EXPECT(confine_calls(CONFINE_ON, true, &state, &fault) == 0 && state.network);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CONFINED_EXPECT(fd >= 0);
	CONFINED_EXPECT(
		connect(fd, (struct sockaddr *)&address, size) == 0 || errno == EINPROGRESS);
	CONFINED_EXPECT(accept4(server, NULL, NULL, SOCK_CLOEXEC) >= 0);
	CONFINED_EXPECT(socket(AF_INET6, SOCK_STREAM, 0) >= 0 || errno == EAFNOSUPPORT);
	CONFINED_EXPECT(socket(AF_INET, SOCK_DGRAM, 0) >= 0);
	CONFINED_EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CONFINED_EXPECT(getaddrinfo("localhost", "80", NULL, &found) == 0 && found);
	freeaddrinfo(found);
	CONFINED_EXPECT(syscall(SYS_sendmmsg, fd, NULL, 0, 0) != -1 || errno != ENOSYS);
	CONFINED_EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) == -1 && errno == EAFNOSUPPORT);
	CONFINED_EXPECT(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == EAFNOSUPPORT);
	CONFINED_EXPECT(socketpair(AF_INET, SOCK_STREAM, 0, ends) == -1 && errno == EPERM);
	address.sin_port = 0;
	CONFINED_EXPECT(bind(fd, (struct sockaddr *)&address, size) == -1 && errno == EPERM);
	CONFINED_EXPECT(listen(fd, 1) == -1 && errno == EPERM);
}

static void test_online(void **state)
{
	(void)state;
	confined_run(calls_online);
}

/* These calls could make the kernel send any signal to any process of the same user. */
static void calls_expect_no_owner(void)
{
	const struct f_owner_ex other = {F_OWNER_PID, getppid()};
	int ends[2];
	CONFINED_EXPECT(pipe2(ends, O_CLOEXEC) == 0);
	CONFINED_EXPECT(fcntl(ends[0], F_SETOWN, getppid()) == -1 && errno == EPERM);
	CONFINED_EXPECT(fcntl(ends[0], F_SETOWN_EX, &other) == -1 && errno == EPERM);
	CONFINED_EXPECT(fcntl(ends[0], F_SETSIG, SIGKILL) == -1 && errno == EPERM);
	CONFINED_EXPECT(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	CONFINED_EXPECT(fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0);
	CONFINED_EXPECT(fcntl(ends[0], F_DUPFD_CLOEXEC, 64) >= 64);
	/* The time of an open file may be set, that of a path not. */
	CONFINED_EXPECT(futimens(ends[0], NULL) == 0);
	CONFINED_EXPECT(utimensat(AT_FDCWD, "/", NULL, 0) == -1);
	CONFINED_EXPECT(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void calls_owner(void)
{
	calls_bind();
	calls_expect_no_owner();
}

static void test_owner(void **state)
{
	(void)state;
	confined_run(calls_owner);
}

static void test_refused(void **state)
{
	(void)state;
	confined_run(calls_refused);
}

static void calls_programs(void)
{
	const int calls[] = {
		SYS_execve, SYS_ptrace, SYS_kill, SYS_tkill, SYS_personality, SYS_process_vm_readv};
	const struct rlimit none = {0, 0};
	static char page[4096] __attribute__((aligned(4096)));
	calls_bind();
	calls_expect_refused(calls, UTIL_COUNT(calls));
	CONFINED_EXPECT(fork() == -1);
	CONFINED_EXPECT(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 && errno == EPERM);
	CONFINED_EXPECT(syscall(SYS_clone3, 0, 0) == -1 && errno == ENOSYS);
	/* A thread with its own namespace. (Without a stack: the filter answers first.) */
	CONFINED_EXPECT(syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUTS,
				NULL, 0, 0, 0) == -1 &&
			errno == ENOSYS);
	CONFINED_EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0) == MAP_FAILED &&
			errno == EPERM);
	CONFINED_EXPECT(mprotect(page, sizeof page, PROT_READ | PROT_EXEC) == -1 && errno == EPERM);
	CONFINED_EXPECT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == -1);
	CONFINED_EXPECT(prctl(PR_SET_SECCOMP, 1, 0, 0, 0) == -1);
	CONFINED_EXPECT(setrlimit(RLIMIT_CORE, &none) == -1);
	/* Threads of another process. */
	CONFINED_EXPECT(syscall(SYS_tgkill, getppid(), getppid(), 0) == -1);
}

static void test_programs(void **state)
{
	(void)state;
#ifdef SANITIZED
	print_message("skipped: a sanitizer needs these calls itself\n");
	skip();
#endif
	confined_run(calls_programs);
}

static void *calls_nothing(void *context)
{
	return context;
}

static void calls_files(void)
{
	char name[] = "/tmp/penstock-confine-XXXXXX", other[sizeof name + 2];
	int fd = mkostemp(name, O_CLOEXEC);
	CONFINED_EXPECT(fd >= 0);
	(void)snprintf(other, sizeof other, "%s.b", name);
	CONFINED_EXPECT(fchmod(fd, 0640) == 0);
	CONFINED_EXPECT(pwrite(fd, "abc", 3, 0) == 3 && ftruncate(fd, 2) == 0);
	CONFINED_EXPECT(fsync(fd) == 0 && rename(name, other) == 0 && unlink(other) == 0);
	CONFINED_EXPECT(fchmod(fd, 04755) == -1);
	CONFINED_EXPECT(close(fd) == 0);
}

static void calls_goes_on(void)
{
	struct rlimit limit;
	pthread_t thread;
	calls_bind();
	calls_files();
	for (int i = 0; i < 3; i++) {
		CONFINED_EXPECT(pthread_create(&thread, NULL, calls_nothing, NULL) == 0);
		CONFINED_EXPECT(pthread_join(thread, NULL) == 0);
	}
	int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CONFINED_EXPECT(memory >= 0 && ftruncate(memory, 1 << 20) == 0);
	CONFINED_EXPECT(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	void *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CONFINED_EXPECT(at != MAP_FAILED && munmap(at, 1 << 20) == 0);
	void *large = malloc(64 << 20);
	CONFINED_EXPECT(large != NULL);
	free(large);
	CONFINED_EXPECT(epoll_create1(EPOLL_CLOEXEC) >= 0);
	CONFINED_EXPECT(eventfd(0, EFD_CLOEXEC) >= 0);
	CONFINED_EXPECT(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC) >= 0);
	CONFINED_EXPECT(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0);
	CONFINED_EXPECT(syscall(SYS_pidfd_open, getppid(), 0) >= 0 || errno == ENOSYS);
	CONFINED_EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	CONFINED_EXPECT(prctl(PR_SET_NAME, "another", 0, 0, 0) == 0);
	FILE *file = fopen("/proc/self/status", "re");
	CONFINED_EXPECT(file && fgetc(file) == 'N' && fclose(file) == 0);
	/* A call that is in no table gets ENOSYS, and nothing is killed. */
	CONFINED_EXPECT(syscall(9999) == -1 && errno == ENOSYS);
}

static void test_goes_on(void **state)
{
	(void)state;
	confined_run(calls_goes_on);
}

static void calls_abort(void)
{
	(void)signal(SIGABRT, SIG_DFL);
	calls_bind();
	abort();
}

/* A broken invariant still ends the process by its signal. */
static void test_abort(void **state)
{
	(void)state;
	int status = confined_child(calls_abort);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Memory may be preferred from a node, which some kernels and sandboxes do not have, and a thread
 * may not be bound to anything. */
static void calls_numa(void)
{
	unsigned long first[2] = {1, 0};
	cpu_set_t set;
	bool works = syscall(SYS_set_mempolicy, MPOL_PREFERRED, first, 64ul) == 0;
	CONFINED_EXPECT(sched_getaffinity(0, sizeof set, &set) == 0);
	calls_bind();
	CONFINED_EXPECT(!works || syscall(SYS_set_mempolicy, MPOL_PREFERRED, first, 64ul) == 0);
	CONFINED_EXPECT(syscall(SYS_set_mempolicy, MPOL_BIND, first, 64ul) == -1);
	CONFINED_EXPECT(errno == ENOSYS);
#ifndef SANITIZED
	CONFINED_EXPECT(sched_setaffinity(0, sizeof set, &set) == -1 && errno == ENOSYS);
#endif
}

static void test_numa(void **state)
{
	(void)state;
	confined_run(calls_numa);
}

static sem_t calls_bound;

static void *calls_other_thread(void *context)
{
	(void)context;
	while (sem_wait(&calls_bound))
		;
	CONFINED_EXPECT(syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == EPERM);
	return NULL;
}

static void calls_threads(void)
{
	pthread_t early[3], late;
	sem_init(&calls_bound, 0, 0);
	for (size_t i = 0; i < UTIL_COUNT(early); i++)
		CONFINED_EXPECT(pthread_create(&early[i], NULL, calls_other_thread, NULL) == 0);
	calls_bind();
	CONFINED_EXPECT(pthread_create(&late, NULL, calls_other_thread, NULL) == 0);
	for (size_t i = 0; i <= UTIL_COUNT(early); i++)
		sem_post(&calls_bound);
	for (size_t i = 0; i < UTIL_COUNT(early); i++)
		CONFINED_EXPECT(pthread_join(early[i], NULL) == 0);
	CONFINED_EXPECT(pthread_join(late, NULL) == 0);
}

/* Threads that existed before have the filter too. */
static void test_threads(void **state)
{
	(void)state;
	confined_run(calls_threads);
}

static void calls_witness(void)
{
	struct confine_state state;
	struct rlimit limit;
	confined_begin(&state);
	confine_witness(CONFINE_AUTO);
	calls_expect_refused(calls_outward, UTIL_COUNT(calls_outward));
	/* As dlopen does. */
	CONFINED_EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0) != MAP_FAILED);
	CONFINED_EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	CONFINED_EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CONFINED_EXPECT(prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) == -1);
	calls_expect_no_owner();
	CONFINED_EXPECT(syscall(SYS_memfd_create, "no", 0) == -1 && errno == ENOSYS);
	CONFINED_EXPECT(syscall(SYS_accept4, 0, 0, 0, 0) == -1 && errno == ENOSYS);
#ifndef SANITIZED
	CONFINED_EXPECT(fork() == -1);
	CONFINED_EXPECT(syscall(SYS_execve, 0, 0, 0) == -1 && errno == EPERM);
	CONFINED_EXPECT(syscall(SYS_ptrace, 0, 0, 0, 0) == -1 && errno == EPERM);
#endif
}

static void test_witness(void **state)
{
	(void)state;
	confined_run(calls_witness);
}

/* The sentence has the kernel's reason. */
static void calls_cannot_load(void)
{
	struct confine_state state;
	confined_begin(&state);
	confined_forbid(SCMP_SYS(seccomp), EPERM);
	struct fault fault;
	CONFINED_EXPECT(confine_calls(CONFINE_AUTO, false, &state, &fault) == 0 && !state.calls);
	CONFINED_EXPECT(strstr(state.calls_missing, strerror(EPERM)));
}

static void test_cannot_load(void **state)
{
	(void)state;
	confined_run(calls_cannot_load);
}

/* As in a container that forbids seccomp, or with a kernel that lacks it. */
static void calls_cannot(void)
{
	struct confine_state state;
	struct fault fault;
	confined_begin(&state);
	confined_forbid(SCMP_SYS(seccomp), ENOSYS);
	CONFINED_EXPECT(confine_calls(CONFINE_ON, false, &state, &fault) < 0);
	CONFINED_EXPECT(strstr(fault.text, "seccomp: on, but") && strstr(fault.text, "auto"));
	CONFINED_EXPECT(confine_calls(CONFINE_AUTO, false, &state, &fault) == 0);
	CONFINED_EXPECT(!state.calls && strstr(state.calls_missing, "cannot be used here"));
	confine_witness(CONFINE_AUTO);
	confine_describe(&state, fault.text, sizeof fault.text);
	CONFINED_EXPECT(strstr(fault.text, "system calls not filtered: seccomp cannot"));
}

static void test_cannot(void **state)
{
	(void)state;
	confined_run(calls_cannot);
}

static void calls_off(void)
{
	struct confine_state state;
	struct fault fault;
	confined_begin(&state);
	CONFINED_EXPECT(confine_calls(CONFINE_OFF, false, &state, &fault) == 0);
	confine_witness(CONFINE_OFF);
	CONFINED_EXPECT(!state.calls && strcmp(state.calls_missing, "seccomp: off") == 0);
	CONFINED_EXPECT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0);
}

static void test_off(void **state)
{
	(void)state;
	confined_run(calls_off);
}

static void calls_begin(void)
{
	struct confine_state state;
	struct rlimit before, limit;
	struct fault fault;
	char filter[16] = "";
	CONFINED_EXPECT(getrlimit(RLIMIT_CORE, &before) == 0);
	CONFINED_EXPECT(confine_begin(true, &state, &fault) == 0);
	CONFINED_EXPECT(getrlimit(RLIMIT_CORE, &limit) == 0);
	CONFINED_EXPECT(state.core_files && limit.rlim_max == before.rlim_max);
	confined_begin(&state);
	CONFINED_EXPECT(!state.core_files && state.no_new_privs);
	CONFINED_EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CONFINED_EXPECT(getrlimit(RLIMIT_CORE, &limit) == 0);
	CONFINED_EXPECT(limit.rlim_cur == 0 && limit.rlim_max == 0);
	int fd = open("/proc/self/coredump_filter", O_RDONLY | O_CLOEXEC);
	CONFINED_EXPECT(fd < 0 || (read(fd, filter, 15) > 0 && strtoul(filter, NULL, 16) == 0));
	confine_describe(&state, fault.text, sizeof fault.text);
	CONFINED_EXPECT(strstr(fault.text, "no new privileges; no core files"));
}

static void test_begin(void **state)
{
	(void)state;
	confined_run(calls_begin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_online),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_witness),
		cmocka_unit_test(test_cannot),
		cmocka_unit_test(test_cannot_load),
		cmocka_unit_test(test_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
